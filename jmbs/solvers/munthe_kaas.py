"""Munthe-Kaas: any diffrax Runge-Kutta method on a Lie group, by solving in the exponential chart of each step.

Phidot = dexp^-1_{-Phi}(F(t, y0 exp(Phi))),  Phi(0) = 0,  then  y1 = y0 exp(Phi1)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple, Protocol

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from jmbs.arrays import SAVED_FOR_BACKWARD, changing_zero


class Manifold(Protocol):
    """What the solver needs of the state space; tangents are flat left-trivialised vectors."""

    def retract(self, y: PyTree, step: Float[Array, " n"]) -> PyTree: ...

    def lift(self, y: PyTree, velocity: Float[Array, " n"]) -> PyTree: ...

    def dexp_inv(self, step: Float[Array, " n"], velocity: Float[Array, " n"]) -> Float[Array, " n"]: ...

    def zero(self, y: PyTree) -> Float[Array, " n"]: ...


class LieTerm(diffrax.AbstractTerm):
    """A vector field `(t, y, args) -> (n,)` of flat left-trivialised velocities.

    Not an `ODETerm`, which would broadcast the velocity against the differently shaped state.
    """

    vector_field: Callable

    def vf(self, t, y, args):
        return self.vector_field(t, y, args)

    def contr(self, t0, t1, **kwargs):
        del kwargs
        return t1 - t0

    def prod(self, vf, control):
        return vf * control


class _ChartTerm(diffrax.AbstractTerm):
    """The same field seen in the exponential chart around `y0`."""

    term: diffrax.AbstractTerm
    manifold: Any
    y0: PyTree

    def vf(self, t, y, args):
        velocity = self.term.vf(t, self.manifold.retract(self.y0, y), args)
        return self.manifold.dexp_inv(-y, velocity)

    def contr(self, t0, t1, **kwargs):
        return self.term.contr(t0, t1, **kwargs)

    def prod(self, vf, control):
        return vf * control


class ExplicitStep(NamedTuple):
    """**Arguments:** `y` after the step; the estimate of its `error`, the velocity at the start, `slope`; None where
    they were not asked for."""

    y: Float[Array, " n"]
    error: Float[Array, " n"] | None
    slope: Float[Array, " n"] | None


def explicit_step(
    tableau: diffrax.ButcherTableau,
    term: diffrax.AbstractTerm,
    t0,
    t1,
    y: Float[Array, " n"],
    args,
    error: bool = False,
    slope: bool = False,
) -> ExplicitStep:
    """One step of an explicit Runge-Kutta method: a loop over its stages that compiles once.

    It keeps those slopes only that later stages look back to; for RK4 that is the last one.
    """
    h, weights = t1 - t0, _backwards(tableau.a_lower)
    nodes = np.concatenate([[0.0], tableau.c])
    shares = [tableau.b_sol, *([tableau.b_error] if error else []), *([np.eye(len(nodes))[0]] if slope else [])]
    schedule = tuple(jnp.asarray(x, y.dtype) for x in (weights, np.stack(shares, axis=1), nodes))

    def stage(carry, x):
        recent, sums = carry
        weights, shares, node = x
        # Summed one by one: a product of matrices would first have all slopes transposed in batches.
        inside = sum(weight * slope for weight, slope in zip(weights, recent, strict=True))
        slope = term.vf(t0 + node * h, y + h * inside, args)
        sums = tuple(total + share * slope for total, share in zip(sums, shares, strict=True))
        return ((slope, *recent)[: len(recent)], sums), None

    nothing = jnp.broadcast_to(changing_zero((term, args), y.dtype), y.shape)
    start = (nothing,) * weights.shape[1], (nothing,) * len(shares)
    (_, (total, *others)), _ = jax.lax.scan(stage, start, schedule)
    others = iter(others)
    return ExplicitStep(y + h * total, h * next(others) if error else None, next(others) if slope else None)


def _backwards(a_lower: Sequence[np.ndarray]) -> np.ndarray:
    """`(stages, reach)`: by stage, what earlier slopes count: that of the stage before, of the one before that, ..."""
    weights = np.zeros((len(a_lower) + 1, len(a_lower)))
    for row, lower in enumerate(a_lower):
        weights[row + 1, : row + 1] = lower[::-1]
    reach = 1 + np.max(np.flatnonzero(weights.any(axis=0)), initial=-1)
    return weights[:, :reach]


class ChartInterpolation(diffrax.AbstractLocalInterpolation):
    """Dense output: the base method's in the chart, mapped to the group; at the end of the step exactly its result."""

    t0: Any
    t1: Any
    y0: PyTree
    y1: PyTree
    chart: diffrax.AbstractLocalInterpolation
    manifold: Any

    def evaluate(self, t0, t1=None, left=True):
        del left
        if t1 is not None:
            raise ValueError("Increments of a group-valued path are not defined; evaluate it at single times.")
        inside = self.manifold.retract(self.y0, self.chart.evaluate(t0))
        return jax.tree.map(lambda a, b: jnp.where(t0 >= self.t1, b, a), inside, self.y1)


