"""Derivatives of a rollout's squared final state with respect to its initial state, for codes in JAX."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

KINDS = ("none", "reverse", "naive", "forward", "second")


def derivative_of(kind: str, rollout: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The function to time; `rollout` maps a state to a pytree of arrays.

    - `none`: the rollout itself;
    - `reverse`, `naive`: loss and its gradient (what makes a rollout naive is the caller's affair);
    - `forward`: loss and its derivative along the direction of ones;
    - `second`: gradient and Hessian times that direction, forward over reverse.
    """

    def loss(state: Any) -> Any:
        return sum(jnp.sum(jnp.square(leaf)) for leaf in jax.tree.leaves(rollout(state)))

    match kind:
        case "none":
            return rollout
        case "reverse" | "naive":
            return jax.value_and_grad(loss)
        case "forward":
            return lambda state: jax.jvp(loss, (state,), (jax.tree.map(jnp.ones_like, state),))
        case "second":
            return lambda state: jax.jvp(jax.grad(loss), (state,), (jax.tree.map(jnp.ones_like, state),))
    raise ValueError(f"kind: found {kind!r}, wanted one of {', '.join(KINDS)}")


def batch_program(
    kind: str, rollout: Callable[[Any], Any], states: Any, mapped: Callable[[Callable, Any], Any] | None = None
) -> tuple[Callable[[], Any], dict[str, Any]]:
    """`derivative_of(kind, rollout)` of all `states` as one compiled program, which waits for its end when called; and
    `trace_s`, `compile_s`, `memory_bytes`. `mapped(function, states)`: in place of `jax.vmap(function)(states)`."""
    one = derivative_of(kind, rollout)
    batched = jax.jit(jax.vmap(one) if mapped is None else lambda states: mapped(one, states))
    started = time.perf_counter()
    lowered = batched.lower(states)
    traced = time.perf_counter()
    program = lowered.compile()
    compiled = time.perf_counter()
    memory = program.memory_analysis()
    figures = {
        "trace_s": traced - started,
        "compile_s": compiled - traced,
        "memory_bytes": None if memory is None else memory.temp_size_in_bytes,
    }
    return lambda: jax.block_until_ready(program(states)), figures
