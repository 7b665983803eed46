"""The static plan of a flattened system: numbering of states, efforts and multipliers, components grouped by kind.

Everything here is numpy and hashable by identity: it is made once, never traced. Components of one class with equal
port types form a *batch* whose arrays are stacked and evaluated together, so that compile time grows with the number
of kinds, not of components. States of one quantity form a *block*, an array with one row per junction.

Efforts are numbered `[stored | free | known]`: at storages; at junctions without storage, unknown; and at junctions
whose effort follows from others through a transformer or is prescribed by a drive. Eliminating transformers this way
is exact and power-conserving: efforts go forward through the ratio, flows back through its transpose.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Collection
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array

from jmbs.by_value import by_value
from jmbs.ephs.component import Role, role
from jmbs.ephs.drive import EffortDrive, FlowDrive
from jmbs.ephs.flatten import FlatJunction, FlatSystem
from jmbs.ephs.junction_positions import position_closures
from jmbs.errors import ModelError
from jmbs.jaxext import entries_at
from jmbs.lie import AbstractGroup


@by_value
@dataclasses.dataclass(frozen=True, eq=False)
class Block:
    """States of one quantity: an array `(len(junctions), *space.shape)`; tangents at `slots` of the effort vector."""

    label: str
    space: AbstractGroup
    junctions: tuple[str, ...]
    slots: slice
    environment: bool
    from_effort: bool


@by_value
@dataclasses.dataclass(frozen=True, eq=False)
class PortSlots:
    """Where a batch's port reads: `efforts (n, dim)` of power ports; block and rows of its `state`, if it has one."""

    name: str
    quantity: str
    space: AbstractGroup
    efforts: np.ndarray | None
    state: tuple[int, np.ndarray] | None


@by_value
@dataclasses.dataclass(frozen=True, eq=False)
class Batch:
    """Components evaluated together.

    `efforts (n, P)` indexes all power ports stacked; `multipliers (n, m)` the constraint rows, `m` may be 0; for an
    eliminated transformer `inputs` and `outputs` split `efforts` and `level` orders the elimination.
    """

    role: Role
    paths: tuple[str, ...]
    ports: tuple[PortSlots, ...]
    efforts: np.ndarray
    multipliers: np.ndarray
    level: int
    outputs: np.ndarray
    inputs: np.ndarray

    @property
    def held(self) -> dict[str, tuple[int, np.ndarray]]:
        """The states of the members, block and rows by port."""
        return {port.name: port.state for port in self.ports if port.state is not None}

    def states(self, x: tuple[Array, ...]) -> dict[str, Array]:
        """The members' states `(n, ...)` by port."""
        return {name: entries_at(x[block], rows) for name, (block, rows) in self.held.items()}


@by_value
@dataclasses.dataclass(frozen=True, eq=False)
class ClosureBatch:
    """Closures of one kind: parts as `(batch, members)`, states as `(block, rows)`, rows into the multipliers; the
    drives that say where they are at a time, if any do."""

    names: tuple[str, ...]
    error: Any
    residual: Any
    parts: tuple[tuple[int, np.ndarray], ...]
    states: tuple[tuple[int, np.ndarray], ...]
    multipliers: np.ndarray
    drives: tuple[str, ...] = ()

    def of(self, members: np.ndarray) -> ClosureBatch:
        """Some of them."""
        at = lambda places: tuple((where, rows[members]) for where, rows in places)  # noqa: E731
        names = tuple(self.names[i] for i in members)
        drives = tuple(self.drives[i] for i in members) if self.drives else ()
        return ClosureBatch(
            names, self.error, self.residual, at(self.parts), at(self.states), self.multipliers[members], drives
        )


