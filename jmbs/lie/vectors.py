"""Small vector algebra in components, written so that XLA fuses it (tiny `dot_general`s are several times slower)."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array

from jmbs.lie.types import Matrix3, Scalar, Vector3


def dot(a: Array, b: Array) -> Scalar:
    """The scalar product of two vectors of equal length."""
    return jnp.sum(a * b)


def cross(a: Vector3, b: Vector3) -> Vector3:
    """The vector product `a x b`."""
    a0, a1, a2 = a[0], a[1], a[2]
    b0, b1, b2 = b[0], b[1], b[2]
    return jnp.stack([a1 * b2 - a2 * b1, a2 * b0 - a0 * b2, a0 * b1 - a1 * b0])


def hat(v: Vector3) -> Matrix3:
    """The skew matrix with `hat(v) @ w = v x w`."""
    x, y, z = v[0], v[1], v[2]
    o = jnp.zeros_like(x)
    return jnp.stack([jnp.stack([o, -z, y]), jnp.stack([z, o, -x]), jnp.stack([-y, x, o])])


def vee(M: Matrix3) -> Vector3:
    """The vector of the skew part of `M`: `vee(hat(v)) = v`."""
    return 0.5 * jnp.stack([M[2, 1] - M[1, 2], M[0, 2] - M[2, 0], M[1, 0] - M[0, 1]])


def rotate(R: Matrix3, v: Vector3) -> Vector3:
    """`R v`."""
    return R[:, 0] * v[0] + R[:, 1] * v[1] + R[:, 2] * v[2]


def rotate_back(R: Matrix3, v: Vector3) -> Vector3:
    """`R^T v`."""
    return R[0] * v[0] + R[1] * v[1] + R[2] * v[2]


def multiply(A: Matrix3, B: Matrix3) -> Matrix3:
    """`A B`."""
    return A[:, 0:1] * B[0:1] + A[:, 1:2] * B[1:2] + A[:, 2:3] * B[2:3]


def rows_cross(A: Matrix3, v: Vector3) -> Matrix3:
    """`A hat(v)`: the rows of `A`, each crossed with `v`."""
    a0, a1, a2 = A[:, 0], A[:, 1], A[:, 2]
    return jnp.stack([a1 * v[2] - a2 * v[1], a2 * v[0] - a0 * v[2], a0 * v[1] - a1 * v[0]], axis=1)
