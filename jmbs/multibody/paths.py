"""Products of rotations and sums of vectors along the paths from the roots to all bodies.

A single mechanism has few bodies and should take few, large operations: rotations by doubling in log(depth) rounds,
sums by a mask. Batches, and derivatives, walk from body to body, which is linear in their number.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from jmbs.graphs import Forest
from jmbs.multibody.walks import inward, outward
from jmbs.spatial import Matrix
from jmbs.static_places import all_entries_at, entries_at, sums_at

SMALL_MASK = 500
"""Up to so many entries a sum is quicker than a call of a library for products of matrices."""
IDENTITY = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0)

Entries = TypeVar("Entries")
"""A pytree of arrays `(nodes, ...)`."""


@dataclasses.dataclass(frozen=True, eq=False)
class Paths:
    """The paths of a forest; `walk`: whether to go from node to node. Entries are `(nodes, ...)`."""

    forest: Forest
    walk: bool

    def products(self, rotation: Matrix) -> tuple[Matrix, Matrix]:
        """The products of rotations `(nodes,)` from the root to each node, and to its parent; not for walks."""
        n, parent = len(self.forest), self.forest.parent
        if not self.forest.jumps:
            return rotation, self.above(rotation, identity=True)
        # One array, so that a round is one operation.
        whole = jnp.stack(rotation, axis=1).reshape(n, 3, 3)
        for up in self.forest.jumps:
            product = jnp.matmul(whole[np.maximum(up, 0)], whole, precision="highest")
            whole = select(up >= 0, product, whole)
        # A product with a mask gathers all entries by one operation too.
        nodes = np.arange(n)[:, None]
        places = np.concatenate([nodes == nodes.T, nodes == parent], axis=1).T
        both = by_mask(whole.reshape(n, 9).T, places)
        base = jnp.asarray(parent < 0, whole.dtype)
        return tuple(both[:, :n]), tuple(x + entry * base for x, entry in zip(both[:, n:], IDENTITY, strict=True))

    def sums(self, entries: Entries) -> Entries:
        """The sums of entries from the root to each node."""
        return self._summed(outward, self.forest.reach, entries)

    def carried(self, entries: Entries, at: np.ndarray | None = None) -> Entries:
        """The sums of entries over each node, or those `at`, and all behind it."""
        at, reach = np.arange(len(self.forest)) if at is None else at, self.forest.reach.T
        if self.walk or not self.forest.jumps:
            return all_entries_at(self._summed(inward, reach, entries), at)
        return self._summed(inward, reach[at], entries)

    def _summed(self, walk: Callable, mask: np.ndarray, entries: Entries) -> Entries:
        """Sums by a walk, or by a mask `(m, nodes)` of what adds to what."""
        if not self.forest.jumps:
            return entries
        if self.walk:
            step = lambda so_far, own: (jax.tree.map(jnp.add, so_far, own),) * 2  # noqa: E731
            return walk(self.forest, step, jax.tree.map(lambda x: jnp.zeros_like(x[0]), entries), entries)
        leaves, structure = jax.tree.flatten(entries)
        return structure.unflatten(list(by_mask(jnp.stack(leaves), mask)))

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


def by_mask(x: Array, mask: np.ndarray) -> Array:
    """`(k, n)` to `(k, m)`: the sums of the entries that each row of the mask `(m, n)` takes."""
    weights = jnp.asarray(mask.T, x.dtype)
    if mask.size <= SMALL_MASK:
        return jnp.sum(x[:, :, None] * weights, axis=1)
    return jnp.matmul(x, weights, precision="highest")


def select(mask: Array | np.ndarray, a: Array, b: Array) -> Array:
    """`a` where the mask `(n,)` of the first axis holds, else `b`."""
    return jnp.where(mask.reshape(mask.shape + (1,) * (a.ndim - 1)), a, b)
