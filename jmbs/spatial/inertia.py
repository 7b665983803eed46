"""Articulated-body inertia in components: how a body with what hangs on it resists being accelerated."""

from __future__ import annotations

from typing import NamedTuple

from jaxtyping import Array

from jmbs.spatial.vectors import (
    ENTRIES,
    Matrix,
    Symmetric,
    Vector,
    add,
    cross,
    dot,
    rows,
    scale,
    symmetric_rows,
    symmetric_times,
    times,
    transposed_times,
)


class Inertia(NamedTuple):
    """`torque = angular w + coupling v`, `force = coupling^T w + linear v`, about one point, in one frame's axes."""

    angular: Symmetric
    coupling: Matrix
    linear: Symmetric


def momentum(inertia: Inertia, w: Vector, v: Vector) -> tuple[Vector, Vector]:
    """The inertia times a motion `(w, v)`: angular part about the same point, linear part."""
    angular = add(symmetric_times(inertia.angular, w), times(inertia.coupling, v))
    return angular, add(transposed_times(inertia.coupling, w), symmetric_times(inertia.linear, v))


def with_body(inertia: Inertia, mass: Array, angular: Symmetric) -> Inertia:
    """A rigid body added, whose centre of mass is the point of reference."""
    J = tuple(a + b for a, b in zip(inertia.angular, angular, strict=True))
    xx, xy, xz, yy, yz, zz = inertia.linear
    return Inertia(J, inertia.coupling, (xx + mass, xy, xz, yy + mass, yz, zz + mass))


def apparent_inertia(inertia: Inertia, U: tuple[Vector, Vector], inverse: Array) -> Inertia:
    """`inertia - U U^T inverse`: what a joint transmits that is free along a motion, `U` the inertia times it."""
    Uw, Uv = U
    Vw, Vv = scale(inverse, Uw), scale(inverse, Uv)
    return Inertia(
        tuple(a - Uw[i] * Vw[j] for a, (i, j) in zip(inertia.angular, ENTRIES, strict=True)),
        tuple(inertia.coupling[3 * i + j] - Uw[i] * Vv[j] for i in range(3) for j in range(3)),
        tuple(a - Uv[i] * Vv[j] for a, (i, j) in zip(inertia.linear, ENTRIES, strict=True)),
    )


def shifted(inertia: Inertia, d: Vector) -> Inertia:
    """The same inertia about another point, from which the old one lies at `d`.

    `coupling' = coupling + [d] linear`, `angular' = angular + [d] coupling^T - coupling [d] - [d] linear [d]`.
    """
    d_linear = [cross(d, row) for row in symmetric_rows(inertia.linear)]  # columns of [d] linear
    d_coupling = [cross(d, row) for row in rows(inertia.coupling)]  # columns of [d] coupling^T
    outer = [cross(d, (d_linear[0][i], d_linear[1][i], d_linear[2][i])) for i in range(3)]  # rows of -[d] linear [d]
    coupling = tuple(inertia.coupling[3 * i + j] + d_linear[j][i] for i in range(3) for j in range(3))
    angular = tuple(
        a + d_coupling[j][i] + d_coupling[i][j] + outer[i][j]
        for a, (i, j) in zip(inertia.angular, ENTRIES, strict=True)
    )
    return Inertia(angular, coupling, inertia.linear)


def moved(torque: Vector, force: Vector, d: Vector) -> Vector:
    """The torque of a wrench about another point, from which the old one lies at `d`."""
    return add(torque, cross(d, force))


def power(motion: tuple[Vector, Vector], wrench: tuple[Vector, Vector]) -> Array:
    """What a wrench does on a motion about the same point."""
    return dot(motion[0], wrench[0]) + dot(motion[1], wrench[1])
