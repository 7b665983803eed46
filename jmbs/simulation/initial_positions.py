"""Initial positions: where joints and free bodies have moved least from their start, near by, of all that meet every
closure. Motions are weighed by how readily each part moves.

With coordinates `c` by which joints, and bodies that no joint leads to, have moved from the start, and closures and
given poses `e` with derivative `M` by all coordinates, positions solve

    e = 0,    c - M^T lambda = 0,    lambda = M^+T c.

Damped Gauss-Newton steps of least norm close the loops first. Steps along what the closures leave free then bring the
motion `c` down, with the length of Barzilai and Borwein (1988), the secant method where one coordinate is free. This
iteration carries no derivatives; where some are wanted, Newton's steps on both equations after it do.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import repeat
from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jmbs.arrays import without_derivatives
from jmbs.jaxext import any_member
from jmbs.lie import SO3, quaternion_to_rotation
from jmbs.linear import damped_inverse, pseudo_inverse
from jmbs.simulation.lengths import measures, slots_in_metres, units_of_rows
from jmbs.simulation.misses import Sizes
from jmbs.simulation.state import State

if TYPE_CHECKING:
    from jmbs.simulation.model import Model

MAX_STEPS = 100
NEARER_STEPS = 30
"""Steps towards the start beyond those that close."""
NEAR = 1e-3
"""What the iteration leaves of the motion, beside all of it, where it has come to its end and Newton's steps go on."""
SMOOTH_STEPS = 2
MAX_TURN = 0.3
"""Largest angle, rad, of one step of assembly: larger ones jump to other branches, or wind."""
DAMPING = 0.1
"""Levenberg's damping by the size of what is left to close, so that steps near singular places stay short."""
BODIES_MOVE, GUESSES_MOVE = 30.0, 0.1
"""How readily bodies, and guessed joint coordinates, move beside joint coordinates of which nothing is said."""
POSE_WEIGHT = 1e-4
"""Weight of given body poses beside closures: where they contradict each other by rounding, the closures win."""


Positions = tuple[Array, ...]


class _Equations(NamedTuple):
    """What positions solve, in coordinates that each slot that moves is scaled to.

    `linearised`: values and their derivative `M` by coordinates, at positions; `asked`: `M^T lambda` there;
    `moved_from`: how far the coordinates that count have moved from a start, at positions; `weights` of the values;
    `steps`, what each coordinate moves; `measures`, what is small beside motions of slots.
    """

    linearised: Callable[[Positions], tuple[Array, Float[Array, "m n"]]]
    asked: Callable[[Positions, Float[Array, " m"]], Float[Array, " n"]]
    moved_from: Callable[[Positions, Positions], Float[Array, " n"]]
    weights: Float[Array, " m"]
    steps: Float[Array, "n slots"]
    measures: Float[Array, " slots"]


def initial_positions(
    model: Model, t: Array, start: Positions, length: Float[Array, ""], differentiable: bool
) -> tuple[Positions, Array, Sizes]:
    """Positions that meet closures and given poses, and by how much they miss either.

    Rows and steps measure lengths by `length`, m.
    """
    scale, plan = _scales(model), model.dae.plan
    if not scale.any() or not plan.closures:
        return start, model.dae.closures(start, t=t), _position_misses(model, start)
    still, time, from_here = without_derivatives((model, t, start))
    frozen = _equations(still, time, from_here, length, scale)
    x, value = _found(still, frozen, from_here)
    if differentiable:
        system = _equations(model, t, start, length, scale)
        x, value = _polished(model, system, frozen, start, _transport(model, start, from_here, x))
    misses, structure = jax.tree.flatten(jax.eval_shape(functools.partial(_position_misses, model), start))
    sizes = plan.n_rows, *(miss.shape[0] for miss in misses)
    gap, *misses = jnp.split(value / frozen.weights, np.cumsum(sizes)[:-1])
    return x, gap, jax.tree.unflatten(structure, misses)


