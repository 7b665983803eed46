"""Joints of a tree, group by group: how the child moves relative to the parent, in components.

Joints with one degree of freedom and a constant tangent are one-parameter subgroups whatever their name, so revolute,
prismatic and screw joints share a group and a formula. All others are asked for their motion and its tangent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from jmbs.lie import AbstractLowerPair, tangent
from jmbs.spatial import (
    Matrix,
    RelativeMotion,
    Vector,
    add,
    cross,
    dot,
    inverse,
    matrix,
    multiply,
    multiply_transposed,
    scale,
    subtract,
    times,
    vector,
)

Column = tuple[Vector, Vector]
"""A twist: angular velocity, and velocity of the body's centre of mass."""
Frame = tuple[Matrix, Vector]
"""A joint frame in a body frame: rotation and position (m)."""


def frame_of(poses: Array) -> Frame:
    """The components of poses `(..., 3, 4)`."""
    return matrix(poses[..., :3]), vector(poses[..., 3])


def poses_of(frame: Frame) -> Array:
    """The poses `(..., 3, 4)` of which these are the components."""
    rotation, position = (jnp.stack(part, axis=-1) for part in frame)
    return jnp.concatenate([rotation.reshape(*rotation.shape[:-1], 3, 3), position[..., None]], axis=-1)


class OneParameterJoints(eqx.Module):
    """`q -> exp(q xi)` between two frames: the pose is linear in 1, q, sin(s q) and 1 - cos(s q).

    **Arguments:** `terms` (4, 12, n): what those four are multiplied with, rotation row by row and position (m);
    `rate` s (n,), rad per unit of q; `column`, the child's twist per unit of velocity, in its own axes.
    """

    terms: Array
    rate: Array
    column: Column
    steady: ClassVar[bool] = True

    @staticmethod
    def of(before: Frame, twist: Column, after: Frame) -> OneParameterJoints:
        """Joints from the frame `before` in the parent to the frame `after` in the child, moving along `twist`."""
        (R1, p1), (w, v), (R2, p2) = before, twist, after
        square = dot(w, w)
        turns = square > 0
        rate = jnp.where(turns, jnp.sqrt(jnp.where(turns, square, 1.0)), 0.0)
        radius = jnp.where(turns, 1.0 / jnp.where(turns, rate, 1.0), 0.0)
        n = scale(radius, w)
        zero = jnp.zeros_like(rate)
        hat = (zero, -n[2], n[1], n[2], zero, -n[0], -n[1], n[0], zero)
        spun = multiply(R1, hat)
        still: Matrix = (zero,) * 9
        rotations = [multiply_transposed(R, R2) for R in (R1, still, spun, multiply(spun, hat))]
        # exp(q xi) moves the origin by q v + (1 - cos) n x v / s + (s q - sin) n x (n x v) / s.
        sideways = cross(n, v)
        circle = times(R1, scale(radius, cross(n, sideways)))
        origins = p1, add(times(R1, v), scale(rate, circle)), scale(-1.0, circle), times(R1, scale(radius, sideways))
        poses = [(*R, *subtract(p, times(R, p2))) for R, p in zip(rotations, origins, strict=True)]
        angular = times(R2, w)
        terms = jnp.stack([jnp.stack(jnp.broadcast_arrays(*pose)) for pose in poses])
        return OneParameterJoints(terms, rate, (angular, add(times(R2, v), cross(p2, angular))))

    def relative(self, q: Array, u: list[Array], du: list[Array] | None) -> tuple[RelativeMotion, tuple[Column, ...]]:
        """Motion of the child relative to the parent, in the parent's axes, and twists in the child's axes."""
        x = q[:, 0]
        angle = self.rate * x
        sine, versine = evaluated_once(lambda a: (jnp.sin(a), 1 - jnp.cos(a)), angle)
        one, linear, round, across = self.terms
        pose: Any = [one[k] + x * linear[k] + sine * round[k] + versine * across[k] for k in range(12)]
        return _moving(tuple(pose[:9]), tuple(pose[9:]), (self.column,), u, du, None), (self.column,)


