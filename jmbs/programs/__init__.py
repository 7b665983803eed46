"""How jmbs's own programs are compiled: quickly those that run for a moment, and once for all processes."""

from jmbs.programs.compiled import cached_jit, quick_to_compile

__all__ = ["cached_jit", "quick_to_compile"]
