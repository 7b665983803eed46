"""Initial states of trees that at most gears bind: what is given stands, gears carry it on, the rest is neutral, and
bodies follow from the joints.

Nothing has to be solved, so this costs one pass through the tree.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jmbs.library.mechanics import GearStep, gear_error, solved_for
from jmbs.lie import SE3, quaternion_to_rotation, rotate_back
from jmbs.simulation.mechanics import component, gear_steps
from jmbs.simulation.misses import Misses, unit_of_row
from jmbs.simulation.state import State
from jmbs.tree import tree_dae

if TYPE_CHECKING:
    from jmbs.simulation.model import Model


def follows_from_joints(model: Model) -> bool:
    """Whether nothing but gears binds the tree, which say what nobody gave, and bodies are given at most where no joint
    leads to them."""
    if model.tree is None or not set(model.tree.other_rows.tolist()) <= _gear_rows(model):
        return False
    if not _gears_say_the_rest(model):
        return False
    layout: Any = model.tree
    roots = layout.tree.free_bodies
    free = {name for body in roots for name in _junctions(model, body)}
    moving = {name for body in range(len(layout.tree.bodies)) for name in _junctions(model, body)} - free
    if layout.rotors is not None:
        moving |= {name for block, _ in layout.rotors.blocks for name in model.dae.plan.blocks[block].junctions}
    bodies = {layout.tree.bodies[body] for body in roots}
    return set(model.initial.get("bodies", {})) <= bodies and not moving & model.initial.get("states", {}).keys()


def _gears_say_the_rest(model: Model) -> bool:
    """Whether each gear has one coordinate that nothing else says, and one rate, or none that anybody gave: then all of
    them are zero. Not where a coefficient of zero could be in the way, of a joint's other coordinates or of a guess."""
    gears, given = model.layout.parts.gears, model.initial.get("joints", {})
    if any(len(gear.ends) > len(gear.joints) for gear in gears):
        return False
    if any("guess" in given.get(joint, {}) for gear in gears for joint in gear.joints):
        return False
    if len(gear_steps(model.layout, model.initial)) < len(gears):
        return False
    steps = gear_steps(model.layout, model.initial, rates=True)
    end_of = {gear.name: gear.ends for gear in gears}
    known = {joint for joint, entry in given.items() if "v" in entry} | {end_of[s.gear][s.end] for s in steps}
    rest = [end for gear in gears if gear.name not in {step.gear for step in steps} for end in gear.ends]
    return not any(end in known or end[0] in known for end in rest)


def assemble_from_joints(model: Model) -> tuple[State, Misses]:
    """The state of such a tree, and by how much gears are missed: not at all, but where their coefficient is zero."""
    layout: Any = model.tree
    given = model.initial.get("joints", {})
    blocks = [_coordinates(model, block, given) for block in layout.blocks[: len(layout.kept)]]
    blocks, gaps = _bound_coordinates(model, _with_states(model, blocks, layout))
    y = tuple(blocks)
    roots = layout.tree.free_bodies
    if roots:
        y = (*y, jnp.stack([_pose(model, body) for body in roots]))
    rates, rate_gaps = _bound_rates(model, given)
    velocities = [jnp.zeros(0, model.dtype)] * len(layout.tree.bodies)
    for group in layout.tree.groups:
        for name, body in zip(group.names, group.bodies, strict=True):
            velocities[body] = rates[name] if name else _twist(model, body)
    y = (*y, jnp.concatenate([jnp.zeros(0, model.dtype), *velocities])[None])
    x, twist = tree_dae(model.dae, layout).expanded(y)
    block, rows = layout.momenta
    x = list(x)
    x[block] = x[block].at[rows].set(twist)
    if layout.rotors is not None:
        for block, rates in layout.rotors.held(y[-1][0]).items():
            x[block] = rates
    units = {entry.name: unit_of_row(entry.multipliers[0]) for entry in model.layout.parts.constraints}
    sizes = {gear: {units[gear]: gap} for gear, gap in gaps.items()}
    for gear, gap in rate_gaps.items():
        sizes[gear][f"{units[gear]}/s"] = gap
    misses = Misses(sizes, jnp.ones((), model.dtype))
    return State(tuple(x), tuple(b.junctions for b in model.dae.plan.blocks)), misses


def _junctions(model: Model, body: int) -> tuple[str, str]:
    """Where a body's pose and its velocity are given as states."""
    layout: Any = model.tree
    blocks, parts = model.dae.plan.blocks, (layout.poses, layout.momenta)
    pose, momentum = (blocks[block].junctions[rows[body]] for block, rows in parts)
    return pose, momentum


