"""Entries of arrays at places that are known when a program is made, and sums at such places.

JAX transposes a look-up to a scatter, of which compilers make a loop with a library's call in it. Where all places are
known a sum takes look-ups too. Each of the two is the other's transpose.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir
from jaxtyping import Array, PyTree

from jmbs.arrays import total
from jmbs.by_value import by_value
from jmbs.jaxext.switches import is_off


@by_value
@dataclasses.dataclass(frozen=True, eq=False)
class KnownPlaces:
    """Places `(m,)` among `size` of them, negative for none. Equal ones compare equal, so that JAX knows them again."""

    at: np.ndarray
    size: int


def entries_at(x: Array, at: np.ndarray) -> Array:
    """`x[at]` for places along the first axis, in any shape; without a look-up where these follow each other."""
    if is_off("static_places"):
        return x[jnp.asarray(at, int)]
    if _follow_each_other(at):
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
    if is_off("static_places"):
        return jnp.zeros((size, *x.shape[1:]), x.dtype).at[np.where(at < 0, size, at)].add(x, mode="drop")
    return _sums.bind(x, places=KnownPlaces(at, size), axis=0)


def sums_of_parts(parts: Sequence[tuple[Array, np.ndarray]], size: int, dtype: np.dtype) -> Array:
    """`(size,)`: the same for the entries of several arrays, each with places in its shape."""
    if not parts:
        return jnp.zeros(size, dtype)
    values, places = [x.ravel() for x, _ in parts], [np.ravel(at) for _, at in parts]
    return sums_at(values[0] if len(values) == 1 else jnp.concatenate(values), np.concatenate(places), size)


FEW, SLICES = 3, 8
"""Up to so many entries at a place are looked up one by one, others all at once; the latter of slices."""


def _entries_of(x: Array, *, places: KnownPlaces, axis: int) -> Array:
    """The entries at the places, zero at none."""
    at = places.at
    if len(at) and np.all(at < 0):
        return jnp.zeros((*x.shape[:axis], len(at), *x.shape[axis + 1 :]), x.dtype)
    if np.any(at < 0):
        x, at = _with_zero(x, axis), np.where(at < 0, x.shape[axis], at)
    return _looked_up(x, at, axis)


def _sums_of(x: Array, *, places: KnownPlaces, axis: int) -> Array:
    """Looks up the first entry at each place, the second, and so on, zero where there is no more, and adds them."""
    at, size = places.at, places.size
    order = np.argsort(at, kind="stable")[np.count_nonzero(at < 0) :]
    count = np.bincount(at[at >= 0], minlength=size)
    most = count.max(initial=0)
    if not most:
        return jnp.zeros((*x.shape[:axis], size, *x.shape[axis + 1 :]), x.dtype)
    if np.any(count < most):
        x = _with_zero(x, axis)
    rank = np.arange(most)[:, None]
    entry = np.minimum(np.cumsum(count) - count + rank, len(order) - 1)
    table = np.where(rank < count, order[entry], len(at))
    if most <= FEW or (most <= SLICES and all(map(_follow_each_other, table))):
        found = [_looked_up(x, row, axis) for row in table]
        return sum(found[1:], found[0])
    return total(jnp.moveaxis(_looked_up(x, table, axis), axis, 0))


def _with_zero(x: Array, axis: int) -> Array:
    """With a zero behind its last entry."""
    zero = jnp.zeros((*x.shape[:axis], 1, *x.shape[axis + 1 :]), x.dtype)
    return jnp.concatenate([x, zero], axis)


def _looked_up(x: Array, at: np.ndarray, axis: int) -> Array:
    """The entries at places `(...,)` in bounds, by one look-up; without any where these follow each other."""
    if _follow_each_other(at):
        return jax.lax.slice_in_dim(x, at[0], at[0] + len(at), axis=axis)
    kept = (*range(axis), *(axis + at.ndim + i for i in range(x.ndim - axis - 1)))
    numbers = jax.lax.GatherDimensionNumbers(kept, (axis,), (axis,))
    sizes = (*x.shape[:axis], 1, *x.shape[axis + 1 :])
    places = jnp.asarray(at[..., None])
    return jax.lax.gather(x, places, numbers, sizes, mode=jax.lax.GatherScatterMode.PROMISE_IN_BOUNDS)


def _follow_each_other(at: np.ndarray) -> bool:
    return np.ndim(at) == 1 and len(at) > 0 and np.array_equal(at, at[0] + np.arange(len(at)))


_entries, _sums = Primitive("entries_at"), Primitive("sums_at")


def _type_of_entries(x: ShapedArray, *, places: KnownPlaces, axis: int) -> ShapedArray:
    return ShapedArray((*x.shape[:axis], len(places.at), *x.shape[axis + 1 :]), x.dtype)


def _type_of_sums(x: ShapedArray, *, places: KnownPlaces, axis: int) -> ShapedArray:
    return ShapedArray((*x.shape[:axis], places.size, *x.shape[axis + 1 :]), x.dtype)


def _transpose(to: Primitive, cotangent: Array, _, **settings: Any) -> tuple[Array]:
    return (to.bind(cotangent, **settings),)


def _batch(primitive: Primitive, inputs: Sequence, axes: Sequence, *, places: KnownPlaces, axis: int):
    (x,), (members,) = inputs, axes
    return primitive.bind(x, places=places, axis=axis + (members <= axis)), members


_entries.def_impl(_entries_of)
_sums.def_impl(_sums_of)
_entries.def_abstract_eval(_type_of_entries)
_sums.def_abstract_eval(_type_of_sums)
for _primitive, _other, _lowered in ((_entries, _sums, _entries_of), (_sums, _entries, _sums_of)):
    ad.deflinear2(_primitive, functools.partial(_transpose, _other))
    batching.primitive_batchers[_primitive] = functools.partial(_batch, _primitive)
    mlir.register_lowering(_primitive, mlir.lower_fun(_lowered, multiple_results=False))
