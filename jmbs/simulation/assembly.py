"""Initial states: from partial data to positions and velocities that meet every constraint.

Bodies are first placed along the joints, starting from the ground and from bodies whose pose is given; other states
start where they are given. What closed loops or contradictory data leave over is removed so that joints move as little
as they can, see `initial_positions`; velocities follow, see `initial_velocities`. Gradients run through all of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax.numpy as jnp
from jaxtyping import Array

from jmbs.library.mechanics import FoundJoint, place_along_joints, port_distances, solved_for
from jmbs.simulation.initial_positions import initial_positions, state_misses
from jmbs.simulation.initial_velocities import assembled_velocities
from jmbs.simulation.lengths import assembly_length, units_of_rows
from jmbs.simulation.mechanics import component, gear_steps
from jmbs.simulation.misses import Misses, Sizes
from jmbs.simulation.state import State, identity_state
from jmbs.simulation.tree_assembly import assemble_from_joints, follows_from_joints, pose_of

if TYPE_CHECKING:
    from jmbs.simulation.model import Model


def assemble(model: Model, t: Array, differentiable: bool = True) -> tuple[State, Misses]:
    """The consistent initial state, and by how much constraints and given values are missed.

    Given joint coordinates are kept exactly, given body poses and other states as far as the constraints allow. Joint
    rates that are neither given nor forced are as small as possible (zero in a tree).

    **Arguments:** `t`: when, s, which prescribed motions look at; `differentiable`: derivatives shall go through it,
    for which the equations stand twice.
    """
    if follows_from_joints(model):
        state, misses = assemble_from_joints(model)
        return _replaced(state, _element_lengths(model, state.blocks)), misses
    length = assembly_length(model)
    x, gap, position_misses = initial_positions(model, t, _start(model, t), length, differentiable)
    entries, rate_gap, rate_miss = assembled_velocities(model, t, x, length) if model.dae.kinematic else ({}, gap, {})
    entries |= _element_lengths(model, x)
    state = _replaced(State(x, tuple(b.junctions for b in model.dae.plan.blocks)), entries)
    sizes = _constraint_misses(model, gap, rate_gap)
    position_misses |= state_misses(model, state)
    for path, units in (*position_misses.items(), *rate_miss.items()):
        sizes[path] = sizes.get(path, {}) | {unit: _largest(values) for unit, values in units.items()}
    return state, Misses(sizes, length)


def _replaced(state: State, entries: dict[str, Array]) -> State:
    blocks = tuple(
        jnp.stack([entries.get(n, block[i]) for i, n in enumerate(names)]) if entries.keys() & set(names) else block
        for names, block in zip(state.names, state.blocks, strict=True)
    )
    return State(blocks, state.names)


def _largest(values: Array) -> Array:
    return jnp.max(jnp.abs(values), initial=0.0)


def _constraint_misses(model: Model, gap: Array, rate_gap: Array) -> Sizes:
    """Of joints, then of other constraint components by path, and of drives that prescribe a motion."""
    plan, parts = model.dae.plan, model.layout.parts
    names = {joint.constraint: f"joints/{joint.name}" for joint in parts.joints}
    names |= {motion.drive: f"joints/{motion.joint}/motion" for motion in parts.motions}
    rows = {path: own for b in plan.batches for path, own in zip(b.paths, b.multipliers, strict=True) if own.size}
    rows |= {f"inputs/{port}": own for port, own in plan.driven_rows.items()}
    units, misses = units_of_rows(model), Sizes()
    for path, own in rows.items():
        of_rows = units[own]
        entry = misses[names.get(path, path)] = {}
        for unit in dict.fromkeys(of_rows):
            entry[str(unit)] = _largest(gap[own[of_rows == unit]])
            entry[f"{unit}/s" if unit else "rate"] = _largest(rate_gap[own[of_rows == unit]])
    return misses


def _start(model: Model, t: Array) -> tuple[Array, ...]:
    """Bodies placed along the joints, joints as given, as gears make them of these, or neutral; nothing moves."""
    dae, layout = model.dae, model.layout
    parts, state = layout.parts, identity_state(dae)
    states = {name: entry["value"] for name, entry in model.initial.get("states", {}).items()}
    for name, value in states.items():
        state = state.replace(name, value)
    motions = [component(dae, joint.constraint).motion for joint in parts.joints]
    before, after = ([component(dae, joint.offsets[end]).frame for joint in parts.joints] for end in (0, 1))
    q = [_element(model, t, joint, states) for joint in parts.joints]
    for step in gear_steps(layout, model.initial):
        gear = component(dae, step.gear)
        moved, _ = gear.ends[step.end]
        q[step.joints[moved]] = solved_for(gear, step.end, [q[joint] for joint in step.joints], gear.offset)
    poses = place_along_joints(layout.placement, motions, before, after, q, _given_poses(model, states), model.dtype)
    for body, pose in zip(parts.bodies, poses, strict=True):
        state = state.replace(body.pose, pose)
    for joint, element in zip(parts.joints, q, strict=True):
        state = state.replace(joint.coordinates, element)
    for name, distance in port_distances(dae, state.blocks, t).items():
        state = state if name in states else state.replace(name, distance)
    return state.blocks


def _element(model: Model, t: Array, joint: FoundJoint, states: dict[str, Array]) -> Array:
    """Where a joint starts: as given or guessed, where its prescribed motion is, or neutral."""
    given = model.initial.get("joints", {}).get(joint.name, {})
    value = given.get("q", given.get("guess"))
    if value is not None:
        return joint.group.from_coordinates(value)
    drive = {motion.joint: motion.drive for motion in model.layout.parts.motions}.get(joint.name)
    if drive in model.dae.drives and joint.coordinates not in states:
        return model.dae.drives[drive].target(t)
    return states.get(joint.coordinates, joint.group.identity(model.dtype))


def _given_poses(model: Model, states: dict[str, Array]) -> dict[str, Array]:
    """Poses (3, 4) that are given by a body's name, at the origin or unturned where half of it is, or as states."""
    poses = {body.name: states[body.pose] for body in model.layout.parts.bodies if body.pose in states}
    for name, given in model.initial.get("bodies", {}).items():
        if {"position", "quaternion"} & given.keys():
            poses[name] = pose_of(given, model.dtype)
    return poses


def _element_lengths(model: Model, x) -> dict[str, Array]:
    """Lengths of point-to-point elements, by junction."""
    plan = model.dae.plan
    state = State(x, tuple(b.junctions for b in plan.blocks))
    entries = {}
    for element in model.layout.parts.elements:
        line = component(model.dae, element.line)
        poses = {q: state[plan.junction_of[element.line, q]] for q in ("q_a", "q_b") if q in line.ports}
        entries[element.length] = line.length(poses)[None]
    return entries
