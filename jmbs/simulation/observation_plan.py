"""Where a trajectory's values stand in the states, efforts and multipliers: index arrays, made once before tracing."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from jmbs.by_value import by_value
from jmbs.ephs import ENTROPY, VOLUME, Batch, Plan, ReferenceDAE, Role
from jmbs.lie import SE3, SO3
from jmbs.simulation.by_name import Places

if TYPE_CHECKING:
    from jmbs.simulation.mechanics import MechanicalLayout
    from jmbs.simulation.model import Model


@by_value
@dataclasses.dataclass(frozen=True, eq=False)
class ObservationPlan:
    """Index arrays; those of motion read *signals*: states, their coordinates, efforts (see `Signals`).

    - By body: `position`, `quaternion`, `angular_velocity`; `rotation` (B, 3, 3) and `linear_velocity` (B, 3), which is
      in body axes where `in_body_axes` (B,).
    - By joint with coordinates: `q`, `v`.
    - `body_quaternions` (B, 4), `joint_quaternions` (M, 4): where quaternions stand in what `quaternion` and `q` give.
    - `temperature_rise` by thermal store, `states` by junction.
    - Into the multipliers: `reaction` by joint, `multipliers` by other constraint. `residual_rows` (K, m), the rows of
      each of them, the shorter filled up with copies of their last row; `residuals` names what comes of them.
    - Into the energies of the storages: `kinetic`, `potential`, `thermal`, and `stored` by path of what holds exergy.
    - `production` by path of irreversible component.
    """

    position: Places
    quaternion: Places
    angular_velocity: Places
    rotation: np.ndarray
    linear_velocity: np.ndarray
    in_body_axes: np.ndarray
    q: Places
    v: Places
    body_quaternions: np.ndarray
    joint_quaternions: np.ndarray
    temperature_rise: Places
    states: Places
    reaction: Places
    multipliers: Places
    residual_rows: np.ndarray
    residuals: Places
    kinetic: np.ndarray
    potential: np.ndarray
    thermal: np.ndarray
    stored: Places
    production: Places


@by_value
@dataclasses.dataclass(frozen=True, eq=False)
class Signals:
    """Numbering of all that can be read at a state, by junction: states, their coordinates, then efforts."""

    states: dict[str, np.ndarray]
    coordinates: dict[str, np.ndarray]
    efforts: dict[str, np.ndarray]


def signals_of(plan: Plan) -> Signals:
    """The numbering of what `jmbs.simulation.observe` gathers from."""
    states, coordinates, start = {}, {}, 0
    for found, shape_of in ((states, lambda s: s.shape), (coordinates, lambda s: (s.coordinate_size,))):
        for block in plan.blocks:
            shape = shape_of(block.space)
            for junction in block.junctions:
                found[junction] = start + np.arange(math.prod(shape)).reshape(shape)
                start += math.prod(shape)
    return Signals(states, coordinates, {name: start + slots for name, slots in plan.slots.items()})


def observation_plan(model: Model) -> ObservationPlan:
    """The index arrays of a model; numpy only, from what is static in it."""
    layout, plan = model.layout, model.dae.plan
    signals = signals_of(plan)
    reaction = {joint.name: _rows(plan, (joint.constraint,)) for joint in layout.parts.joints}
    multipliers = {entry.name: _rows(plan, entry.components) for entry in layout.constraints}
    constraints = reaction | multipliers
    return ObservationPlan(
        **_bodies(layout, signals),
        **_joints(layout, signals),
        temperature_rise=Places.of({n: signals.efforts[plan.junction_of[n, "s"]][0] for n in layout.parts.stores}),
        states=_other_states(layout, plan, signals),
        reaction=Places.of(reaction),
        multipliers=Places.of(multipliers),
        residual_rows=_filled_up(list(constraints.values())),
        residuals=_numbered(tuple(constraints)),
        **_storages(model.dae),
        production=_numbered(plan.irreversible),
    )


def _bodies(layout: MechanicalLayout, signals: Signals) -> dict:
    bodies = layout.parts.bodies
    coordinates = {body.name: signals.coordinates[body.pose] for body in bodies}
    velocities = {body.name: signals.efforts[body.velocity] for body in bodies}
    return {
        "position": Places.of({name: c[:3] for name, c in coordinates.items()}),
        "quaternion": Places.of({name: c[3:] for name, c in coordinates.items()}),
        "angular_velocity": Places.of({name: u[:3] for name, u in velocities.items()}),
        "rotation": np.array([signals.states[body.pose][:, :3] for body in bodies], int).reshape(-1, 3, 3),
        "linear_velocity": np.array([u[3:] for u in velocities.values()], int).reshape(-1, 3),
        "body_quaternions": np.arange(4 * len(bodies)).reshape(-1, 4),
        "in_body_axes": np.array([body.group == SE3 for body in bodies], bool),
    }


def _joints(layout: MechanicalLayout, signals: Signals) -> dict:
    joints = {joint.name: joint for joint in layout.parts.joints if joint.group.dim}
    q = Places.of({name: signals.coordinates[joint.coordinates] for name, joint in joints.items()})
    v = Places.of({name: signals.efforts[joint.rates] for name, joint in joints.items()})
    groups = [(entry.start, joints[entry.name].group) for entry in q.entries]
    starts = [start if group == SO3 else start + 3 for start, group in groups if group in (SO3, SE3)]
    return {"q": q, "v": v, "joint_quaternions": np.array(starts, int)[:, None] + np.arange(4)}


def _other_states(layout: MechanicalLayout, plan: Plan, signals: Signals) -> Places:
    """States that no other output shows: elements' lengths, charges, entropies, ...

    As in `State`, velocities and currents stand where storages have momenta and flux linkages.
    """
    parts = layout.parts
    shown = {plan.junction_of[name, "s"] for name in parts.stores}
    shown |= {junction for body in parts.bodies for junction in (body.pose, body.momentum)}
    shown |= {junction for joint in parts.joints for junction in (joint.coordinates, joint.rotor)}
    found = {}
    for block in plan.blocks:
        if not (block.environment and parts.bodies):
            numbers = signals.efforts if block.from_effort else signals.states
            found |= {name: numbers[name] for name in block.junctions if signals.states[name].size}
    return Places.of({name: index for name, index in found.items() if name not in shown})


def _rows(plan: Plan, paths: tuple[str, ...]) -> np.ndarray:
    """Constraint rows of components."""
    places = [plan.member_of[path] for path in paths]
    return np.concatenate([plan.batches[batch].multipliers[member] for batch, member in places])


def _filled_up(rows: list[np.ndarray]) -> np.ndarray:
    most = max((len(some) for some in rows), default=1)
    return np.array([np.pad(some, (0, most - len(some)), "edge") for some in rows], int).reshape(len(rows), most)


def _numbered(names: tuple[str, ...]) -> Places:
    """One number per name, in order."""
    return Places.of({name: np.array(i) for i, name in enumerate(names)})


def _storages(dae: ReferenceDAE) -> dict:
    """Numbers of the storages by the kind of their energy, and of those that can hold exergy."""
    numbers, stored = {"kinetic": [], "potential": [], "thermal": []}, {}
    number = {path: i for i, path in enumerate(dae.plan.storages)}
    for batch, comp in zip(dae.plan.batches, dae.components, strict=True):
        if batch.role is Role.STORAGE:
            kind = _kind(batch, comp)
            numbers[kind if kind in numbers else "potential"] += [number[path] for path in batch.paths]
            if not getattr(comp, "stores_nothing", False):
                stored |= {path: np.array(number[path]) for path in batch.paths}
    return {kind: np.array(some, int) for kind, some in numbers.items()} | {"stored": Places.of(stored)}


KINDS = {VOLUME: "fluid", "charge": "electric", "flux_linkage": "magnetic"}
"""Quantities whose storages hold more than mechanical energy, and what they hold."""


def storage_kinds(dae: ReferenceDAE) -> tuple[tuple[str, str], ...]:
    """Path and kind of every storage: thermal, fluid, electric, magnetic, kinetic or potential."""
    storages = [(b, c) for b, c in zip(dae.plan.batches, dae.components, strict=True) if b.role is Role.STORAGE]
    return tuple((path, _kind(batch, comp)) for batch, comp in storages for path in batch.paths)


def _kind(batch: Batch, comp: Any) -> str:
    """Of a storage. It is thermal if it exchanges heat alone; what can give work back, as a gas can, is not."""
    if all(port.quantity == ENTROPY for port in batch.ports if port.efforts is not None):
        return "thermal"
    mechanical = "kinetic" if hasattr(comp, "state_from_effort") else "potential"
    return next((KINDS[p.quantity] for p in batch.ports if p.quantity in KINDS), mechanical)
