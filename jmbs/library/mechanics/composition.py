"""Systems beside the mechanical parts: how connections join ports at the junctions of a mechanism's pattern."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from jmbs.ephs import (
    ENTROPY,
    ConstantEffort,
    ConstantFlow,
    FunctionEffort,
    FunctionFlow,
    Interface,
    Role,
    System,
    TableEffort,
    TableFlow,
    role,
)
from jmbs.errors import ModelError
from jmbs.library.mechanics import checks
from jmbs.library.mechanics.values import TableSpec

ENVIRONMENT_BOX = "environment"
_KINDS = {"flow": (ConstantFlow, TableFlow, FunctionFlow), "effort": (ConstantEffort, TableEffort, FunctionEffort)}


@dataclasses.dataclass(frozen=True, eq=False)
class ConnectionSpec:
    """Ports that meet at one junction, exposed as the outer port `name`, and perhaps driven there.

    `ports`: `box.port` of added systems and of mechanical parts (`<joint>.p_r`, `<body>.p`, `<body>.q`, `<store>.s`,
    `ground.p`, `environment.s`). `flow` (a force, a voltage, a torque: positive power enters) or `effort` (a prescribed
    velocity or current): a number, numbers, a `TableSpec`, or a function of `t`, `flow` also one of `(t, view)`.
    Raises `ModelError` with paths below `connections/<name>`.
    """

    name: str
    ports: tuple[str, ...]
    flow: Any = None
    effort: Any = None

    def __post_init__(self) -> None:
        path = f"connections/{checks.name(f'connections/{self.name}', self.name)}"
        ports = [self.ports] if isinstance(self.ports, str) else self.ports
        if not isinstance(ports, Sequence) or not ports or not all(isinstance(p, str) and "." in p for p in ports):
            raise ModelError(f"{path}/ports", checks.show(self.ports), "a list of ports written box.port")
        if self.flow is not None and self.effort is not None:
            raise ModelError(path, "both flow and effort", "one of them: the other follows")
        object.__setattr__(self, "ports", tuple(ports))

    def drive(self, size: int) -> Any:
        """The drive of the outer port, of `size` entries, or None. Raises `ModelError`."""
        kind = "flow" if self.flow is not None else "effort"
        value = getattr(self, kind)
        return None if value is None else make_drive(f"connections/{self.name}/{kind}", kind, value, size)


def thermal_port(systems: Mapping[str, Any], path: str) -> str | None:
    """The entropy port of a thermal store at a path within added systems (`chamber/wall`); None where there is none."""
    first, *rest = path.split("/")
    found = systems.get(first)
    for name in rest:
        found = found.boxes.get(name) if isinstance(found, System) else None
    if found is None or isinstance(found, System) or role(found) is not Role.STORAGE:
        return None
    ports = [name for name, port in found.ports.items() if port.power and port.quantity.name == ENTROPY]
    return ports[0] if len(ports) == 1 else None


def make_drive(path: str, kind: str, value: Any, size: int) -> Any:
    """A flow or effort drive from a number, numbers, a `TableSpec`, a function, or an object that is one already."""
    if hasattr(value, kind):
        return value
    constant, table, function = _KINDS[kind]
    if isinstance(value, TableSpec):
        value.require_columns(path, size)
        return table(jnp.asarray(value.times), jnp.asarray(value.values))
    if callable(value):
        return function(_of_time_and_view(value) if kind == "flow" else value)
    return constant(jnp.asarray(np.asarray(checks.per_coordinate(path, value, size))))


def _of_time_and_view(function: Callable) -> Callable:
    """`function(t)` as a function of `(t, view)`; one that takes both is left as it is."""
    try:
        inspect.signature(function).bind(None, None)
    except (TypeError, ValueError):
        return lambda t, view: function(t)
    return function


def connect(
    connection: ConnectionSpec,
    interfaces: Mapping[str, Interface],
    junctions: dict[str, list[str]],
    outer: dict[str, str],
) -> int:
    """Joins a connection's ports, merging the junctions where they already stand; returns the port's dimension.

    `junctions` (name to ports) and `outer` (outer port to junction) are changed. Raises `ModelError`.
    """
    path = f"connections/{connection.name}"
    for word in connection.ports:
        box, _, port = word.partition(".")
        if box not in interfaces:
            raise ModelError(path, f"no box {box!r}", f"a system or a part of the mechanism{_near(box, interfaces)}")
        if port not in interfaces[box]:
            raise ModelError(path, f"no port {word!r}", f"a port of {box}{_near(port, interfaces[box])}")
    there = [name for name, ports in junctions.items() if set(ports) & set(connection.ports)]
    target = there[0] if there else connection.name
    if target not in junctions and target in outer:
        raise ModelError(path, f"the name {connection.name}, already that of a port", "a name used only once")
    ports = [port for name in there for port in junctions.pop(name)]
    junctions[target] = [*ports, *(word for word in dict.fromkeys(connection.ports) if word not in ports)]
    for port, junction in outer.items():
        if junction in there:
            outer[port] = target
    box, _, port = connection.ports[0].partition(".")
    outer[connection.name] = target
    return interfaces[box][port].dim


def _near(word: str, known: Mapping[str, Any]) -> str:
    return checks.nearest(word, known)
