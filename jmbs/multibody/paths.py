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
from jmbs.spatial import Matrix, multiply

IDENTITY = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0)

Entries = TypeVar("Entries")
"""A pytree of arrays `(nodes, ...)`."""


@dataclasses.dataclass(frozen=True, eq=False)
class Paths:
    """The paths of a forest; `walk`: whether to go from node to node. Entries are `(nodes, ...)`."""

    forest: Forest
    walk: bool

    def products(self, rotation: Matrix) -> Matrix:
        """The product of the rotations from the root to each node."""
        if not self.forest.jumps:
            return rotation
        if self.walk:
            one = tuple(jnp.full_like(x[0], entry) for x, entry in zip(rotation, IDENTITY, strict=True))
            return outward(self.forest, lambda above, own: (multiply(above, own),) * 2, one, rotation)

        # One array, so that a round is one operation.
        whole = jnp.stack(rotation, axis=1).reshape(-1, 3, 3)
        for up in self.forest.jumps:
            product = jnp.matmul(whole[np.maximum(up, 0)], whole, precision="highest")
            whole = select(up >= 0, product, whole)
        return tuple(whole[:, i, j] for i in range(3) for j in range(3))

    def sums(self, entries: Entries) -> Entries:
        """The sums of entries from the root to each node."""
        return self._summed(outward, self.forest.reach, entries)

    def carried(self, entries: Entries) -> Entries:
        """The sums of entries over each node and all behind it."""
        return self._summed(inward, self.forest.reach.T, entries)

    def _summed(self, walk: Callable, mask: np.ndarray, entries: Entries) -> Entries:
        """Sums by a walk, or by a mask `(nodes, nodes)` of what adds to what."""
        if not self.forest.jumps:
            return entries
        if self.walk:
            step = lambda so_far, own: (jax.tree.map(jnp.add, so_far, own),) * 2  # noqa: E731
            return walk(self.forest, step, jax.tree.map(lambda x: jnp.zeros_like(x[0]), entries), entries)
        leaves, structure = jax.tree.flatten(entries)
        whole = jnp.stack(leaves)
        total = jnp.einsum("ij,kj...->ki...", jnp.asarray(mask, whole.dtype), whole, precision="highest")
        return structure.unflatten(list(total))

    def above(self, entries: tuple[Array, ...], identity: bool = False) -> tuple[Array, ...]:
        """The entries of each node's parent; at roots zero, or those of the identity matrix."""
        parent = self.forest.parent
        at_roots = IDENTITY if identity else (0.0,) * len(entries)
        return tuple(
            select(parent >= 0, x[np.maximum(parent, 0)], jnp.full_like(x, root))
            for x, root in zip(entries, at_roots, strict=True)
        )


def select(mask: Array | np.ndarray, a: Array, b: Array) -> Array:
    """`a` where the mask `(n,)` of the first axis holds, else `b`."""
    return jnp.where(mask.reshape(mask.shape + (1,) * (a.ndim - 1)), a, b)
