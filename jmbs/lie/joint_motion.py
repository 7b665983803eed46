"""Joint motions: maps `I` from a configuration group K into SE(3).

A motion says where the child's joint frame stands in the parent's: `q_parent o1 I(q) = q_child o2`. A new one states
its group, its inclusion and the names of its coordinates; the tangent follows.
"""

# Annotations stay objects in this file: equinox does not read abstract class variables from strings.
import abc
from typing import TypeGuard

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from equinox import AbstractClassVar
from jax.core import Tracer
from jaxtyping import Array, Float

from jmbs.errors import ModelError
from jmbs.lie.group import AbstractGroup
from jmbs.lie.se3 import SE3
from jmbs.lie.types import Matrix3, Pose, Scalar, Twists, Vector3
from jmbs.lie.vectors import dot_of_many as dot
from jmbs.lie.vectors import rotation_polynomial


class AbstractJointMotion(eqx.Module):
    """How the child's joint frame may move relative to the parent's.

    `name` is the joint type as configs spell it, `group` the configuration group K. Array fields (axes, pitches) are
    differentiable parameters. `coordinate_names` and `coordinate_units` describe `group.to_coordinates(q)`,
    `velocity_names` and `velocity_units` the left-trivialised tangent of `group`. One with a true `can_lock` has places
    where the columns of its tangent are dependent, as in gimbal lock, and its rates mean nothing.
    """

    name: AbstractClassVar[str]
    group: AbstractClassVar[AbstractGroup]
    coordinate_names: AbstractClassVar[tuple[str, ...]]
    coordinate_units: AbstractClassVar[tuple[str, ...]]
    velocity_names: AbstractClassVar[tuple[str, ...]]
    velocity_units: AbstractClassVar[tuple[str, ...]]

    @abc.abstractmethod
    def inclusion(self, q: Array) -> Pose:
        """`I(q)`: the pose of the child's joint frame in the parent's, for an element `q` of `group`."""


class AbstractLowerPair(AbstractJointMotion):
    """A motion that is a closed subgroup of SE(3): `I(q1 q2) = I(q1) I(q2)`, hence with a constant tangent."""

    @abc.abstractmethod
    def basis(self, dtype) -> Float[Array, "6 k"]:
        """The subalgebra: twists (angular first) of the child's joint frame per unit of each velocity, as columns."""


class AbstractExplicitMotion(AbstractJointMotion):
    """A motion with a formula for its tangent."""

    @abc.abstractmethod
    def columns(self, q: Array) -> Twists:
        """What `tangent` wants."""


def is_lower_pair(motion: AbstractJointMotion) -> TypeGuard[AbstractLowerPair]:
    """Whether a motion says that it is a lower pair, and redefines its `inclusion` nowhere below its `basis`."""
    return isinstance(motion, AbstractLowerPair) and _knows(motion, "basis")


def _knows(motion: AbstractJointMotion, formula: str) -> bool:
    """Whether the class that defines the motion, or one below it, defines this formula for its tangent."""
    return next(formula in vars(c) for c in type(motion).__mro__ if {formula, "inclusion"} & vars(c).keys())


def tangent(motion: AbstractJointMotion, q: Array) -> Twists:
    """The left-trivialised tangent `i(q)` of a motion, shape `(6, k)`.

    Column `k` is the twist (angular first) of the child's joint frame, in its own axes and about its origin, per unit
    of the `k`-th velocity of `motion.group`: `SE3.lower(I(q), d/ds I(q exp(s e_k)))` at `s = 0`. Some know a formula.
    """
    group = motion.group
    if is_lower_pair(motion):
        return motion.basis(q.dtype)
    if isinstance(motion, AbstractExplicitMotion) and _knows(motion, "columns"):
        return motion.columns(q)
    if group.dim == 0:
        return jnp.zeros((6, 0), dtype=q.dtype)

    def column(xi: Array) -> Array:
        value, rate = jax.jvp(motion.inclusion, (q,), (group.lift(q, xi),))
        return SE3.lower(value, rate)

    return jax.vmap(column, out_axes=1)(jnp.eye(group.dim, dtype=q.dtype))


def independence(motion: AbstractJointMotion, q: Array) -> Scalar:
    """How independent the columns of the tangent are: the square of the volume that their directions span.

    One where they are orthogonal, zero where they are dependent; for angles about three axes through a point that
    start orthogonal, the squared cosine of the second. Lengths count in m.
    """
    columns = tangent(motion, q)
    directions = columns / jnp.sqrt(jnp.sum(columns**2, axis=0))
    products, volume = directions.T @ directions, jnp.ones((), columns.dtype)
    for i in range(products.shape[0]):  # The product of the pivots of Gaussian elimination.
        pivot = products[i, i]
        volume = volume * pivot
        products = products - jnp.outer(products[:, i], products[i] / jnp.where(pivot > 0, pivot, 1.0))
    return volume


def float_array(value: object) -> Array:
    """The value as an array of floats, as parameters of motions are kept."""
    array = jnp.asarray(value)
    # The cast also strips the weak type of a python number, so that compiled functions see one type.
    return array.astype(array.dtype if jnp.issubdtype(array.dtype, jnp.floating) else jnp.zeros(()).dtype)


def check_axis(path: str, axis: Array) -> None:
    """Raises `ModelError` with the path where an axis is no direction; traced ones are believed."""
    if axis.shape != (3,):
        raise ModelError(path, f"an array of shape {axis.shape}", "three numbers")
    if not isinstance(axis, Tracer) and not np.any(np.asarray(axis)):
        raise ModelError(path, axis.tolist(), "a direction of positive length")


def unit(axis: Vector3) -> Vector3:
    """The axis with length one."""
    return axis / jnp.sqrt(dot(axis, axis))


def as_columns(*twists: tuple[Vector3 | None, Vector3 | None]) -> Float[Array, "6 k"]:
    """Twists as columns, from pairs (angular, linear); None is zero."""
    part = lambda v, like: jnp.zeros_like(like) if v is None else v  # noqa: E731
    likes = [next(v for v in twist if v is not None) for twist in twists]
    columns = [jnp.concatenate([part(w, like), part(v, like)]) for (w, v), like in zip(twists, likes, strict=True)]
    return jnp.stack(columns, axis=1)


def about(axis: Vector3, angle: Scalar) -> Matrix3:
    """The rotation about an axis of any positive length by an angle (rad)."""
    # Equals SO3.exp(unit * angle), without its series: sine and cosine are smooth in a signed angle.
    return rotation_polynomial(jnp.sin(angle), 1 - jnp.cos(angle), unit(axis))
