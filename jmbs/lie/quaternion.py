"""Unit quaternions, which appear at the edges only: `wxyz` inside jmbs, `xyzw` for others."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jmbs.lie.types import Matrix3, Quaternion
from jmbs.lie.vectors import dot, rotation_polynomial


def quaternion_to_rotation(wxyz: Quaternion) -> Matrix3:
    """The rotation matrix of a quaternion of any positive length (its direction counts, its length does not)."""
    w, v = jax.lax.split(wxyz, (1, 3), 0)
    s = 2 / dot(wxyz, wxyz)
    return rotation_polynomial(s * w, s, v)


def rotation_to_quaternion(R: Matrix3) -> Quaternion:
    """The unit quaternion `wxyz` of a rotation matrix with `w >= 0` (at angle pi: largest component positive).

    Shepperd's method: `4 q q^T` is linear in `R`, and its row with the largest diagonal entry (at least 1) is
    selected before the root is taken, so that all derivatives are finite everywhere.
    """
    entries = jax.lax.split(R.reshape(9, *R.shape[2:]), (1,) * 9, 0)
    (a, b, c), (d, e, f), (g, h, i) = entries[:3], entries[3:6], entries[6:]
    wx, wy, wz, xy, xz, yz = h - f, c - g, d - b, d + b, c + g, h + f
    plus, minus = 1 + a, 1 - a
    both, apart = e + i, e - i
    ww, xx, yy, zz = plus + both, plus - both, minus + apart, minus - apart
    row, square = jnp.concatenate([ww, wx, wy, wz]), ww
    for candidate, diagonal in (([wx, xx, xy, xz], xx), ([wy, xy, yy, yz], yy), ([wz, xz, yz, zz], zz)):
        better = diagonal > square
        row, square = jax.tree.map(
            lambda x, y, better=better: jnp.where(better, x, y), (jnp.concatenate(candidate), diagonal), (row, square)
        )
    row = jnp.where(row[:1] < 0, -row, row)
    # For an exact rotation the length is 2 sqrt(square); dividing by the length makes it exact for a perturbed one too.
    return row / jnp.sqrt(dot(row, row))


def wxyz_to_xyzw(q: Quaternion) -> Quaternion:
    """Reorder `(w, x, y, z)` to `(x, y, z, w)`."""
    return jnp.roll(q, -1)


def xyzw_to_wxyz(q: Quaternion) -> Quaternion:
    """Reorder `(x, y, z, w)` to `(w, x, y, z)`."""
    return jnp.roll(q, 1)
