"""Parameters and initial values of a model by path: read, checked by the rules of configs, and replaced."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from jmbs.arrays import is_traced
from jmbs.ephs import ReferenceDAE
from jmbs.errors import ModelError
from jmbs.library.mechanics import CONFIGURATION_RULES, NamedParameter, Rule, inside, nearest, show
from jmbs.simulation.quantity_units import state_units

if TYPE_CHECKING:
    from jmbs.simulation.model import Model

REFERENCES = {
    "environment/temperature": NamedParameter("environment/temperature", "K", (), rules=(Rule("positive number"),)),
    "environment/pressure": NamedParameter("environment/pressure", "Pa", (), rules=(Rule("non-negative number"),)),
}
"""What the environment may have, by path; see `_reference`."""
INITIAL_UNITS = {
    **{"q": "rad or m", "guess": "rad or m", "v": "rad/s or m/s", "position": "m", "quaternion": "1"},
    **{"angular_velocity": "rad/s", "velocity": "m/s"},
}


class _Place(NamedTuple):
    """A parameter, the shape of its value, and where an initial value stands: section, name and key."""

    parameter: NamedParameter
    shape: tuple[int, ...]
    initial: tuple[str, str, str] | None = None


def parameter_values(model: Model) -> dict[str, dict[str, Any]]:
    """All named parameters: path to `value`, `unit`, `shape`."""
    rows = {path: (_reference(model.dae, path), parameter.unit) for path, parameter in _references(model).items()}
    for parameter in model.table:
        rows[parameter.path] = (_read(model, parameter), parameter.unit)
    for section, names in model.initial.items():
        for name, values in names.items():
            for key, value in values.items():
                path = f"initial/{name}" if section == "states" else f"initial/{name}/{key}"
                rows[path] = (value, _initial_unit(model, section, name, key))
    return {path: {"value": value, "unit": unit, "shape": jnp.shape(value)} for path, (value, unit) in rows.items()}


def within_bounds(model: Model) -> Model:
    """The model, if all known values lie within the bounds that fields declare. Raises `ModelError`."""
    for parameter in model.table:
        for rule in parameter.rules:
            if rule.kind == "bounds" and not is_traced(value := _read(model, parameter)):
                rule.refuse(parameter.path, parameter.unit, np.asarray(value), ())
    return model


def _references(model: Model) -> dict[str, NamedParameter]:
    """Of the references those that the model has."""
    return {path: entry for path, entry in REFERENCES.items() if _reference(model.dae, path) is not None}


def _reference(dae: ReferenceDAE, path: str) -> Any:
    return dae.reference_temperature if path == "environment/temperature" else dae.reference_pressure


def with_values(model: Model, values: Mapping[str, Any]) -> Model:
    """See `Model.with_parameters`."""
    if not isinstance(values, Mapping):
        raise ModelError("parameters", show(values), "a mapping of paths to values")
    by_path = {parameter.path: parameter for parameter in model.table}
    places = {path: _place(model, by_path, path) for path in values}
    given = {path: _array(path, value, places[path].shape, model.dtype) for path, value in values.items()}
    verdicts = _verdicts(model, {path: place.parameter for path, place in places.items()}, given)
    arrays = {path: array for path, (_, array) in given.items()}
    for path, holds in verdicts.items():
        arrays[path] = jnp.where(holds, arrays[path], jnp.nan)
    model = _replaced(model, [(places[path], array) for path, array in arrays.items()])
    if verdicts:
        before = () if model.allowed is None else (model.allowed,)
        allowed = functools.reduce(jnp.logical_and, (*before, *verdicts.values()))
        model = dataclasses.replace(model, allowed=allowed)
    return model


def _place(model: Model, by_path: Mapping[str, NamedParameter], path: Any) -> _Place:
    if not isinstance(path, str):
        raise ModelError("parameters", show(path), "the path of a parameter")
    if path in _references(model):
        return _Place(REFERENCES[path], ())
    if path.startswith("initial/"):
        return _initial_place(model, path)
    if path not in by_path:
        raise ModelError(path, "no such parameter", f"a known one{nearest(path, parameter_values(model))}")
    parameter = by_path[path]
    leaf, member = _leaf(model, parameter, parameter.places[0])
    return _Place(parameter, leaf.shape if member is None else leaf.shape[1:])


def _initial_place(model: Model, path: str) -> _Place:
    layout = model.layout
    sections = layout.initial_sections()
    whole = path.removeprefix("initial/")
    name, _, key = (whole, "", "value") if whole in sections["states"] else whole.rpartition("/")
    section = next((s for s, names in sections.items() if name in names), None)
    if section is None:
        known = [f"initial/{n}" for names in sections.values() for n in names]
        raise ModelError(path, "no such initial value", f"a known one{nearest(path, known)}")
    shapes = layout.initial_shapes(section, name)
    if key not in shapes:
        raise ModelError(path, repr(key), f"one of {', '.join(shapes)}")
    kind = {"quaternion": "unit quaternion"}.get(key, "numbers")
    if section == "joints" and key in ("q", "guess"):
        kind = CONFIGURATION_RULES.get(layout.joint(name).type, kind)
    rules = () if section == "states" else (Rule(kind),)
    unit = _initial_unit(model, section, name, key)
    return _Place(NamedParameter(path, unit, (), rules=rules), shapes[key], (section, name, key))


def _initial_unit(model: Model, section: str, name: str, key: str) -> str:
    return state_units(model).get(name, "1") if section == "states" else INITIAL_UNITS.get(key, "1")


def _array(path: str, value: Any, shape: tuple[int, ...], dtype: np.dtype) -> tuple[Any, Array]:
    """The value as it was given and as an array of the model, both of the shape."""
    if is_traced(value):
        found = jnp.asarray(value, dtype)
        return (_shaped(path, found, shape),) * 2
    try:
        found = np.asarray(value)
    except ValueError:  # rows of unequal length
        raise ModelError(path, show(value), f"numbers of shape {shape}") from None
    if not (jnp.issubdtype(found.dtype, jnp.floating) or jnp.issubdtype(found.dtype, jnp.integer)):
        raise ModelError(path, show(value), f"numbers of shape {shape}")
    shaped = _shaped(path, found, shape)
    as_given = isinstance(value, list | tuple) and found.shape == shape
    return value if as_given else shaped, jnp.asarray(shaped, dtype)


def _shaped(path: str, array: Any, shape: tuple[int, ...]) -> Any:
    if array.size != int(np.prod(shape)):
        raise ModelError(path, f"shape {array.shape}", f"shape {shape}")
    return array if array.shape == shape else array.reshape(shape)


def _verdicts(
    model: Model, changed: Mapping[str, NamedParameter], given: Mapping[str, tuple[Any, Array]]
) -> dict[str, Array]:
    """Whether traced values are allowed, by the path of what was given. Raises `ModelError` for known ones.

    A rule is looked at where any of the values that it looks at was given; the others are the model's own.
    """
    table = {parameter.path: parameter for parameter in model.table}
    beside = [p for p in model.table if p.path not in changed and any(given.keys() & set(r.others) for r in p.rules)]
    verdicts: dict[str, Array] = {}
    for parameter in (*changed.values(), *beside):
        for rule in parameter.rules:
            paths = (parameter.path, *rule.others)
            if not given.keys() & set(paths):
                continue
            known, arrays = zip(*(given.get(path) or _own(model, table[path]) for path in paths), strict=True)
            holds = _verdict(rule, parameter, known, arrays)
            if holds is None:
                continue
            for path in given.keys() & set(paths):
                verdicts[path] = holds if path not in verdicts else verdicts[path] & holds
    return verdicts


def _verdict(rule: Rule, parameter: NamedParameter, known: tuple[Any, ...], arrays: tuple[Array, ...]) -> Any:
    """That on a parameter's value and what stands beside it; None where all of them are known, or nothing is to say."""
    if is_traced(known):
        value, *others = jax.lax.stop_gradient(arrays)
        return rule.holds(value, others)
    value = known[0] if np.size(known[0]) > 1 else np.asarray(known[0]).item()
    return rule.refuse(parameter.path, parameter.unit, value, known[1:])