def _coordinates(model: Model, block, given) -> Array:
    """Elements of a block that stays: given joint coordinates, else neutral."""
    joint_of = {joint.coordinates: joint.name for joint in model.layout.parts.joints}
    neutral = block.space.to_coordinates(block.space.identity(model.dtype))
    entries = [given.get(joint_of.get(name, ""), {}) for name in block.junctions]
    rows = jnp.stack([entry.get("q", entry.get("guess", neutral)) for entry in entries])
    return jax.vmap(block.space.from_coordinates)(rows).astype(model.dtype)


def _with_states(model: Model, blocks: list[Array], layout) -> list[Array]:
    """The blocks with states that are given by junction name."""
    for name, entry in model.initial.get("states", {}).items():
        for i, block in enumerate(layout.blocks[: len(layout.kept)]):
            if name in block.junctions:
                blocks[i] = blocks[i].at[block.junctions.index(name)].set(entry["value"])
    return blocks


def _bound_coordinates(model: Model, blocks: list[Array]) -> tuple[list[Array], dict[str, Array]]:
    """The blocks with the coordinates that gears set, and by how much each gear is missed."""
    layout: Any = model.tree
    names, bound = [block.junctions for block in layout.blocks[: len(blocks)]], _bound_joints(model)
    holding = {joint.name: joint.coordinates for joint in model.layout.parts.joints}
    at = {}
    for joint in bound:
        block = next(i for i, junctions in enumerate(names) if holding[joint] in junctions)
        at[joint] = block, names[block].index(holding[joint])
    q = {joint: blocks[block][row] for joint, (block, row) in at.items()}
    gaps = _bind(model, gear_steps(model.layout, model.initial), q, rates=False)
    for joint, (block, row) in at.items():
        blocks[block] = blocks[block].at[row].set(q[joint])
    return blocks, gaps


def _bound_rates(model: Model, given: dict[str, Any]) -> tuple[dict[str, Array], dict[str, Array]]:
    """Rates by joint, given, as gears make them of these, or zero, and by how much each gear is missed."""
    layout: Any = model.tree
    rates = {}
    for group in layout.tree.groups:
        nothing = jnp.zeros(group.velocities.shape[1], model.dtype)
        rates |= {name: given.get(name, {}).get("v", nothing) for name in group.names if name}
    return rates, _bind(model, gear_steps(model.layout, model.initial, rates=True), rates, rates=True)


def _bound_joints(model: Model) -> list[str]:
    return list(dict.fromkeys(joint for gear in model.layout.parts.gears for joint in gear.joints))


def _bind(model: Model, steps: tuple[GearStep, ...], values: dict[str, Array], rates: bool) -> dict[str, Array]:
    """Takes `steps` with the `values` by joint, its coordinates or rates; returns what each gear is missed by."""
    joints, missed = model.layout.joints, {}
    for step in steps:
        gear, own = component(model.dae, step.gear), [joints[joint] for joint in step.joints]
        offset, (moved, _) = jnp.zeros_like(gear.offset) if rates else gear.offset, gear.ends[step.end]
        values[own[moved]] = solved_for(gear, step.end, [values[joint] for joint in own], offset)
        missed[step.gear] = jnp.abs(gear_error(gear, [values[joint] for joint in own], offset))
    return missed


def _gear_rows(model: Model) -> set[int]:
    """The constraint rows of gears."""
    plan = model.dae.plan
    places = [plan.member_of[gear.name] for gear in model.layout.parts.gears]
    return {int(row) for batch, member in places for row in plan.batches[batch].multipliers[member]}


def _given(model: Model, body: int) -> tuple[Array | None, Array | None, dict[str, Any]]:
    """A body's pose and velocity where they are given as states, and what is given by its name."""
    layout: Any = model.tree
    states = model.initial.get("states", {})
    pose, velocity = (states.get(name, {}).get("value") for name in _junctions(model, body))
    return pose, velocity, model.initial.get("bodies", {}).get(layout.tree.bodies[body], {})


def _pose(model: Model, body: int) -> Array:
    state, _, given = _given(model, body)
    return pose_of(given, model.dtype) if state is None else state


def pose_of(given: dict[str, Any], dtype: Any) -> Float[Array, "3 4"]:
    """The pose with this `position` and `quaternion`, where they are given."""
    pose = SE3.identity(dtype)
    if "quaternion" in given:
        pose = pose.at[:, :3].set(quaternion_to_rotation(given["quaternion"]))
    return pose.at[:, 3].set(given["position"]) if "position" in given else pose


def _twist(model: Model, body: int) -> Array:
    """The velocity of a free body in its own axes, from angular velocity there and velocity in world axes."""
    _, state, given = _given(model, body)
    if state is not None:
        return state
    still = jnp.zeros(3, model.dtype)
    spin, velocity = (given.get(key, still) for key in ("angular_velocity", "velocity"))
    return jnp.concatenate([spin, rotate_back(_pose(model, body)[:, :3], velocity)])
