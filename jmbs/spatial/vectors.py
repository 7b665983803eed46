"""Vectors and 3x3 matrices in one of two forms, with the same functions for both.

*Components*, for what runs at every step: tuples of arrays of one shape, which compilers fuse into single loops. A
vector is `(x, y, z)`, a matrix its nine entries row by row, a symmetric matrix `(xx, xy, xz, yy, yz, zz)`; an entry has
any shape, say `(bodies, batch)`.

*Arrays* `(..., 3)` and `(..., 3, 3)`, also for symmetric matrices, for what runs seldom: few operations, hence short
programs. Factors are arrays `(...)` in both.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

Vector = Any
"""Three components, or an array `(..., 3)`."""
Matrix = Any
"""Nine components, row by row, or an array `(..., 3, 3)`."""
Symmetric = Any
"""Six components, see `ENTRIES`, or an array `(..., 3, 3)`."""

ENTRIES = ((0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2))
"""Rows and columns of the components of a symmetric matrix."""
_UNITS = np.eye(3)
_LEVI_CIVITA = np.cross(_UNITS[:, None], _UNITS[None])
"""`[i, j, k]`: component k of the vector product of unit vectors i and j."""


def vector(array: Array) -> tuple[Array, ...]:
    """The components of an array `(..., 3)`."""
    return array[..., 0], array[..., 1], array[..., 2]


def matrix(array: Array) -> tuple[Array, ...]:
    """The components of an array `(..., 3, 3)`."""
    return tuple(array[..., i, j] for i in range(3) for j in range(3))


def symmetric(array: Array) -> tuple[Array, ...]:
    """The components of a symmetric array `(..., 3, 3)`."""
    return tuple(0.5 * (array[..., i, j] + array[..., j, i]) for i, j in ENTRIES)


def _product(subscripts: str, *arrays: Array) -> Array:
    return jnp.einsum(subscripts, *arrays, precision="highest")


def add(a: Vector, b: Vector) -> Vector:
    if not isinstance(a, tuple):
        return a + b
    return a[0] + b[0], a[1] + b[1], a[2] + b[2]


def subtract(a: Vector, b: Vector) -> Vector:
    if not isinstance(a, tuple):
        return a - b
    return a[0] - b[0], a[1] - b[1], a[2] - b[2]


def scale(s: Array | float, a: Vector) -> Vector:
    if not isinstance(a, tuple):
        return jnp.asarray(s)[..., None] * a
    return s * a[0], s * a[1], s * a[2]


def dot(a: Vector, b: Vector) -> Array:
    if not isinstance(a, tuple):
        return _product("...i,...i", a, b)
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


def cross(a: Vector, b: Vector) -> Vector:
    if not isinstance(a, tuple):
        return _product("...i,...j,ijk->...k", a, b, jnp.asarray(_LEVI_CIVITA, a.dtype))
    return a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]


def rows(m: Matrix) -> tuple[Vector, Vector, Vector]:
    """The rows of a matrix in components."""
    return m[0:3], m[3:6], m[6:9]


def columns(m: Matrix) -> tuple[Vector, Vector, Vector]:
    """The columns of a matrix in components."""
    return m[0::3], m[1::3], m[2::3]


def times(m: Matrix, a: Vector) -> Vector:
    """`m a`."""
    if not isinstance(m, tuple):
        return _product("...ij,...j->...i", m, a)
    x, y, z = rows(m)
    return dot(x, a), dot(y, a), dot(z, a)


def transposed_times(m: Matrix, a: Vector) -> Vector:
    """`m^T a`."""
    if not isinstance(m, tuple):
        return _product("...ji,...j->...i", m, a)
    x, y, z = columns(m)
    return dot(x, a), dot(y, a), dot(z, a)


def multiply(a: Matrix, b: Matrix) -> Matrix:
    """`a b`."""
    if not isinstance(a, tuple):
        return _product("...ij,...jk->...ik", a, b)
    return tuple(dot(row, column) for row in rows(a) for column in columns(b))


def multiply_transposed(a: Matrix, b: Matrix) -> Matrix:
    """`a b^T`."""
    if not isinstance(a, tuple):
        return _product("...ij,...kj->...ik", a, b)
    return tuple(dot(row, other) for row in rows(a) for other in rows(b))


def transpose(m: Matrix) -> Matrix:
    if not isinstance(m, tuple):
        return jnp.swapaxes(m, -1, -2)
    return m[0], m[3], m[6], m[1], m[4], m[7], m[2], m[5], m[8]


def axial(m: Matrix) -> Vector:
    """The vector `a` with `a x b = (m - m^T) b` for all b."""
    if not isinstance(m, tuple):
        return _product("...ij,jik->...k", m, jnp.asarray(_LEVI_CIVITA, m.dtype))
    return m[7] - m[5], m[2] - m[6], m[3] - m[1]


def symmetric_times(s: Symmetric, a: Vector) -> Vector:
    """`s a`."""
    if not isinstance(s, tuple):
        return times(s, a)
    xx, xy, xz, yy, yz, zz = s
    return dot((xx, xy, xz), a), dot((xy, yy, yz), a), dot((xz, yz, zz), a)


def symmetric_rows(s: Symmetric) -> tuple[Vector, Vector, Vector]:
    """The rows of a symmetric matrix in components."""
    xx, xy, xz, yy, yz, zz = s
    return (xx, xy, xz), (xy, yy, yz), (xz, yz, zz)


def turned(R: Matrix, s: Symmetric) -> Symmetric:
    """`R s R^T`: a tensor in body axes as seen in the axes that `R` leads to."""
    if not isinstance(s, tuple):
        return _product("...ij,...jk,...lk->...il", R, s, R)
    half = [symmetric_times(s, row) for row in rows(R)]
    return tuple(dot(rows(R)[i], half[j]) for i, j in ENTRIES)