@by_value
@dataclasses.dataclass(frozen=True, eq=False)
class Plan:
    """The whole numbering; see the module's docstring."""

    blocks: tuple[Block, ...]
    batches: tuple[Batch, ...]
    closures: tuple[ClosureBatch, ...]
    slots: dict[str, np.ndarray]
    state_of: dict[str, tuple[int, int]]
    junction_of: dict[tuple[str, str], str]
    n_stored: int
    n_free: int
    n_efforts: int
    n_rows: int
    drive_slots: dict[str, np.ndarray]
    driven_rows: dict[str, np.ndarray]
    constrained_blocks: tuple[int, ...]
    configuration_slots: np.ndarray
    member_of: dict[str, tuple[int, int]]
    free_junctions: tuple[str, ...]

    def closures_by_residual(self, only: np.ndarray | None = None) -> tuple[tuple[ClosureBatch, ...], ...]:
        """Batches of closures whose residuals are evaluated together: one function, one number of rows.

        **Arguments:** `only`: rows whose closures are wanted.
        """
        groups: dict[Any, list[ClosureBatch]] = {}
        for closure in self.closures:
            if only is None:
                wanted = closure
            else:
                wanted = closure.of(np.flatnonzero(np.isin(closure.multipliers, only).any(axis=1)))
            if wanted.names:
                groups.setdefault((closure.residual, closure.multipliers.shape[1]), []).append(wanted)
        return tuple(tuple(group) for group in groups.values())

    @property
    def irreversible(self) -> tuple[str, ...]:
        """Paths of the irreversible components, in the order of `Power.production`."""
        return tuple(path for b in self.batches if b.role is Role.IRREVERSIBLE for path in b.paths)

    @property
    def storages(self) -> tuple[str, ...]:
        """Paths of the storages, in the order of `ReferenceDAE.energies`."""
        return tuple(path for b in self.batches if b.role is Role.STORAGE for path in b.paths)

    @property
    def configuration_blocks(self) -> tuple[int, ...]:
        """Blocks that position-level closures read."""
        return tuple(i for i, b in enumerate(self.blocks) if self.configuration_slots[b.slots].any())

    @property
    def levels(self) -> tuple[int, ...]:
        """Batches of eliminated transformers, in the order in which efforts become known."""
        order = [i for i, b in enumerate(self.batches) if b.level > 0]
        return tuple(sorted(order, key=lambda i: self.batches[i].level))

    @functools.cached_property
    def seen_by_rows(self) -> np.ndarray:
        """`(n_rows, n_stored + n_free)`: on which efforts each constraint row may depend, transformers eliminated."""
        n = self.n_stored + self.n_free
        seen = np.zeros((self.n_efforts, n), dtype=bool)
        seen[:n] = np.eye(n, dtype=bool)
        for i in self.levels:
            batch = self.batches[i]
            seen[batch.outputs] = np.any(seen[batch.inputs], axis=1, keepdims=True)
        rows = np.zeros((self.n_rows, n), dtype=bool)
        for batch in self.batches:
            rows[batch.multipliers] = np.any(seen[batch.efforts], axis=1, keepdims=True)
        for port, places in self.driven_rows.items():
            rows[places] = seen[self.drive_slots[port]]
        return rows


def make_plan(flat: FlatSystem, eliminate: bool = True, apart: Collection[str] = ()) -> Plan:
    """Numbers a flattened system. With `eliminate=False` transformers stay as constraints (slower; for comparison).

    Components whose paths are in `apart` share no batch with others.
    """
    junction_of = {pair: j.name for j in flat.junctions for pair in j.ports}
    roles = {path: role(c, path) for path, c in flat.components.items()}
    holders = {j.name: h for j in flat.junctions if (h := _holder(j, roles)) is not None}
    effort_driven = _effort_driven(flat)
    levels = _transformer_levels(flat, roles, holders, effort_driven, junction_of) if eliminate else {}
    determined = {junction_of[path, flat.components[path].output] for path in levels}

    blocks, slots, n_stored = _blocks(flat, holders)
    n = n_stored
    free = [j for j in flat.junctions if j.name not in holders | effort_driven.keys() and j.name not in determined]
    known = [j for j in flat.junctions if j.name not in holders and j not in free]
    for junction in (*free, *known):
        slots[junction.name] = np.arange(n, n + junction.quantity.space.dim)
        n += junction.quantity.space.dim
    n_free = sum(j.quantity.space.dim for j in free)
    state_of = {name: (b, r) for b, block in enumerate(blocks) for r, name in enumerate(block.junctions)}

    batches, n_rows = _batches(flat, roles, levels, slots, state_of, junction_of, frozenset(apart))
    driven_rows = {}
    for name in effort_driven:
        if name in holders:
            driven_rows[name] = np.arange(n_rows, n_rows + len(slots[name]))
            n_rows += len(slots[name])
    member_of = {path: (b, i) for b, batch in enumerate(batches) for i, path in enumerate(batch.paths)}
    closed = (*flat.closures, *position_closures(flat.components, levels, junction_of))
    closures = _closures(closed, batches, member_of, state_of, junction_of)
    return Plan(
        blocks=blocks,
        batches=batches,
        closures=closures,
        slots=slots,
        state_of=state_of,
        junction_of=junction_of,
        n_stored=n_stored,
        n_free=n_free,
        n_efforts=n,
        n_rows=n_rows,
        drive_slots={
            port: slots[j.name]
            for j in flat.junctions
            for port in j.outer
            if j.name in slots and port not in flat.state_ports
        },
        driven_rows=driven_rows,
        constrained_blocks=_constrained_blocks(blocks, batches, driven_rows, slots, n),
        configuration_slots=_configuration_slots(blocks, closures, n_stored),
        member_of=member_of,
        free_junctions=tuple(j.name for j in free),
    )


