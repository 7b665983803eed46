"""Products of rotations and sums of vectors along the paths from the roots to all bodies.

A single mechanism has few bodies and should take few, large operations: rotations by doubling in log(depth) rounds,
sums by a mask. Batches, and derivatives, walk from body to body, which is linear in their number.
"""

from __future__ import annotations

import dataclasses

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from jmbs.graphs import Forest
from jmbs.multibody.walks import inward, outward
from jmbs.spatial import Matrix, Vector, add, multiply

IDENTITY = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0)


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

    def sums(self, vectors: tuple[Vector, ...]) -> tuple[Vector, ...]:
        """The sums of vectors from the root to each node."""
        if not self.forest.jumps:
            return vectors
        if self.walk:
            none = tuple(tuple(jnp.zeros_like(x[0]) for x in v) for v in vectors)
            step = lambda above, own: (tuple(map(add, above, own)),) * 2  # noqa: E731
            return outward(self.forest, step, none, vectors)
        return self._combined(self.forest.reach, vectors)

    def carried(self, vectors: tuple[Vector, ...]) -> tuple[Vector, ...]:
        """The sums of vectors over each node and all behind it."""
        if not self.forest.jumps:
            return vectors
        if self.walk:
            none = tuple(tuple(jnp.zeros_like(x[0]) for x in v) for v in vectors)
            step = lambda behind, own: (tuple(map(add, behind, own)),) * 2  # noqa: E731
            return inward(self.forest, step, none, vectors)
        return self._combined(self.forest.reach.T, vectors)

    def _combined(self, mask: np.ndarray, vectors: tuple[Vector, ...]) -> tuple[Vector, ...]:
        whole = jnp.stack([x for v in vectors for x in v])
        total = jnp.einsum("ij,kj...->ki...", jnp.asarray(mask, whole.dtype), whole, precision="highest")
        return tuple(tuple(total[3 * k : 3 * k + 3]) for k in range(len(vectors)))

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
