"""Functions of one member that a CUDA device runs as one kernel, a thread to a member."""

from jmbs.fused.choice import fused, fused_calls, fuses

__all__ = ["fused", "fused_calls", "fuses"]
