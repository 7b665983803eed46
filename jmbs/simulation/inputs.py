"""Inputs by port path: constants, tables or functions that replace a model's drives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from jmbs.ephs import ConstantFlow, TableFlow
from jmbs.errors import ModelError
from jmbs.library.mechanics import TableSpec, nearest, show

if TYPE_CHECKING:
    from jmbs.simulation.model import Model


class FunctionInput(eqx.Module):
    """A drive from a user's function `(t, state)`; `state` is a view with `state` and `effort` of `(path, port)`."""

    function: Callable = eqx.field(static=True)
    size: int = eqx.field(static=True)

    def flow(self, t, view):
        value = jnp.asarray(self.function(t, view), t.dtype)
        return jnp.broadcast_to(value, (self.size,))


def with_inputs(model: Model, inputs: Mapping[str, Any]) -> Model:
    """The model with drives at the given port paths.

    **Arguments:** `inputs`: path to a number or array (constant), `(times, values)` or a `TableSpec` (linear
    interpolation; NaN outside, which ends the run), a function `(t, state)`, or an object with a method `flow`.
    `<joint>/actuation` takes one entry per joint velocity; `<load>/force` and `<load>/torque` three.

    Raises `ModelError` for an unknown path or a wrong size.
    """
    drives = dict(model.dae.drives)
    for path, value in inputs.items():
        slots = model.dae.plan.drive_slots
        owner, _, key = path.rpartition("/")
        if owner in drives and key in ("force", "torque") and hasattr(drives[owner], key):
            drives[owner] = _with_field(drives[owner], key, _drive(model, path, value, 3))
        elif path in slots:
            drives[path] = _drive(model, path, value, len(slots[path]))
        else:
            raise ModelError(f"inputs/{path}", "no such port", f"a known one{nearest(path, slots)}")
    if not inputs:
        return model
    dae = eqx.tree_at(lambda d: d.drives, model.dae, drives, is_leaf=lambda leaf: leaf is model.dae.drives)
    return eqx.tree_at(lambda m: m.dae, model, dae, is_leaf=lambda leaf: leaf is model.dae)


def _with_field(load, key: str, drive):
    return eqx.tree_at(lambda d: getattr(d, key), load, drive, is_leaf=lambda leaf: leaf is getattr(load, key))


def _drive(model: Model, path: str, value: Any, size: int) -> Any:
    if hasattr(value, "flow"):
        return value
    if callable(value):
        return FunctionInput(value, size)
    if isinstance(value, TableSpec):
        value = (value.times, value.values)
    if isinstance(value, tuple) and len(value) == 2:
        times, values = (jnp.asarray(v, model.dtype) for v in value)
        values = values[:, None] if values.ndim == 1 else values
        if values.shape != (times.shape[0], size):
            raise ModelError(f"inputs/{path}", f"values of shape {values.shape}", f"shape ({times.shape[0]}, {size})")
        return TableFlow(times, values)
    try:
        array = jnp.asarray(value, model.dtype)
    except (TypeError, ValueError):
        raise ModelError(
            f"inputs/{path}", show(value), "a constant, (times, values), or a function (t, state)"
        ) from None
    if array.ndim > 1 or array.size not in (1, size):
        raise ModelError(f"inputs/{path}", f"shape {np.shape(array)}", f"a number or {size} numbers")
    return ConstantFlow(jnp.broadcast_to(array.reshape(-1), (size,)))
