"""Systems as relations between flows and efforts, by linear algebra alone: what flattening and planning must mean.

At a state a component relates the flows and efforts at its power ports. Those of storages and environments are left
open and kept as variables, as are those of outer ports, so that every relation is linear: `A z = 0`.
"""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from jmbs.ephs import FlatSystem, Role, System, flatten, role
from jmbs.ephs.component import Efforts

REFERENCE_TEMPERATURE = 300.0
RANK_TOLERANCE = 1e-9

Port = tuple[str, str]


class Relation(NamedTuple):
    """`A (f, e, f, e, ...) = 0` over ports of these dimensions, in this order."""

    dims: dict[Port, int]
    A: np.ndarray


class Values:
    """A state and efforts for every flattened junction, by random numbers; and what components' laws say there."""

    def __init__(self, flat: FlatSystem, seed: int = 0):
        random = np.random.default_rng(seed)
        self.state, self.effort, self.laws = {}, {}, {}
        for junction in flat.junctions:
            space = junction.quantity.space
            state = space.exp(jnp.asarray(0.4 * random.normal(size=space.dim)))
            effort = random.normal(size=space.dim)
            self.state |= dict.fromkeys(junction.ports, state)
            self.effort |= dict.fromkeys(junction.ports, effort)


def of_component(path: str, component: Any, values: Values) -> Relation:
    """Storages and environments say nothing, and the others what their law says at the given values."""
    if path not in values.laws:
        values.laws[path] = _law(path, component, values)
    return values.laws[path]


def _law(path: str, component: Any, values: Values) -> Relation:
    """See `of_component`."""
    ports = {(path, name): port.dim for name, port in component.ports.items() if port.power}
    kind, n = role(component), sum(ports.values())
    x = {name: values.state[path, name] for name in component.ports}
    if kind in (Role.STORAGE, Role.ENVIRONMENT):
        return Relation(ports, np.zeros((0, 2 * n)))
    if kind is Role.IRREVERSIBLE:
        given = {name: jnp.asarray(values.effort[path, name]) for _, name in ports}
        M = component.onsager(x, Efforts(given, jnp.asarray(REFERENCE_TEMPERATURE)))
        by_flow, by_effort = np.eye(n), -np.asarray(M) / REFERENCE_TEMPERATURE
    elif kind is Role.REVERSIBLE:
        J, C = component.structure(x)
        J = np.zeros((n, n)) if J is None else np.asarray(J)
        C = np.zeros((0, n)) if C is None else np.asarray(C)
        free = _null_space(C)  # of flows, but for the multipliers'
        by_flow = np.concatenate([free.T, np.zeros((len(C), n))])
        by_effort = np.concatenate([-free.T @ J, C])
    else:
        ratio, out = np.asarray(component.ratio(x)), _slots(ports, [(path, component.output)])
        into = np.setdiff1d(np.arange(n), out)
        by_flow, by_effort = np.zeros((n, n)), np.zeros((n, n))
        by_effort[: len(out), out], by_effort[: len(out), into] = np.eye(len(out)), -ratio
        by_flow[len(out) :, into], by_flow[len(out) :, out] = np.eye(len(into)), ratio.T
    return Relation(ports, _interleaved(ports, by_flow, by_effort))


def of_system(system: System, values: Values, prefix: str = "") -> Relation:
    """The relation of a composite system from those of its boxes, composed along its pattern."""
    parts = {}
    for name, box in system.boxes.items():
        inside = prefix + name
        parts[name] = of_system(box, values, f"{inside}/") if isinstance(box, System) else None
        parts[name] = parts[name] or of_component(inside, box, values)
    junctions = [(junction.inner, junction.outer) for junction in system.pattern.junctions]
    at = lambda box, port: (f"{prefix}{box}", port)  # noqa: E731
    named = [
        ([at(*pair) for pair in inner if system.pattern.inner[pair[0]][pair[1]].power], outer)
        for inner, outer in junctions
    ]
    outer = {port: declared.dim for port, declared in system.pattern.outer.items() if declared.power}
    kept = _kept(system, prefix)
    return _composed(list(parts.values()), named, outer, prefix.rstrip("/"), kept)


def of_flat(flat: FlatSystem, outer: dict[str, int], values: Values) -> Relation:
    """The relation of a flattened system."""
    parts = [of_component(path, component, values) for path, component in flat.components.items()]
    powers = lambda ports: [(path, port) for path, port in ports if flat.components[path].ports[port].power]  # noqa: E731
    junctions = [(powers(j.ports), j.outer) for j in flat.junctions]
    kept = {
        (path, port)
        for path, component in flat.components.items()
        for port in component.ports
        if role(component) in (Role.STORAGE, Role.ENVIRONMENT)
    }
    return _composed(parts, junctions, outer, "", kept)


