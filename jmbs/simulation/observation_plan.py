"""Where a trajectory's values stand in the states, efforts and multipliers: index arrays, made once before tracing."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING

import numpy as np

from jmbs.by_value import by_value
from jmbs.ephs import ENTROPY, Plan, ReferenceDAE, Role
from jmbs.lie import SE3
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
    reaction = {name: _rows(plan, (f"{name}/hc",)) for name in layout.joints}
    multipliers = {name: _rows(plan, paths) for name, paths, _ in layout.constraints}
    constraints = reaction | multipliers
    return ObservationPlan(
        **_bodies(layout, plan, signals),
        **_joints(layout, plan, signals),
        temperature_rise=Places.of({n: signals.efforts[plan.junction_of[n, "s"]][0] for n in layout.stores}),
        states=_other_states(layout, plan, signals),
        reaction=Places.of(reaction),
        multipliers=Places.of(multipliers),
        residual_rows=_filled_up(list(constraints.values())),
        residuals=_numbered(tuple(constraints)),
        **_storages(model.dae),
        production=_numbered(plan.irreversible),
    )


def _bodies(layout: MechanicalLayout, plan: Plan, signals: Signals) -> dict:
    poses = [plan.junction_of[f"{name}/pe", "q"] for name in layout.bodies]
    coordinates = {name: signals.coordinates[pose] for name, pose in zip(layout.bodies, poses, strict=True)}
    boxes = zip(layout.bodies, layout.velocity_boxes, strict=True)
    velocities = {name: signals.efforts[plan.junction_of[box, "p"]] for name, box in boxes}
    return {
        "position": Places.of({name: c[:3] for name, c in coordinates.items()}),
        "quaternion": Places.of({name: c[3:] for name, c in coordinates.items()}),
        "angular_velocity": Places.of({name: u[:3] for name, u in velocities.items()}),
        "rotation": np.array([signals.states[pose][:, :3] for pose in poses], int).reshape(-1, 3, 3),
        "linear_velocity": np.array([u[3:] for u in velocities.values()], int).reshape(-1, 3),
        "body_quaternions": np.arange(4 * len(poses)).reshape(-1, 4),
        "in_body_axes": np.array([group == SE3 for group in layout.groups], bool),
    }


def _joints(layout: MechanicalLayout, plan: Plan, signals: Signals) -> dict:
    joints = [entry.joint for entry in layout.coordinates]
    q = Places.of({name: signals.coordinates[plan.junction_of[f"{name}/pe", "q_r"]] for name in joints})
    v = Places.of({name: signals.efforts[plan.junction_of[f"{name}/hc", "p_r"]] for name in joints})
    types, first = dict(zip(layout.joints, layout.types, strict=True)), {"spherical": 0, "free": 3}
    starts = [entry.start + first[types[entry.name]] for entry in q.entries if types[entry.name] in first]
    return {"q": q, "v": v, "joint_quaternions": np.array(starts, int)[:, None] + np.arange(4)}


def _other_states(layout: MechanicalLayout, plan: Plan, signals: Signals) -> Places:
    """States that no other output shows: elements' lengths, charges, entropies, ...

    As in `State`, velocities and currents stand where storages have momenta and flux linkages.
    """
    shown = {plan.junction_of[name, "s"] for name in layout.stores}
    for name in layout.bodies:
        shown |= {plan.junction_of[f"{name}/pe", "q"], plan.junction_of[f"{name}/ke", "p"]}
    shown |= {plan.junction_of[f"{name}/pe", "q_r"] for name in layout.joints}
    found = {}
    for block in plan.blocks:
        if not (block.environment and layout.bodies):
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
            thermal = any(p.quantity == ENTROPY for p in batch.ports)
            kind = "thermal" if thermal else "kinetic" if hasattr(comp, "state_from_effort") else "potential"
            numbers[kind] += [number[path] for path in batch.paths]
            if not getattr(comp, "stores_nothing", False):
                stored |= {path: np.array(number[path]) for path in batch.paths}
    return {kind: np.array(some, int) for kind, some in numbers.items()} | {"stored": Places.of(stored)}


KINDS = {ENTROPY: "thermal", "charge": "electric", "flux_linkage": "magnetic"}
"""Quantities whose storages hold neither kinetic nor potential energy, and what they hold."""


def storage_kinds(dae: ReferenceDAE) -> tuple[tuple[str, str], ...]:
    """Path and kind of every storage: thermal, electric, magnetic, kinetic or potential."""
    kinds = []
    for batch, comp in zip(dae.plan.batches, dae.components, strict=True):
        if batch.role is Role.STORAGE:
            mechanical = "kinetic" if hasattr(comp, "state_from_effort") else "potential"
            kind = next((KINDS[p.quantity] for p in batch.ports if p.quantity in KINDS), mechanical)
            kinds += [(path, kind) for path in batch.paths]
    return tuple(kinds)
