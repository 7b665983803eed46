"""jmbs: a differentiable, GPU-accelerated simulator for multibody systems in JAX."""

from jmbs import ephs, lie
from jmbs.errors import AssemblyError, JmbsError, ModelError, SimulationError
from jmbs.io import load
from jmbs.library.mechanics import Mechanism
from jmbs.simulation import Model, State, Status, Trajectory, compile, simulate

__all__ = [
    "AssemblyError",
    "JmbsError",
    "Mechanism",
    "Model",
    "ModelError",
    "SimulationError",
    "State",
    "Status",
    "Trajectory",
    "compile",
    "ephs",
    "lie",
    "load",
    "simulate",
]
