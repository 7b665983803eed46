"""Entries of arrays at places that are known when a program is made, and sums at such places.

JAX transposes a look-up to a scatter, of which compilers make a loop with a library's call in it. Where all places are
known a sum takes look-ups too.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir
from jaxtyping import Array


class KnownPlaces:
    """Places `(m,)` among `size` of them, negative for none. Equal ones compare equal, so that JAX knows them again."""

    def __init__(self, at: np.ndarray, size: int):
        self.at, self.size = at, size

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KnownPlaces) and self.size == other.size and np.array_equal(self.at, other.at)

    def __hash__(self) -> int:
        return hash((self.size, self.at.tobytes()))


def entries_at(x: Array, at: np.ndarray | Array) -> Array:
    """`x[at]` for places along the first axis, in any shape; without a look-up where these are known to follow each
    other. Places that are not known, as in a loop, are looked up as well, with a scatter in derivatives."""
    if not isinstance(at, np.ndarray):
        return x.at[at].get(mode="promise_in_bounds")
    if np.ndim(at) == 1 and len(at) and np.array_equal(at, at[0] + np.arange(len(at))):
        return x[at[0] : at[0] + len(at)] if len(at) < x.shape[0] else x
    found = _entries.bind(x, places=KnownPlaces(np.ravel(at), x.shape[0]), axis=0)
    return found.reshape(*np.shape(at), *x.shape[1:])


def entries_across(parts: Sequence[Array], at: np.ndarray) -> Array:
    """Entries of vectors that are numbered one after the other. Vectors that hold none of them are not touched, so that
    what only these need is neither computed nor compiled."""
    size = np.array([len(part) for part in parts])
    start = np.cumsum(size) - size
    holder = np.searchsorted(start + size, at, side="right")
    held = np.unique(holder)
    if not len(held):
        return jnp.zeros(at.shape, parts[0].dtype)
    shift = np.zeros_like(size)
    shift[held] = np.cumsum(size[held]) - size[held] - start[held]
    return entries_at(jnp.concatenate([parts[i] for i in held]), at + shift[holder])


def sums_at(x: Array, at: np.ndarray, size: int) -> Array:
    """`(size, ...)`: at each place the sum of the entries of `x` `(m, ...)` that belong there; -1: nowhere."""
    return _sums(x, KnownPlaces(at, size), 0)


def _sums(x: Array, places: KnownPlaces, axis: int) -> Array:
    """One look-up of the first entry at each place, one of the second, and so on."""
    x, at, size = jnp.moveaxis(x, axis, 0), places.at, places.size
    order = np.argsort(at, kind="stable")[np.count_nonzero(at < 0) :]
    count = np.bincount(at[at >= 0], minlength=size)
    first = np.cumsum(count) - count
    total = jnp.zeros((size, *x.shape[1:]), x.dtype)
    for i in range(count.max(initial=0)):
        more = i < count
        found = entries_at(x, order[np.where(more, first + i, 0)])
        total = total + jnp.where(more.reshape(-1, *(1,) * (x.ndim - 1)), found, jnp.zeros_like(found))
    return jnp.moveaxis(total, 0, axis)


_entries = Primitive("entries_at")


def _evaluate(x: Array, *, places: KnownPlaces, axis: int) -> Array:
    return x.at[(slice(None),) * axis + (places.at,)].get(mode="promise_in_bounds")


def _type(x: ShapedArray, *, places: KnownPlaces, axis: int) -> ShapedArray:
    return ShapedArray((*x.shape[:axis], len(places.at), *x.shape[axis + 1 :]), x.dtype)


def _transpose(cotangent, _, *, places: KnownPlaces, axis: int):
    return (_sums(cotangent, places, axis),)


def _batch(inputs: Sequence, axes: Sequence, *, places: KnownPlaces, axis: int):
    return _entries.bind(jnp.moveaxis(inputs[0], axes[0], 0), places=places, axis=axis + 1), 0


_entries.def_impl(_evaluate)
_entries.def_abstract_eval(_type)
ad.deflinear2(_entries, _transpose)
batching.primitive_batchers[_entries] = _batch
mlir.register_lowering(_entries, mlir.lower_fun(_evaluate, multiple_results=False))
