"""Initial states of mechanisms: from partial data to poses and velocities that meet every joint.

Bodies are first placed along the joints, starting from the ground and from bodies whose pose is given; what closed
loops or contradictory data leave over is removed by Gauss-Newton steps of least norm on the closures together with the
given poses. The iteration carries no derivatives; two more steps at its end do, so gradients are those of the
converged equations and run through assembly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jmbs.library.mechanics import place_along_joints
from jmbs.lie import SE3, SO3, quaternion_to_rotation, rotate_back
from jmbs.linear import pseudo_inverse, rank_tolerance
from jmbs.simulation.mechanics import component
from jmbs.simulation.state import State, identity_state

if TYPE_CHECKING:
    from jmbs.simulation.model import Model

MAX_STEPS = 50
SMOOTH_STEPS = 2
POSE_WEIGHT = 1e-4
"""Weight of given body poses beside closures: where they contradict each other by rounding, the closures win."""


def assemble(model: Model) -> tuple[State, dict[str, Any]]:
    """The consistent initial state of a mechanism, and by how much joints and given values are missed, by path.

    Given joint coordinates are kept exactly, given body poses as far as the joints allow. Joint rates that are neither
    given nor forced are as small as possible (zero in a tree).
    """
    x = _solve_positions(model, _start(model))
    gap = model.dae.closures(x)
    entries, rate_gap, rate_miss = _velocities(model, x)
    entries |= _element_lengths(model, x)
    state = State(x, tuple(b.junctions for b in model.dae.plan.blocks))
    blocks = tuple(
        jnp.stack([entries.get(n, block[i]) for i, n in enumerate(names)])
        for names, block in zip(state.names, state.blocks, strict=True)
    )
    joints = {f"joints/{n}": _largest(gap[r], rate_gap[r]) for n, r in _joint_rows(model).items()}
    pose_miss = dict(_pose_misses(model, x))
    names = [n for n in model.layout.bodies if n in model.initial["bodies"]]
    bodies = {f"initial/bodies/{n}": _largest(pose_miss[n], rate_miss[n]) for n in names}
    return State(blocks, state.names), joints | bodies


def _largest(*arrays: Array) -> Array:
    return jnp.max(jnp.abs(jnp.concatenate(arrays)), initial=0.0)


def _joint_rows(model: Model) -> dict[str, np.ndarray]:
    plan = model.dae.plan
    places = {name: plan.member_of[f"{name}/hc"] for name in model.layout.joints}
    return {name: plan.batches[b].multipliers[i] for name, (b, i) in places.items()}


def _start(model: Model) -> tuple[Array, ...]:
    """Bodies placed along the joints, joints at their given coordinates or at the neutral element; nothing moves."""
    dae, layout, plan = model.dae, model.layout, model.layout.placement
    assert plan is not None
    motions = [component(dae, f"{name}/hc").motion for name in layout.joints]
    parents, children = ([component(dae, f"{name}/{o}").frame for name in layout.joints] for o in ("o1", "o2"))
    given = model.initial["joints"]
    q = []
    for name, motion in zip(layout.joints, motions, strict=True):
        value = given.get(name, {}).get("q")
        group = motion.group
        q.append(group.identity(model.dtype) if value is None else group.from_coordinates(value))
    poses = place_along_joints(plan, motions, parents, children, q, model.initial["bodies"], model.dtype)
    state = identity_state(dae)
    for name, pose in zip(layout.bodies, poses, strict=True):
        state = state.replace(dae.plan.junction_of[f"{name}/pe", "q"], pose)
    for name, element in zip(layout.joints, q, strict=True):
        state = state.replace(dae.plan.junction_of[f"{name}/pe", "q_r"], element)
    return state.blocks


def _pose_misses(model: Model, x) -> list[tuple[str, Array]]:
    state = State(x, tuple(b.junctions for b in model.dae.plan.blocks))
    result = []
    for name, given in model.initial["bodies"].items():
        pose = state[model.dae.plan.junction_of[f"{name}/pe", "q"]]
        parts = [jnp.zeros(0, model.dtype)]
        if given.get("position") is not None:
            parts.append(pose[:, 3] - given["position"])
        if given.get("quaternion") is not None:
            wanted = quaternion_to_rotation(given["quaternion"])
            parts.append(SO3.log(SO3.compose(SO3.inverse(wanted), pose[:, :3])))
        result.append((name, jnp.concatenate(parts)))
    return result


def _solve_positions(model: Model, start: tuple[Array, ...]) -> tuple[Array, ...]:
    dae, plan = model.dae, model.dae.plan
    given = model.initial["joints"]
    fixed = [n for n in model.layout.joints if given.get(n, {}).get("q") is not None]
    moving = plan.configuration_slots.copy()
    for name in fixed:
        moving[plan.slots[plan.junction_of[f"{name}/pe", "q_r"]]] = False
    slots = np.flatnonzero(moving)
    if slots.size == 0:
        return start

    def moved(x, step):
        return dae.retract(x, jnp.zeros(plan.n_stored, model.dtype).at[slots].set(step))

    def equations(x):
        return jnp.concatenate([dae.closures(x), *(POSE_WEIGHT * miss for _, miss in _pose_misses(model, x))])

    def gauss_newton(x):
        zero = jnp.zeros(slots.size, model.dtype)
        value, push = jax.linearize(lambda step: equations(moved(x, step)), zero)
        matrix = jax.vmap(push, out_axes=1)(jnp.eye(slots.size, dtype=model.dtype))
        delta = -pseudo_inverse(matrix) @ value
        return moved(x, delta), jnp.max(jnp.abs(delta))

    def iterate(carry):
        x, _, count = carry
        new, size = gauss_newton(x)
        return *jax.tree.map(jax.lax.stop_gradient, (new, size)), count + 1

    frozen = jax.tree.map(jax.lax.stop_gradient, start)
    tolerance = 10 * float(jnp.finfo(model.dtype).eps)
    first = (frozen, jnp.asarray(jnp.inf, model.dtype), jnp.asarray(0))
    end, _, _ = jax.lax.while_loop(lambda c: (c[1] > tolerance) & (c[2] < MAX_STEPS), iterate, first)
    x = _transport(model, start, frozen, end)
    x, _ = jax.lax.scan(lambda x, _: (gauss_newton(x)[0], None), x, length=SMOOTH_STEPS)
    return x


def _transport(model: Model, start, frozen, end) -> tuple[Array, ...]:
    """`start` moved by the correction that was found, so that its dependence on parameters is kept."""
    result = []
    for block, a, b, c in zip(model.dae.plan.blocks, start, frozen, end, strict=True):
        group = block.space
        move = lambda a, b, c, group=group: group.compose(a, group.compose(group.inverse(b), c))  # noqa: E731
        result.append(jax.vmap(move)(a, b, c))
    return tuple(result)


def _velocities(model: Model, x) -> tuple[dict[str, Array], Array, dict[str, Array]]:
    """Body velocities by junction, the rows they leave, and by how much given body velocities are missed."""
    dae, plan, layout, dtype = model.dae, model.dae.plan, model.layout, model.dtype
    C = dae.constraint_matrix(jnp.zeros((), dtype), dae.structures(x))
    body_slots = {n: plan.slots[plan.junction_of[f"{n}/ke", "p"]] for n in layout.bodies}
    rate_slots = {n: plan.slots[plan.junction_of[f"{n}/hc", "p_r"]] for n in layout.joints}
    order = np.concatenate([*body_slots.values(), *rate_slots.values()]).astype(int)
    column = {slot: i for i, slot in enumerate(order)}
    n_bodies, size = 6 * len(body_slots), len(order)
    select = lambda slots: jnp.asarray(np.eye(size)[[column[s] for s in slots]], dtype)  # noqa: E731

    hard, targets = [C[:, order]], [jnp.zeros(plan.n_rows, dtype)]
    for name, values in model.initial["joints"].items():
        if values.get("v") is not None:
            hard.append(select(rate_slots[name]))
            targets.append(values["v"])
    soft = {n: _given_velocity(model, x, n, values) for n, values in model.initial["bodies"].items()}
    rows = {n: (select(body_slots[n])[mask], value) for n, (mask, value) in soft.items()}
    matrix, target = jnp.concatenate(hard), jnp.concatenate(targets)
    whole = jnp.concatenate([matrix, *(m for m, _ in rows.values())])
    inverse = pseudo_inverse(whole)
    w = inverse @ jnp.concatenate([target, *(value for _, value in rows.values())])
    w = _least_rates(w, whole, inverse, n_bodies)
    misses = {n: m @ w - value for n, (m, value) in rows.items()}
    if matrix.shape[0]:
        w = w + pseudo_inverse(matrix) @ (target - matrix @ w)
    entries = {plan.junction_of[f"{n}/ke", "p"]: w[6 * b : 6 * b + 6] for b, n in enumerate(layout.bodies)}
    return entries, C[:, order] @ w, misses


def _given_velocity(model: Model, x, name: str, given) -> tuple[np.ndarray, Float[Array, " n"]]:
    """Which of a body's six velocity entries are given, and their values on the body's group."""
    state = State(x, tuple(b.junctions for b in model.dae.plan.blocks))
    pose = state[model.dae.plan.junction_of[f"{name}/pe", "q"]]
    mask, values = np.zeros(6, dtype=bool), [jnp.zeros(0, model.dtype)]
    if given.get("angular_velocity") is not None:
        mask[:3] = True
        values.append(given["angular_velocity"])
    if given.get("velocity") is not None:
        mask[3:] = True
        group = model.layout.groups[model.layout.bodies.index(name)]
        values.append(rotate_back(pose[:, :3], given["velocity"]) if group == SE3 else given["velocity"])
    return mask, jnp.concatenate(values)


def _least_rates(w: Array, matrix: Array, inverse: Array, n_bodies: int) -> Array:
    """`w` moved within the null space of `matrix` to where its joint rates `w[n_bodies:]` are smallest."""
    rates = w[n_bodies:]
    if rates.size == 0 or matrix.shape[0] == 0:
        return w
    null = jnp.eye(w.size, dtype=w.dtype) - inverse @ matrix
    # Where nothing is left free these rows are rounding, which a relative rank decision would take for a matrix.
    free = null[n_bodies:]
    free = jnp.where(jnp.max(jnp.abs(free)) > rank_tolerance(w.dtype), free, jnp.zeros_like(free))
    return w - null @ (pseudo_inverse(free) @ rates)


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
