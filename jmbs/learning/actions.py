"""Actions of an environment: one vector of numbers within limits, held over a step as inputs of the model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jmbs.errors import ModelError
from jmbs.simulation import Model, with_inputs


class Actions(eqx.Module):
    """Ports one after the other, each with its entries.

    **Arguments:** all static; `paths` of ports, the `sizes` of their inputs, and the limits of all entries, `low` and
    `high`, N or N m where the ports take forces.
    """

    paths: tuple[str, ...] = eqx.field(static=True)
    sizes: tuple[int, ...] = eqx.field(static=True)
    low: tuple[float, ...] = eqx.field(static=True)
    high: tuple[float, ...] = eqx.field(static=True)

    def limited(self, action: Any, dtype: np.dtype) -> Float[Array, " n"]:
        """The action within its limits, beyond which it has no gradient. Raises `ModelError` for another shape."""
        action = jnp.asarray(action)
        if action.shape != (len(self.low),):
            names = ", ".join(f"{path} ({size})" for path, size in zip(self.paths, self.sizes, strict=True))
            raise ModelError("action", f"an array of shape {action.shape}", f"({len(self.low)},): {names}")
        low, high = (np.asarray(limit, dtype) for limit in (self.low, self.high))
        return jnp.clip(action.astype(dtype), low, high)

    def inputs(self, action: Float[Array, " n"]) -> dict[str, Float[Array, " size"]]:
        """The entries of each port."""
        starts = np.cumsum((0, *self.sizes))
        return {path: action[a:b] for path, a, b in zip(self.paths, starts, starts[1:], strict=False)}


def actions_of(model: Model, limits: Mapping[str, Any]) -> Actions:
    """The actions that act on a model.

    **Arguments:** `limits`: port path to `(low, high)`, each a number or one for each entry.

    Raises `ModelError` for an unknown path and for what are no limits.
    """
    if not isinstance(limits, Mapping) or not limits:
        raise ModelError("actions", repr(limits), "a mapping of port paths to limits (low, high)")
    sizes, lows, highs = [], [], []
    for path, pair in limits.items():
        size = _size(model, path)
        where, wanted = f"actions/{path}", f"(low, high) with low < high, each a finite number or {size} of them"
        try:
            low, high = (np.broadcast_to(np.asarray(limit, float), (size,)) for limit in pair)
        except (TypeError, ValueError):
            raise ModelError(where, repr(pair), wanted) from None
        if not np.all(np.isfinite([low, high])) or not np.all(low < high):
            raise ModelError(where, repr(pair), wanted)
        sizes.append(size)
        lows += low.tolist()
        highs += high.tolist()
    return Actions(tuple(limits), tuple(sizes), tuple(lows), tuple(highs))


def _size(model: Model, path: str) -> int:
    """How many entries a port takes: three where it is a part of a load. Raises `ModelError` for an unknown path."""
    slots = model.dae.plan.drive_slots
    size = len(slots[path]) if path in slots else 3
    with_inputs(model, {path: np.zeros(size)})
    return size
