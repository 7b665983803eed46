"""Flattening: substitute nested patterns into the boxes they fill, keeping paths as names."""

from __future__ import annotations

import dataclasses
from typing import Any

from jmbs.ephs.component import Role, role
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
    - `outer`: ports of the root's outer box here, sorted.
    """

    name: str
    quantity: Quantity
    ports: tuple[tuple[str, str], ...]
    outer: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class FlatSystem:
    """A system without nesting: primitive components by path, junctions, drives, closures; all sorted by name. Of the
    root's outer ports `state_ports` tell a state only, so that nothing can be driven through them."""

    components: dict[str, Any]
    junctions: tuple[FlatJunction, ...]
    drives: dict[str, Any]
    closures: tuple[Closure, ...]
    state_ports: frozenset[str] = frozenset()

    def junction_of(self, path: str, port: str) -> FlatJunction:
        """The junction at which a component's port stands."""
        return next(j for j in self.junctions if (path, port) in j.ports)


class _Merger:
    """Collects junctions level by level and merges those joined through an outer port (union-find)."""

    def __init__(self):
        self.parent: dict[str, str] = {}
        self.ports: dict[str, list[tuple[str, str]]] = {}
        self.quantity: dict[str, Quantity] = {}

    def add(self, node: str, quantity: Quantity) -> None:
        self.parent[node] = node
        self.ports[node] = []
        self.quantity[node] = quantity

    def find(self, node: str) -> str:
        while self.parent[node] != node:
            node = self.parent[node]
        return node

    def union(self, a: str, b: str) -> None:
        self.parent[self.find(b)] = self.find(a)


def flatten(system: System) -> FlatSystem:
    """The unique flattening of a system; names of components are their paths (`base/hc`).

    Raises `ModelError` for drives below the root, where they would be ambiguous.
    """
    merger = _Merger()
    components: dict[str, Any] = {}
    closures: list[Closure] = []
    _visit(system, "", merger, components, closures)

    groups: dict[str, list[str]] = {}
    for node in merger.parent:
        groups.setdefault(merger.find(node), []).append(node)
    outer_of: dict[str, list[str]] = {}
    for junction in system.pattern.junctions:
        outer_of.setdefault(merger.find(junction.name), []).extend(junction.outer)

    junctions = []
    for representative, nodes in groups.items():
        ports = tuple(sorted(pair for node in nodes for pair in merger.ports[node]))
        outer = tuple(sorted(outer_of.get(representative, [])))
        if ports or outer:
            name = _name(nodes, merger, components)
            junctions.append(FlatJunction(name, merger.quantity[representative], ports, outer))
    return FlatSystem(
        components=dict(sorted(components.items())),
        junctions=tuple(sorted(junctions, key=lambda j: j.name)),
        drives=dict(sorted(system.drives.items())),
        closures=tuple(sorted(closures, key=lambda c: c.name)),
        state_ports=frozenset(name for name, port in system.pattern.outer.items() if not port.power),
    )


def _visit(system: System, prefix: str, merger: _Merger, components: dict[str, Any], closures: list[Closure]) -> None:
    for junction in system.pattern.junctions:
        merger.add(prefix + junction.name, _quantity(system, junction))
    for name, box in system.boxes.items():
        if isinstance(box, System):
            if box.drives:
                raise ModelError(
                    prefix + name, f"drives {sorted(box.drives)} below the root", "drives at the root only"
                )
            inner_closures: list[Closure] = []
            _visit(box, f"{prefix}{name}/", merger, components, inner_closures)
            closures.extend(closure.prefixed(name) for closure in inner_closures)
        else:
            if prefix + name in components:
                raise ModelError(prefix + name, "the name of two components", "a path used once")
            components[prefix + name] = box
    closures.extend(system.closures)
    for junction in system.pattern.junctions:
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