def _holder(junction: FlatJunction, roles) -> tuple[str, str] | None:
    return next((pair for pair in junction.ports if roles[pair[0]] in (Role.STORAGE, Role.ENVIRONMENT)), None)


def _effort_driven(flat: FlatSystem) -> dict[str, str]:
    """Junction name to the outer port whose drive prescribes its effort; two of them at one junction are refused."""
    found: dict[str, str] = {}
    for junction in flat.junctions:
        for port in junction.outer:
            drive = flat.drives.get(port)
            if drive is None or isinstance(drive, FlowDrive) and hasattr(drive, "flow"):
                continue
            if not isinstance(drive, EffortDrive):
                raise ModelError(f"drives/{port}", type(drive).__name__, "a drive with a method flow or effort")
            if junction.name in found:
                raise ModelError(f"junctions/{junction.name}", "two prescribed efforts", "one at most")
            found[junction.name] = port
    return found


def _transformer_levels(flat, roles, holders, effort_driven, junction_of) -> dict[str, int]:
    """Elimination order of transformers: one more than the highest level of their inputs; cycles stay constraints, and
    so do those whose output meets a component's `own_rate`, the port at which its rates are unknowns."""
    chosen: dict[str, str] = {}
    own = {junction_of[p, c.own_rate] for p, c in flat.components.items() if getattr(c, "own_rate", None) is not None}
    for path in sorted(p for p, r in roles.items() if r is Role.TRANSFORMER):
        target = junction_of[path, flat.components[path].output]
        if target not in own and target not in holders and target not in effort_driven and target not in chosen:
            chosen[target] = path
    levels: dict[str, int] = {}

    def level(path: str, visiting: frozenset[str]) -> int | None:
        if path in visiting:
            return None
        if path not in levels:
            inputs = [p for p, port in flat.components[path].ports.items() if port.power]
            inputs = [p for p in inputs if p != flat.components[path].output]
            feeding = [chosen[j] for j in (junction_of[path, p] for p in inputs) if j in chosen]
            below = [level(p, visiting | {path}) for p in feeding]
            if any(b is None for b in below):
                return None
            levels[path] = 1 + max((b for b in below if b is not None), default=0)
        return levels[path]

    for path in sorted(chosen.values()):
        level(path, frozenset())
    return levels


def _blocks(flat: FlatSystem, holders) -> tuple[tuple[Block, ...], dict[str, np.ndarray], int]:
    groups: dict[tuple, list[str]] = {}
    for junction in flat.junctions:
        if junction.name in holders:
            component = flat.components[holders[junction.name][0]]
            environment = role(component) is Role.ENVIRONMENT
            key = (junction.quantity, environment, hasattr(component, "state_from_effort"))
            groups.setdefault(key, []).append(junction.name)
    blocks, slots, start = [], {}, 0
    for (quantity, environment, from_effort), names in groups.items():
        dim = quantity.space.dim
        for i, name in enumerate(names):
            slots[name] = np.arange(start + i * dim, start + (i + 1) * dim)
        stop = start + dim * len(names)
        label = f"{quantity.name}:{quantity.space.name}" + (":environment" if environment else "")
        blocks.append(Block(label, quantity.space, tuple(names), slice(start, stop), environment, from_effort))
        start = stop
    return tuple(blocks), slots, start


def _batches(flat, roles, levels, slots, state_of, junction_of, apart) -> tuple[tuple[Batch, ...], int]:
    groups: dict[Any, list[str]] = {}
    for path, component in flat.components.items():
        if roles[path] is Role.ENVIRONMENT:
            continue
        where = tuple(state_of.get(junction_of[path, port], (None,))[0] for port in component.ports)
        key = (_kind(component), where, levels.get(path, 0), path in apart)
        groups.setdefault(key, []).append(path)
    batches, n_rows = [], 0
    for paths in groups.values():
        batch, n_rows = _batch(flat, paths, roles, levels, slots, state_of, junction_of, n_rows)
        batches.append(batch)
    return tuple(batches), n_rows


