"""Initial states of open trees: what is given stands, the rest is neutral, and bodies follow from the joints.

Nothing has to be solved, so this costs one pass through the tree.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jmbs.lie import SE3, quaternion_to_rotation, rotate_back
from jmbs.simulation.state import State
from jmbs.tree import tree_dae

if TYPE_CHECKING:
    from jmbs.simulation.model import Model


def is_open_tree(model: Model) -> bool:
    """Whether no constraint binds the tree, and bodies are given at most where no joint leads to them."""
    if model.tree is None or model.tree.other_rows.size:
        return False
    layout: Any = model.tree
    roots = layout.tree.free_bodies
    free = {name for body in roots for name in _junctions(model, body)}
    moving = {name for body in range(len(layout.tree.bodies)) for name in _junctions(model, body)} - free
    if layout.rotors is not None:
        moving |= {name for block, _ in layout.rotors.blocks for name in model.dae.plan.blocks[block].junctions}
    bodies = {layout.tree.bodies[body] for body in roots}
    return set(model.initial.get("bodies", {})) <= bodies and not moving & model.initial.get("states", {}).keys()


def assemble_open_tree(model: Model) -> State:
    """The state of an open tree."""
    layout: Any = model.tree
    given = model.initial.get("joints", {})
    blocks = [_coordinates(model, block, given) for block in layout.blocks[: len(layout.kept)]]
    y = tuple(_with_states(model, blocks, layout))
    roots = layout.tree.free_bodies
    if roots:
        y = (*y, jnp.stack([_pose(model, body) for body in roots]))
    velocities = [jnp.zeros(0, model.dtype)] * len(layout.tree.bodies)
    for group in layout.tree.groups:
        for name, body, places in zip(group.names, group.bodies, group.velocities, strict=True):
            value = given.get(name, {}).get("v") if name else _twist(model, body)
            velocities[body] = jnp.zeros(len(places), model.dtype) if value is None else value
    y = (*y, jnp.concatenate([jnp.zeros(0, model.dtype), *velocities])[None])
    x, twist = tree_dae(model.dae, layout).expanded(y)
    block, rows = layout.momenta
    x = list(x)
    x[block] = x[block].at[rows].set(twist)
    if layout.rotors is not None:
        for block, rates in layout.rotors.held(y[-1][0]).items():
            x[block] = rates
    return State(tuple(x), tuple(b.junctions for b in model.dae.plan.blocks))


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
