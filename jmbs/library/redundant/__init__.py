"""Multibody systems in redundant coordinates, with velocity constraints, gyroscopic forces and external ports."""

from jmbs.library.redundant.system import point_masses, redundant_system

__all__ = ["point_masses", "redundant_system"]
