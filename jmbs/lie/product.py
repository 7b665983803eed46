"""Direct products of groups, flattened into one vector."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array

from jmbs.errors import ModelError
from jmbs.lie.group import AbstractGroup


def _split(flat: Array, shapes: list[tuple[int, ...]]) -> list[Array]:
    parts, start = [], 0
    for shape in shapes:
        stop = start + prod(shape)
        parts.append(flat[start:stop].reshape(*shape, *flat.shape[1:]))
        start = stop
    return parts


def _join(parts: Sequence[Array], like: Array) -> Array:
    """The inverse of `_split`, with the axes at the end that `like` has beyond its first."""
    more = like.shape[1:]
    size = lambda part: prod(part.shape[: part.ndim - len(more)])  # noqa: E731
    return jnp.concatenate([jnp.zeros((0, *more), like.dtype), *(part.reshape(size(part), *more) for part in parts)])


class Product(AbstractGroup):
    """A direct product: elements are the factors' arrays, ravelled and concatenated; tangents and coordinates too.

    **Arguments:**

    - `groups`: a tuple of groups, empty allowed.
    """

    groups: tuple[AbstractGroup, ...] = eqx.field(static=True, converter=tuple)

    def __check_init__(self):
        for i, group in enumerate(self.groups):
            if not isinstance(group, AbstractGroup):
                raise ModelError(f"Product/groups/{i}", repr(group), "a group object")

    @property
    def name(self) -> str:
        return "*".join(group.name for group in self.groups) or "R0"

    @property
    def dim(self) -> int:
        return sum(group.dim for group in self.groups)

    @property
    def shape(self) -> tuple[int, ...]:
        return (sum(prod(group.shape) for group in self.groups),)

    @property
    def coordinate_size(self) -> int:
        return sum(group.coordinate_size for group in self.groups)

    def split(self, q: Array) -> list[Array]:
        """The factors' elements, each in its own shape."""
        return _split(q, [group.shape for group in self.groups])

    def join(self, elements: list[Array], dtype=None) -> Array:
        """The inverse of `split`; also for the factors' tangents or coordinates. `dtype` serves the empty product."""
        return _join(elements, jnp.zeros(0, elements[0].dtype if elements else dtype))

    def split_tangent(self, xi: Array) -> list[Array]:
        """The factors' tangents or cotangents."""
        return _split(xi, [(group.dim,) for group in self.groups])

    def _each(self, method: Callable[..., Array], like: Array, *arguments: list[Array]) -> Array:
        return _join([method(*factor) for factor in zip(self.groups, *arguments, strict=True)], like)

    def identity(self, dtype=None) -> Array:
        return self._each(lambda g: g.identity(dtype), jnp.zeros(0, dtype))

    def compose(self, a: Array, b: Array) -> Array:
        return self._each(lambda g, x, y: g.compose(x, y), a, self.split(a), self.split(b))

    def inverse(self, a: Array) -> Array:
        return self._each(lambda g, x: g.inverse(x), a, self.split(a))

    def lift(self, q: Array, xi: Array) -> Array:
        return self._each(lambda g, x, u: g.lift(x, u), q, self.split(q), self.split_tangent(xi))

    def lower(self, q: Array, dq: Array) -> Array:
        return self._each(lambda g, x, dx: g.lower(x, dx), q, self.split(q), self.split(dq))

    def exp(self, xi: Array) -> Array:
        return self._each(lambda g, u: g.exp(u), xi, self.split_tangent(xi))

    def log(self, q: Array) -> Array:
        return self._each(lambda g, x: g.log(x), q, self.split(q))

    def Ad(self, q: Array, xi: Array) -> Array:
        return self._each(lambda g, x, u: g.Ad(x, u), xi, self.split(q), self.split_tangent(xi))

    def Ad_dual(self, q: Array, f: Array) -> Array:
        return self._each(lambda g, x, p: g.Ad_dual(x, p), f, self.split(q), self.split_tangent(f))

    def ad(self, xi: Array, eta: Array) -> Array:
        return self._pairwise(lambda g, u, w: g.ad(u, w), xi, eta)

    def ad_dual(self, xi: Array, p: Array) -> Array:
        return self._pairwise(lambda g, u, w: g.ad_dual(u, w), xi, p)

    def dexp(self, xi: Array, eta: Array) -> Array:
        return self._pairwise(lambda g, u, w: g.dexp(u, w), xi, eta)

    def dexp_inv(self, xi: Array, eta: Array) -> Array:
        return self._pairwise(lambda g, u, w: g.dexp_inv(u, w), xi, eta)

    def cay(self, xi: Array) -> Array:
        return self._each(lambda g, u: g.cay(u), xi, self.split_tangent(xi))

    def dcay(self, xi: Array, eta: Array) -> Array:
        return self._pairwise(lambda g, u, w: g.dcay(u, w), xi, eta)

    def dcay_inv(self, xi: Array, eta: Array) -> Array:
        return self._pairwise(lambda g, u, w: g.dcay_inv(u, w), xi, eta)

    def _pairwise(self, method: Callable[..., Array], xi: Array, eta: Array) -> Array:
        return self._each(method, eta, self.split_tangent(xi), self.split_tangent(eta))

    def normalise(self, q: Array) -> Array:
        return self._each(lambda g, x: g.normalise(x), q, self.split(q))

    def to_coordinates(self, q: Array) -> Array:
        return self._each(lambda g, x: g.to_coordinates(x), q, self.split(q))

    def from_coordinates(self, c: Array) -> Array:
        parts = _split(c, [(group.coordinate_size,) for group in self.groups])
        return self._each(lambda g, x: g.from_coordinates(x), c, parts)
