"""Derivatives of a rollout's squared final state with respect to its initial state, for codes in JAX."""

from __future__ import annotations

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
