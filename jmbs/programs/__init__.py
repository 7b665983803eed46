"""How jmbs's own programs are compiled: quickly those that run for a moment, and once for all processes."""

from jmbs.programs.compiled import as_one_program, cached_jit, quick_to_compile

__all__ = ["as_one_program", "cached_jit", "quick_to_compile"]
