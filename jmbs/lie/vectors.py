"""Small vector algebra in components, written so that XLA fuses it (tiny `dot_general`s are several times slower)."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array

from jmbs.lie.types import Matrix3, Scalar, Vector3


def parts(array: Array, sizes: tuple[int, ...] = (1, 1, 1), axis: int = 0) -> list[Array]:
    """What is stacked along an axis: of size one without that axis. Derivatives stack it again, in one operation."""
    found = jax.lax.split(array, sizes, axis)
    return [jnp.squeeze(x, axis) if size == 1 else x for x, size in zip(found, sizes, strict=True)]


def dot(a: Array, b: Array) -> Scalar:
    """The scalar product of two vectors of equal length."""
    first, *others = parts(a * b, (1,) * len(a))
    return sum(others, first)


def cross(a: Vector3, b: Vector3) -> Vector3:
    """The vector product `a x b`."""
    (a0, a1, a2), (b0, b1, b2) = parts(a), parts(b)
    return jnp.stack([a1 * b2 - a2 * b1, a2 * b0 - a0 * b2, a0 * b1 - a1 * b0])


def hat(v: Vector3) -> Matrix3:
    """The skew matrix with `hat(v) @ w = v x w`."""
    x, y, z = parts(v)
    o = jnp.zeros_like(x)
    return jnp.stack([jnp.stack([o, -z, y]), jnp.stack([z, o, -x]), jnp.stack([-y, x, o])])


def vee(M: Matrix3) -> Vector3:
    """The vector of the skew part of `M`: `vee(hat(v)) = v`."""
    return 0.5 * jnp.stack([M[2, 1] - M[1, 2], M[0, 2] - M[2, 0], M[1, 0] - M[0, 1]])


def rotate(R: Matrix3, v: Vector3) -> Vector3:
    """`R v`."""
    (a, b, c), (x, y, z) = parts(R, axis=1), parts(v)
    return a * x + b * y + c * z


def rotate_back(R: Matrix3, v: Vector3) -> Vector3:
    """`R^T v`."""
    (a, b, c), (x, y, z) = parts(R), parts(v)
    return a * x + b * y + c * z


def multiply(A: Matrix3, B: Matrix3) -> Matrix3:
    """`A B`."""
    (a, b, c), (x, y, z) = parts(A, axis=1), parts(B)
    return a[:, None] * x[None] + b[:, None] * y[None] + c[:, None] * z[None]


def rows_cross(A: Matrix3, v: Vector3) -> Matrix3:
    """`A hat(v)`: the rows of `A`, each crossed with `v`."""
    (a0, a1, a2), (x, y, z) = parts(A, axis=1), parts(v)
    return jnp.stack([a1 * z - a2 * y, a2 * x - a0 * z, a0 * y - a1 * x], axis=1)


def transpose(A: Matrix3) -> Matrix3:
    """`A^T`."""
    return jnp.swapaxes(A, 0, 1)
