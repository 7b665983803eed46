"""Joints that close loops as the recursions see them: in components, by what the two bodies' motions differ in.

With the velocities of both bodies at the joint's frame on the second one, in that body's axes, the first's less the
second's, `g`,

    rates of the joint  u = -S^+ g,      rows  r = W^T g,      W^T S = 0,

for tangents S that are constant there, as those of lower pairs are. Rows and rates are numbered joint by joint.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jmbs.by_value import by_value
from jmbs.jaxext import all_entries_at, entries_at, evaluated_once, sums_at
from jmbs.linear import SparseRows, orthogonal_basis, solve_definite
from jmbs.rigid_body import Column, Frame, Tree, TreeMotion, about_origin, entries_of, select, sum_of
from jmbs.spatial import (
    Matrix,
    Motion,
    Vector,
    add,
    axial,
    cross,
    multiply,
    multiply_transposed,
    power,
    scale,
    subtract,
    times,
    transpose,
    transposed_times,
)


@by_value
@dataclasses.dataclass(frozen=True, eq=False)
class Loops:
    """**Arguments:** the `bodies` (n, 2) that joints connect, -1 for the ground; the joint of each of their `rows` (m,)
    and of each of their `rates` (k,)."""

    bodies: np.ndarray
    rows: np.ndarray
    rates: np.ndarray


class Split(NamedTuple):
    """The space of twists seen from a joint: `normal` W, orthonormal, to its tangent S, and the inverse S^+."""

    normal: Float[Array, "n 6 m"]
    inverse: Float[Array, "n k 6"]


class LoopJoints(NamedTuple):
    """The parameters of these joints, in axes of their second bodies and in either form of `jmbs.spatial`: `place` (n,)
    of the joint's frame, m; the columns `normal` (m,) of W, orthonormal by joint; the rows `inverse` (k,) of S^+."""

    place: Vector
    normal: Column
    inverse: Column

    def in_components(self) -> LoopJoints:
        """From arrays, which may have a batch axis, last."""
        pair = lambda column: (entries_of(column[0], 3), entries_of(column[1], 3))  # noqa: E731
        return LoopJoints(entries_of(self.place, 3), pair(self.normal), pair(self.inverse))

    def in_arrays(self) -> LoopJoints:
        """From components."""
        pair = lambda column: (jnp.stack(column[0], axis=1), jnp.stack(column[1], axis=1))  # noqa: E731
        return LoopJoints(jnp.stack(self.place, axis=1), pair(self.normal), pair(self.inverse))


def split(tangent: Float[Array, "n 6 k"]) -> Split:
    """See `Split`; tangents are of full rank."""
    n, _, k = tangent.shape
    identity = jnp.broadcast_to(jnp.eye(6, dtype=tangent.dtype), (n, 6, 6))
    if k == 0:
        return Split(identity, jnp.zeros((n, 0, 6), tangent.dtype))
    transposed = jnp.swapaxes(tangent, 1, 2)
    square = transposed @ tangent
    inverse = transposed / square if k == 1 else solve_definite(square, transposed)
    # Which basis of the normal space this is means nothing, so no derivative runs through the choice.
    basis = orthogonal_basis(jax.lax.stop_gradient(tangent))[:, :, k:]
    return Split(basis - tangent @ (inverse @ basis), inverse)


def loop_joints_of(frame: Float[Array, "n 3 4"], splits: list[Split]) -> LoopJoints:
    """In arrays, from the joints' frames in their second bodies, and how they split the space of twists, by group."""
    axes = jnp.split(frame[:, None, :, :3], np.cumsum([len(s.normal) for s in splits])[:-1])

    def turned(parts: list[Float[Array, "n m 6"]]) -> Column:
        pairs = [x.reshape(*x.shape[:2], 2, 3) for x in parts]
        rows = [multiply_transposed(x, R).reshape(-1, 2, 3) for x, R in zip(pairs, axes, strict=True)]
        whole = jnp.concatenate(rows)
        return whole[:, 0], whole[:, 1]

    normal, inverse = [jnp.swapaxes(s.normal, 1, 2) for s in splits], [s.inverse for s in splits]
    return LoopJoints(frame[..., 3], turned(normal), turned(inverse))


class Gap(NamedTuple):
    """How two bodies that a joint connects move relative to each other: `g`, and its `rate` as an observer at rest sees
    it; both in the second body's axes, whose spin there is `spin`."""

    twist: Column
    rate: Column
    spin: Vector


