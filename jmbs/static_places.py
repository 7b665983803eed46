"""Entries of arrays at places that are known when a program is made, and sums at such places.

JAX transposes a look-up to a scatter, of which compilers make a loop with a library's call in it. Where all places are
known a sum takes look-ups too.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir
from jaxtyping import Array, PyTree

from jmbs.by_value import by_value


@by_value
@dataclasses.dataclass(frozen=True, eq=False)
class KnownPlaces:
    """Places `(m,)` among `size` of them, negative for none. Equal ones compare equal, so that JAX knows them again."""

    at: np.ndarray
    size: int


def entries_at(x: Array, at: np.ndarray) -> Array:
    """`x[at]` for places along the first axis, in any shape; without a look-up where these follow each other."""
    if np.ndim(at) == 1 and len(at) and np.array_equal(at, at[0] + np.arange(len(at))):
        return x[at[0] : at[0] + len(at)] if len(at) < x.shape[0] else x
    found = _entries.bind(x, places=KnownPlaces(np.ravel(at), x.shape[0]), axis=0)
    return found.reshape(*np.shape(at), *x.shape[1:])


def with_entries(x: Array, at: np.ndarray, values: Array) -> Array:
    """`x` with entries at known places of the first axis exchanged, by one look-up; no place comes twice."""
    if len(at) == 0:
        return x
    if len(at) == len(x):
        return entries_at(values, np.argsort(at))
    source = np.arange(len(x))
    source[at] = len(x) + np.arange(len(at))
    return entries_at(jnp.concatenate([x, values]), source)


def all_entries_at(tree: PyTree, at: np.ndarray) -> PyTree:
    """`entries_at` of every array in a tree."""
    return jax.tree.map(lambda x: entries_at(x, at), tree)


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


def sums_of_parts(parts: Sequence[tuple[Array, np.ndarray]], size: int, dtype: np.dtype) -> Array:
    """`(size,)`: the same for the entries of several arrays, each with places in its shape."""
    if not parts:
        return jnp.zeros(size, dtype)
    values, places = [x.ravel() for x, _ in parts], [np.ravel(at) for _, at in parts]
    return sums_at(values[0] if len(values) == 1 else jnp.concatenate(values), np.concatenate(places), size)


def _sums(x: Array, places: KnownPlaces, axis: int) -> Array:
    """One look-up of the first entry at each place, one of the second, and so on; of zero where there is no more."""
    x, at, size = jnp.moveaxis(x, axis, 0), places.at, places.size
    order = np.argsort(at, kind="stable")[np.count_nonzero(at < 0) :]
    count = np.bincount(at[at >= 0], minlength=size)
    first = np.cumsum(count) - count
    most = count.max(initial=0)
    if not most:
        return jnp.moveaxis(jnp.zeros((size, *x.shape[1:]), x.dtype), 0, axis)
    if np.any(count < most):
        x = jnp.concatenate([x, jnp.zeros((1, *x.shape[1:]), x.dtype)])
    order = np.append(order, len(at))
    found = [entries_at(x, order[np.where(i < count, np.minimum(first + i, len(order) - 1), -1)]) for i in range(most)]
    return jnp.moveaxis(sum(found[1:], found[0]), 0, axis)


def _looked_up(x: Array, places: Array, axis: int) -> Array:
    """The entries at places `(..., 1)` in bounds, by one look-up."""
    more = places.ndim - 1
    kept = (*range(axis), *(axis + more + i for i in range(x.ndim - axis - 1)))
    numbers = jax.lax.GatherDimensionNumbers(kept, (axis,), (axis,))
    sizes = (*x.shape[:axis], 1, *x.shape[axis + 1 :])
    return jax.lax.gather(x, places, numbers, sizes, mode=jax.lax.GatherScatterMode.PROMISE_IN_BOUNDS)


_entries = Primitive("entries_at")


def _evaluate(x: Array, *, places: KnownPlaces, axis: int) -> Array:
    return _looked_up(x, jnp.asarray(places.at[:, None]), axis)


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
