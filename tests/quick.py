"""A `jit` for tests of equations: programs that run once, so that compiling them is what takes the time."""

from __future__ import annotations

import functools

import equinox as eqx

quick_jit = functools.partial(eqx.filter_jit, compiler_options={"xla_backend_optimization_level": 0})
"""As `eqx.filter_jit`, with the machine code's optimisation off, in slow tests too: it halves the time to compile."""

dynamics = quick_jit(lambda model, t, state: model.dynamics(t, state))
"""What models say at an instant, each in one program: operation by operation it is hundreds of them."""
balance = quick_jit(lambda model, t, state: model.balance(t, state))
forward_dynamics = quick_jit(lambda model, state: model.forward_dynamics(0.0, state))
inverse_dynamics = quick_jit(lambda model, state, rates: model.inverse_dynamics(0.0, state, rates))
mass_matrix = quick_jit(lambda model, state: model.mass_matrix(state))
closures = quick_jit(lambda model, state: model.dae.closures(state.blocks))
