"""Sums of vectors along the paths from the roots of a forest to all its nodes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from jmbs.graphs import Forest
from jmbs.jaxext import all_entries_at, entries_at, sums_at
from jmbs.rigid_body.passes import backward_pass, forward_pass

IDENTITY = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0)

Entries = TypeVar("Entries")
"""A pytree of arrays `(nodes, ...)`."""


@dataclasses.dataclass(frozen=True, eq=False)
class Paths:
    """The paths of a forest. Entries are `(nodes, ...)`."""

    forest: Forest

    def sums(self, entries: Entries) -> Entries:
        """The sums of entries from the root to each node."""
        return self._summed(forward_pass, entries)

    def carried(self, entries: Entries, at: np.ndarray | None = None) -> Entries:
        """The sums of entries over each node, or those `at`, and all behind it."""
        return all_entries_at(self._summed(backward_pass, entries), np.arange(len(self.forest)) if at is None else at)

    def _summed(self, visit: Callable, entries: Entries) -> Entries:
        if not self.forest.has_edges:
            return entries
        step = lambda so_far, own: (jax.tree.map(jnp.add, so_far, own),) * 2  # noqa: E731
        return visit(self.forest, step, jax.tree.map(lambda x: jnp.zeros_like(x[0]), entries), entries)

    def sums_by_doubling(self, entries: Entries) -> Entries:
        """As `sums`, in log(depth) rounds of look-ups, which pays for few bodies in small batches."""

        def doubled(x: Array) -> Array:
            for up in self.forest.jumps:
                x = x + select(up >= 0, entries_at(x, np.maximum(up, 0)), jnp.zeros_like(x))
            return x

        return jax.tree.map(doubled, entries)

    def carried_by_doubling(self, entries: Entries) -> Entries:
        """As `carried`, likewise."""

        def doubled(x: Array) -> Array:
            for up in self.forest.jumps:
                x = x + sums_at(x, up, len(up))
            return x

        return jax.tree.map(doubled, entries)

    def above(self, entries: tuple[Array, ...], identity: bool = False) -> tuple[Array, ...]:
        """The entries of each node's parent; at roots zero, or those of the identity matrix."""
        parent = self.forest.parent
        at_roots = IDENTITY if identity else (0.0,) * len(entries)
        return tuple(
            select(parent >= 0, entries_at(x, np.maximum(parent, 0)), jnp.full_like(x, root))
            for x, root in zip(entries, at_roots, strict=True)
        )


def select(mask: Array | np.ndarray, a: Array, b: Array) -> Array:
    """`a` where the mask `(n,)` of the first axis holds, else `b`."""
    return jnp.where(mask.reshape(mask.shape + (1,) * (a.ndim - 1)), a, b)
