"""Batches of mechanisms in the recursions: the batch axis goes last, so that every operation runs along it."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import batching, mlir
from jaxtyping import Array, Float

from jmbs.arrays import batch_size
from jmbs.jaxext import OPENED, is_off, one_kernel
from jmbs.rigid_body.joints import GeneralJoints
from jmbs.rigid_body.topology import Links


class Inputs(NamedTuple):
    """What motions and forward dynamics depend on; arguments as in `forward_dynamics`, and `closure`: what joints that
    close loops, and gears, add, see `jmbs.constraints`."""

    links: Links
    q: tuple[Array, ...]
    v: Float[Array, " n_v"]
    forces: Float[Array, " n_v"]
    loads: Float[Array, "bodies 6"] | None
    closure: Any = None

    def varied(self, changing: Sequence[bool]) -> tuple[bool, ...]:
        """By group of joints, whether any of their parameters is among the leaves that are `changing`."""
        which = jax.tree.structure(self).unflatten(changing)
        return tuple(any(jax.tree.leaves(joints)) for joints in which.links.joints)


Changes = tuple[Array | None, ...]
"""Changes of inputs, or derivatives by them: by leaf, None where there is none."""


Vectors = tuple[Array, ...]


@dataclasses.dataclass(frozen=True, eq=False)
class Batchable:
    """A function of `(inputs, vectors, changes)` of many mechanisms to vectors and `Changes`, as one of one mechanism.

    The arrays of many have the batch axis where the recursions want it, last; motions of joints, which are taken apart
    member by member, have it second. A single mechanism is a batch of one. It is a primitive, so that it is traced only
    where the program is lowered or batched: not alone where it is batched later. It has no derivative.

    **Arguments:** `changing`: by leaf of the inputs, whether changes are wanted; `sizes` of the resulting vectors, and
    whether `derivatives` come with them, by the leaves that change. `vectors` are a tuple of `(n,)`.
    """

    function: Callable
    changing: tuple[bool, ...]
    sizes: tuple[int, ...]
    derivatives: bool = False

    def __call__(self, inputs: Inputs, vectors: tuple[Array, ...], changes: Changes) -> tuple[Vectors, Changes]:
        leaves, structure = jax.tree.flatten((inputs, vectors, changes))
        bind = self._evaluate if is_off("batches") else functools.partial(_batchable.bind, of=self)
        found = iter(bind(*leaves, structure=structure))
        results = tuple(next(found) for _ in self.sizes)
        return results, tuple(next(found) if wanted else None for wanted in self.changing if self.derivatives)

    def _evaluate(self, *leaves: Array, structure) -> list[Array]:
        values, axes = self._together(1, leaves, [None] * len(leaves), structure)
        return [jnp.squeeze(x, axis) for x, axis in zip(values, axes, strict=True)]

    def _types(self, types: Sequence[ShapedArray]) -> list[ShapedArray]:
        dtype = jnp.result_type(*(t.dtype for t in types))
        wanted = [t for t, wanted in zip(types, self.changing, strict=False) if wanted and self.derivatives]
        return [*(ShapedArray((size,), dtype) for size in self.sizes), *(ShapedArray(t.shape, t.dtype) for t in wanted)]

    def _together(self, size: int, leaves: Sequence[Array], axes: Sequence, structure) -> tuple[list[Array], list[int]]:
        """The results of many members, and where each has their axis."""
        inputs, vectors, changes = structure.unflatten(range(len(leaves)))
        numbers, inner = jax.tree.flatten(inputs)
        where = _axes(structure.unflatten(leaves)[0])
        changing = self.changing or (False,) * len(where)
        placed = lambda i, axis, each=False: _placed(size, leaves[i], axes[i], axis, each)  # noqa: E731
        # Members have changes of their own also of what they share.
        moved = inner.unflatten(map(placed, numbers, where, changing))
        batched = inner.unflatten(axes[i] is not None or each for i, each in zip(numbers, changing, strict=True))
        moved = _as_batch(size, structure.unflatten(leaves)[0], moved, batched)
        flat = tuple(placed(i, _LAST) for i in vectors)
        given = tuple(None if i is None else placed(i, axis, True) for i, axis in zip(changes, where, strict=False))
        given = given or (None,) * len(where)
        vectors, derivatives = one_kernel(self.function, moved, flat, given)
        found = [(x, axis) for x, axis in zip(derivatives, where, strict=False) if x is not None]
        return [*vectors, *(x for x, _ in found)], [*(1 for _ in vectors), *(axis % x.ndim for x, axis in found)]


_batchable = Primitive("batchable")
_batchable.multiple_results = True


def _evaluate(*leaves: Array, of: Batchable, structure) -> list[Array]:
    return of._evaluate(*leaves, structure=structure)


def _batch(leaves: Sequence, axes: Sequence, *, of: Batchable, structure):
    return of._together(batch_size(leaves, axes), leaves, axes, structure)


OPENED.add(_batchable)
_batchable.def_impl(_evaluate)
_batchable.def_abstract_eval(lambda *types, of, structure: of._types(types))
batching.primitive_batchers[_batchable] = _batch
mlir.register_lowering(_batchable, mlir.lower_fun(_evaluate, multiple_results=True))


_LAST, _SECOND = -1, 1


def _axes(inputs: Inputs) -> list[int]:
    """Of each leaf, where its batch axis goes."""
    last = lambda x: jax.tree.map(lambda _: _LAST, x)  # noqa: E731
    whole = last(inputs)
    joints = tuple(
        dataclasses.replace(axes, motion=jax.tree.map(lambda _: _SECOND, j.motion))
        if isinstance(j, GeneralJoints)
        else axes
        for j, axes in zip(inputs.links.joints, whole.links.joints, strict=True)
    )
    return jax.tree.leaves(whole._replace(links=dataclasses.replace(whole.links, joints=joints)))


def _as_batch(size: int, inputs: Inputs, moved: Inputs, batched: Inputs) -> Inputs:
    """The moved inputs, whose batch axis may be of size one but in `q` and `v`, which tell the size.

    Motions of joints without any batched parameter are left as they were, and those of all members the same.
    """
    parts = zip(inputs.links.joints, moved.links.joints, batched.links.joints, strict=True)
    joints = tuple(_with_motion(size, *part) for part in parts)
    q, v = jax.tree.map(lambda x: jnp.broadcast_to(x, (*x.shape[:-1], size)), (moved.q, moved.v))
    return moved._replace(links=dataclasses.replace(moved.links, joints=joints), q=q, v=v)


def _with_motion(size: int, old: Any, moved: Any, batched: Any) -> Any:
    if not isinstance(old, GeneralJoints):
        return moved
    if not any(jax.tree.leaves(batched.motion)):
        return dataclasses.replace(moved, motion=old.motion)
    whole = lambda x: jnp.broadcast_to(x, (x.shape[0], size, *x.shape[2:]))  # noqa: E731
    return dataclasses.replace(moved, motion=jax.tree.map(whole, moved.motion), batched=True)


def _placed(size: int, x: Array, axis: int | None, target: int, each: bool) -> Array:
    """With the batch axis at its target, of size one where there was none, unless `each` member has its own."""
    if axis is not None:
        return jnp.moveaxis(x, axis, target)
    x = jnp.expand_dims(x, target)
    shape = [*x.shape]
    shape[target] = size if each else 1
    return jnp.broadcast_to(x, shape)