def _equations(model: Model, t: Array, start: Positions, length: Float[Array, ""], scale: np.ndarray) -> _Equations:
    """**Arguments:** `scale` (slots,): how readily they move."""
    dae, slots = model.dae, np.flatnonzero(scale)
    weights = _weights(model, jax.eval_shape(functools.partial(_position_misses, model), start), length)
    by_slot = measures(slots_in_metres(model)[: len(scale)], length)
    steps = jnp.asarray(np.diag(scale)[slots], model.dtype) * by_slot
    counted = _counted(model)[slots]
    units = jnp.asarray(np.where(counted, 1.0 / scale[slots], 0.0), model.dtype) / by_slot[slots]

    def values(x):
        return weights * jnp.concatenate([dae.closures(x, t=t), *jax.tree.leaves(_position_misses(model, x))])

    def linearised(x):
        value, push = jax.linearize(values, x)
        return value, jax.vmap(lambda step: push(dae.lift(x, step)), out_axes=1)(steps)

    def asked(x, multiplier):
        _, pull = jax.vjp(values, x)
        _, lowered = jax.vjp(lambda step: dae.lift(x, step), jnp.zeros_like(by_slot))
        return steps @ lowered(*pull(multiplier))[0]

    def moved_from(start, x):
        return units * _displacement(model, start, x, slots[counted])[slots]

    return _Equations(linearised, asked, moved_from, weights, steps, by_slot)


CLOSING, NEARING = 0, 1
"""Phases of the iteration; the later ones count steps of both kinds at the end, of which the last only looks."""


class _Carry(NamedTuple):
    """`pull`: the last step towards the start; `rest`: what it was taken for."""

    x: Positions
    value: Array
    count: Array
    phase: Array
    pull: Float[Array, " n"]
    rest: Float[Array, " n"]


def _found(model: Model, system: _Equations, start: Positions) -> tuple[Positions, Array]:
    """Positions that solve the equations, without derivatives, and what they leave of closures and given poses."""
    eps = float(jnp.finfo(model.dtype).eps)
    angles, steps = jnp.asarray(_angles(model), model.dtype), system.steps

    def iterate(carry: _Carry) -> _Carry:
        value, matrix = system.linearised(carry.x)
        inverse, free = damped_inverse(matrix, DAMPING * jnp.sqrt(jnp.sum(value**2)))
        back, c = inverse @ value, system.moved_from(start, carry.x)
        rest = free @ c
        near = jnp.max(jnp.abs(rest)) <= 1e3 * eps * jnp.maximum(1.0, jnp.max(jnp.abs(c)))
        pull = jnp.where((carry.phase == NEARING) & ~near, _rate(carry, rest) * rest, 0.0)
        step = -(back + pull) @ steps
        share = jnp.minimum(1.0, MAX_TURN / jnp.max(jnp.abs(step) * angles, initial=MAX_TURN))
        nearer = jax.tree.map(
            lambda a, b: jnp.where(carry.phase == NEARING + SMOOTH_STEPS + 1, a, b),
            carry.x,
            _unwound(model, start, model.dae.retract(carry.x, share * step)),
        )
        closed = (jnp.max(jnp.abs(back @ steps) / system.measures) <= 10 * eps) | (carry.count + 1 == MAX_STEPS)
        ends = near | (carry.count + 1 == MAX_STEPS + NEARER_STEPS)
        ready = jnp.where(carry.phase == CLOSING, closed, (carry.phase > NEARING) | ends)
        return _Carry(nearer, value, carry.count + 1, carry.phase + ready.astype(carry.phase.dtype), share * pull, rest)

    nothing, still = jnp.asarray(0), jnp.zeros(len(steps), model.dtype)
    first = _Carry(start, jnp.zeros_like(system.weights), nothing, nothing, still, still)
    last = jax.lax.while_loop(lambda carry: carry.phase < NEARING + SMOOTH_STEPS + 2, iterate, first)
    return last.x, last.value


def _rate(carry: _Carry, rest: Float[Array, " n"]) -> Float[Array, ""]:
    """How much of `rest` is taken: one at first, then what would have been right for the last step."""
    change = carry.rest - rest
    square = jnp.sum(change**2)
    known = (square > 0) & jnp.any(carry.pull != 0)
    right = jnp.abs(jnp.sum(carry.pull * change)) / jnp.where(known, square, 1.0)
    return jnp.where(known, jnp.clip(right, 0.1, 4.0), 1.0)


def _polished(
    model: Model, system: _Equations, frozen: _Equations, start: Positions, x: Positions
) -> tuple[Positions, Array]:
    """The same after Newton's steps, with derivatives: each makes those of one more order right.

    **Arguments:** `frozen`: the equations without derivatives.
    """

    def smooth(carry, last):
        x, _ = carry
        value, matrix = system.linearised(x)
        inverse, c = pseudo_inverse(matrix), system.moved_from(start, x)
        multiplier = inverse.T @ c
        back, asked = -inverse @ value, matrix.T @ multiplier
        here = without_derivatives((start, x, matrix, multiplier))
        free, bend, inverse_of_free = _free_directions(model, frozen, *here)
        # Of what is asked for nothing is free: only its derivatives count, and its rounding does not.
        rest = free @ (c - (asked - jax.lax.stop_gradient(asked)))
        along = -inverse_of_free @ (rest + free @ (bend @ back))
        along = jnp.where(jnp.max(jnp.abs(rest)) < NEAR * jnp.maximum(1.0, jnp.max(jnp.abs(c))), along, 0.0)
        after = model.dae.retract(x, (back + free @ along) @ system.steps)
        return (jax.tree.map(lambda a, b: jnp.where(last, a, b), x, after), value), None

    return jax.lax.scan(smooth, (x, jnp.zeros_like(system.weights)), jnp.arange(SMOOTH_STEPS + 1) == SMOOTH_STEPS)[0]


