"""States made of blocks: arrays of elements of one group each, with flat trivialised tangents over all of them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from typing import Any

import jax
from jaxtyping import Array, Float

from jmbs.jaxext import along_batches, of_members
from jmbs.lie.group import AbstractGroup


def blockwise(blocks: Sequence[Any], tangent: Float[Array, "n *b"]) -> list[Array]:
    """The parts `(elements, dim)` of a tangent; blocks have a `space`, `junctions` and `slots` (`jmbs.ephs.Block`)."""
    return [tangent[b.slots].reshape(len(b.junctions), b.space.dim, *tangent.shape[1:]) for b in blocks]


def lift_blocks(blocks: Sequence[Any], x: Sequence[Array], velocity: Float[Array, " n"]) -> tuple[Array, ...]:
    """Ambient tangents of all blocks from the trivialised velocity."""

    def lift(*given: Array) -> list[Array]:
        *x, velocity = given
        more, parts = velocity.ndim - 1, blockwise(blocks, velocity)
        return [of_members(b.space.lift, q, v, more=more) for b, q, v in zip(blocks, x, parts, strict=True)]

    return tuple(along_batches(lift, *x, velocity))


def retract_blocks(
    blocks: Sequence[Any], x: Sequence[Array], step: Float[Array, " n"], which: Collection[int] | None = None
) -> tuple[Array, ...]:
    """`x exp(step)`, block by block; of the blocks `which` only, if given. Reverse mode evaluates it anew."""
    chosen = list(range(len(blocks)) if which is None else which)

    def retract(*given: Array) -> list[Array]:
        *x, step = given
        own, more = [blocks[i] for i in chosen], step.ndim - 1
        triples = zip(own, x, blockwise(own, step), strict=True)
        return [of_members(partial(_moved, b.space), q, xi, more=more) for b, q, xi in triples]

    moved = dict(zip(chosen, along_batches(retract, *(x[i] for i in chosen), step), strict=True))
    return tuple(moved.get(i, q) for i, q in enumerate(x))


def dexp_inv_blocks(
    blocks: Sequence[Any], step: Float[Array, " n"], velocity: Float[Array, " n"]
) -> list[Float[Array, "elements dim"]]:
    """`dexp^-1_step(velocity)`, block by block. Reverse mode evaluates it anew."""

    def dexp_inv(step: Array, velocity: Array) -> list[Array]:
        triples = zip(blocks, blockwise(blocks, step), blockwise(blocks, velocity), strict=True)
        return [of_members(b.space.dexp_inv, xi, v, more=step.ndim - 1) for b, xi, v in triples]

    return along_batches(dexp_inv, step, velocity)


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _moved(space: AbstractGroup, q: Array, xi: Array) -> Array:
    """`q exp(xi)`."""
    return space.compose(q, space.exp(xi))


@_moved.defjvp
def _moved_rate(space: AbstractGroup, primals, tangents):
    """Its derivative by the formula of the exponential's tangent, which is shorter than that of its evaluation."""
    (q, xi), (dq, dxi) = primals, tangents
    step = space.exp(xi)
    moved, carried = jax.jvp(lambda q: space.compose(q, step), (q,), (dq,))
    return moved, carried + space.lift(moved, space.dexp(-xi, dxi))
