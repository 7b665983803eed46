"""A study's residuals as a pure function, for optimisers and samplers of one's own."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jmbs.identification.posing import pose
from jmbs.identification.priors import prior_distances
from jmbs.identification.problem import FitProblem
from jmbs.identification.study import Study
from jmbs.identification.unknowns import values_of


class Residual:
    """Whitened residuals (m,) at coordinates (p,): predicted less measured over the noise of all training samples,
    recording by recording, zero where a sample is missing; then values with a prior, less its mean over its deviation.

    `start` (p,) are the coordinates of the start; `names` those of the `values(x)` that coordinates stand for. `args`,
    which some optimisers hand over, is ignored.
    """

    def __init__(self, problem: FitProblem):
        # Reverse mode takes all steps that a program has knots for.
        self.experiments = tuple(
            e._replace(program=dataclasses.replace(e.program, knots=int(e.member.knots))) if e.program.simulates else e
            for e in problem.training
        )
        self.blocks = problem.unknowns.blocks
        self.start = jnp.asarray(problem.unknowns.first, problem.study.model.dtype)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the values."""
        return tuple(name for block in self.blocks for name in block.names)

    def values(self, x: Float[Array, " p"]) -> Float[Array, " n"]:
        """The values at coordinates, SI."""
        return jnp.concatenate([jnp.zeros(0, x.dtype), *values_of([b.transform for b in self.blocks], self.blocks, x)])

    def __call__(self, x: Float[Array, " p"], args: None = None) -> Float[Array, " m"]:
        always = jnp.asarray(jnp.inf, x.dtype)
        rows = [e.program.whitened(e.member, x[e.local], always, "auto").ravel() for e in self.experiments]
        return jnp.concatenate([*rows, prior_distances(self.blocks, x)])


def residual_function(study: Study) -> tuple[Residual, Callable[[Array], Array]]:
    """The residual of a study, and its Jacobian (m, p) by forward derivatives; pure JAX. Raises `ModelError`."""
    residual = Residual(pose(study))
    return residual, jax.jacfwd(residual)
