"""Derivatives backwards of what joints that close loops add to the equations of a tree, see `jmbs.rigid_body.adjoint`.

They add, with multipliers and efforts as wrenches `l`, weights of the rows as wrenches `c` (both at the joint's frame
and in the second body's axes), and the twists that bodies would have at velocities `weights`, `mu`,

    P = l . (mu_1 - mu_2) + c . (A_1 - A_2 - V_2 x (V_1 - V_2)) + what turns along with a violation.

Moving both bodies as one changes nothing, so that wrenches on one of them act on the other with the other sign.
Derived in `docs/derivations/loops.md`.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jmbs.constraints.loop_joints import LoopJoints, Loops, by_joint, ends, once, transmitted_by
from jmbs.jaxext import all_entries_at, sums_at
from jmbs.rigid_body import Column, Wrenches, crossed, difference, wrench_sum
from jmbs.spatial import Motion, Vector, add, cross, power, scale, subtract, times, transposed_times


def loop_gradient(
    motion: Motion,
    mu: Column,
    loops: Loops,
    joints: LoopJoints,
    efforts: Float[Array, "k *b"],
    multipliers: Float[Array, "m *b"],
    weights: Float[Array, "m *b"],
) -> tuple[Wrenches, LoopJoints, Float[Array, "k *b"]]:
    """The wrenches on bodies; the gradient of `P` by the joints' parameters, and by `efforts`."""
    n = len(loops.bodies)
    moved = Motion(motion.rotation, motion.position, *mu, *jax.tree.map(jnp.zeros_like, mu))

    def at_frame(place: Vector) -> _AtFrame:
        (first, second), (mu_1, mu_2) = ends(motion, loops.bodies), ends(moved, loops.bodies)
        return _at_frame(first, second, mu_1, mu_2, place)

    def at_ends(place: Vector, *given) -> tuple[_EndWrenches, Vector]:
        return _end_wrenches(ends(motion, loops.bodies)[1], place, *given)

    at = once(motion)(at_frame, joints.place)
    transmitted = transmitted_by(loops, joints, efforts, multipliers)
    weighted = by_joint(joints.normal, weights, loops.rows, n)
    of_rows = lambda column: all_entries_at(column, loops.rows)  # noqa: E731
    violation = power(joints.normal, of_rows(at.gap))
    normal = by_joint(joints.normal, violation, loops.rows, n)
    askew = cross(weighted[0], at.second[0]), cross(weighted[1], at.second[0])
    slips = power(joints.normal, of_rows(askew))
    slipping = by_joint(joints.normal, slips, loops.rows, n)
    parts = at, transmitted, weighted, slipping, normal
    end_wrenches, by_place = once(motion)(at_ends, joints.place, *parts)
    wrenches = _by_body(end_wrenches, loops, len(motion.spin[0]))
    change = add(at.change[0], cross(at.second[0], normal[0])), add(at.change[1], cross(at.second[0], normal[1]))
    parts = (weights, change), (multipliers, at.virtual), (slips, at.gap), (violation, askew)
    by_normal = wrench_sum(*(_scaled(factor, of_rows(column)) for factor, column in parts))
    virtual = all_entries_at(at.virtual, loops.rates)
    by_joints = LoopJoints(by_place, by_normal, _scaled(-efforts, virtual))
    return wrenches, by_joints, -power(joints.inverse, virtual)


class _AtFrame(NamedTuple):
    """At a joint's frame, in the second body's axes: the twists of both bodies, the acceleration of the first, the
    first's twist less the second's, `gap`, its `change` relative to the second body; the same of `mu`, `virtual`, of
    which the first body's is `first_virtual`."""

    first: Column
    second: Column
    acceleration: Column
    gap: Column
    change: Column
    virtual: Column
    first_virtual: Column


def _at_frame(first: Motion, second: Motion, mu_1: Motion, mu_2: Motion, place: Vector) -> _AtFrame:
    arm = times(second.rotation, place)
    reach = subtract(add(second.position, arm), first.position)

    def here(angular: Vector, linear: Vector, lever: Vector) -> Column:
        linear = add(linear, cross(angular, lever))
        return transposed_times(second.rotation, angular), transposed_times(second.rotation, linear)

    def spatial(motion: Motion, lever: Vector) -> Column:
        return here(motion.spin_rate, subtract(motion.acceleration, cross(motion.spin, motion.velocity)), lever)

    V_1, V_2 = here(first.spin, first.velocity, reach), here(second.spin, second.velocity, arm)
    A_1, A_2 = spatial(first, reach), spatial(second, arm)
    own_1, own_2 = here(mu_1.spin, mu_1.velocity, reach), here(mu_2.spin, mu_2.velocity, arm)
    gap = difference(V_1, V_2)
    carried = cross(V_2[0], gap[0]), add(cross(V_2[0], gap[1]), cross(V_2[1], gap[0]))
    return _AtFrame(V_1, V_2, A_1, gap, difference(difference(A_1, A_2), carried), difference(own_1, own_2), own_1)


class _EndWrenches(NamedTuple):
    """Wrenches on first bodies, and on second ones with the other sign, about the origin, world axes: see `Wrenches`.
    And a couple on second bodies by their velocities alone."""

    wrenches: Wrenches
    couple: Vector


def _end_wrenches(
    second: Motion, place: Vector, at: _AtFrame, transmitted: Column, weighted: Column, slipping: Column, normal: Column
) -> tuple[_EndWrenches, Vector]:
    """And the derivative of `P` by the frame's place."""
    by_gap = wrench_sum(crossed(at.second, weighted), slipping)
    couple = add(cross(normal[0], weighted[0]), cross(normal[1], weighted[1]))
    by_velocity = wrench_sum(by_gap, crossed(at.first, weighted))
    by_pose = wrench_sum(
        crossed(at.first, by_gap), crossed(at.acceleration, weighted), crossed(at.first_virtual, transmitted)
    )
    # The frame moves against everything else. What acts on the second body by its velocity does not turn with it.
    own = add(by_gap[1], cross(at.gap[0], weighted[1]))
    gap_rate = add(at.change[0], cross(at.second[0], at.gap[0]))
    shift = subtract(cross(at.second[0], own), cross(at.first[0], by_gap[1]))
    by_place = subtract(shift, add(cross(gap_rate, weighted[1]), cross(at.virtual[0], transmitted[1])))
    position = add(second.position, times(second.rotation, place))

    def about_origin(wrench: Column) -> Column:
        torque, force = (times(second.rotation, part) for part in wrench)
        return add(torque, cross(position, force)), force

    wrenches = Wrenches(*(about_origin(x) for x in (transmitted, weighted, by_velocity, by_pose)))
    return _EndWrenches(wrenches, times(second.rotation, couple)), by_place


def _by_body(wrenches: _EndWrenches, loops: Loops, n: int) -> Wrenches:
    """The wrenches of all joints on each of n bodies."""
    first, second = loops.bodies.T
    F, H, E, N = jax.tree.map(lambda x: sums_at(x, first, n) - sums_at(x, second, n), wrenches.wrenches)
    couple = tuple(sums_at(x, second, n) for x in wrenches.couple)
    return Wrenches(F, H, (add(E[0], couple), E[1]), N)


def _scaled(factor: Array, column: Column) -> Column:
    return scale(factor, column[0]), scale(factor, column[1])
