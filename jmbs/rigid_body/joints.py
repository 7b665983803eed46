"""Joints of a tree, group by group: how the child moves relative to the parent.

Joints with one degree of freedom and a constant tangent are one-parameter subgroups whatever their name, so revolute,
prismatic and screw joints share a group and a formula. All others are asked for their motion and its tangent.

Parameters and coordinates are arrays, members first, a batch axis last if there is one. Motions come in either form of
`jmbs.spatial`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jmbs.jaxext import evaluated_once
from jmbs.lie import is_lower_pair, tangent
from jmbs.spatial import (
    Matrix,
    RelativeMotion,
    Vector,
    add,
    cross,
    inverse,
    multiply,
    multiply_transposed,
    scale,
    subtract,
    times,
)

Column = tuple[Vector, Vector]
"""A twist: angular velocity, and velocity of the body's centre of mass."""
Frame = tuple[Matrix, Vector]
"""A joint frame in a body frame: rotation and position (m)."""


def frame_of(poses: Array) -> Frame:
    """Poses `(..., 3, 4)` as a frame of arrays."""
    return poses[..., :3], poses[..., 3]


def poses_of(frame: Frame) -> Array:
    """The poses `(..., 3, 4)` of a frame of arrays."""
    rotation, position = frame
    return jnp.concatenate([rotation, position[..., None]], axis=-1)


def twist_of(array: Float[Array, "n 6 *b"], components: bool) -> Column:
    """Twists, angular first, in one of the forms."""
    if not components:
        return array[:, :3], array[:, 3:]
    entries = entries_of(array, 6)
    return entries[:3], entries[3:]


def entries_of(array: Float[Array, "n k *b"], count: int) -> tuple[Array, ...]:
    """What is stacked along the second axis."""
    return tuple(jnp.squeeze(x, 1) for x in jax.lax.split(array, (1,) * count, 1))


class OneParameterJoints(eqx.Module):
    """`q -> exp(q xi)` between two frames: the pose is linear in 1, q, sin(s q) and 1 - cos(s q).

    **Arguments:** `terms` (4, n, 12): what those four are multiplied with, rotation row by row and position (m);
    `rate` s (n,), rad per unit of q; `column` (n, 6), the child's twist per unit of velocity, in its own axes.
    """

    terms: Array
    rate: Array
    column: Array
    steady: ClassVar[bool] = True

    @staticmethod
    def of(
        before: Float[Array, "n 3 4"], twist: Float[Array, "n 6"], after: Float[Array, "n 3 4"]
    ) -> OneParameterJoints:
        """Joints from the frame `before` in the parent to the frame `after` in the child, moving along `twist`."""
        (R1, p1), (R2, p2), (w, v) = frame_of(before), frame_of(after), (twist[:, :3], twist[:, 3:])
        square = jnp.sum(w * w, axis=1)
        turns = square > 0
        rate = jnp.where(turns, jnp.sqrt(jnp.where(turns, square, 1.0)), 0.0)
        radius = jnp.where(turns, 1.0 / jnp.where(turns, rate, 1.0), 0.0)
        n = scale(radius, w)
        around = lambda x: cross(n[..., None, :], x)  # noqa: E731
        units = jnp.broadcast_to(jnp.eye(3, dtype=w.dtype), R1.shape)
        # Rows of transposed matrices: hat(n)^T x is n x row.
        hat = jnp.swapaxes(around(units), 1, 2)
        square_hat = multiply(hat, hat)
        # exp(q xi) moves the origin by q v + (1 - cos) n x v / s + (s q - sin) n x (n x v) / s.
        across = times(square_hat, v)
        shifts = jnp.zeros_like(v), v + across, scale(-radius, across), scale(radius, times(hat, v))
        still = jnp.zeros_like(hat)
        moved = jnp.stack([units, still, hat, square_hat])
        rotation = multiply_transposed(multiply(R1, moved), R2)
        position = times(R1, jnp.stack(shifts)) - times(rotation, p2)
        position = position.at[0].add(p1)
        terms = jnp.concatenate([rotation.reshape(4, -1, 9), position], axis=2)
        angular = times(R2, w)
        return OneParameterJoints(terms, rate, jnp.concatenate([angular, times(R2, v) + cross(p2, angular)], axis=1))

    def relative(
        self, q: Array, u: list[Array], du: list[Array] | None, components: bool
    ) -> tuple[RelativeMotion, tuple[Column, ...]]:
        """Motion of the child relative to the parent, and twists in the child's axes."""
        x = q[:, 0]
        angle = self.rate * x
        trigonometric = lambda a: (jnp.sin(a), 1 - jnp.cos(a))  # noqa: E731
        sine, versine = evaluated_once(trigonometric, angle) if components else trigonometric(angle)
        one, linear, round, across = self.terms
        pose = one + x[:, None] * linear + sine[:, None] * round + versine[:, None] * across
        column = twist_of(self.column, components)
        return _moving(*_frame(pose, components), (column,), u, du, None), (column,)


