"""Checks of the arguments of a simulation: each refuses with the argument, what was found, and what was wanted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np

from jmbs.arrays import is_traced
from jmbs.errors import ModelError
from jmbs.library.mechanics import is_number, show
from jmbs.simulation.state import State

if TYPE_CHECKING:
    from jmbs.simulation.model import Model


def require_instance(path: str, value: Any, wanted_class: type, wanted: str) -> None:
    """Raises `ModelError` for a value of another class."""
    if not isinstance(value, wanted_class):
        found = show(value) if is_number(value) or isinstance(value, str | None) else f"a {type(value).__name__}"
        raise ModelError(path, found, wanted)


def require_state(model: Model, state: Any) -> None:
    """Raises `ModelError` unless this is a state, and one of this model."""
    wanted = "a State, such as model.initial_state() gives"
    require_instance("state", state, State, wanted)
    blocks = model.dae.plan.blocks
    if state.names != tuple(block.junctions for block in blocks):
        raise ModelError("state", "the state of another system", wanted)
    shapes = [(len(block.junctions), *block.space.shape) for block in blocks]
    found = [np.shape(values) for values in state.blocks]
    if found != shapes:
        raise ModelError("state", f"arrays of shapes {found}", f"{shapes}; jax.vmap takes many states at a time")


def known_number(path: str, value: Any, unit: str = "", positive: bool = False, whole: bool = False) -> Any:
    """A finite number that is known, for programs depend on it. Raises `ModelError`."""
    kind = ("positive " if positive else "") + ("whole number" if whole else "number")
    wanted = f"a {kind}{', ' + unit if unit else ''}"
    if is_traced(value):
        raise ModelError(path, "a traced value", f"{wanted}, that is known before tracing")
    number = value.item() if np.shape(value) == () and hasattr(value, "item") else value
    if not is_number(number) or (positive and number <= 0) or (whole and number != int(number)):
        raise ModelError(path, show(value), wanted)
    return int(number) if whole else float(number)


def scalar(path: str, value: Any, dtype: np.dtype) -> Any:
    """One number, known or traced, as an array. Raises `ModelError`."""
    if not is_traced(value):
        known_number(path, value, "s")
    elif jnp.shape(value) != ():
        raise ModelError(path, f"an array of shape {jnp.shape(value)}", "one number, s")
    return jnp.asarray(value, dtype)