def _kind(component) -> Any:
    """Hashable: equal for components whose arrays can be stacked and whose code is the same."""
    arrays, static = eqx.partition(component, eqx.is_array)
    leaves, treedef = jax.tree_util.tree_flatten(arrays)
    static_leaves = jax.tree_util.tree_leaves(static)
    described = tuple(x if _hashable(x) else id(x) for x in static_leaves)
    return treedef, tuple((x.shape, str(x.dtype)) for x in leaves), described


def _hashable(x) -> bool:
    try:
        hash(x)
    except TypeError:
        return False
    return True


def _batch(flat, paths, roles, levels, slots, state_of, junction_of, n_rows) -> tuple[Batch, int]:
    first = flat.components[paths[0]]
    ports = []
    for name, port in first.ports.items():
        names = [junction_of[path, name] for path in paths]
        efforts = np.stack([slots[j] for j in names]) if port.power else None
        state = None
        if names[0] in state_of:
            state = state_of[names[0]][0], np.array([state_of[j][1] for j in names])
        ports.append(PortSlots(name, port.quantity.name, port.quantity.space, efforts, state))
    power = [p for p in ports if p.efforts is not None]
    empty = np.zeros((len(paths), 0), dtype=int)
    stacked = lambda some: np.concatenate([empty, *[p.efforts for p in some]], axis=1)  # noqa: E731
    kind, level = roles[paths[0]], levels.get(paths[0], 0)
    m = _row_count(first, kind, level)
    multipliers = n_rows + np.arange(len(paths) * m).reshape(len(paths), m)
    output = getattr(first, "output", None) if kind is Role.TRANSFORMER else None
    batch = Batch(
        role=kind,
        paths=tuple(paths),
        ports=tuple(ports),
        efforts=stacked(power),
        multipliers=multipliers,
        level=level,
        outputs=stacked([p for p in power if p.name == output]),
        inputs=stacked([p for p in power if p.name != output]),
    )
    return batch, n_rows + len(paths) * m


def _row_count(component, kind: Role, level: int) -> int:
    if kind is Role.TRANSFORMER:
        return 0 if level else component.ports[component.output].dim
    if kind is not Role.REVERSIBLE:
        return 0
    dtypes = [leaf.dtype for leaf in jax.tree.leaves(component) if eqx.is_inexact_array(leaf)]
    dtype = dtypes[0] if dtypes else None
    spaces = {name: port.quantity.space for name, port in component.ports.items()}
    _, C = jax.eval_shape(lambda: component.structure({name: at.identity(dtype) for name, at in spaces.items()}))
    return 0 if C is None else C.shape[0]


def _closures(known, batches, member_of, state_of, junction_of) -> tuple[ClosureBatch, ...]:
    groups: dict[Any, list] = {}
    for closure in known:
        parts = tuple(member_of[part][0] for part in closure.parts)
        states = tuple(state_of[junction_of[pair]][0] for pair in closure.states)
        key = (closure.error, closure.residual, parts, states, member_of[closure.constraint][0], bool(closure.drive))
        groups.setdefault(key, []).append(closure)
    result = []
    for (error, residual, parts, states, constraint, driven), members in groups.items():
        rows = [batches[constraint].multipliers[member_of[c.constraint][1]] for c in members]
        result.append(
            ClosureBatch(
                names=tuple(c.name for c in members),
                error=error,
                residual=residual,
                parts=tuple((b, np.array([member_of[c.parts[i]][1] for c in members])) for i, b in enumerate(parts)),
                states=tuple(
                    (b, np.array([state_of[junction_of[c.states[i]]][1] for c in members]))
                    for i, b in enumerate(states)
                ),
                multipliers=np.stack(rows),
                drives=tuple(c.drive for c in members) if driven else (),
            )
        )
    return tuple(result)


def _constrained_blocks(blocks, batches, driven_rows, slots, n_efforts) -> tuple[int, ...]:
    """Blocks on which multipliers act, directly or through transformers."""
    touched = np.zeros(n_efforts, dtype=bool)
    for batch in batches:
        if batch.multipliers.shape[1]:
            touched[batch.efforts.ravel()] = True
    for name in driven_rows:
        touched[slots[name]] = True
    for batch in sorted((b for b in batches if b.level), key=lambda b: -b.level):
        for outputs, inputs in zip(batch.outputs, batch.inputs, strict=True):
            if touched[outputs].any():
                touched[inputs] = True
    return tuple(i for i, block in enumerate(blocks) if touched[block.slots].any())


def _configuration_slots(blocks, closures, n_stored) -> np.ndarray:
    """Mask of the tangent entries of blocks that position-level closures read."""
    mask = np.zeros(n_stored, dtype=bool)
    for closure in closures:
        for block, _ in closure.states:
            mask[blocks[block].slots] = True
    return mask
