"""The narrow waist between models and solvers: what any DAE on a manifold offers, and what is done with it."""

from jmbs.dae.manifold import ACCOUNT, StateManifold
from jmbs.dae.project import project, total_energy
from jmbs.dae.vector_field import Field, velocity_field

__all__ = ["ACCOUNT", "Field", "StateManifold", "project", "total_energy", "velocity_field"]
