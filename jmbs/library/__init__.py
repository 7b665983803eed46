"""Ready-made components and composites, by energy domain."""

from jmbs.library.registry import SYSTEMS

__all__ = ["SYSTEMS"]
