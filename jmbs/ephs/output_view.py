"""How outputs of components are read: names and units that they declare, values at one state."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jmbs.ephs.evaluate import ReferenceConditions, efforts_of
from jmbs.ephs.plan import Batch, Plan
from jmbs.ephs.rates import State
from jmbs.jaxext import entries_at

METHOD, UNITS = "outputs", "output_units"


def units_of(component: Any) -> dict[str, str]:
    """Names and units of the outputs that a component declares; none where it has no method `outputs`."""
    return dict(getattr(component, UNITS)) if hasattr(component, METHOD) else {}


def declared_units(plan: Plan, components: Sequence[Any]) -> dict[str, str]:
    """Units of all outputs by `<path>/<name>`, in the order of the plan; `components`: by batch."""
    pairs = [(batch.paths, units_of(component)) for batch, component in zip(plan.batches, components, strict=True)]
    return {f"{path}/{name}": unit for paths, units in pairs for path in paths for name, unit in units.items()}


def reader(batch: Batch, component: Any, reference: ReferenceConditions) -> Callable[..., dict[str, Array]]:
    """A function of one component, its states and its stacked efforts, which gives its outputs in declared order."""
    names, dtype = units_of(component), reference.temperature.dtype

    def read(one: Any, states: Mapping[str, Array], efforts: Float[Array, " P"]) -> dict[str, Array]:
        found = one.outputs(states, efforts_of(batch, reference, efforts))
        return {name: jnp.asarray(found[name], dtype) for name in names}

    return read


class OutputView(Mapping[str, Array]):
    """Outputs by `<path>/<name>` at one state, each computed when it is asked for.

    **Arguments:** `plan`, `components` by batch, `reference`: of the system; `x`, `e`: the state and all efforts.
    """

    def __init__(
        self,
        plan: Plan,
        components: Sequence[Any],
        reference: ReferenceConditions,
        x: State,
        e: Float[Array, " efforts"],
    ):
        self._plan, self._components, self._reference, self._x, self._e = plan, components, reference, x, e

    @functools.cached_property
    def _units(self) -> dict[str, str]:
        return declared_units(self._plan, self._components)

    def __getitem__(self, name: str) -> Array:
        if name not in self._units:
            raise KeyError(name)
        path, _, output = name.rpartition("/")
        i, member = self._plan.member_of[path]
        batch = self._plan.batches[i]
        one = jax.tree.map(lambda leaf: leaf[member] if eqx.is_array(leaf) else leaf, self._components[i])
        states = {port: self._x[block][rows[member]] for port, (block, rows) in batch.held.items()}
        return reader(batch, one, self._reference)(one, states, entries_at(self._e, batch.efforts[member]))[output]

    def __iter__(self):
        return iter(self._units)

    def __len__(self) -> int:
        return len(self._units)
