"""Outputs: quantities that components declare by name and unit, read off their states and efforts.

A component declares them by a method `outputs(x, e)`, from names to numbers or arrays of any shape, and an attribute
`output_units` from the same names to units, which is known without evaluating anything. `x` and `e` are what
`onsager(x, e)` gets. They are looked at, and never act on anything by themselves.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jmbs.ephs.component import Role
from jmbs.ephs.evaluate import each, efforts_of
from jmbs.ephs.output_view import METHOD, UNITS, declared_units, reader, units_of
from jmbs.ephs.plan import Plan
from jmbs.ephs.rates import State
from jmbs.ephs.semantics import ReferenceDAE
from jmbs.errors import ModelError
from jmbs.jaxext import entries_at

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
WANTED = "a mapping of names to units, such as {'pressure': 'Pa'}"


class Outputs(NamedTuple):
    """Outputs of all components one after the other: `shapes` by `<path>/<name>`, static, and their `values`."""

    shapes: dict[str, tuple[int, ...]]
    values: Float[Array, " N"]


def output_units(dae: ReferenceDAE) -> dict[str, str]:
    """Units of all outputs by `<path>/<name>`, in the order of the plan."""
    return declared_units(dae.plan, dae.components)


def output_shapes(dae: ReferenceDAE) -> dict[str, tuple[int, ...]]:
    """Shapes of all outputs by `<path>/<name>`, in the order of the plan; computes nothing."""
    x, efforts = _structures(dae.plan, dae.reference_temperature.dtype)
    found = eqx.filter_eval_shape(outputs_at, dae, x, [efforts])
    return {} if found is None else found.shapes


def outputs_at(dae: ReferenceDAE, x: State, efforts: Sequence[Array]) -> Outputs | None:
    """All outputs at a state; None where nothing is declared.

    **Arguments:** `efforts` at the state, in parts one after the other. Of those at storages what the parts lack is
    computed here: a tree has no need of the forces of its own springs.
    """
    shapes, values = {}, []
    whole = None
    for i, (batch, component) in enumerate(zip(dae.plan.batches, dae.components, strict=True)):
        if not hasattr(component, METHOD):
            continue
        whole = _with_stored(dae, x, efforts) if whole is None else whole
        found = _of_batch(dae, i, x, entries_at(whole, batch.efforts))
        for path in batch.paths:
            shapes |= {f"{path}/{name}": value.shape[1:] for name, value in found.items()}
        flat = [value.reshape(len(batch.paths), math.prod(value.shape[1:])) for value in found.values()]
        values.append(jnp.concatenate(flat, axis=1).ravel())
    return Outputs(shapes, jnp.concatenate(values)) if values else None


def _with_stored(dae: ReferenceDAE, x: State, efforts: Sequence[Array]) -> Float[Array, " efforts"]:
    """All efforts, those computed anew that stand beside the outputs of some component at a storage."""
    plan, whole = dae.plan, jnp.concatenate(efforts)
    read = [b.efforts for b, c in zip(plan.batches, dae.components, strict=True) if hasattr(c, METHOD)]
    slots = np.unique(np.concatenate([places.ravel() for places in read]))
    storages = [(i, b.efforts) for i, b in enumerate(plan.batches) if b.role is Role.STORAGE]
    needed = {i for i, own in storages if np.isin(own, slots).any()}
    if not needed:
        return whole
    return jnp.concatenate([dae.stored_efforts(x, needed), whole[plan.n_stored :]])


def _of_batch(dae: ReferenceDAE, i: int, x: State, efforts: Float[Array, "n P"]) -> dict[str, Array]:
    """The outputs of the components of a batch, (n, *shape) by name."""
    batch, component = dae.plan.batches[i], dae.components[i]
    found = each(batch, reader(batch, component, dae.reference_conditions), component, batch.states(x), efforts)
    return {name: found[name] for name in units_of(component)}  # JAX sorts names


def validate_outputs(dae: ReferenceDAE) -> None:
    """Refuses outputs that are not what they are declared to be; traces the methods and computes nothing.

    Raises `ModelError` with the path of the component.
    """
    for i, (batch, component) in enumerate(zip(dae.plan.batches, dae.components, strict=True)):
        declared, method = hasattr(component, UNITS), getattr(component, METHOD, None)
        if declared or method is not None:
            path = batch.paths[0]
            _require_declaration(path, component, method)
            _require_values(f"{path}/{METHOD}", dae, i)


def _require_declaration(path: str, component: Any, method: Any) -> None:
    if not callable(method):
        raise ModelError(f"{path}/{METHOD}", "no such method beside output_units", "a method outputs(x, e)")
    units = getattr(component, UNITS, None)
    if not isinstance(units, Mapping):
        found = "nothing" if units is None else f"a {type(units).__name__}"
        raise ModelError(f"{path}/{UNITS}", found, WANTED)
    for name, unit in units.items():
        if not isinstance(name, str) or not NAME.fullmatch(name) or not isinstance(unit, str):
            wanted = f"{WANTED}; names of letters, digits, _ and -, that begin with a letter or _"
            raise ModelError(f"{path}/{UNITS}", repr({name: unit}), wanted)


def _require_values(path: str, dae: ReferenceDAE, i: int) -> None:
    batch, component = dae.plan.batches[i], dae.components[i]
    names = list(units_of(component))
    wanted = f"a mapping with numbers or arrays for {', '.join(names) or 'nothing'}, as output_units declares them"

    def evaluate(component, x, e):
        def one(member, states, efforts):
            found = member.outputs(states, efforts_of(batch, dae.reference_conditions, efforts))
            if not isinstance(found, Mapping):
                raise ModelError(path, f"a {type(found).__name__}", wanted)
            for name in (*found, *names):
                if name not in found or name not in names:
                    raise ModelError(path, f"{'no' if name in names else 'the undeclared'} {name!r}", wanted)
            return {name: jnp.asarray(value) for name, value in found.items()}

        return each(batch, one, component, batch.states(x), entries_at(e, batch.efforts))

    try:
        found = eqx.filter_eval_shape(evaluate, component, *_structures(dae.plan, dae.reference_temperature.dtype))
    except ModelError:
        raise
    except Exception as error:  # whatever the user's method raises
        raise ModelError(path, f"{type(error).__name__}: {' '.join(str(error).split())}"[:300], wanted) from error
    for name, value in found.items():
        if jnp.issubdtype(value.dtype, jnp.complexfloating):
            raise ModelError(f"{path}/{name}", "complex numbers", "real ones")


def _structures(plan: Plan, dtype: Any) -> tuple[tuple[Any, ...], Any]:
    """Shapes of a state and of all efforts."""
    x = [jax.ShapeDtypeStruct((len(b.junctions), *b.space.shape), dtype) for b in plan.blocks]
    return tuple(x), jax.ShapeDtypeStruct((plan.n_efforts,), dtype)
