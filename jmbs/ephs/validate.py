"""Refuses wrong models when they are built: what makes a flattened system meaningless, by path."""

from __future__ import annotations

import jax.numpy as jnp

from jmbs.arrays import is_traced
from jmbs.ephs.component import Role, is_lawful, role
from jmbs.ephs.flatten import FlatJunction, FlatSystem
from jmbs.ephs.interface import ENTROPY
from jmbs.ephs.laws import validate_component
from jmbs.errors import ModelError

STATEFUL = (Role.STORAGE, Role.ENVIRONMENT)


def validate(flat: FlatSystem) -> None:
    """Checks junctions (`validate_junction`) and the laws of components (`validate_component`).

    Under a transformation of JAX laws are not tried, for there are no numbers to look at.
    """
    traced = is_traced(jnp.zeros(()))
    for junction in flat.junctions:
        validate_junction(flat, junction)
    for path, component in flat.components.items():
        if not (traced or is_lawful(component) or is_traced(component)):
            validate_component(path, component)


def validate_junction(flat: FlatSystem, junction: FlatJunction) -> None:
    """Raises `ModelError` for a junction that has no meaning.

    Two storages or environments, a state port without storage, a thermal port with neither store nor environment.
    """
    path = f"junctions/{junction.name}"
    roles = {pair: role(flat.components[pair[0]], pair[0]) for pair in junction.ports}
    stateful = [pair for pair, r in roles.items() if r in STATEFUL]
    names = [".".join(pair) for pair in junction.ports]
    if len(stateful) > 1:
        found = " and ".join(".".join(pair) for pair in stateful)
        raise ModelError(path, f"{found}, each holding the state", "one storage or environment at most")
    if stateful:
        return
    for component, port in junction.ports:
        if not flat.components[component].ports[port].power:
            raise ModelError(path, f"state port {component}.{port} without a storage", "a storage that has the state")
    if junction.quantity.name == ENTROPY:
        raise ModelError(path, f"thermal ports {names} with neither store nor environment", "one of them")
