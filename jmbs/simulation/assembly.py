"""Initial states: from partial data to positions and velocities that meet every constraint.

Bodies are first placed along the joints, starting from the ground and from bodies whose pose is given; other states
start where they are given. What closed loops or contradictory data leave over is removed by damped Gauss-Newton steps
of least norm on the closures together with the given poses: joints end near to where they started. The iteration
carries no derivatives; where some are wanted two more steps after it do, so gradients are those of the converged
equations and run through assembly.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable
from itertools import repeat
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jmbs.library.mechanics import FoundJoint, place_along_joints, port_distances, solved_for
from jmbs.lie import SO3, quaternion_to_rotation
from jmbs.linear import damped_inverse, pseudo_inverse
from jmbs.simulation.initial_velocities import assembled_velocities
from jmbs.simulation.lengths import slots_in_metres, typical_length, units_of_rows
from jmbs.simulation.mechanics import component, gear_steps
from jmbs.simulation.misses import Misses, Sizes
from jmbs.simulation.state import State, identity_state
from jmbs.simulation.tree_assembly import assemble_from_joints, follows_from_joints, pose_of

if TYPE_CHECKING:
    from jmbs.simulation.model import Model

MAX_STEPS = 100
SMOOTH_STEPS = 2
MAX_TURN = 0.3
"""Largest angle, rad, of one step of assembly: larger ones jump to other branches, or wind."""
DAMPING = 0.1
"""Levenberg's damping by the size of what is left to close, so that steps near singular places stay short."""
BODIES_MOVE, GUESSES_MOVE = 30.0, 0.1
"""How readily bodies, and guessed joint coordinates, move beside joint coordinates of which nothing is said."""
LENGTHS_MOVE = 8.0
"""Typical lengths that a point moves as readily as a body turns by a radian; with less, loops of which one joint is
guessed more often end at the branch that is farther from the guess."""
POSE_WEIGHT = 1e-4
"""Weight of given body poses beside closures: where they contradict each other by rounding, the closures win."""


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
    length = LENGTHS_MOVE * typical_length(model)
    x, gap, position_misses = _solve_positions(model, t, _start(model, t), length, differentiable)
    entries, rate_gap, rate_miss = assembled_velocities(model, t, x, length) if model.dae.kinematic else ({}, gap, {})
    entries |= _element_lengths(model, x)
    state = _replaced(State(x, tuple(b.junctions for b in model.dae.plan.blocks)), entries)
    sizes = _constraint_misses(model, gap, rate_gap)
    position_misses |= _state_misses(model, state)
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


def _position_misses(model: Model, x) -> Sizes:
    """By how much given body poses, and given states that position-level constraints look at, are missed, by path."""
    state = State(x, tuple(b.junctions for b in model.dae.plan.blocks))
    result: Sizes = {}
    for name, given in model.initial.get("bodies", {}).items():
        pose, missed = state[model.layout.body(name).pose], {}
        if "position" in given:
            missed["m"] = pose[:, 3] - given["position"]
        if "quaternion" in given:
            wanted = quaternion_to_rotation(given["quaternion"])
            missed["rad"] = SO3.log(SO3.compose(SO3.inverse(wanted), pose[:, :3]))
        result[f"initial/bodies/{name}"] = missed
    plan = model.dae.plan
    looked_at = {name for block in plan.configuration_blocks for name in plan.blocks[block].junctions}
    return result | _state_misses(model, state, looked_at & model.initial.get("states", {}).keys())


def _state_misses(model: Model, state: State, names: Iterable[str] | None = None) -> Sizes:
    """By how much given states (and velocities, in blocks of momenta) had to move, by path; all, or those `names`."""
    given = model.initial.get("states", {})
    spaces = {name: b.space for b in model.dae.plan.blocks for name in b.junctions}
    return {
        f"initial/states/{name}": {
            "": spaces[name].log(spaces[name].compose(spaces[name].inverse(given[name]["value"]), state[name]))
        }
        for name in (given if names is None else sorted(names))
    }


