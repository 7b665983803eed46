"""Passes over a forest, one node after the other, as scans whose compile time does not depend on its size.

What goes from a node to its neighbour in the numbering is the carry; what goes to a later one is kept in a row of its
own, of which there are as many as nodes with several children.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from jmbs.graphs import Forest


def forward_pass(forest: Forest, step: Callable, start: PyTree, xs: PyTree) -> PyTree:
    """From roots to leaves: `step(above, x) -> (own, y)`; the parent's `own`, or `start` at roots; all `y`, stacked.

    Where all nodes are roots there is no loop: `above` is None for all of them together.
    """
    if not forest.has_edges:
        return jax.vmap(lambda x: step(None, x)[1])(xs)
    if _is_chain(forest):
        return jax.lax.scan(step, start, xs)[1]
    load, store, count = forest.branches
    if count == 0:

        def follow(before, x):
            x, follows = x
            return step(jax.tree.map(lambda b, s: jnp.where(follows, b, s), before, start), x)

        return jax.lax.scan(follow, start, (xs, _follows(forest)))[1]
    # The last row keeps the start, for roots.
    kept = jax.tree.map(lambda x: jnp.broadcast_to(x, (count + 1, *x.shape)), start)

    def visit(carry, x):
        before, kept = carry
        x, follows, load, store, waits = x
        above = jax.lax.cond(follows, lambda: before, lambda: jax.tree.map(lambda s: _row(s, load), kept))
        own, y = step(above, x)
        put = lambda kept: jax.tree.map(lambda s, a: _with_row(s, store, a), kept, own)  # noqa: E731
        return (own, jax.lax.cond(waits, put, lambda kept: kept, kept)), y

    places = _follows(forest), jnp.asarray(np.where(load < 0, count, load)), jnp.asarray(store)
    return jax.lax.scan(visit, (start, kept), (xs, *places, jnp.asarray(store != count)))[1]


def backward_pass(forest: Forest, step: Callable, none: PyTree, xs: PyTree) -> PyTree:
    """From leaves to roots: `step(gathered, x) -> (up, y)`, `gathered` the sum of the children's `up`; all `y`.

    **Arguments:** `none`: zero, what leaves gather. Where all nodes are leaves, they gather None.
    """
    if not forest.has_edges:
        return jax.vmap(lambda x: step(None, x)[1])(xs)
    if _is_chain(forest):
        return jax.lax.scan(step, none, xs, reverse=True)[1]
    load, store, count = forest.branches
    if count == 0:

        def lead(behind, x):
            x, follows = x
            up, y = step(behind, x)
            return jax.tree.map(lambda u: jnp.where(follows, u, 0), up), y

        return jax.lax.scan(lead, none, (xs, _follows(forest)), reverse=True)[1]
    # The last row stays empty, for nodes without a waiting child.
    kept = jax.tree.map(lambda x: jnp.broadcast_to(x, (count + 1, *x.shape)), none)

    def visit(carry, x):
        behind, kept = carry
        x, follows, load, store, waits, branches = x
        more = lambda: jax.tree.map(lambda b, s: b + _row(s, store), behind, kept)  # noqa: E731
        up, y = step(jax.lax.cond(branches, more, lambda: behind), x)
        put = lambda kept: jax.tree.map(lambda s, u: _with_row(s, load, _row(s, load) + u), kept, up)  # noqa: E731
        kept = jax.lax.cond(waits, put, lambda kept: kept, kept)
        on = jax.lax.cond(follows, lambda: up, lambda: jax.tree.map(jnp.zeros_like, up))
        return (on, kept), y

    waits = (load >= 0) & (load != count)
    places = _follows(forest), jnp.asarray(load), jnp.asarray(store), jnp.asarray(waits), jnp.asarray(store != count)
    return jax.lax.scan(visit, (none, kept), (xs, *places), reverse=True)[1]


def _row(kept: Array, index: Array) -> Array:
    return jax.lax.dynamic_index_in_dim(kept, index, keepdims=False)


def _with_row(kept: Array, index: Array, value: Array) -> Array:
    return jax.lax.dynamic_update_index_in_dim(kept, value, index, 0)


def _is_chain(forest: Forest) -> bool:
    return bool(np.array_equal(forest.parent, np.arange(len(forest)) - 1))


def _follows(forest: Forest):
    return jnp.asarray((forest.parent == np.arange(len(forest)) - 1) & (forest.parent >= 0))