def gaps(motion: Motion, loops: Loops, joints: LoopJoints) -> Gap:
    """See `Gap`; entries `(n, ...)`."""
    return once(motion)(lambda place: _gap(*ends(motion, loops.bodies), place), joints.place)


def _gap(first: Motion, second: Motion, place: Vector) -> Gap:
    arm = times(second.rotation, place)
    velocity = add(second.velocity, cross(second.spin, arm))
    acceleration = add(second.acceleration, cross(second.spin_rate, arm))
    acceleration = add(acceleration, cross(second.spin, subtract(velocity, second.velocity)))
    reach = subtract(add(second.position, arm), first.position)
    carried = add(first.acceleration, cross(first.spin_rate, reach))
    carried = add(carried, cross(first.spin, subtract(velocity, first.velocity)))
    twist = subtract(first.spin, second.spin), subtract(add(first.velocity, cross(first.spin, reach)), velocity)
    rate = subtract(first.spin_rate, second.spin_rate), subtract(carried, acceleration)
    own = lambda x: transposed_times(second.rotation, x)  # noqa: E731
    return Gap((own(twist[0]), own(twist[1])), (own(rate[0]), own(rate[1])), own(second.spin))


def rates_and_rows(twist: Column, loops: Loops, joints: LoopJoints) -> tuple[Array, Array]:
    """Rates `u` `(k, ...)` and rows `r` `(m, ...)` of all joints, from `g`."""
    return -power(joints.inverse, all_entries_at(twist, loops.rates)), power(
        joints.normal, all_entries_at(twist, loops.rows)
    )


class Residuals(NamedTuple):
    """How far joints are from closed. Of velocities: `rates` (k,) of the joints and the `rows` (m,). Of poses, to first
    order, rad and m: what motion of the joints would close, `along` (k,), as rates; and the rest, `normal` (m,), of
    which the rows are the rate."""

    rates: Array
    rows: Array
    along: Array
    normal: Array


def residuals(
    motion: Motion, first: Frame, second: Frame, element: Frame, loops: Loops, joints: LoopJoints
) -> Residuals:
    """See `Residuals`.

    **Arguments:** the joints' frames in their first and second bodies, and the motion between these frames that their
    `element` stands for.
    """
    # Where the first body would have the second one's joint frame, and how it would have that body turned.
    reach = add(first[1], times(first[0], element[1]))
    wanted = multiply_transposed(multiply(first[0], element[0]), second[0])

    def residual(place: Vector, reach: Vector, wanted: Matrix) -> tuple[Column, Column]:
        one, two = ends(motion, loops.bodies)
        turn = multiply(transpose(two.rotation), multiply(one.rotation, wanted))
        here, there = (add(at.position, times(at.rotation, x)) for at, x in ((one, reach), (two, place)))
        opening = scale(0.5, axial(turn)), transposed_times(two.rotation, subtract(here, there))
        return _gap(one, two, place).twist, opening

    twist, opening = once(motion)(residual, joints.place, reach, wanted)
    rates, rows = rates_and_rows(twist, loops, joints)
    along, normal = rates_and_rows(opening, loops, joints)
    return Residuals(rates, rows, along, normal)


def split_pose(poses: Float[Array, "n 3 4 *b"]) -> Frame:
    """Poses as frames in components."""
    entries = entries_of(poses.reshape(len(poses), 12, *poses.shape[3:]), 12)
    return tuple(x for i, x in enumerate(entries) if i % 4 < 3), entries[3::4]


def drift(gap: Gap, loops: Loops, joints: LoopJoints) -> Float[Array, "m *b"]:
    """The rates of the rows as an observer at rest sees them: with the second body a violation would turn along."""
    violation = power(joints.normal, all_entries_at(gap.twist, loops.rows))
    normal = by_joint(joints.normal, violation, loops.rows, len(loops.bodies))
    along = subtract(gap.twist[0], normal[0]), subtract(gap.twist[1], normal[1])
    turning = cross(gap.spin, along[0]), cross(gap.spin, along[1])
    change = subtract(gap.rate[0], turning[0]), subtract(gap.rate[1], turning[1])
    return power(joints.normal, all_entries_at(change, loops.rows))


def by_joint(columns: Column, factors: Array, joints: np.ndarray, n: int) -> Column:
    """For each of n joints the sum of its columns times their factors; `joints` says whose they are, in order."""
    terms = scale(factors, columns[0]), scale(factors, columns[1])
    return jax.tree.map(lambda x: sums_at(x, joints, n), terms)


