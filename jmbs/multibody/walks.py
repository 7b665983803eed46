"""Walks through a forest, one node after the other, as scans whose compile time does not depend on its size.

What goes from a node to its neighbour in the numbering travels in the carry; what goes to a later one waits on a shelf,
of which there are as many as nodes with several children.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from jmbs.graphs import Forest


def outward(forest: Forest, step: Callable, start: PyTree, xs: PyTree) -> PyTree:
    """From roots to leaves: `step(above, x) -> (own, y)`; the parent's `own`, or `start` at roots; all `y`, stacked.

    Where all nodes are roots there is no walk: `above` is None for all of them together.
    """
    if not forest.has_edges:
        return jax.vmap(lambda x: step(None, x)[1])(xs)
    if _is_chain(forest):
        return jax.lax.scan(step, start, xs)[1]
    load, store, count = forest.shelves
    if count == 0:

        def follow(before, x):
            x, follows = x
            return step(jax.tree.map(lambda b, s: jnp.where(follows, b, s), before, start), x)

        return jax.lax.scan(follow, start, (xs, _follows(forest)))[1]
    # The last row keeps the start, for roots.
    shelves = jax.tree.map(lambda x: jnp.broadcast_to(x, (count + 1, *x.shape)), start)

    def walk(carry, x):
        before, shelves = carry
        x, follows, load, store, waits = x
        above = jax.lax.cond(follows, lambda: before, lambda: jax.tree.map(lambda s: _row(s, load), shelves))
        own, y = step(above, x)
        put = lambda shelves: jax.tree.map(lambda s, a: _with_row(s, store, a), shelves, own)  # noqa: E731
        return (own, jax.lax.cond(waits, put, lambda shelves: shelves, shelves)), y

    places = _follows(forest), jnp.asarray(np.where(load < 0, count, load)), jnp.asarray(store)
    return jax.lax.scan(walk, (start, shelves), (xs, *places, jnp.asarray(store != count)))[1]


def inward(forest: Forest, step: Callable, none: PyTree, xs: PyTree) -> PyTree:
    """From leaves to roots: `step(gathered, x) -> (up, y)`, `gathered` the sum of the children's `up`; all `y`.

    **Arguments:** `none`: zero, what leaves gather. Where all nodes are leaves, they gather None.
    """
    if not forest.has_edges:
        return jax.vmap(lambda x: step(None, x)[1])(xs)
    if _is_chain(forest):
        return jax.lax.scan(step, none, xs, reverse=True)[1]
    load, store, count = forest.shelves
    if count == 0:

        def lead(behind, x):
            x, follows = x
            up, y = step(behind, x)
            return jax.tree.map(lambda u: jnp.where(follows, u, 0), up), y

        return jax.lax.scan(lead, none, (xs, _follows(forest)), reverse=True)[1]
    # The last row stays empty, for nodes without a waiting child.
    shelves = jax.tree.map(lambda x: jnp.broadcast_to(x, (count + 1, *x.shape)), none)

    def walk(carry, x):
        behind, shelves = carry
        x, follows, load, store, waits, branches = x
        more = lambda: jax.tree.map(lambda b, s: b + _row(s, store), behind, shelves)  # noqa: E731
        up, y = step(jax.lax.cond(branches, more, lambda: behind), x)
        put = lambda shelves: jax.tree.map(lambda s, u: _with_row(s, load, _row(s, load) + u), shelves, up)  # noqa: E731
        shelves = jax.lax.cond(waits, put, lambda shelves: shelves, shelves)
        on = jax.lax.cond(follows, lambda: up, lambda: jax.tree.map(jnp.zeros_like, up))
        return (on, shelves), y

    waits = (load >= 0) & (load != count)
    places = _follows(forest), jnp.asarray(load), jnp.asarray(store), jnp.asarray(waits), jnp.asarray(store != count)
    return jax.lax.scan(walk, (none, shelves), (xs, *places), reverse=True)[1]


def _row(shelf: Array, index: Array) -> Array:
    return jax.lax.dynamic_index_in_dim(shelf, index, keepdims=False)


def _with_row(shelf: Array, index: Array, value: Array) -> Array:
    return jax.lax.dynamic_update_index_in_dim(shelf, value, index, 0)


def _is_chain(forest: Forest) -> bool:
    return bool(np.array_equal(forest.parent, np.arange(len(forest)) - 1))


def _follows(forest: Forest):
    return jnp.asarray((forest.parent == np.arange(len(forest)) - 1) & (forest.parent >= 0))
