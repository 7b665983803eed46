"""Initial states: from partial data to positions and velocities that meet every constraint.

Bodies are first placed along the joints, starting from the ground and from bodies whose pose is given; other states
start where they are given. What closed loops or contradictory data leave over is removed by Gauss-Newton steps of least
norm on the closures together with the given poses. The iteration carries no derivatives; where some are wanted two more
steps after it do, so gradients are those of the converged equations and run through assembly.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from jmbs.library.mechanics import place_along_joints
from jmbs.lie import SO3, quaternion_to_rotation
from jmbs.linear import pseudo_inverse
from jmbs.simulation.initial_velocities import assembled_velocities
from jmbs.simulation.mechanics import component
from jmbs.simulation.state import State, identity_state
from jmbs.simulation.tree_assembly import assemble_open_tree, is_open_tree

if TYPE_CHECKING:
    from jmbs.simulation.model import Model

MAX_STEPS = 50
SMOOTH_STEPS = 2
POSE_WEIGHT = 1e-4
"""Weight of given body poses beside closures: where they contradict each other by rounding, the closures win."""


def assemble(model: Model, differentiable: bool = True) -> tuple[State, dict[str, Any]]:
    """The consistent initial state, and by how much constraints and given values are missed, by path.

    Given joint coordinates are kept exactly, given body poses and other states as far as the constraints allow. Joint
    rates that are neither given nor forced are as small as possible (zero in a tree).

    **Arguments:** `differentiable`: derivatives shall go through it, for which the equations stand twice.
    """
    if is_open_tree(model):
        state = assemble_open_tree(model)
        return _replaced(state, _element_lengths(model, state.blocks)), {}
    x, gap, position_misses = _solve_positions(model, _start(model), differentiable)
    entries, rate_gap, rate_miss = assembled_velocities(model, x) if model.dae.kinematic else ({}, gap, {})
    entries |= _element_lengths(model, x)
    state = _replaced(State(x, tuple(b.junctions for b in model.dae.plan.blocks)), entries)
    misses = {path: _largest(gap[r], rate_gap[r]) for path, r in _constraint_rows(model).items()}
    position_misses |= _state_misses(model, state)
    for path in sorted(position_misses.keys() | rate_miss.keys()):
        misses[path] = _largest(*(m[path] for m in (position_misses, rate_miss) if path in m))
    return state, misses


def _replaced(state: State, entries: dict[str, Array]) -> State:
    blocks = tuple(
        jnp.stack([entries.get(n, block[i]) for i, n in enumerate(names)]) if entries.keys() & set(names) else block
        for names, block in zip(state.names, state.blocks, strict=True)
    )
    return State(blocks, state.names)


def _largest(*arrays: Array) -> Array:
    return jnp.max(jnp.abs(jnp.concatenate([a.ravel() for a in arrays])), initial=0.0)


def _constraint_rows(model: Model) -> dict[str, np.ndarray]:
    """Rows of the multipliers by what a message calls their owner: joints, then other constraint components by path."""
    plan, layout = model.dae.plan, model.layout
    rows = {}
    for batch in plan.batches:
        if batch.multipliers.shape[1]:
            for path, own in zip(batch.paths, batch.multipliers, strict=True):
                owner = path.removesuffix("/hc")
                rows[f"joints/{owner}" if owner in layout.joints else path] = own
    return rows | {f"inputs/{port}": own for port, own in plan.driven_rows.items()}


def _start(model: Model) -> tuple[Array, ...]:
    """Bodies placed along the joints, joints as given, as gears make them of these, or neutral; nothing moves."""
    dae, layout, plan = model.dae, model.layout, model.layout.placement
    state = identity_state(dae)
    for name, values in model.initial.get("states", {}).items():
        state = state.replace(name, values["value"])
    if plan is None:
        return state.blocks
    motions = [component(dae, f"{name}/hc").motion for name in layout.joints]
    parents, children = ([component(dae, f"{name}/{o}").frame for name in layout.joints] for o in ("o1", "o2"))
    given = model.initial.get("joints", {})
    q = []
    for name, motion in zip(layout.joints, motions, strict=True):
        value = given.get(name, {}).get("q")
        group = motion.group
        q.append(group.identity(model.dtype) if value is None else group.from_coordinates(value))
    for step in layout.gear_steps:
        gear, ends = component(dae, step.gear), (q[step.driver], q[step.joint])
        if step.forward:
            q[step.joint] = gear.following(*ends)
        else:
            q[step.driver] = gear.leading(*ends)
    poses = place_along_joints(plan, motions, parents, children, q, model.initial["bodies"], model.dtype)
    for name, pose in zip(layout.bodies, poses, strict=True):
        state = state.replace(dae.plan.junction_of[f"{name}/pe", "q"], pose)
    for name, element in zip(layout.joints, q, strict=True):
        state = state.replace(dae.plan.junction_of[f"{name}/pe", "q_r"], element)
    return _with_nested_bodies(model, state).blocks


def _with_nested_bodies(model: Model, state: State) -> State:
    """The state with bodies of added systems placed along the tree, but for poses that are given."""
    if model.tree is None:
        return state
    poses = model.dae.plan.blocks[model.tree.poses[0]].junctions
    own = {model.dae.plan.junction_of[f"{name}/pe", "q"] for name in model.layout.bodies}
    nested = [name for name in poses if name not in own | model.initial.get("states", {}).keys()]
    if not nested:
        return state
    placed = assemble_open_tree(model)
    for name in nested:
        state = state.replace(name, placed[name])
    return state


def _position_misses(model: Model, x) -> dict[str, Array]:
    """By how much given body poses, and given states that position-level constraints look at, are missed, by path."""
    state = State(x, tuple(b.junctions for b in model.dae.plan.blocks))
    result = {}
    for name, given in model.initial.get("bodies", {}).items():
        pose = state[model.dae.plan.junction_of[f"{name}/pe", "q"]]
        parts = [jnp.zeros(0, model.dtype)]
        if given.get("position") is not None:
            parts.append(pose[:, 3] - given["position"])
        if given.get("quaternion") is not None:
            wanted = quaternion_to_rotation(given["quaternion"])
            parts.append(SO3.log(SO3.compose(SO3.inverse(wanted), pose[:, :3])))
        result[f"initial/bodies/{name}"] = jnp.concatenate(parts)
    plan = model.dae.plan
    looked_at = {name for block in plan.configuration_blocks for name in plan.blocks[block].junctions}
    return result | _state_misses(model, state, looked_at & model.initial.get("states", {}).keys())


def _state_misses(model: Model, state: State, names: Iterable[str] | None = None) -> dict[str, Array]:
    """By how much given states (and velocities, in blocks of momenta) had to move, by path; all, or those `names`."""
    given = model.initial.get("states", {})
    spaces = {name: b.space for b in model.dae.plan.blocks for name in b.junctions}
    return {
        f"initial/states/{name}": spaces[name].log(
            spaces[name].compose(spaces[name].inverse(given[name]["value"]), state[name])
        )
        for name in (given if names is None else sorted(names))
    }


def _solve_positions(
    model: Model, start: tuple[Array, ...], differentiable: bool
) -> tuple[tuple[Array, ...], Array, dict[str, Array]]:
    """Positions that meet closures and given poses, and by how much they miss either."""
    dae, plan = model.dae, model.dae.plan
    given = model.initial.get("joints", {})
    fixed = [n for n in model.layout.joints if given.get(n, {}).get("q") is not None]
    moving = plan.configuration_slots.copy()
    for name in fixed:
        moving[plan.slots[plan.junction_of[f"{name}/pe", "q_r"]]] = False
    slots = np.flatnonzero(moving)
    if slots.size == 0 or not plan.closures:
        return start, dae.closures(start), _position_misses(model, start)
    wanted = jax.eval_shape(functools.partial(_position_misses, model), start)
    sizes = plan.n_rows, *(miss.shape[0] for miss in wanted.values())
    steps, tolerance = jnp.asarray(np.eye(plan.n_stored)[slots], model.dtype), 10 * float(jnp.finfo(model.dtype).eps)

    def equations(x):
        return jnp.concatenate([dae.closures(x), *(POSE_WEIGHT * miss for miss in _position_misses(model, x).values())])

    def gauss_newton(x, last):
        """The state after a step, unless it is the `last` one; how large the step is, and the equations before."""
        value, push = jax.linearize(equations, x)
        matrix = jax.vmap(lambda step: push(dae.lift(x, step)), out_axes=1)(steps)
        delta = -pseudo_inverse(matrix) @ value
        moved = jax.tree.map(lambda a, b: jnp.where(last, a, b), x, dae.retract(x, delta @ steps))
        return moved, jnp.max(jnp.abs(delta)), value

    def iterate(carry):
        x, _, count, settled = carry
        x, size, value = jax.tree.map(jax.lax.stop_gradient, gauss_newton(x, settled == SMOOTH_STEPS + 1))
        small = (settled > 0) | (size <= tolerance) | (count + 1 == MAX_STEPS)
        return x, value, count + 1, settled + small.astype(settled.dtype)

    frozen, nothing = jax.tree.map(jax.lax.stop_gradient, start), jnp.asarray(0)
    first = frozen, jnp.zeros(sum(sizes), model.dtype), nothing, nothing
    x, value, _, _ = jax.lax.while_loop(lambda carry: carry[-1] < SMOOTH_STEPS + 2, iterate, first)
    if differentiable:

        def smooth(carry, last):
            moved, _, value = gauss_newton(carry[0], last)
            return (moved, value), None

        again = _transport(model, start, frozen, x), value
        (x, value), _ = jax.lax.scan(smooth, again, jnp.arange(SMOOTH_STEPS + 1) == SMOOTH_STEPS)
    gap, *misses = jnp.split(value, np.cumsum(sizes)[:-1])
    return x, gap, {path: miss / POSE_WEIGHT for path, miss in zip(wanted, misses, strict=True)}


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
    for name in model.layout.elements:
        line = component(model.dae, f"{name}/line")
        poses = {q: state[plan.junction_of[f"{name}/line", q]] for q in ("q_a", "q_b") if q in line.ports}
        entries[plan.junction_of[f"{name}/pe", "l"]] = line.length(poses)[None]
    return entries
