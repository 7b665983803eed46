"""What a sweep varies: parameters, initial values and inputs by path, whole or one entry."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array

from jmbs.errors import ModelError
from jmbs.identification import (
    Place,
    parse_index,
    parse_parameter,
    place_of,
    taken_already,
    unit_of,
    value_at,
    with_places,
)
from jmbs.simulation import Model, input_size, input_units, parameter_value, with_inputs

INPUTS = "inputs/"
_FORCES = ("actuation", "force", "torque")


class Varied(NamedTuple):
    """A varied path.

    **Arguments:** `shape` and `unit` of its value; `place`: where it stands in the model, None for an input, of which
    there are `port` and `index`, None for the whole.
    """

    path: str
    shape: tuple[int, ...]
    unit: str
    place: Place | None = None
    port: str = ""
    index: int | None = None


def varied_paths(model: Model, paths: Iterable[str]) -> tuple[Varied, ...]:
    """What these paths mean. Raises `ModelError`, with paths below `vary`, for unknown ones and two of one number."""
    taken: dict[str, str] = {}
    found = []
    for path in paths:
        try:
            varied, other = _varied(model, path, taken)
        except ModelError as error:
            raise ModelError(f"vary/{error.path}", error.found, error.wanted) from None
        if other is not None:
            raise ModelError(f"vary/{path}", f"{other} too, which holds the same number", "one of the two")
        found.append(varied)
    return tuple(found)


def _varied(model: Model, path: str, taken: dict[str, str]) -> tuple[Varied, str | None]:
    if path.startswith(INPUTS):
        varied = _input(model, path)
        entries = range(input_size(model, varied.port)) if varied.index is None else [varied.index]
        numbers = [f"{INPUTS}{varied.port}[{entry}]" for entry in entries]
        other = next((taken[number] for number in numbers if number in taken), None)
        taken |= dict.fromkeys(numbers, path)
        return varied, other
    shape, place = parse_parameter((model,), path).shape, place_of(model, path)
    if place.index is not None and parse_parameter((model,), place.base).shape in ((), (1,)):
        place = place._replace(index=None)  # the whole, so that the model need not say it
    if place.index is not None and value_at(model, place._replace(index=None)) is None:
        raise ModelError(path, "an entry of what the model does not give", f"{place.base} as a whole, or given there")
    return Varied(path, _number(shape), unit_of(model, place), place), taken_already((model,), path, taken)


def _input(model: Model, path: str) -> Varied:
    port, index = parse_index(path.removeprefix(INPUTS))
    size, unit = input_size(model, port), ", ".join(input_units(model, port)) or "1"
    if index is None:
        return Varied(path, _number((size,)), unit, port=port)
    if len(index) != 1 or index[0] >= size:
        raise ModelError(path, f"the index {list(index)}", f"one below {size}")
    if size > 1 and port not in model.parameters():
        raise ModelError(path, "an entry of an input that the model does not give", f"{INPUTS}{port} as a whole")
    return Varied(path, (), unit, port=port, index=index[0])


def _number(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape, of one number where there is one entry."""
    return () if shape == (1,) else shape


def with_varied(model: Model, varied: Iterable[Varied], values: Mapping[str, Array]) -> Model:
    """The model of one member; values by path, which may be traced."""
    places: dict[Place, Any] = {}
    ports: dict[str, Any] = {}
    for entry in varied:
        value = jnp.asarray(values[entry.path], model.dtype)
        if entry.place is not None:
            places[entry.place] = value.reshape(-1)
        elif entry.index is None:
            ports[entry.port] = value
        else:
            before = ports.get(entry.port)
            ports[entry.port] = _port(model, entry.port, before).at[entry.index].set(value)
    model = with_places(model, places)[0] if places else model
    return with_inputs(model, ports)


def _port(model: Model, port: str, before: Array | None) -> Array:
    """An input's value before one of its entries is set."""
    if before is not None:
        return before
    size = input_size(model, port)
    if port in model.parameters():
        return jnp.broadcast_to(jnp.asarray(parameter_value(model, port), model.dtype), (size,))
    return jnp.zeros(size, model.dtype)  # of a port with one entry, which is about to be set


def move_the_start(model: Model, varied: Iterable[Varied]) -> bool:
    """Whether members start differently, or may: where only masses, gravity and forces vary, one start serves all."""
    return not all(_is_dynamic(model, one) for one in varied)


def _is_dynamic(model: Model, varied: Varied) -> bool:
    if varied.place is None:
        return varied.port.rpartition("/")[2] in _FORCES
    owner, _, key = varied.place.base.partition("/")
    if owner in model.layout.bodies:
        return key in ("mass", "inertia")
    forces = key.startswith("friction/") or key in ("spring/stiffness", "actuation")
    return varied.place.base == "gravity" or (owner in model.layout.joints and forces)