def _solve_positions(
    model: Model, t: Array, start: tuple[Array, ...], length: Float[Array, ""], differentiable: bool
) -> tuple[tuple[Array, ...], Array, Sizes]:
    """Positions that meet closures and given poses, and by how much they miss either.

    Rows and steps measure lengths by `length`, m.
    """
    dae, plan = model.dae, model.dae.plan
    scale = _scales(model)
    slots = np.flatnonzero(scale)
    if slots.size == 0 or not plan.closures:
        return start, dae.closures(start, t=t), _position_misses(model, start)
    wanted = jax.eval_shape(functools.partial(_position_misses, model), start)
    misses, structure = jax.tree.flatten(wanted)
    sizes = plan.n_rows, *(miss.shape[0] for miss in misses)
    metres = slots_in_metres(model)[: plan.n_stored]
    measures = jnp.where(metres, length, jnp.ones_like(length))
    steps = jnp.asarray(np.diag(scale)[slots], model.dtype) * measures
    weights = _weights(model, wanted, length)
    angles, tolerance = jnp.asarray(_angles(model), model.dtype), 10 * float(jnp.finfo(model.dtype).eps)

    def equations(x):
        return weights * jnp.concatenate([dae.closures(x, t=t), *jax.tree.leaves(_position_misses(model, x))])

    def linearised(x):
        value, push = jax.linearize(equations, x)
        return value, jax.vmap(lambda step: push(dae.lift(x, step)), out_axes=1)(steps)

    def moved(x, step, last):
        return jax.tree.map(lambda a, b: jnp.where(last, a, b), x, dae.retract(x, step))

    def iterate(carry):
        x, _, count, settled = carry
        value, matrix = linearised(x)
        inverse = damped_inverse(matrix, DAMPING * jnp.sqrt(jnp.sum(value**2)))
        step = -(inverse @ value) @ steps
        step = step * jnp.minimum(1.0, MAX_TURN / jnp.max(jnp.abs(step) * angles, initial=MAX_TURN))
        x = jax.tree.map(jax.lax.stop_gradient, moved(x, step, settled == SMOOTH_STEPS + 1))
        small = (settled > 0) | (jnp.max(jnp.abs(step) / measures) <= tolerance) | (count + 1 == MAX_STEPS)
        return x, jax.lax.stop_gradient(value), count + 1, settled + small.astype(settled.dtype)

    frozen, nothing = jax.tree.map(jax.lax.stop_gradient, start), jnp.asarray(0)
    first = frozen, jnp.zeros(sum(sizes), model.dtype), nothing, nothing
    x, value, _, _ = jax.lax.while_loop(lambda carry: carry[-1] < SMOOTH_STEPS + 2, iterate, first)
    x = _unwound(model, frozen, x)
    if differentiable:

        def smooth(carry, last):
            x, _ = carry
            value, matrix = linearised(x)
            return (moved(x, -(pseudo_inverse(matrix) @ value) @ steps, last), value), None

        again = _transport(model, start, frozen, x), value
        (x, value), _ = jax.lax.scan(smooth, again, jnp.arange(SMOOTH_STEPS + 1) == SMOOTH_STEPS)
    gap, *misses = jnp.split(value / weights, np.cumsum(sizes)[:-1])
    return x, gap, jax.tree.unflatten(structure, misses)


def _weights(model: Model, misses: Sizes, length: Float[Array, ""]) -> Float[Array, " equations"]:
    """Of closures and of given poses beside them, which measure lengths by `length`, m."""
    entries = [(unit, miss.shape[0]) for path in sorted(misses) for unit, miss in sorted(misses[path].items())]
    units = np.concatenate([units_of_rows(model), *(np.full(size, unit) for unit, size in entries)])
    weights = np.full(len(units), POSE_WEIGHT)
    weights[: model.dae.plan.n_rows] = 1.0
    return jnp.asarray(weights, model.dtype) / jnp.where(units == "m", length, jnp.ones_like(length))


def _scales(model: Model) -> np.ndarray:
    """How readily each slot moves where closures demand it: not at all where it is given, little where it is guessed,
    and more readily than joints do the bodies, which follow them."""
    plan = model.dae.plan
    given, states = (model.initial.get(section, {}) for section in ("joints", "states"))
    scale = np.where(plan.configuration_slots, BODIES_MOVE, 0.0)
    for joint in model.layout.parts.joints:
        entry, slots = given.get(joint.name, {}), plan.slots[joint.coordinates]
        fixed = "q" in entry or joint.coordinates in states
        scale[slots] *= (0.0 if fixed else GUESSES_MOVE if "guess" in entry else 1.0) / BODIES_MOVE
    return scale


def _angles(model: Model) -> np.ndarray:
    """One for the angles among the slots, zero for the others."""
    plan = model.dae.plan
    angles = np.zeros(plan.n_stored)
    for body in model.layout.parts.bodies:
        angles[plan.slots[body.pose][:3]] = 1.0
    for joint in model.layout.parts.joints:
        angles[plan.slots[joint.coordinates]] = [unit == "rad/s" for unit in joint.names.v_units]
    return angles


def _unwound(model: Model, start: tuple[Array, ...], x: tuple[Array, ...]) -> tuple[Array, ...]:
    """Angles of joints that turn freely, less full turns: within half a turn of where they started.

    Where a closure beside the joint's own looks at them, as a gear's does, full turns count.
    """
    plan = model.dae.plan
    looked_at = Counter(place for c in plan.closures for block, rows in c.states for place in zip(repeat(block), rows))
    turning = {
        joint.coordinates: [unit == "rad/s" for unit in joint.names.v_units]
        for joint in model.layout.parts.joints
        if joint.type in ("revolute", "cylindrical", "universal", "composite")
        if looked_at[plan.state_of[joint.coordinates]] <= 1
    }
    result = []
    for block, a, b in zip(plan.blocks, start, x, strict=True):
        turns = np.array([turning.get(name, np.zeros(block.space.dim, bool)) for name in block.junctions])
        turn = jnp.asarray(2 * np.pi * turns, b.dtype)
        result.append(b + turn * jnp.round((a - b) / (2 * np.pi)) if turns.any() else b)
    return tuple(result)


def _transport(model: Model, start, frozen, end) -> tuple[Array, ...]:
    """`start` moved by the correction that was found, so that its dependence on parameters is kept."""
    result = []
    for block, a, b, c in zip(model.dae.plan.blocks, start, frozen, end, strict=True):
        group = block.space
        move = lambda a, b, c, group=group: group.compose(a, group.compose(group.inverse(b), c))  # noqa: E731
        result.append(jax.vmap(move)(a, b, c))
    return tuple(result)


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
