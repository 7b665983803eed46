"""Vectors and 3x3 matrices in components: tuples of arrays of one shape, which compilers fuse into single loops.

A vector is `(x, y, z)`, a matrix its nine entries row by row, a symmetric matrix `(xx, xy, xz, yy, yz, zz)`. Each entry
has any shape, say `(bodies, batch)`: all functions work entry by entry and broadcast.
"""

from __future__ import annotations

from jaxtyping import Array

Vector = tuple[Array, ...]
"""Three entries."""
Matrix = tuple[Array, ...]
"""Nine entries, row by row."""
Symmetric = tuple[Array, ...]
"""Six entries, see `ENTRIES`."""

ENTRIES = ((0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2))
"""Rows and columns of the entries of a symmetric matrix."""


def vector(array: Array) -> Vector:
    """The components of an array `(..., 3)`."""
    return array[..., 0], array[..., 1], array[..., 2]


def matrix(array: Array) -> Matrix:
    """The components of an array `(..., 3, 3)`."""
    return tuple(array[..., i, j] for i in range(3) for j in range(3))


def symmetric(array: Array) -> Symmetric:
    """The components of a symmetric array `(..., 3, 3)`."""
    return tuple(0.5 * (array[..., i, j] + array[..., j, i]) for i, j in ENTRIES)


def add(a: Vector, b: Vector) -> Vector:
    return a[0] + b[0], a[1] + b[1], a[2] + b[2]


def subtract(a: Vector, b: Vector) -> Vector:
    return a[0] - b[0], a[1] - b[1], a[2] - b[2]


def scale(s: Array | float, a: Vector) -> Vector:
    return s * a[0], s * a[1], s * a[2]


def dot(a: Vector, b: Vector) -> Array:
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


def cross(a: Vector, b: Vector) -> Vector:
    return a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]


def rows(m: Matrix) -> tuple[Vector, Vector, Vector]:
    return m[0:3], m[3:6], m[6:9]


def columns(m: Matrix) -> tuple[Vector, Vector, Vector]:
    return m[0::3], m[1::3], m[2::3]


def times(m: Matrix, a: Vector) -> Vector:
    """`m a`."""
    x, y, z = rows(m)
    return dot(x, a), dot(y, a), dot(z, a)


def transposed_times(m: Matrix, a: Vector) -> Vector:
    """`m^T a`."""
    x, y, z = columns(m)
    return dot(x, a), dot(y, a), dot(z, a)


def multiply(a: Matrix, b: Matrix) -> Matrix:
    """`a b`."""
    return tuple(dot(row, column) for row in rows(a) for column in columns(b))


def multiply_transposed(a: Matrix, b: Matrix) -> Matrix:
    """`a b^T`."""
    return tuple(dot(row, other) for row in rows(a) for other in rows(b))


def transpose(m: Matrix) -> Matrix:
    return m[0], m[3], m[6], m[1], m[4], m[7], m[2], m[5], m[8]


def symmetric_times(s: Symmetric, a: Vector) -> Vector:
    """`s a`."""
    xx, xy, xz, yy, yz, zz = s
    return dot((xx, xy, xz), a), dot((xy, yy, yz), a), dot((xz, yz, zz), a)


def symmetric_rows(s: Symmetric) -> tuple[Vector, Vector, Vector]:
    xx, xy, xz, yy, yz, zz = s
    return (xx, xy, xz), (xy, yy, yz), (xz, yz, zz)


def turned(R: Matrix, s: Symmetric) -> Symmetric:
    """`R s R^T`: a tensor in body axes as seen in the axes that `R` leads to."""
    half = [symmetric_times(s, row) for row in rows(R)]
    return tuple(dot(rows(R)[i], half[j]) for i, j in ENTRIES)
