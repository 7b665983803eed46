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
from jmbs.compiler import has_kernels, one_kernel
from jmbs.multibody.joints import GeneralJoints
from jmbs.multibody.tree import Links


class Inputs(NamedTuple):
    """What motions and forward dynamics depend on; arguments as in `forward_dynamics`, and `closure`: what joints that
    close loops add, see `jmbs.multibody.closed_dynamics`."""

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


@dataclasses.dataclass(frozen=True, eq=False)
class Batchable:
    """A function of `(batch, inputs, vectors, changes)` to a vector and `Changes`, for one mechanism or for many.

    Called with the last three it is `function(False, ...)`. Under `jax.vmap` it becomes `function(True, ...)` of arrays
    that have the batch axis where the recursions want it, last; loads and motions, which are taken apart member by
    member, have it second. A batch of one stays alone, which is quicker; unless there are kernels, where a single
    mechanism is quicker as a batch. It is a primitive, so that it is traced only where the program is
    lowered or batched: not alone where it is batched later. It has no derivative.

    **Arguments:** `changing`: by leaf of the inputs, whether changes are wanted; `size` of the resulting vector, and
    whether `derivatives` come with it, by the leaves that change. `vectors` are a tuple of `(n,)`.
    """

    function: Callable
    changing: tuple[bool, ...]
    size: int
    derivatives: bool = False

    def __call__(self, inputs: Inputs, vectors: tuple[Array, ...], changes: Changes) -> tuple[Array, Changes]:
        leaves, structure = jax.tree.flatten((inputs, vectors, changes))
        vector, *found = _batchable.bind(*leaves, of=self, structure=structure)
        found = iter(found)
        return vector, tuple(next(found) if wanted else None for wanted in self.changing if self.derivatives)

    def _evaluate(self, leaves: Sequence[Array], structure) -> list[Array]:
        if has_kernels():
            together = self._together([x[None] for x in leaves], [0] * len(leaves), structure)
            return [x[0] for x in together]
        vector, derivatives = self.function(False, *structure.unflatten(leaves))
        return [vector, *jax.tree.leaves(derivatives)]

    def _types(self, types: Sequence[ShapedArray]) -> list[ShapedArray]:
        dtype = jnp.result_type(*(t.dtype for t in types))
        wanted = [t for t, wanted in zip(types, self.changing, strict=False) if wanted and self.derivatives]
        return [ShapedArray((self.size,), dtype), *(ShapedArray(t.shape, t.dtype) for t in wanted)]

    def _together(self, leaves: Sequence[Array], axes: Sequence, structure) -> list[Array]:
        """The results of many members, whose axis they have first."""
        size = batch_size(leaves, axes)
        leaves = [x if axis is None else jnp.moveaxis(x, axis, 0) for x, axis in zip(leaves, axes, strict=True)]
        batched = [axis is not None for axis in axes]
        if size == 1 and not has_kernels():
            only = [x[0] if flag else x for flag, x in zip(batched, leaves, strict=True)]
            return [x[None] for x in _batchable.bind(*only, of=self, structure=structure)]
        (inputs, vectors, changes), flags = structure.unflatten(leaves), structure.unflatten(batched)
        in_inputs, in_vectors, in_changes = flags
        own, structure = jax.tree.flatten(inputs)
        flags = jax.tree.leaves(in_inputs)
        where = _axes(inputs)
        # Members have changes of their own also of what they share.
        for k in (k for k, wanted in enumerate(self.changing) if wanted):
            own[k], flags[k] = _with_batch(size, flags[k], own[k]), True
        moved = _trailing(size, where, structure.unflatten(flags), structure.unflatten(own))
        flat = tuple(_move(size, _LAST, flag, x) for flag, x in zip(in_vectors, vectors, strict=True))
        flags = iter(jax.tree.leaves(in_changes))
        changes = tuple(
            None if x is None else _move(size, axis, True, _with_batch(size, next(flags), x))
            for axis, x in zip(where, changes or (None,) * len(where), strict=True)
        )
        vector, derivatives = one_kernel(functools.partial(self.function, True), moved, flat, changes)
        back = [jnp.moveaxis(x, axis, 0) for axis, x in zip(where, derivatives, strict=False) if x is not None]
        return [jnp.moveaxis(vector, -1, 0), *back]


_batchable = Primitive("batchable")
_batchable.multiple_results = True


def _evaluate(*leaves: Array, of: Batchable, structure) -> list[Array]:
    return of._evaluate(leaves, structure)


def _batch(leaves: Sequence, axes: Sequence, *, of: Batchable, structure):
    results = of._together(leaves, axes, structure)
    return results, [0] * len(results)


_batchable.def_impl(_evaluate)
_batchable.def_abstract_eval(lambda *types, of, structure: of._types(types))
batching.primitive_batchers[_batchable] = _batch
mlir.register_lowering(_batchable, mlir.lower_fun(_evaluate, multiple_results=True))


_LAST, _SECOND = -1, 1


def _axes(inputs: Inputs) -> list[int]:
    """Of each leaf, where its batch axis goes."""
    last = lambda x: jax.tree.map(lambda _: _LAST, x)  # noqa: E731
    second = lambda x: jax.tree.map(lambda _: _SECOND, x)  # noqa: E731
    joints = [
        (second(j.motion), last((j.before, j.after, j.columns))) if isinstance(j, GeneralJoints) else last(j)
        for j in inputs.links.joints
    ]
    rest = last((inputs.links.mass, inputs.links.inertia, inputs.links.weight))
    others = last((inputs.q, inputs.v, inputs.forces)), second(inputs.loads), last(inputs.closure)
    return jax.tree.leaves((joints, rest, others))


def _trailing(size: int, where: list[int], batched: Inputs, inputs: Inputs) -> Inputs:
    """Inputs with the batch axis in its place: of size one where there was none, but not in `q` and `v`, which tell the
    size.

    Motions of joints without any batched parameter are left as they are, and those of all members the same.
    """
    leaves, structure = jax.tree.flatten(inputs)
    moved = structure.unflatten(
        [_move(size, *part) for part in zip(where, jax.tree.leaves(batched), leaves, strict=True)]
    )
    parts = zip(inputs.links.joints, batched.links.joints, moved.links.joints, strict=True)
    joints = tuple(_with_motion(*part) for part in parts)
    links = Links(joints, moved.links.mass, moved.links.inertia, moved.links.weight)
    q, v = (jax.tree.map(lambda x: jnp.broadcast_to(x, (*x.shape[:-1], size)), x) for x in (moved.q, moved.v))
    return moved._replace(links=links, q=q, v=v)


def _with_motion(old: Any, batched: Any, moved: Any) -> Any:
    if not isinstance(old, GeneralJoints):
        return moved
    differ = any(jax.tree.leaves(batched.motion))
    motion = moved.motion if differ else old.motion
    return GeneralJoints(motion, moved.before, moved.after, moved.columns, moved.reversed, differ)


def _move(size: int, axis: int, batched: bool, x: Array) -> Array:
    if batched:
        return jnp.moveaxis(x, 0, axis)
    return x[..., None] if axis == _LAST else jnp.broadcast_to(x[:, None], (x.shape[0], size, *x.shape[1:]))


def _with_batch(size: int, batched: Any, x: Array) -> Array:
    return x if batched else jnp.broadcast_to(x, (size, *x.shape))