def _free_directions(
    model: Model, system: _Equations, start: Positions, x: Positions, matrix: Array, multiplier: Array
) -> tuple[Float[Array, "n n"], Float[Array, "n n"], Float[Array, "n n"]]:
    """The projector onto what the equations leave free, the derivative of `c - M^T lambda` at constant `lambda`, and
    the inverse of that among what is free; zero where nothing is free. Without derivatives."""
    one = jnp.eye(matrix.shape[1], dtype=matrix.dtype)
    _, free = damped_inverse(matrix, jnp.zeros((), matrix.dtype))

    def stationarity(x: Positions) -> Float[Array, " n"]:
        return system.moved_from(start, x) - system.asked(x, multiplier)

    def directions() -> tuple[Array, Array, Array]:
        along = lambda step: jax.jvp(stationarity, (x,), (model.dae.lift(x, step),))[1]  # noqa: E731
        bend = jax.vmap(along, out_axes=1)(system.steps)
        return free, bend, pseudo_inverse(free @ bend @ free + one - free)

    some = any_member(jnp.trace(free) > 0.5)
    return jax.lax.cond(some, directions, lambda: (jnp.zeros_like(free),) * 3)


def _displacement(model: Model, start: Positions, x: Positions, counted: np.ndarray) -> Float[Array, " slots"]:
    """How far states have moved from the start, in the tangent there; zero in blocks that hold no slot that counts."""
    parts = []
    for block, a, b in zip(model.dae.plan.blocks, start, x, strict=True):
        group, size = block.space, block.slots.stop - block.slots.start
        if np.isin(np.arange(block.slots.start, block.slots.stop), counted).any():
            step = jax.vmap(lambda a, b, group=group: group.log(group.compose(group.inverse(a), b)))(a, b)
            parts.append(step.reshape(size))
        else:
            parts.append(jnp.zeros(size, model.dtype))
    return jnp.concatenate(parts)


def _counted(model: Model) -> np.ndarray:
    """The slots whose motion is least: all but those of bodies that joints lead to, and lengths between points."""
    plan, parts = model.dae.plan, model.layout.parts
    counted = np.array(plan.configuration_slots)
    led = {body for _, body, _ in model.layout.placement.order}
    for number, body in enumerate(parts.bodies):
        if number in led:
            counted[plan.slots[body.pose]] = False
    for element in parts.elements:
        counted[plan.slots[element.length]] = False
    return counted


def _weights(model: Model, misses: Sizes, length: Float[Array, ""]) -> Float[Array, " equations"]:
    """Of closures and of given poses beside them, which measure lengths by `length`, m."""
    in_metres, slots, by_slot = [units_of_rows(model) == "m"], model.dae.plan.slots, slots_in_metres(model)
    for path in sorted(misses):
        for unit, miss in sorted(misses[path].items()):
            of_state = unit == "m" if unit else by_slot[slots[path.removeprefix("initial/states/")]]
            in_metres.append(np.broadcast_to(of_state, miss.shape))
    whole = np.concatenate(in_metres)
    weights = np.full(len(whole), POSE_WEIGHT)
    weights[: model.dae.plan.n_rows] = 1.0
    return jnp.asarray(weights, model.dtype) / measures(whole, length)


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
    return result | state_misses(model, state, looked_at & model.initial.get("states", {}).keys())


def state_misses(model: Model, state: State, names: Iterable[str] | None = None) -> Sizes:
    """By how much given states (and velocities, in blocks of momenta) had to move, by path; all, or those `names`."""
    given = model.initial.get("states", {})
    spaces = {name: b.space for b in model.dae.plan.blocks for name in b.junctions}
    return {
        f"initial/states/{name}": {
            "": spaces[name].log(spaces[name].compose(spaces[name].inverse(given[name]["value"]), state[name]))
        }
        for name in (given if names is None else sorted(names))
    }
