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
    """From roots to leaves: `step(above, x) -> (own, y)`; the parent's `own`, or `start` at roots; all `y`, stacked."""
    if _is_chain(forest):
        return jax.lax.scan(step, start, xs)[1]
    load, store, count = forest.shelves
    # Row `count` takes what nobody needs; the row after it keeps the start, for roots.
    shelves = jax.tree.map(lambda x: jnp.broadcast_to(x, (count + 2, *x.shape)), start)

    def walk(carry, x):
        before, shelves = carry
        x, follows, load, store = x
        above = jax.tree.map(lambda a, s: jnp.where(follows, a, _row(s, load)), before, shelves)
        own, y = step(above, x)
        return (own, jax.tree.map(lambda s, a: _with_row(s, store, a), shelves, own)), y

    places = _follows(forest), jnp.asarray(np.where(load < 0, count + 1, load)), jnp.asarray(store)
    return jax.lax.scan(walk, (start, shelves), (xs, *places))[1]


def inward(forest: Forest, step: Callable, none: PyTree, xs: PyTree) -> PyTree:
    """From leaves to roots: `step(gathered, x) -> (up, y)`, `gathered` the sum of the children's `up`; all `y`.

    **Arguments:** `none`: zero, what leaves gather.
    """
    if _is_chain(forest):
        return jax.lax.scan(step, none, xs, reverse=True)[1]
    load, store, count = forest.shelves
    # Row `count` stays empty, for nodes without a waiting child; the row after it takes what goes elsewhere.
    shelves = jax.tree.map(lambda x: jnp.broadcast_to(x, (count + 2, *x.shape)), none)

    def walk(carry, x):
        behind, shelves = carry
        x, follows, load, store = x
        up, y = step(jax.tree.map(lambda b, s: b + _row(s, store), behind, shelves), x)
        shelves = jax.tree.map(lambda s, u: _with_row(s, load, _row(s, load) + u), shelves, up)
        return (jax.tree.map(lambda u: jnp.where(follows, u, jnp.zeros_like(u)), up), shelves), y

    apart = np.where((load < 0) | (load == count), count + 1, load)
    places = _follows(forest), jnp.asarray(apart), jnp.asarray(store)
    return jax.lax.scan(walk, (none, shelves), (xs, *places), reverse=True)[1]


def _row(shelf: Array, index: Array) -> Array:
    return jax.lax.dynamic_index_in_dim(shelf, index, keepdims=False)


def _with_row(shelf: Array, index: Array, value: Array) -> Array:
    return jax.lax.dynamic_update_index_in_dim(shelf, value, index, 0)


def _is_chain(forest: Forest) -> bool:
    return bool(np.array_equal(forest.parent, np.arange(len(forest)) - 1))


def _follows(forest: Forest):
    return jnp.asarray((forest.parent == np.arange(len(forest)) - 1) & (forest.parent >= 0))
