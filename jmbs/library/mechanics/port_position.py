"""Ports that know their position, joined with a joint's: port and coordinate keep the distance of the start.

A transformer that tells the position whose rate its output is (`output_position(x)`, see
`jmbs.ephs.junction_positions`) may have this output at a joint's port `p_r`. Port and joint then have one velocity,
`0 = A e_in - u_r`, and the constraint is `X(x) - q_r - d = 0`. Since neither says where the other counts from, `d` is
a state that never changes: what it is at the start, it stays.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from jmbs.ephs import (
    Closure,
    FlatJunction,
    FlatSystem,
    Interface,
    Junctions,
    Quantity,
    ReferenceDAE,
    as_it_is,
    power_port,
)
from jmbs.library.mechanics.joint import HolonomicConstraint
from jmbs.lie import Rn

DISTANCE = "/distance"
"""What the path of a distance, and its state, ends with, after the path of the transformer."""


class PortDistance(eqx.Module):
    """Holds how far a port's position is from a joint's coordinates, `d`; it stores no energy and nothing moves it.

    **Arguments:** `size`: how many entries it has, static.
    """

    size: int = eqx.field(static=True)
    lawful_by_construction: ClassVar[bool] = True
    stores_nothing: ClassVar[bool] = True

    @property
    def quantity(self) -> Quantity:
        """Of the distance, rad or m."""
        return Quantity(Rn(self.size), "port_distance")

    @property
    def ports(self) -> Interface:
        return {"d": power_port(self.quantity.space, self.quantity.name)}

    def energy(self, x) -> Float[Array, ""]:
        return jnp.zeros((), x["d"].dtype)


@dataclasses.dataclass(frozen=True)
class _Miss:
    """By how much a port misses its place, from its transformer's states, the joint's coordinates and the distance;
    `ports`: names of the transformer's state ports."""

    ports: tuple[str, ...]

    def __call__(self, parts: tuple[Any], states: tuple[Array, ...]) -> Float[Array, " k"]:
        *own, coordinates, distance = states
        return parts[0].output_position(dict(zip(self.ports, own, strict=True))) - coordinates - distance


def with_port_distances(flat: FlatSystem) -> FlatSystem:
    """The system with a `PortDistance` and a closure for each transformer that knows the position of its output and
    has it at the port of a joint whose coordinates are numbers."""
    added = {path: _distance(flat, path, joint) for path, joint in _joined(flat)}
    if not added:
        return flat
    components = {path + DISTANCE: distance for path, (distance, _) in added.items()}
    junctions = [FlatJunction(path, held.quantity, ((path, "d"),), ()) for path, held in components.items()]
    return dataclasses.replace(
        flat,
        components=dict(sorted((flat.components | components).items())),
        junctions=tuple(sorted((*flat.junctions, *junctions), key=lambda j: j.name)),
        closures=tuple(sorted((*flat.closures, *(c for _, c in added.values())), key=lambda c: c.name)),
        order=(*flat.order, *components),
    )


def _joined(flat: FlatSystem) -> Iterator[tuple[str, str]]:
    """Transformers that know their output's position, each with the joint's constraint that its output meets."""
    knowing = [p for p, c in flat.components.items() if getattr(c, "output_position", None) is not None]
    if not knowing:
        return
    at = Junctions(flat)
    for path in knowing:
        joint = at.instance(at.name[path, flat.components[path].output], HolonomicConstraint)
        if joint is not None and joint[1] == "p_r":
            group = flat.components[joint[0]].motion.group
            if group.dim and group == Rn(group.dim):
                yield path, joint[0]


def _distance(flat: FlatSystem, path: str, joint: str) -> tuple[PortDistance, Closure]:
    component = flat.components[path]
    own = tuple(name for name, port in component.ports.items() if not port.power)
    states = (*((path, port) for port in own), (joint, "q_r"), (path + DISTANCE, "d"))
    distance = PortDistance(component.ports[component.output].dim)
    return distance, Closure(path, path, (path,), states, _Miss(own), as_it_is)


def port_distances(dae: ReferenceDAE, x: tuple[Array, ...], t: Any) -> dict[str, Float[Array, " k"]]:
    """The distances by state, at states `x` in which they are zero."""
    pairs = zip(dae.plan.batches, dae.components, strict=True)
    paths = [path for batch, component in pairs if isinstance(component, PortDistance) for path in batch.paths]
    if not paths:
        return {}
    missing, plan, found = dae.closures(x, t=t), dae.plan, {}
    for path in paths:
        batch, member = plan.member_of[path.removesuffix(DISTANCE)]
        found[plan.junction_of[path, "d"]] = missing[plan.batches[batch].multipliers[member]]
    return found
