"""States made of blocks: arrays of elements of one group each, with flat trivialised tangents over all of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import jax
from jaxtyping import Array, Float


def blockwise(blocks: Sequence[Any], tangent: Float[Array, " n"]) -> list[Array]:
    """The parts `(elements, dim)` of a tangent; blocks have a `space`, `junctions` and `slots` (`jmbs.ephs.Block`)."""
    return [tangent[b.slots].reshape(len(b.junctions), b.space.dim) for b in blocks]


def lift_blocks(blocks: Sequence[Any], x: Sequence[Array], velocity: Float[Array, " n"]) -> tuple[Array, ...]:
    """Ambient tangents of all blocks from the trivialised velocity."""
    parts = blockwise(blocks, velocity)
    return tuple(jax.vmap(b.space.lift)(q, v) for b, q, v in zip(blocks, x, parts, strict=True))


def retract_blocks(
    blocks: Sequence[Any], x: Sequence[Array], step: Float[Array, " n"], which: Collection[int] | None = None
) -> tuple[Array, ...]:
    """`x exp(step)`, block by block; of the blocks `which` only, if given. Reverse mode evaluates it anew."""
    moved = list(x)
    for i, (block, part) in enumerate(zip(blocks, blockwise(blocks, step), strict=True)):
        if which is None or i in which:
            move = lambda q, xi, space=block.space: space.compose(q, space.exp(xi))  # noqa: E731
            moved[i] = jax.vmap(_anew(move))(x[i], part)
    return tuple(moved)


def dexp_inv_blocks(
    blocks: Sequence[Any], step: Float[Array, " n"], velocity: Float[Array, " n"]
) -> list[Float[Array, "elements dim"]]:
    """`dexp^-1_step(velocity)`, block by block. Reverse mode evaluates it anew."""
    pairs = zip(blocks, blockwise(blocks, step), blockwise(blocks, velocity), strict=True)
    return [jax.vmap(_anew(b.space.dexp_inv))(xi, v) for b, xi, v in pairs]


def _anew(function: Callable) -> Callable:
    """The function, of which reverse mode keeps the arguments only: the rest is quicker to compute than to keep."""
    return jax.checkpoint(lambda *args: function(*args), prevent_cse=False)
