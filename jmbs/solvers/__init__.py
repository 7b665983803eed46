"""Time integration on Lie groups, on top of diffrax."""

from jmbs.solvers.adaptive_steps import AdaptiveSteps, Kind
from jmbs.solvers.by_diffrax import by_diffrax
from jmbs.solvers.events import with_event
from jmbs.solvers.fixed_steps import FixedSteps
from jmbs.solvers.implicit_midpoint import ImplicitMidpoint
from jmbs.solvers.methods import FIXED_STEP_ONLY, METHODS, base_method
from jmbs.solvers.munthe_kaas import ChartInterpolation, LieTerm, Manifold, MuntheKaas
from jmbs.solvers.rk4 import RK4
from jmbs.solvers.stepping import Event, Problem, Run, Steps, with_differentiable_stages

__all__ = [
    "FIXED_STEP_ONLY",
    "METHODS",
    "RK4",
    "AdaptiveSteps",
    "ChartInterpolation",
    "Event",
    "FixedSteps",
    "ImplicitMidpoint",
    "Kind",
    "LieTerm",
    "Manifold",
    "MuntheKaas",
    "Problem",
    "Run",
    "Steps",
    "base_method",
    "by_diffrax",
    "with_differentiable_stages",
    "with_event",
]
