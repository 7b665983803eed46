"""Integration methods by the names that configs use."""

from __future__ import annotations

import diffrax
import optimistix as optx

from jmbs.errors import ModelError
from jmbs.solvers.implicit_midpoint import ImplicitMidpoint
from jmbs.solvers.rk4 import RK4
from jmbs.solvers.stage_solver import StageSolver

EXPLICIT = {
    "euler": diffrax.Euler,
    "heun": diffrax.Heun,
    "midpoint": diffrax.Midpoint,
    "ralston": diffrax.Ralston,
    "bosh3": diffrax.Bosh3,
    "rk4": RK4,
    "tsit5": diffrax.Tsit5,
    "dopri5": diffrax.Dopri5,
    "dopri8": diffrax.Dopri8,
}
IMPLICIT = {
    "implicit_euler": diffrax.ImplicitEuler,
    "implicit_midpoint": ImplicitMidpoint,
    "kvaerno3": diffrax.Kvaerno3,
    "kvaerno4": diffrax.Kvaerno4,
    "kvaerno5": diffrax.Kvaerno5,
}
METHODS = (*EXPLICIT, *IMPLICIT)
FIXED_STEP_ONLY = ("euler", "rk4", "implicit_midpoint")
ROOT_TOLERANCE = 1e-10
"""Of the stages of implicit methods with fixed steps, relative and absolute, in float64; `eps ** 0.6` in float32."""


def base_method(name: str, tolerance: float | None = None) -> diffrax.AbstractSolver:
    """The diffrax solver of a name; `tolerance` (relative and absolute) is that of an implicit method's stages.

    Raises `ModelError` for an unknown name.
    """
    if name in EXPLICIT:
        return EXPLICIT[name]()
    if name in IMPLICIT:
        tolerance = ROOT_TOLERANCE if tolerance is None else tolerance
        # Not diffrax's own VeryChord: up to 0.7.2 it takes for divergence what two iterations have not solved.
        finder = optx.Chord(rtol=tolerance, atol=tolerance, norm=optx.max_norm, linear_solver=StageSolver())
        return IMPLICIT[name](root_finder=finder, root_find_max_steps=30)
    raise ModelError("simulation/method", repr(name), f"one of {', '.join(METHODS)}")