def _frame(pose: Float[Array, "n 12 *b"], components: bool) -> Frame:
    """Rotations, row by row, and positions, in one of the forms."""
    if not components:
        return pose[:, :9].reshape(-1, 3, 3), pose[:, 9:]
    entries = entries_of(pose, 12)
    return entries[:9], entries[9:]


class FreeBodies(eqx.Module):
    """No joints: bodies' poses are the elements, and their velocities are the twists in their own axes."""

    steady: ClassVar[bool] = True

    def relative(
        self, q: Array, u: list[Array], du: list[Array] | None, components: bool
    ) -> tuple[RelativeMotion, tuple[Column, ...]]:
        """Motion of the bodies, and their twists per velocity."""
        vector = tuple if components else lambda x: jnp.stack(x, axis=1)
        twist = lambda x: (vector(x[:3]), vector(x[3:]))  # noqa: E731
        zero, one = jnp.zeros_like(u[0]), jnp.ones_like(u[0])
        columns = tuple(twist([one if i == k else zero for i in range(6)]) for k in range(6))
        rates = None if du is None else twist(du)
        return RelativeMotion(*_frame(_flat(q), components), *twist(u), rates), columns


class GeneralJoints(eqx.Module):
    """Joints by the motion that they declare, `q -> I(q)`, with its tangent.

    **Arguments:** `motion`, stacked; frames `before` in the joint's parent and `after` in its child, rotation row by
    row and position (n, 12); `columns` (n, 6 k), the child's twists in its axes one after the other where they are
    constant, else None; `reversed`: the tree walks from child to parent; `batched`: the motions' parameters have a
    batch axis after the members.
    """

    motion: Any
    before: Array
    after: Array
    columns: Array | None
    reversed: bool = eqx.field(static=True)
    batched: bool = eqx.field(static=True, default=False)

    @property
    def steady(self) -> bool:
        """Whether the twists of the tree's child are constant in its axes."""
        return self.columns is not None and not self.reversed

    @staticmethod
    def of(motion, before: Float[Array, "n 3 4"], after: Float[Array, "n 3 4"], reversed: bool) -> GeneralJoints:
        columns = None
        if is_lower_pair(motion):
            transported = _transported(basis(motion, len(before), before.dtype), frame_of(after))
            columns = jnp.swapaxes(transported, 1, 2).reshape(len(before), -1)
        return GeneralJoints(motion, _flat(before), _flat(after), columns, reversed)

    def relative(
        self, q: Array, u: list[Array], du: list[Array] | None, components: bool
    ) -> tuple[RelativeMotion, tuple[Column, ...]]:
        """Motion of the tree's child relative to its parent, and twists in the child's axes."""
        R1, p1 = _frame(self.before, components)
        R2, p2 = after = _frame(self.after, components)
        inclusion = self._each(lambda m, x: m.inclusion(x), q)
        included, shift = _frame(_flat(inclusion), components)
        rotation = multiply_transposed(multiply(R1, included), R2)
        position = subtract(add(p1, times(R1, shift)), times(rotation, p2))
        rates = None
        if self.columns is not None:
            columns = tuple(twist_of(self.columns[:, 6 * i : 6 * i + 6], components) for i in range(len(u)))
        else:
            i, i_rate = self._each(self._tangent_and_rate, q, jnp.stack(u, axis=1))
            columns, rates = (_twists(x, after, components) for x in (i, i_rate))
        motion = _moving(rotation, position, columns, u, du, rates)
        if not self.reversed:
            return motion, columns
        return inverse(motion), tuple(_of_parent(column, rotation, position) for column in columns)

    @staticmethod
    def _tangent_and_rate(motion, q: Array, xi: Array) -> tuple[Array, Array]:
        return jax.jvp(lambda x: tangent(motion, x), (q,), (motion.group.lift(q, xi),))

    def _each(self, function, *values: Array):
        """`function(motion, value, ...)` of all members, and of all of a batch if there is one: then its axis is last
        in the values and in what comes out."""
        batched = values[0].ndim > 1 + len(self.motion.group.shape)
        axes = (0 if self.batched else None, *(-1 for _ in values))
        inner = eqx.filter_vmap(function, in_axes=axes, out_axes=-1) if batched else function
        counter = jnp.arange(values[0].shape[0])  # for motions without any array
        return eqx.filter_vmap(lambda _, m, *rest: inner(m, *rest))(counter, self.motion, *values)


