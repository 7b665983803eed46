"""The universal cover of SE(2): planar rigid motions whose angle counts turns."""

from __future__ import annotations

import jax.numpy as jnp

from jmbs.lie.group import AbstractGroup, ad_polynomial
from jmbs.lie.series import dexp_coefficients_3, dexp_inv_coefficient_3, stumpffs
from jmbs.lie.types import Vector3


def _turn(cosine, sine, v):
    """`(cosine + sine J) v`, J the quarter turn, as components."""
    return cosine * v[0] - sine * v[1], sine * v[0] + cosine * v[1]


class SpecialEuclidean2(AbstractGroup):
    """SE(2): elements `(x, y, angle)`, tangents `(vx, vy, omega)` in child axes, both of shape (3,); m and rad.

    The angle is unwrapped. Coordinates are the element itself. `log` is singular where the angle is a non-zero
    multiple of 2 pi: such elements with a translation have no logarithm in the cover. The group's own retraction
    is exp: `cay`, `dcay` and `dcay_inv` are `exp`, `dexp` and `dexp_inv`, since a Cayley map would need unwrapping.
    """

    @property
    def name(self) -> str:
        return "SE2"

    @property
    def dim(self) -> int:
        return 3

    @property
    def shape(self) -> tuple[int, ...]:
        return (3,)

    @property
    def coordinate_size(self) -> int:
        return 3

    def identity(self, dtype=None) -> Vector3:
        return jnp.zeros(3, dtype=dtype)

    def compose(self, a: Vector3, b: Vector3) -> Vector3:
        x, y = _turn(jnp.cos(a[2]), jnp.sin(a[2]), b)
        return jnp.stack([a[0] + x, a[1] + y, a[2] + b[2]])

    def inverse(self, a: Vector3) -> Vector3:
        x, y = _turn(jnp.cos(a[2]), -jnp.sin(a[2]), a)
        return jnp.stack([-x, -y, -a[2]])

    def lift(self, q: Vector3, xi: Vector3) -> Vector3:
        x, y = _turn(jnp.cos(q[2]), jnp.sin(q[2]), xi)
        return jnp.stack([x, y, xi[2]])

    def lower(self, q: Vector3, dq: Vector3) -> Vector3:
        x, y = _turn(jnp.cos(q[2]), -jnp.sin(q[2]), dq)
        return jnp.stack([x, y, dq[2]])

    def exp(self, xi: Vector3) -> Vector3:
        w = xi[2]
        s1, s2 = stumpffs(1, 2, w * w)
        x, y = _turn(s1, w * s2, xi)
        return jnp.stack([x, y, w])

    def log(self, q: Vector3) -> Vector3:
        w = q[2]
        x, y = _turn(1 - w * w * dexp_inv_coefficient_3(w * w), -0.5 * w, q)
        return jnp.stack([x, y, w])

    def Ad(self, q: Vector3, xi: Vector3) -> Vector3:
        x, y = _turn(jnp.cos(q[2]), jnp.sin(q[2]), xi)
        return jnp.stack([x + xi[2] * q[1], y - xi[2] * q[0], xi[2]])

    def Ad_dual(self, q: Vector3, f: Vector3) -> Vector3:
        x, y = _turn(jnp.cos(q[2]), -jnp.sin(q[2]), f)
        return jnp.stack([x, y, f[2] + f[0] * q[1] - f[1] * q[0]])

    def ad(self, xi: Vector3, eta: Vector3) -> Vector3:
        x = xi[1] * eta[2] - xi[2] * eta[1]
        y = xi[2] * eta[0] - xi[0] * eta[2]
        return jnp.stack([x, y, jnp.zeros_like(x)])

    def ad_dual(self, xi: Vector3, p: Vector3) -> Vector3:
        return jnp.stack([xi[2] * p[1], -xi[2] * p[0], xi[1] * p[0] - xi[0] * p[1]])

    def dexp(self, xi: Vector3, eta: Vector3) -> Vector3:
        return ad_polynomial(self, dexp_coefficients_3(xi[2] * xi[2]), xi, eta)

    def dexp_inv(self, xi: Vector3, eta: Vector3) -> Vector3:
        return ad_polynomial(self, (-0.5, dexp_inv_coefficient_3(xi[2] * xi[2])), xi, eta)

    def cay(self, xi: Vector3) -> Vector3:
        return self.exp(xi)

    def dcay(self, xi: Vector3, eta: Vector3) -> Vector3:
        return self.dexp(xi, eta)

    def dcay_inv(self, xi: Vector3, eta: Vector3) -> Vector3:
        return self.dexp_inv(xi, eta)

    def normalise(self, q: Vector3) -> Vector3:
        return q

    def to_coordinates(self, q: Vector3) -> Vector3:
        return q

    def from_coordinates(self, c: Vector3) -> Vector3:
        return c


SE2 = SpecialEuclidean2()
