"""Time integration on Lie groups, on top of diffrax."""

from jmbs.solvers.fixed_steps import FixedRun, fixed_steps
from jmbs.solvers.implicit_midpoint import ImplicitMidpoint
from jmbs.solvers.methods import FIXED_STEP_ONLY, METHODS, base_method
from jmbs.solvers.munthe_kaas import ChartInterpolation, LieTerm, Manifold, MuntheKaas
from jmbs.solvers.rk4 import RK4

__all__ = [
    "FIXED_STEP_ONLY",
    "METHODS",
    "RK4",
    "ChartInterpolation",
    "FixedRun",
    "ImplicitMidpoint",
    "LieTerm",
    "Manifold",
    "MuntheKaas",
    "base_method",
    "fixed_steps",
]