Joints = OneParameterJoints | FreeBodies | GeneralJoints


def _flat(poses: Float[Array, "n 3 4 *b"]) -> Float[Array, "n 12 *b"]:
    """Rotations row by row, then positions."""
    rotation = poses[:, :, :3].reshape(len(poses), 9, *poses.shape[3:])
    return jnp.concatenate([rotation, poses[:, :, 3]], axis=1)


def basis(motion, n: int, dtype) -> Float[Array, "n 6 k"]:
    """The constant tangents of stacked lower pairs."""
    return eqx.filter_vmap(lambda _, m: m.basis(dtype))(jnp.arange(n), motion)


def _moving(rotation: Matrix, position: Vector, columns, u, du, rates) -> RelativeMotion:
    """The relative motion with velocities `u` along twists in the child's axes; rates of `u` and of the twists."""
    nothing = jax.tree.map(jnp.zeros_like, position)
    spin, velocity = combined(columns, u) if u else (nothing, nothing)
    parts = [combined(c, factors) for c, factors in ((columns, du), (rates, u)) if c and factors]
    change = None if du is None else (nothing, nothing)
    if parts:
        change = sum_of(parts)
    return RelativeMotion(rotation, position, spin, velocity, change)


def sum_of(parts: Sequence[Column]) -> Column:
    """The sum of twists."""
    first, *others = parts
    for angular, linear in others:
        first = add(first[0], angular), add(first[1], linear)
    return first


def combined(columns: Sequence[Column], factors: Sequence[Array]) -> Column:
    """The sum of twists times factors."""
    return sum_of([(scale(f, w), scale(f, v)) for (w, v), f in zip(columns, factors, strict=True)])


def _of_parent(column: Column, rotation: Matrix, position: Vector) -> Column:
    """The twist of B's motion relative to A, in B's axes, as that of A relative to B in A's axes."""
    spin, velocity = times(rotation, column[0]), times(rotation, column[1])
    return scale(-1.0, spin), subtract(cross(spin, position), velocity)


def _transported(i: Float[Array, "n 6 k"], frame: Frame) -> Float[Array, "n 6 k"]:
    """Tangents in joint frames as twists of the bodies on which the frames stand; arrays."""
    R, p = frame
    w, v = multiply(R, i[:, :3]), multiply(R, i[:, 3:])
    moment = jnp.swapaxes(cross(p[:, None], jnp.swapaxes(w, 1, 2)), 1, 2)
    return jnp.concatenate([w, v + moment], axis=1)


def _twists(i: Float[Array, "n 6 k *b"], frame: Frame, components: bool) -> tuple[Column, ...]:
    """Columns of tangents in joint frames as twists of the bodies on which the frames stand, in one of the forms."""
    R, p = frame
    columns = []
    for k in range(i.shape[2]):
        angular, linear = twist_of(i[:, :, k], components)
        w = times(R, angular)
        columns.append((w, add(times(R, linear), cross(p, w))))
    return tuple(columns)
