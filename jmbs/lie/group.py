"""The contract of a Lie group, and the one formula by which tangents of the exponential are evaluated."""

from __future__ import annotations

import abc
from collections.abc import Sequence

import equinox as eqx
from jaxtyping import Array


class AbstractGroup(eqx.Module):
    """A Lie group whose elements are plain arrays.

    Group objects have static fields only: they are stateless, hashable, equal by value, and may serve as static
    fields and dictionary keys. Elements `q` have shape `shape`, tangents `xi` and cotangents `f` shape `(dim,)`;
    tangents are left-trivialised. Methods take single elements, or many whose axes, all the same, come last:
    `(*shape, ...)` and `(dim, ...)`, see `jmbs.jaxext.many`.
    """

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """A short name, for messages."""

    @property
    @abc.abstractmethod
    def dim(self) -> int:
        """The dimension of the group: tangents have shape `(dim,)`."""

    @property
    @abc.abstractmethod
    def shape(self) -> tuple[int, ...]:
        """The shape of an element."""

    @property
    @abc.abstractmethod
    def coordinate_size(self) -> int:
        """The length of the user-facing coordinates."""

    @abc.abstractmethod
    def identity(self, dtype=None) -> Array:
        """The neutral element; `None` means JAX's default float."""

    @abc.abstractmethod
    def compose(self, a: Array, b: Array) -> Array:
        """The product `a b`."""

    @abc.abstractmethod
    def inverse(self, a: Array) -> Array:
        """The element with `compose(a, inverse(a)) = identity()`."""

    @abc.abstractmethod
    def lift(self, q: Array, xi: Array) -> Array:
        """`T_eL_q(xi)`: the derivative of `compose(q, exp(s xi))` at `s = 0`, in the shape of `q`."""

    @abc.abstractmethod
    def lower(self, q: Array, dq: Array) -> Array:
        """The left-trivialised tangent of an ambient one: `lower(q, lift(q, xi)) = xi`."""

    def project(self, q: Array, dq: Array) -> Array:
        """The tangent part of an ambient change, `dq` itself where that is tangent."""
        return self.lift(q, self.lower(q, dq))

    @abc.abstractmethod
    def exp(self, xi: Array) -> Array:
        """The exponential."""

    @abc.abstractmethod
    def log(self, q: Array) -> Array:
        """A tangent with `exp(log(q)) = q`, rotation angles in `[0, pi]` where the group has rotations."""

    @abc.abstractmethod
    def Ad(self, q: Array, xi: Array) -> Array:
        """The adjoint action: the derivative of `q exp(s xi) q^-1` at `s = 0`."""

    @abc.abstractmethod
    def Ad_dual(self, q: Array, f: Array) -> Array:
        """The plain dual: `<Ad_dual(q, f), u> = <f, Ad(q, u)>`."""

    @abc.abstractmethod
    def ad(self, xi: Array, eta: Array) -> Array:
        """The Lie bracket `[xi, eta]`: the derivative of `Ad(exp(s xi), eta)` at `s = 0`."""

    @abc.abstractmethod
    def ad_dual(self, xi: Array, p: Array) -> Array:
        """The plain dual: `<ad_dual(xi, p), u> = <p, ad(xi, u)>`."""

    @abc.abstractmethod
    def dexp(self, xi: Array, eta: Array) -> Array:
        """The right-trivialised tangent of exp: `d/dt exp(xi(t)) = dexp(xi, xidot) exp(xi)`.

        The left-trivialised velocity is `dexp(-xi, xidot)`.
        """

    @abc.abstractmethod
    def dexp_inv(self, xi: Array, eta: Array) -> Array:
        """The inverse of `dexp(xi, .)`; singular where the rotation angle is a non-zero multiple of 2 pi."""

    @abc.abstractmethod
    def cay(self, xi: Array) -> Array:
        """The Cayley map (or another retraction that the group names), equal to exp to second order."""

    @abc.abstractmethod
    def dcay(self, xi: Array, eta: Array) -> Array:
        """The right-trivialised tangent of `cay`; the left-trivialised one is `dcay(-xi, .)`."""

    @abc.abstractmethod
    def dcay_inv(self, xi: Array, eta: Array) -> Array:
        """The inverse of `dcay(xi, .)`."""

    @abc.abstractmethod
    def normalise(self, q: Array) -> Array:
        """The nearest element to a slightly perturbed array; differentiable."""

    @abc.abstractmethod
    def to_coordinates(self, q: Array) -> Array:
        """User-facing coordinates, shape `(coordinate_size,)`."""

    @abc.abstractmethod
    def from_coordinates(self, c: Array) -> Array:
        """The element with the given coordinates; quaternions are normalised."""


def ad_polynomial(group: AbstractGroup, coefficients: Sequence[float | Array], xi: Array, eta: Array) -> Array:
    """`(I + c_1 ad_xi + c_2 ad_xi^2 + ...) eta` by Horner's rule."""
    value = coefficients[-1] * eta
    for c in reversed(coefficients[:-1]):
        value = group.ad(xi, value) + c * eta
    return eta + group.ad(xi, value)