class GeneralJoints(eqx.Module):
    """Joints by the motion that they declare, `q -> I(q)`, with its tangent.

    **Arguments:** `motion`, stacked; frames `before` in the joint's parent and `after` in its child; `columns`, the
    child's twists in its axes where they are constant, else None; `reversed`: the tree walks from child to parent;
    `batched`: the motions' parameters have a batch axis after the members.
    """

    motion: Any
    before: Frame
    after: Frame
    columns: tuple[Column, ...] | None
    reversed: bool = eqx.field(static=True)
    batched: bool = eqx.field(static=True, default=False)

    @property
    def steady(self) -> bool:
        """Whether the twists of the tree's child are constant in its axes."""
        return self.columns is not None and not self.reversed

    @staticmethod
    def of(motion, before: Frame, after: Frame, reversed: bool) -> GeneralJoints:
        columns = None
        if isinstance(motion, AbstractLowerPair):
            i = basis(motion, before[0][0].shape[0], before[0][0].dtype)
            columns = _transported(i, after)
        return GeneralJoints(motion, before, after, columns, reversed)

    def relative(self, q: Array, u: list[Array], du: list[Array] | None) -> tuple[RelativeMotion, tuple[Column, ...]]:
        """Motion of the tree's child relative to its parent, in the parent's axes, and twists in the child's axes."""
        inclusion = self._each(lambda m, x: m.inclusion(x), q)
        R1, p1 = self.before
        R2, p2 = self.after
        included: Any = tuple(inclusion[:, i, j] for i in range(3) for j in range(3))
        rotation = multiply_transposed(multiply(R1, included), R2)
        position = subtract(add(p1, times(R1, _components(inclusion[:, :, 3]))), times(rotation, p2))
        columns, rates = self.columns, None
        if columns is None:
            velocity = jnp.stack(u, axis=1)
            i, i_rate = self._each(self._tangent_and_rate, q, velocity)
            columns, rates = _transported(i, self.after), _transported(i_rate, self.after)
        motion = _moving(rotation, position, columns, u, du, rates)
        if not self.reversed:
            return motion, columns
        backward = []
        for angular, linear in columns:
            spin, velocity = times(rotation, angular), times(rotation, linear)
            backward.append((scale(-1.0, spin), subtract(cross(spin, position), velocity)))
        return inverse(motion), tuple(backward)

    @staticmethod
    def _tangent_and_rate(motion, q: Array, xi: Array) -> tuple[Array, Array]:
        return jax.jvp(lambda x: tangent(motion, x), (q,), (motion.group.lift(q, xi),))

    def _each(self, function, *values: Array):
        """`function(motion, *values)` of every member, and of its batch, whose axis is last, if there is one."""
        batched = values[0].ndim > 1 + len(self.motion.group.shape)
        axes = (0 if self.batched else None, *(-1 for _ in values))
        inner = eqx.filter_vmap(function, in_axes=axes, out_axes=-1) if batched else function
        counter = jnp.arange(values[0].shape[0])  # for motions without any array
        return eqx.filter_vmap(lambda _, m, *rest: inner(m, *rest))(counter, self.motion, *values)


Joints = OneParameterJoints | GeneralJoints


def basis(motion, n: int, dtype) -> Array:
    """The constant tangents `(n, 6, k)` of stacked lower pairs."""
    return eqx.filter_vmap(lambda _, m: m.basis(dtype))(jnp.arange(n), motion)


def _moving(rotation: Matrix, position: Vector, columns, u, du, rates) -> RelativeMotion:
    """The relative motion with velocities `u` along twists in the child's axes; rates of `u` and of the twists."""
    nothing = (jnp.zeros_like(rotation[0] + u[0] if u else rotation[0]),) * 3
    out = lambda twist: (times(rotation, twist[0]), times(rotation, twist[1]))  # noqa: E731
    spin, velocity = out(combined(columns, u)) if u else (nothing, nothing)
    parts = [combined(c, factors) for c, factors in ((columns, du), (rates, u)) if c and factors]
    if parts:
        change = out(jax.tree.map(lambda *x: sum(x), *parts))
    else:
        change = None if du is None else (nothing, nothing)
    return RelativeMotion(rotation, position, spin, velocity, change)


def combined(columns: Sequence[Column], factors: Sequence[Array]) -> Column:
    """The sum of twists times factors."""
    (w, v), *others = [(scale(f, c[0]), scale(f, c[1])) for c, f in zip(columns, factors, strict=True)]
    for angular, linear in others:
        w, v = add(w, angular), add(v, linear)
    return w, v


def _transported(i: Array, frame: Frame) -> tuple[Column, ...]:
    """Columns of tangents `(n, 6, k, ...)` in joint frames as twists of the bodies on which the frames stand."""
    R, p = frame
    columns = []
    for k in range(i.shape[2]):
        w = times(R, _components(i[:, :3, k]))
        columns.append((w, add(times(R, _components(i[:, 3:, k])), cross(p, w))))
    return tuple(columns)


def _components(vectors: Array) -> Vector:
    """Those of vectors `(n, 3, ...)`."""
    return tuple(vectors[:, k] for k in range(3))


def evaluated_once(function, *args):
    """`function(*args)`, entry by entry of the first axis, for values that are expensive and used in many places.

    Compilers would evaluate them anew in every one of those. They do not look into loops, so this is one of two rounds.
    """
    n = jax.tree.leaves(args)[0].shape[0]
    if n % 2 == 0:
        values = jax.lax.map(lambda xs: function(*xs), jax.tree.map(lambda x: x.reshape(2, -1, *x.shape[1:]), args))
        return jax.tree.map(lambda y: y.reshape(-1, *y.shape[2:]), values)
    size = n // 2 + 1
    half = lambda start: jax.tree.map(lambda x: jax.lax.dynamic_slice_in_dim(x, start, size), args)  # noqa: E731
    values = jax.lax.map(lambda start: function(*half(start)), jnp.asarray([0, n - size]))
    return jax.tree.map(lambda y: jnp.concatenate([y[0], y[1, 1:]]) if n > 1 else y[0], values)