def transmitted_by(loops: Loops, joints: LoopJoints, efforts: Array | None, multipliers: Array | None) -> Column:
    """What joints transmit at their frames, in the second bodies' axes: across tangents by `multipliers`, and along
    them against `efforts`; not both are None."""
    n = len(loops.bodies)
    parts = [] if multipliers is None else [by_joint(joints.normal, multipliers, loops.rows, n)]
    parts += [] if efforts is None else [by_joint(joints.inverse, -efforts, loops.rates, n)]
    return sum_of(parts)


def loop_jacobian(
    tree: Tree, kin: TreeMotion, loops: Loops, joints: LoopJoints, places: SparseRows
) -> Float[Array, "m w *b"]:
    """The rows as functions of the tree's velocities; the entries at these `places`."""
    of_rows, at = loops.bodies[loops.rows], np.maximum(places.columns, 0)
    moving = tree.moving(of_rows).astype(int)
    signs = np.where(places.columns >= 0, np.take_along_axis(moving[:, 0] - moving[:, 1], at, axis=1), 0)
    columns = about_origin(tree, kin)

    def row(place: Vector, normal: Column) -> Array:
        second = of_bodies(kin.bodies, of_rows[:, 1])
        reach = add(second.position, times(second.rotation, place))
        angular, linear = (times(second.rotation, x) for x in normal)
        wrench = jax.tree.map(lambda x: x[:, None], (add(angular, cross(reach, linear)), linear))
        allowed = jax.tree.map(lambda x: x[None] if places.dense else entries_at(x, at), columns)
        return sign * power(wrench, allowed)

    some = jax.tree.leaves(kin.bodies.spin)[0]
    batch = some.shape[1:] if isinstance(kin.bodies.spin, tuple) else ()
    sign = jnp.asarray(signs.reshape(signs.shape + (1,) * len(batch)), some.dtype)
    return once(kin.bodies)(row, all_entries_at(joints.place, loops.rows), joints.normal)


def less_transmitted(motion: Motion, loops: Loops, joints: LoopJoints, needed: Column, wrenches: Column) -> Column:
    """The wrenches that bodies need beyond those that joints transmit: on the second bodies, less on the first.

    **Arguments:** `needed`: world axes, about centres of mass; `wrenches` (n, ...), the second bodies' axes, about the
    joint's frame.
    """

    def given(place: Vector, moment: Vector, push: Vector) -> tuple[Vector, Vector, Vector]:
        first, second = ends(motion, loops.bodies)
        arm = times(second.rotation, place)
        reach = subtract(add(second.position, arm), first.position)
        moment, push = times(second.rotation, moment), times(second.rotation, push)
        return add(moment, cross(reach, push)), add(moment, cross(arm, push)), push

    on_first, on_second, push = once(motion)(given, joints.place, *wrenches)
    first, second = loops.bodies.T
    gathered = lambda x, y, z: x + sums_at(y, first, len(x)) - sums_at(z, second, len(x))  # noqa: E731
    torque, force = needed
    return jax.tree.map(gathered, torque, on_first, on_second), jax.tree.map(gathered, force, push, push)


def ends(motion: Motion, bodies: np.ndarray) -> tuple[Motion, Motion]:
    """The motions of the first and second `bodies` (n, 2) of joints."""
    return of_bodies(motion, bodies[:, 0]), of_bodies(motion, bodies[:, 1])


def of_bodies(motion: Motion, bodies: np.ndarray) -> Motion:
    """Motions of bodies; the ground, -1, is at rest at the origin."""
    rotation, *vectors = all_entries_at(motion, np.maximum(bodies, 0))
    on = bodies >= 0
    if on.all():
        return Motion(rotation, *vectors)
    still = jax.tree.map(jnp.zeros_like, vectors)
    return jax.tree.map(lambda x, y: select(on, x, y), Motion(rotation, *vectors), Motion(unit_like(rotation), *still))


def unit_like(rotation: Matrix) -> Matrix:
    """Unit matrices in the form and shape of rotations."""
    if not isinstance(rotation, tuple):
        return jnp.broadcast_to(jnp.eye(3, dtype=rotation.dtype), rotation.shape)
    return tuple(jnp.full_like(x, entry) for x, entry in zip(rotation, np.eye(3).ravel(), strict=True))


def once(motion: Motion) -> Callable:
    """How to evaluate what is used in many places: batches have so much of it that it is worth a call."""
    many = isinstance(motion.spin, tuple) and motion.spin[0].ndim > 1
    return evaluated_once if many else lambda function, *args: function(*args)
