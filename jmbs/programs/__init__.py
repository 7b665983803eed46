"""How jmbs's own programs are compiled: quickly those that run for a moment, and once for all processes."""

from jmbs.programs.compiled import as_one_program, cached_jit, quick_to_compile
from jmbs.programs.folder import default_cache, use_cache

__all__ = ["as_one_program", "cached_jit", "default_cache", "quick_to_compile", "use_cache"]
