"""What a diagram shows of a system, as plain data: boxes, junctions and the ports between them, nested as asked."""

from __future__ import annotations

import dataclasses
import enum
from typing import Any

from jmbs.ephs import Role, System, flatten, role


class Kind(enum.Enum):
    """What fills a box; boxes are coloured by it."""

    STORAGE = "storage"
    REVERSIBLE = "reversible"
    IRREVERSIBLE = "irreversible"
    ENVIRONMENT = "environment"
    COMPOSITE = "composite"


KINDS = {
    Role.STORAGE: Kind.STORAGE,
    Role.REVERSIBLE: Kind.REVERSIBLE,
    Role.TRANSFORMER: Kind.REVERSIBLE,
    Role.IRREVERSIBLE: Kind.IRREVERSIBLE,
    Role.ENVIRONMENT: Kind.ENVIRONMENT,
}


@dataclasses.dataclass(frozen=True)
class InnerPort:
    """A line from a box to a junction; `power` False: a state port."""

    box: str
    name: str
    power: bool


@dataclasses.dataclass(frozen=True)
class OuterPort:
    """A line from a junction through the outer box."""

    name: str
    power: bool


@dataclasses.dataclass(frozen=True)
class Dot:
    """A junction: its name, the quantity shared there, and the ports that meet there."""

    name: str
    quantity: str
    inner: tuple[InnerPort, ...]
    outer: tuple[OuterPort, ...]


@dataclasses.dataclass(frozen=True)
class Box:
    """An inner box: its name (a path in a flattened system), its kind, what fills it, and the pattern shown inside."""

    name: str
    kind: Kind
    filling: str
    inside: Diagram | None = None


@dataclasses.dataclass(frozen=True)
class Diagram:
    """One interconnection pattern: inner boxes and junctions; the outer box is the set of all outer ports."""

    boxes: tuple[Box, ...]
    dots: tuple[Dot, ...]

    def dot_of(self, outer: str) -> Dot:
        """The junction that exposes an outer port."""
        return next(dot for dot in self.dots if outer in [port.name for port in dot.outer])


def nested_diagram(system: System, depth: int) -> Diagram:
    """The system's own pattern (`depth` 1), with the patterns of its composite boxes inside (2), and so on."""
    pattern = system.pattern
    dots = tuple(
        Dot(
            junction.name,
            _quantity(pattern, junction),
            tuple(InnerPort(box, port, pattern.inner[box][port].power) for box, port in junction.inner),
            tuple(OuterPort(port, pattern.outer[port].power) for port in junction.outer),
        )
        for junction in pattern.junctions
    )
    return Diagram(tuple(_box(name, filling, depth - 1) for name, filling in system.boxes.items()), dots)


def flat_diagram(system: System) -> Diagram:
    """The flattened system: all primitive components by path."""
    flat = flatten(system)
    dots = tuple(
        Dot(
            junction.name,
            str(junction.quantity),
            tuple(InnerPort(path, port, flat.components[path].ports[port].power) for path, port in junction.ports),
            tuple(OuterPort(port, system.ports[port].power) for port in junction.outer),
        )
        for junction in flat.junctions
    )
    return Diagram(tuple(_box(path, component, 0) for path, component in flat.components.items()), dots)


def _box(name: str, filling: Any, depth: int) -> Box:
    if not isinstance(filling, System):
        return Box(name, KINDS[role(filling, name)], type(filling).__name__)
    return Box(name, Kind.COMPOSITE, "system", nested_diagram(filling, depth) if depth > 0 else None)


def _quantity(pattern, junction) -> str:
    ports = [pattern.inner[box][port] for box, port in junction.inner] + [pattern.outer[p] for p in junction.outer]
    return str(ports[0].quantity)
