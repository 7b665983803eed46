"""SO(3): rotations as 3x3 matrices that map body components to world components."""

from __future__ import annotations

import jax.numpy as jnp

from jmbs.lie.group import AbstractGroup, ad_polynomial
from jmbs.lie.quaternion import quaternion_to_rotation, rotation_to_quaternion
from jmbs.lie.series import angle_over_sine, dexp_coefficients_3, dexp_inv_coefficient_3, stumpffs
from jmbs.lie.types import Matrix3, Quaternion, Vector3
from jmbs.lie.vectors import cross, dot, multiply, rotate, rotate_back, rotation_polynomial, rows_cross, transpose, vee

# Newton-Schulz squares the error: a tenth becomes 1e-18 after four steps.
POLAR_STEPS = 4


def nearest_rotation(M: Matrix3) -> Matrix3:
    """The orthogonal polar factor of `M`, to rounding if `M` is within about 10 % of a rotation."""
    for _ in range(POLAR_STEPS):
        M = 1.5 * M - 0.5 * multiply(M, multiply(transpose(M), M))
    return M


class SpecialOrthogonal3(AbstractGroup):
    """SO(3): elements `R` of shape (3, 3), tangents `omega` of shape (3,) in body axes, rad (or rad/s as velocities).

    Coordinates are the unit quaternion `wxyz` with `w >= 0`.
    """

    @property
    def name(self) -> str:
        return "SO3"

    @property
    def dim(self) -> int:
        return 3

    @property
    def shape(self) -> tuple[int, ...]:
        return (3, 3)

    @property
    def coordinate_size(self) -> int:
        return 4

    def identity(self, dtype=None) -> Matrix3:
        return jnp.eye(3, dtype=dtype)

    def compose(self, a: Matrix3, b: Matrix3) -> Matrix3:
        return multiply(a, b)

    def inverse(self, a: Matrix3) -> Matrix3:
        return transpose(a)

    def lift(self, q: Matrix3, xi: Vector3) -> Matrix3:
        return rows_cross(q, xi)

    def lower(self, q: Matrix3, dq: Matrix3) -> Vector3:
        return vee(multiply(transpose(q), dq))

    def exp(self, xi: Vector3) -> Matrix3:
        """Rodrigues' formula."""
        s1, s2 = stumpffs(1, 2, dot(xi, xi))
        return rotation_polynomial(s1, s2, xi)

    def log(self, q: Matrix3) -> Vector3:
        """The rotation vector of length at most pi; at pi exactly its largest component is positive."""
        wxyz = rotation_to_quaternion(q)
        w, v = wxyz[0], wxyz[1:]
        return 2 * angle_over_sine(w, dot(v, v)) * v

    def Ad(self, q: Matrix3, xi: Vector3) -> Vector3:
        return rotate(q, xi)

    def Ad_dual(self, q: Matrix3, f: Vector3) -> Vector3:
        return rotate_back(q, f)

    def ad(self, xi: Vector3, eta: Vector3) -> Vector3:
        return cross(xi, eta)

    def ad_dual(self, xi: Vector3, p: Vector3) -> Vector3:
        return cross(p, xi)

    def dexp(self, xi: Vector3, eta: Vector3) -> Vector3:
        return ad_polynomial(self, dexp_coefficients_3(dot(xi, xi)), xi, eta)

    def dexp_inv(self, xi: Vector3, eta: Vector3) -> Vector3:
        return ad_polynomial(self, (-0.5, dexp_inv_coefficient_3(dot(xi, xi))), xi, eta)

    def cay(self, xi: Vector3) -> Matrix3:
        """`(I - hat/2)^-1 (I + hat/2)`: the rotation about `xi` by `2 atan(|xi|/2)`."""
        s = 4 / (4 + dot(xi, xi))
        return rotation_polynomial(s, 0.5 * s, xi)

    def dcay(self, xi: Vector3, eta: Vector3) -> Vector3:
        return 4 / (4 + dot(xi, xi)) * (eta + 0.5 * cross(xi, eta))

    def dcay_inv(self, xi: Vector3, eta: Vector3) -> Vector3:
        return eta - 0.5 * cross(xi, eta) + 0.25 * dot(xi, eta) * xi

    def normalise(self, q: Matrix3) -> Matrix3:
        return nearest_rotation(q)

    def to_coordinates(self, q: Matrix3) -> Quaternion:
        return rotation_to_quaternion(q)

    def from_coordinates(self, c: Quaternion) -> Matrix3:
        return quaternion_to_rotation(c)


SO3 = SpecialOrthogonal3()
