"""A `jit` for tests of equations: programs that run once, so that compiling them is what takes the time."""

from __future__ import annotations

import functools

import equinox as eqx

quick_jit = functools.partial(eqx.filter_jit, compiler_options={"xla_backend_optimization_level": 0})
"""As `eqx.filter_jit`, with the machine code's optimisation off, in slow tests too: it halves the time to compile."""
