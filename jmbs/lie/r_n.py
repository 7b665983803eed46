"""R^n under addition: joint angles, travels, charges, entropies."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array

from jmbs.errors import ModelError
from jmbs.lie.group import AbstractGroup


class Rn(AbstractGroup):
    """R^n: elements, tangents and coordinates have shape `(n,)`; all charts are the identity map.

    **Arguments:**

    - `n`: the dimension, a python integer, zero allowed.
    """

    n: int = eqx.field(static=True)

    def __check_init__(self):
        if not isinstance(self.n, int) or isinstance(self.n, bool) or self.n < 0:
            raise ModelError("Rn/n", repr(self.n), "a non-negative python integer")

    @property
    def name(self) -> str:
        return f"R{self.n}"

    @property
    def dim(self) -> int:
        return self.n

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.n,)

    @property
    def coordinate_size(self) -> int:
        return self.n

    def identity(self, dtype=None) -> Array:
        return jnp.zeros(self.n, dtype=dtype)

    def compose(self, a: Array, b: Array) -> Array:
        return a + b

    def inverse(self, a: Array) -> Array:
        return -a

    def lift(self, q: Array, xi: Array) -> Array:
        del q
        return xi

    def lower(self, q: Array, dq: Array) -> Array:
        del q
        return dq

    def exp(self, xi: Array) -> Array:
        return xi

    def log(self, q: Array) -> Array:
        return q

    def Ad(self, q: Array, xi: Array) -> Array:
        del q
        return xi

    def Ad_dual(self, q: Array, f: Array) -> Array:
        del q
        return f

    def ad(self, xi: Array, eta: Array) -> Array:
        del xi
        return jnp.zeros_like(eta)

    def ad_dual(self, xi: Array, p: Array) -> Array:
        del xi
        return jnp.zeros_like(p)

    def dexp(self, xi: Array, eta: Array) -> Array:
        del xi
        return eta

    def dexp_inv(self, xi: Array, eta: Array) -> Array:
        del xi
        return eta

    def cay(self, xi: Array) -> Array:
        return xi

    def dcay(self, xi: Array, eta: Array) -> Array:
        del xi
        return eta

    def dcay_inv(self, xi: Array, eta: Array) -> Array:
        del xi
        return eta

    def normalise(self, q: Array) -> Array:
        return q

    def to_coordinates(self, q: Array) -> Array:
        return q

    def from_coordinates(self, c: Array) -> Array:
        return c