class _Interpolation(eqx.Module):
    """Builds a `ChartInterpolation`; a module and not a closure, since diffrax needs it hashable."""

    base: Callable = eqx.field(static=True)

    def __call__(self, *, t0, t1, y0, y1, chart_info, manifold):
        return ChartInterpolation(t0, t1, y0, y1, self.base(t0=t0, t1=t1, **chart_info), manifold)


class Advanced(NamedTuple):
    """What `MuntheKaas.advance` gives: the state, what was asked for beside it, else None, and diffrax's result."""

    y: PyTree
    error: PyTree | None
    slope: Float[Array, " n"] | None
    result: Any


class MuntheKaas(diffrax.AbstractWrappedSolver):
    """Wraps a diffrax Runge-Kutta method for a state on a manifold; keeps its order, error estimate and dense output.

    **Arguments:**

    - `solver`: the base method, explicit or implicit.
    - `manifold`: see `Manifold`.
    - `project`: maps `(t, y, args)` to the nearest state that meets the constraints, after each step; or None.

    A first-same-as-last stage belongs to the chart of the step before, so the first stage is evaluated afresh.
    A step whose result is not finite ends a fixed-step run with `RESULTS.nonfinite`.
    """

    solver: diffrax.AbstractSolver
    manifold: Any
    project: Callable | None = None

    term_structure: ClassVar = diffrax.AbstractTerm

    @property
    def interpolation_cls(self):  # pyright: ignore[reportIncompatibleVariableOverride]
        return _Interpolation(self.solver.interpolation_cls)

    @property
    def scan_kind(self):
        return self.solver.scan_kind  # pyright: ignore[reportAttributeAccessIssue]

    @property
    def root_finder(self):
        return self.solver.root_finder  # pyright: ignore[reportAttributeAccessIssue]

    @property
    def root_find_max_steps(self):
        return self.solver.root_find_max_steps  # pyright: ignore[reportAttributeAccessIssue]

    def order(self, terms):
        return self.solver.order(terms)

    def error_order(self, terms):
        return self.solver.error_order(terms)

    def init(self, terms, t0, t1, y0, args):
        del terms, t0, t1, y0, args
        return None

    def func(self, terms, t0, y0, args):
        return terms.vf(t0, y0, args)

    def step(self, terms, t0, t1, y0, args, solver_state, made_jump):
        del solver_state, made_jump
        chart = _ChartTerm(terms, self.manifold, y0)
        zero = self.manifold.zero(y0)
        state = self.solver.init(chart, t0, t1, zero, args)
        phi, error, chart_info, _, result = self.solver.step(chart, t0, t1, zero, args, state, True)
        y1, result = self._moved(t1, y0, phi, args, result)
        ambient_error = None if error is None else self.manifold.lift(y1, error)
        info = {"y0": y0, "y1": y1, "chart_info": chart_info, "manifold": self.manifold}
        return y1, ambient_error, info, None, result

    def advance(self, terms, t0, t1, y0, args, error: bool = False, slope: bool = False) -> Advanced:
        """A step without dense output.

        **Arguments:** whether the estimate of its `error` is wanted, in the shapes of the state, and the velocity at
        its start, `slope`.

        Without estimate, reverse mode keeps only what is named `SAVED_FOR_BACKWARD` of the inside of explicit steps.
        """
        tableau = self.solver.tableau if isinstance(self.solver, diffrax.AbstractERK) else None
        if not isinstance(tableau, diffrax.ButcherTableau):
            y1, estimate, _, _, result = self.step(terms, t0, t1, y0, args, None, True)
            return Advanced(y1, estimate, self.func(terms, t0, y0, args) if slope else None, result)

        def whole(y0):
            chart = _ChartTerm(terms, self.manifold, y0)
            inside = explicit_step(tableau, chart, t0, t1, self.manifold.zero(y0), args, error, slope)
            y1, result = self._moved(t1, y0, inside.y, args, diffrax.RESULTS.successful)
            return Advanced(y1, self.manifold.lift(y1, inside.error) if error else None, inside.slope, result)

        if error:
            return whole(y0)
        policy = jax.checkpoint_policies.save_only_these_names(SAVED_FOR_BACKWARD)
        return jax.checkpoint(whole, prevent_cse=False, policy=policy)(y0)

    def _moved(self, t1, y0, phi, args, result):
        y1 = self.manifold.retract(y0, phi)
        if self.project is not None:
            y1 = self.project(t1, y1, args)
        finite = jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(y1)])
        return y1, diffrax.RESULTS.where(jnp.all(finite), result, diffrax.RESULTS.nonfinite)  # pyright: ignore[reportArgumentType]