def _own(model: Model, parameter: NamedParameter) -> tuple[Any, Array]:
    """The model's own value, as `_array` gives new ones."""
    value = _read(model, parameter)
    return value if is_traced(value) else np.asarray(value), value


def _leaf(model: Model, parameter: NamedParameter, place: tuple[str, str]) -> tuple[Array, int | None]:
    """The leaf of a place among the components, and the member's index in it."""
    where, member = _where(model, parameter, place)
    return where(model.dae), member


def _where(model: Model, parameter: NamedParameter, place: tuple[str, str]):
    """A function that picks the leaf of a place out of a DAE, and the member's index in it."""
    owner, field = place
    if parameter.drive:
        return (lambda dae: inside(dae.drives[owner], field)), None
    batch, member = model.dae.plan.member_of[owner]
    return (lambda dae: inside(dae.components[batch], field)), member


def _read(model: Model, parameter: NamedParameter) -> Array:
    leaf, member = _leaf(model, parameter, parameter.places[0])
    return leaf if member is None else leaf[member]


def _replaced(model: Model, values: Iterable[tuple[_Place, Array]]) -> Model:
    """With new values at places; all leaves of the DAE are exchanged at once, which takes the time of one."""
    initial, leaves = model.initial, {}
    for (parameter, _, given), value in values:
        if given is not None:
            section, name, key = given
            names = initial.get(section, {})
            initial = {**initial, section: {**names, name: {**names.get(name, {}), key: value}}}
        for place in parameter.places:
            where, member = _where(model, parameter, place)
            at = (parameter.drive, place[0] if member is None else model.dae.plan.member_of[place[0]][0], place[1])
            _, leaf = leaves.get(at, (where, where(model.dae)))
            leaves[at] = where, value if member is None else leaf.at[member].set(value)
        if parameter.path in REFERENCES:
            leaves[parameter.path] = functools.partial(_reference, path=parameter.path), value
    model = dataclasses.replace(model, initial=initial)
    if not leaves:
        return model
    wheres, new = zip(*leaves.values(), strict=True)
    dae = eqx.tree_at(lambda dae: [where(dae) for where in wheres], model.dae, list(new))
    return dataclasses.replace(model, dae=dae)


def parameter_value(model: Model, path: str) -> Array:
    """The value of one parameter or given initial value. Raises `ModelError` for an unknown path."""
    for parameter in model.table:
        if parameter.path == path:
            return _read(model, parameter)
    if path in _references(model):
        return _reference(model.dae, path)
    if not path.startswith("initial/"):
        raise ModelError(path, "no such parameter", f"a known one{nearest(path, parameter_paths(model))}")
    section, name, key = _initial_place(model, path).initial or ("", "", "")
    value = model.initial.get(section, {}).get(name, {}).get(key)
    if value is None:
        raise ModelError(path, "no such initial value", "one that is given")
    return value


def parameter_paths(model: Model) -> list[str]:
    """Paths of all parameters, without initial values."""
    return [*_references(model), *(parameter.path for parameter in model.table)]


def parameter_unit(model: Model, path: str) -> str:
    """The unit of a parameter or an initial value."""
    for parameter in (*REFERENCES.values(), *model.table):
        if parameter.path == path:
            return parameter.unit
    return _initial_place(model, path).parameter.unit if path.startswith("initial/") else "1"
