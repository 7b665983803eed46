"""The implicit midpoint rule, Gauss's method of one stage, which diffrax does not ship."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import diffrax
import jax
import optimistix as optx

from jmbs.solvers.stage_solver import StageSolver


class ImplicitMidpoint(diffrax.AbstractImplicitSolver):
    """`k = h f(t0 + h/2, y0 + k/2)`, `y1 = y0 + k`: order 2, A-stable, no error estimate, for fixed steps only.

    It is symmetric and keeps quadratic invariants, such as the energy of a linear oscillator. In the exponential chart
    of Munthe-Kaas both the step and its stage lie on one one-parameter subgroup, `y0 exp(k)` and `y0 exp(k/2)`, so it
    is symmetric on a group too.

    **Arguments:**

    - `root_finder`: solves the stage; its tolerance bounds how well invariants are kept.
    - `root_find_max_steps`: more iterations than that fail the step.
    """

    root_finder: optx.AbstractRootFinder
    root_find_max_steps: int = 30

    term_structure: ClassVar = diffrax.AbstractTerm
    interpolation_cls: ClassVar[Callable] = diffrax.LocalLinearInterpolation

    def order(self, terms):
        del terms
        return 2

    def init(self, terms, t0, t1, y0, args):
        del terms, t0, t1, y0, args
        return None

    def func(self, terms, t0, y0, args):
        return terms.vf(t0, y0, args)

    def step(self, terms, t0, t1, y0, args, solver_state, made_jump):
        del solver_state, made_jump
        control = terms.contr(t0, t1)

        def residual(k, args):
            middle = jax.tree.map(lambda y, increment: y + increment / 2, y0, k)
            rate = terms.vf_prod(t0 + (t1 - t0) / 2, middle, args, control)
            return jax.tree.map(lambda a, b: a - b, k, rate)

        guess = terms.vf_prod(t0, y0, args, control)
        stage = optx.root_find(
            residual,
            self.root_finder,
            guess,
            args,
            adjoint=optx.ImplicitAdjoint(linear_solver=StageSolver()),
            throw=False,
            max_steps=self.root_find_max_steps,
        )
        y1 = jax.tree.map(lambda y, increment: y + increment, y0, stage.value)
        return y1, None, {"y0": y0, "y1": y1}, None, diffrax.RESULTS.promote(stage.result)
