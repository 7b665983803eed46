"""Matrices of which every row has few entries that may differ from zero, at places known when a program is made."""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jmbs.by_value import by_value
from jmbs.jaxext import entries_at, sums_at
from jmbs.linear.small import LONG, products


@by_value
@dataclasses.dataclass(frozen=True, eq=False)
class SparseRows:
    """Matrices `(m, size)`, stored as entries `(m, w)`, with or without a batch axis, last.

    **Arguments:** the `columns` (m, w) in which the entries stand, -1 where a row has fewer: such entries are zero.
    """

    columns: np.ndarray
    size: int

    @staticmethod
    def of(pattern: np.ndarray) -> SparseRows:
        """Those that may differ from zero where a `pattern` (m, size) says it."""
        m, size = pattern.shape
        width = pattern.sum(axis=1).max(initial=1)
        if width == size:
            return SparseRows(np.broadcast_to(np.arange(size), pattern.shape), size)
        order = np.argsort(~pattern, axis=1, kind="stable")[:, :width]
        return SparseRows(np.where(np.take_along_axis(pattern, order, axis=1), order, -1), size)

    @functools.cached_property
    def dense(self) -> bool:
        """Whether all entries are stored, in their order."""
        return np.array_equal(self.columns, np.broadcast_to(np.arange(self.size), (len(self.columns), self.size)))

    @functools.cached_property
    def places(self) -> np.ndarray:
        """`(m, size)`: where entries stand among all that are stored, row by row; -1: not stored."""
        m, width = self.columns.shape
        places = np.full((m, self.size), -1)
        row, k = np.nonzero(self.columns >= 0)
        places[row, self.columns[row, k]] = row * width + k
        return places

    def at(self, entries: Float[Array, "m w *b"], places: np.ndarray) -> Float[Array, "*n *b"]:
        """The entries at some of the `places`, zero for -1."""
        m, width = self.columns.shape
        found = entries_at(entries.reshape(m * width, *entries.shape[2:]), np.maximum(places, 0))
        return jnp.where(places.reshape(*places.shape, *(1,) * (entries.ndim - 2)) >= 0, found, jnp.zeros_like(found))

    def times(self, entries: Float[Array, "m w b"], x: Float[Array, "size *c b"]) -> Float[Array, "m *c b"]:
        """The products with vectors or matrices, member by member."""
        if self.dense:
            return products(entries, x)
        m, width = self.columns.shape
        own = entries.reshape(m, width, *(1,) * (x.ndim - 2), -1)
        at = np.maximum(self.columns, 0)
        if width <= LONG:
            return sum(
                (own[:, k] * entries_at(x, at[:, k]) for k in range(1, width)), own[:, 0] * entries_at(x, at[:, 0])
            )

        def add(total: Array, term: tuple[Array, Array]) -> tuple[Array, None]:
            own, at = term
            return total + own * x.at[at].get(mode="promise_in_bounds"), None

        start = jnp.zeros((m, *x.shape[1:]), x.dtype)
        return jax.lax.scan(add, start, (jnp.swapaxes(own, 0, 1), jnp.asarray(at.T)))[0]

    def transposed_times(self, entries: Float[Array, "m w b"], y: Float[Array, "m b"]) -> Float[Array, "size b"]:
        """The products of the transposed matrices with vectors."""
        if self.dense:
            return products(jnp.swapaxes(entries, 0, 1), y)
        terms = entries * y[:, None]
        return sums_at(terms.reshape(-1, terms.shape[-1]), self.columns.ravel(), self.size)
