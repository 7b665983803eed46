"""Flattening: substitute nested patterns into the boxes they fill, keeping paths as names."""

from __future__ import annotations

import dataclasses
from typing import Any

from jmbs.ephs.component import Role, role
from jmbs.ephs.drive import drive_below
from jmbs.ephs.interface import Quantity
from jmbs.ephs.system import Closure, System
from jmbs.errors import ModelError


@dataclasses.dataclass(frozen=True)
class FlatJunction:
    """A junction of a flattened system.

    **Arguments:**

    - `name`: its path; of several merged junctions the one beside the storage, else the outermost.
    - `quantity`: what is shared here.
    - `ports`: `(component path, port)` of all primitive ports here, sorted.
    - `outer`: ports of the root's outer box here, and driven ones of systems below it by path, sorted.
    """

    name: str
    quantity: Quantity
    ports: tuple[tuple[str, str], ...]
    outer: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class FlatSystem:
    """A system without nesting: primitive components by path, junctions, drives, closures; all sorted by name. Of the
    root's outer ports `state_ports` tell a state only, so that nothing can be driven through them. `order`: paths of
    the components in the order in which their boxes were given."""

    components: dict[str, Any]
    junctions: tuple[FlatJunction, ...]
    drives: dict[str, Any]
    closures: tuple[Closure, ...]
    state_ports: frozenset[str] = frozenset()
    order: tuple[str, ...] = ()

    def junction_of(self, path: str, port: str) -> FlatJunction:
        """The junction at which a component's port stands."""
        return next(j for j in self.junctions if (path, port) in j.ports)


class _Merger:
    """Collects junctions level by level and merges those joined through an outer port (union-find)."""

    def __init__(self):
        self.parent: dict[str, str] = {}
        self.ports: dict[str, list[tuple[str, str]]] = {}
        self.outer: dict[str, list[str]] = {}
        self.quantity: dict[str, Quantity] = {}

    def add(self, node: str, quantity: Quantity) -> None:
        self.parent[node] = node
        self.ports[node], self.outer[node] = [], []
        self.quantity[node] = quantity

    def find(self, node: str) -> str:
        while self.parent[node] != node:
            node = self.parent[node]
        return node

    def union(self, a: str, b: str) -> None:
        self.parent[self.find(b)] = self.find(a)


class _Parts:
    """What a walk through the levels collects: components, drives and closures by path."""

    def __init__(self):
        self.components: dict[str, Any] = {}
        self.drives: dict[str, Any] = {}
        self.closures: list[Closure] = []


def flatten(system: System) -> FlatSystem:
    """The unique flattening of a system; names of components and of drives below the root are paths (`base/hc`).

    Raises `ModelError`.
    """
    merger, parts = _Merger(), _Parts()
    _visit(system, "", merger, parts)

    groups: dict[str, list[str]] = {}
    for node in merger.parent:
        groups.setdefault(merger.find(node), []).append(node)
    junctions = []
    for representative, nodes in groups.items():
        ports = tuple(sorted(pair for node in nodes for pair in merger.ports[node]))
        outer = tuple(sorted({port for node in nodes for port in merger.outer[node]}))
        if ports or outer:
            name = _name(nodes, merger, parts.components)
            junctions.append(FlatJunction(name, merger.quantity[representative], ports, outer))
    return FlatSystem(
        components=dict(sorted(parts.components.items())),
        junctions=tuple(sorted(junctions, key=lambda j: j.name)),
        drives=dict(sorted(parts.drives.items())),
        closures=tuple(sorted(parts.closures, key=lambda c: c.name)),
        state_ports=frozenset(name for name, port in system.pattern.outer.items() if not port.power),
        order=tuple(parts.components),
    )


def _visit(system: System, prefix: str, merger: _Merger, parts: _Parts) -> None:
    for junction in system.pattern.junctions:
        merger.add(prefix + junction.name, _quantity(system, junction))
    for name, box in system.boxes.items():
        if isinstance(box, System):
            _visit(box, f"{prefix}{name}/", merger, parts)
        else:
            if prefix + name in parts.components:
                raise ModelError(prefix + name, "the name of two components", "a path used once")
            parts.components[prefix + name] = box
    parts.closures += [closure.below(prefix) for closure in system.closures]
    for port, drive in system.drives.items():
        if prefix + port in parts.drives:
            raise ModelError(f"drives/{prefix}{port}", "the name of two driven ports", "a path used once")
        parts.drives[prefix + port] = drive_below(drive, prefix)
    for junction in system.pattern.junctions:
        exposed = junction.outer if not prefix else [port for port in junction.outer if port in system.drives]
        merger.outer[prefix + junction.name] += [prefix + port for port in exposed]
        for box, port in junction.inner:
            filling = system.boxes[box]
            if isinstance(filling, System):
                inside = next(j.name for j in filling.pattern.junctions if port in j.outer)
                merger.union(prefix + junction.name, f"{prefix}{box}/{inside}")
            else:
                merger.ports[prefix + junction.name].append((prefix + box, port))


def _quantity(system: System, junction) -> Quantity:
    if junction.inner:
        box, port = junction.inner[0]
        return system.pattern.inner[box][port].quantity
    if junction.outer:
        return system.pattern.outer[junction.outer[0]].quantity
    raise ModelError(f"junctions/{junction.name}", "a junction without ports", "at least one port")


def _name(nodes: list[str], merger: _Merger, components: dict[str, Any]) -> str:
    holds = [
        n for n in nodes if any(role(components[p]) in (Role.STORAGE, Role.ENVIRONMENT) for p, _ in merger.ports[n])
    ]
    return min(holds or nodes, key=lambda n: (n.count("/"), n))