def assert_means_its_parts(system: System) -> None:
    """Whether a nested system and its flattening are one relation, at random states and efforts."""
    flat = flatten(system)
    values = Values(flat)
    outer = {name: port.dim for name, port in system.ports.items() if port.power}
    assert_equal(of_system(system, values), of_flat(flat, outer, values))


def assert_equal(a: Relation, b: Relation) -> None:
    """Whether two relations allow the same flows and efforts, in whatever order their ports stand."""
    assert a.dims == b.dims
    order = sorted(a.dims)
    projectors = [_projector(r.A[:, _both(r.dims, order)]) for r in (a, b)]
    np.testing.assert_allclose(*projectors, atol=1e-8)


def _kept(system: System, prefix: str) -> set[Port]:
    found = set()
    for name, box in system.boxes.items():
        if isinstance(box, System):
            found |= _kept(box, f"{prefix}{name}/")
        elif role(box) in (Role.STORAGE, Role.ENVIRONMENT):
            found |= {(prefix + name, port) for port in box.ports}
    return found


def _composed(parts, junctions, outer: dict[str, int], own: str, kept: set[Port]) -> Relation:
    """Relations side by side, with equal efforts and balanced flows at junctions; all but outer and `kept` ports are
    eliminated.

    **Arguments:** `junctions`: inner power ports and outer ports of each; `own`: the path of the composed box.
    """
    dims: dict[Port, int] = {}
    for part in parts:
        dims |= part.dims
    shown = {(own, port): dim for port, dim in outer.items()}
    everything = dims | shown
    size = 2 * sum(everything.values())
    rows = []
    for part in parts:
        block = np.zeros((len(part.A), size))
        block[:, _both(everything, list(part.dims))] = part.A
        rows.append(block)
    for inner, ports in junctions:
        at = [*inner, *((own, port) for port in ports if port in outer)]
        if not at:
            continue
        dim = everything[at[0]]
        balance = np.zeros((dim, size))
        for port in at:
            sign = -1.0 if port in shown and port not in dims else 1.0
            balance[np.arange(dim), _places(everything, port, 0)] += sign
        rows.append(balance)
        for port in at[1:]:
            equal = np.zeros((dim, size))
            equal[np.arange(dim), _places(everything, at[0], 1)] = 1.0
            equal[np.arange(dim), _places(everything, port, 1)] -= 1.0
            rows.append(equal)
    A = np.concatenate([*rows, np.zeros((0, size))])
    remaining = {port: dim for port, dim in everything.items() if port in shown or port in kept}
    gone = [port for port in everything if port not in remaining]
    left = _null_space(A[:, _both(everything, gone)].T)
    return Relation(remaining, left.T @ A[:, _both(everything, list(remaining))])


def _slots(dims: dict[Port, int], ports: list[Port]) -> np.ndarray:
    starts = dict(zip(dims, np.cumsum([0, *dims.values()]), strict=False))
    return np.concatenate([np.zeros(0, int), *(starts[p] + np.arange(dims[p]) for p in ports)])


def _places(dims: dict[Port, int], port: Port, part: int) -> np.ndarray:
    """Of a port's flow (0) or effort (1) among all variables."""
    start = 2 * sum(dims[before] for before in itertools.takewhile(port.__ne__, dims))
    return start + part * dims[port] + np.arange(dims[port])


def _both(dims: dict[Port, int], ports: list[Port]) -> np.ndarray:
    return np.concatenate([np.zeros(0, int), *(_places(dims, p, part) for p in ports for part in (0, 1))])


def _interleaved(dims: dict[Port, int], by_flow: np.ndarray, by_effort: np.ndarray) -> np.ndarray:
    A = np.zeros((len(by_flow), 2 * by_flow.shape[1]))
    for part, block in enumerate((by_flow, by_effort)):
        A[:, np.concatenate([np.zeros(0, int), *(_places(dims, p, part) for p in dims)])] = block
    return A


def _null_space(A: np.ndarray) -> np.ndarray:
    """An orthonormal basis, as columns."""
    if not A.size:
        return np.eye(A.shape[1])
    _, values, right = np.linalg.svd(A)
    rank = np.sum(values > RANK_TOLERANCE * values[0])
    return right[rank:].T


def _projector(A: np.ndarray) -> np.ndarray:
    null = _null_space(A)
    return null @ null.T
