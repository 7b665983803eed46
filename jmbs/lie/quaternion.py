"""Unit quaternions, which appear at the edges only: `wxyz` inside jmbs, `xyzw` for others."""

from __future__ import annotations

import jax.numpy as jnp

from jmbs.arrays import total
from jmbs.lie.types import Matrix3, Quaternion


def quaternion_to_rotation(wxyz: Quaternion) -> Matrix3:
    """The rotation matrix of a quaternion of any positive length (its direction counts, its length does not)."""
    w, x, y, z = wxyz[0], wxyz[1], wxyz[2], wxyz[3]
    s = 2 / (w * w + x * x + y * y + z * z)
    return jnp.stack(
        [
            jnp.stack([1 - s * (y * y + z * z), s * (x * y - w * z), s * (x * z + w * y)]),
            jnp.stack([s * (x * y + w * z), 1 - s * (x * x + z * z), s * (y * z - w * x)]),
            jnp.stack([s * (x * z - w * y), s * (y * z + w * x), 1 - s * (x * x + y * y)]),
        ]
    )


def rotation_to_quaternion(R: Matrix3) -> Quaternion:
    """The unit quaternion `wxyz` of a rotation matrix with `w >= 0` (at angle pi: largest component positive).

    Shepperd's method: `4 q q^T` is linear in `R`, and its row with the largest diagonal entry (at least 1) is
    selected before the root is taken, so that all derivatives are finite everywhere.
    """
    wx, wy, wz = R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1]
    xy, xz, yz = R[1, 0] + R[0, 1], R[0, 2] + R[2, 0], R[2, 1] + R[1, 2]
    ww = 1 + R[0, 0] + R[1, 1] + R[2, 2]
    xx = 1 + R[0, 0] - R[1, 1] - R[2, 2]
    yy = 1 - R[0, 0] + R[1, 1] - R[2, 2]
    zz = 1 - R[0, 0] - R[1, 1] + R[2, 2]
    row, square = jnp.stack([ww, wx, wy, wz]), ww
    for candidate, diagonal in (([wx, xx, xy, xz], xx), ([wy, xy, yy, yz], yy), ([wz, xz, yz, zz], zz)):
        better = diagonal > square
        row = jnp.where(better, jnp.stack(candidate), row)
        square = jnp.where(better, diagonal, square)
    row = jnp.where(row[0] < 0, -row, row)
    # For an exact rotation the length is 2 sqrt(square); dividing by the length makes it exact for a perturbed one too.
    return row / jnp.sqrt(total(row * row))


def wxyz_to_xyzw(q: Quaternion) -> Quaternion:
    """Reorder `(w, x, y, z)` to `(x, y, z, w)`."""
    return jnp.roll(q, -1)


def xyzw_to_wxyz(q: Quaternion) -> Quaternion:
    """Reorder `(x, y, z, w)` to `(w, x, y, z)`."""
    return jnp.roll(q, 1)
