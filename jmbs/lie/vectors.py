"""Small vector algebra: vectors `(3, ...)` and matrices `(3, 3, ...)`; further axes, which all share, come last.

Single ones take few operations, so that programs stay short; many take those that compilers fuse into loops along the
last axes, in which tiny `dot_general`s would be several times slower. The latter have names of their own (`_of_many`)
for functions of single elements that are evaluated at every step.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from jmbs.lie.types import Matrix3, Scalar, Vector3

_UNITS = np.eye(3)
_LEVI_CIVITA = np.cross(_UNITS[:, None], _UNITS[None])
"""`[i, j, k]`: component k of the vector product of unit vectors i and j."""
_HATS = np.swapaxes(_LEVI_CIVITA, 1, 2)
_TERMS = np.concatenate([_UNITS[None], _HATS, np.einsum("iab,jbc->ijac", _HATS, _HATS).reshape(9, 3, 3)])
"""The unit matrix; the skew matrices of unit vectors, and the products of two of these: row by row, in `[k]`."""


def _product(subscripts: str, *arrays: Array) -> Array:
    return jnp.einsum(subscripts, *arrays, precision="highest")


def _levi_civita(like: Array) -> Array:
    return jnp.asarray(_LEVI_CIVITA, like.dtype)


def parts(array: Array, sizes: tuple[int, ...] = (1, 1, 1), axis: int = 0) -> list[Array]:
    """What is stacked along an axis: of size one without that axis. Derivatives stack it again, in one operation."""
    found = jax.lax.split(array, sizes, axis)
    return [jnp.squeeze(x, axis) if size == 1 else x for x, size in zip(found, sizes, strict=True)]


def _components(x: Array, axis: int = 0) -> list[Array]:
    """Those along an axis, which stays with length one: no operation then has to add or drop an axis."""
    return list(jax.lax.split(x, (1,) * x.shape[axis], axis))


def _summed(x: Array, axis: int) -> Array:
    """The sum along a short axis, term by term: for reductions compilers may call a library."""
    first, *others = _components(x, axis)
    return jnp.squeeze(sum(others, first), axis)


def dot(a: Array, b: Array) -> Scalar:
    """The scalar product of two vectors of equal length."""
    return _product("i,i", a, b) if a.ndim == 1 else dot_of_many(a, b)


def dot_of_many(a: Array, b: Array) -> Scalar:
    """See `dot`."""
    return _summed(a * b, 0)


def cross(a: Vector3, b: Vector3) -> Vector3:
    """The vector product `a x b`."""
    return _product("i,j,ijk->k", a, b, _levi_civita(a)) if a.ndim == 1 else cross_of_many(a, b)


def cross_of_many(a: Vector3, b: Vector3) -> Vector3:
    """See `cross`."""
    (a0, a1, a2), (b0, b1, b2) = _components(a), _components(b)
    return jnp.concatenate([a1 * b2 - a2 * b1, a2 * b0 - a0 * b2, a0 * b1 - a1 * b0])


def hat(v: Vector3) -> Matrix3:
    """The skew matrix with `hat(v) @ w = v x w`."""
    if v.ndim == 1:
        return _product("k,kji->ij", v, _levi_civita(v))
    x, y, z = _components(v)
    o = jnp.zeros_like(x)
    return jnp.concatenate([o, -z, y, z, o, -x, -y, x, o]).reshape(3, *v.shape)


def rotation_polynomial(a, b, omega: Vector3) -> Matrix3:
    """`I + a hat(omega) + b hat(omega)^2`; `a` and `b` of shape `()` or `(1,)`, or along further axes."""
    if omega.ndim == 1:
        # No products of matrices: with those, runs of joints that close loops, which take it at every step, would not
        # be one kernel.
        terms = jnp.concatenate([jnp.ones(1, omega.dtype), a * omega, (b * omega[:, None] * omega).reshape(9)])
        return jnp.sum(terms[:, None, None] * jnp.asarray(_TERMS, omega.dtype), axis=0)
    x, y, z = _components(omega)
    bx, by, bz = b * x, b * y, b * z
    xx, yy, zz, xy, xz, yz = bx * x, by * y, bz * z, bx * y, bx * z, by * z
    (ax, ay, az), one = (a * x, a * y, a * z), jnp.ones_like(x)
    rows = one - yy - zz, xy - az, xz + ay, xy + az, one - xx - zz, yz - ax, xz - ay, yz + ax, one - xx - yy
    return jnp.concatenate(rows).reshape(3, *omega.shape)


def vee(M: Matrix3) -> Vector3:
    """The vector of the skew part of `M`: `vee(hat(v)) = v`."""
    if M.ndim == 2:
        return 0.5 * _product("ij,kji->k", M, _levi_civita(M))
    return 0.5 * jnp.stack([M[2, 1] - M[1, 2], M[0, 2] - M[2, 0], M[1, 0] - M[0, 1]])


def rotate(R: Matrix3, v: Vector3) -> Vector3:
    """`R v`."""
    return _product("ij,j", R, v) if v.ndim == 1 else rotate_of_many(R, v)


def rotate_of_many(R: Matrix3, v: Vector3) -> Vector3:
    """See `rotate`."""
    return _summed(R * v[None], 1)


def rotate_back(R: Matrix3, v: Vector3) -> Vector3:
    """`R^T v`."""
    return _product("ji,j", R, v) if v.ndim == 1 else rotate_back_of_many(R, v)


def rotate_back_of_many(R: Matrix3, v: Vector3) -> Vector3:
    """See `rotate_back`."""
    return _summed(R * v[:, None], 0)


def multiply(A: Matrix3, B: Matrix3) -> Matrix3:
    """`A B`."""
    return _product("ij,jk", A, B) if A.ndim == 2 else multiply_of_many(A, B)


def multiply_of_many(A: Matrix3, B: Matrix3) -> Matrix3:
    """See `multiply`."""
    return _summed(A[:, :, None] * B[None], 1)


def rows_cross(A: Matrix3, v: Vector3) -> Matrix3:
    """`A hat(v)`: the rows of `A`, each crossed with `v`."""
    if v.ndim == 1:
        return _product("ij,k,jkl->il", A, v, _levi_civita(v))
    (a0, a1, a2), (x, y, z) = _components(A, 1), _components(v[None], 1)
    return jnp.concatenate([a1 * z - a2 * y, a2 * x - a0 * z, a0 * y - a1 * x], axis=1)


def transpose(A: Matrix3) -> Matrix3:
    """`A^T`."""
    return jnp.swapaxes(A, 0, 1)
