"""Batches of mechanisms in the recursions: the batch axis goes last, so that every operation runs along it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap
from jaxtyping import Array, Float

from jmbs.multibody.joints import GeneralJoints
from jmbs.multibody.tree import Links


class Inputs(NamedTuple):
    """What forward dynamics depends on; arguments as in `forward_dynamics`."""

    links: Links
    q: tuple[Array, ...]
    v: Float[Array, " n_v"]
    forces: Float[Array, " n_v"]
    loads: Float[Array, "bodies 6"] | None


Changes = tuple[Array | None, ...]
"""Changes of inputs, or derivatives by them: by leaf, None where there is none."""


def batchable(function: Callable, changing: tuple[bool, ...]):
    """`(inputs, vectors, changes) -> function(False, inputs, vectors, changes)`, a vector and `Changes`.

    Under `jax.vmap` it becomes `function(True, ...)` of arrays that have the batch axis where the recursions want it:
    components last; joint elements, loads and motions, which are evaluated member by member, second. A batch of one
    stays alone, which is quicker.

    **Arguments:** `vectors`: a tuple of `(n_v,)`; `changing`: by leaf of the inputs, whether changes are wanted.
    """

    @custom_vmap
    def alone(inputs: Inputs, vectors: tuple[Array, ...], changes: Changes):
        return function(False, inputs, vectors, changes)

    @alone.def_vmap
    def together(size: int, batched, inputs: Inputs, vectors: tuple[Array, ...], changes: Changes):
        if size == 1:
            leaves, structure = jax.tree.flatten((inputs, vectors, changes))
            only = [x[0] if flag else x for flag, x in zip(jax.tree.leaves(batched), leaves, strict=True)]
            result = jax.tree.map(lambda x: x[None], alone(*structure.unflatten(only)))
            return result, jax.tree.map(lambda _: True, result)
        in_inputs, in_vectors, in_changes = batched
        leaves, structure = jax.tree.flatten(inputs)
        flags = jax.tree.leaves(in_inputs)
        where = _axes(inputs)
        # Members have changes of their own also of what they share.
        for k in (k for k, wanted in enumerate(changing) if wanted):
            leaves[k], flags[k] = _with_batch(size, flags[k], leaves[k]), True
        moved = _trailing(size, where, structure.unflatten(flags), structure.unflatten(leaves))
        flat = tuple(_move(size, _LAST, flag, x) for flag, x in zip(in_vectors, vectors, strict=True))
        flags = iter(jax.tree.leaves(in_changes))
        changes = tuple(
            None if x is None else _move(size, axis, True, _with_batch(size, next(flags), x))
            for axis, x in zip(where, changes or (None,) * len(where), strict=True)
        )
        vector, derivatives = function(True, moved, flat, changes)
        back = tuple(
            None if x is None else jnp.moveaxis(x, axis, 0) for axis, x in zip(where, derivatives, strict=False)
        )
        result = jnp.moveaxis(vector, -1, 0), back
        return result, jax.tree.map(lambda _: True, result)

    return alone


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
    others = second(inputs.q), last((inputs.v, inputs.forces)), second(inputs.loads)
    return jax.tree.leaves((joints, rest, others))


def _trailing(size: int, where: list[int], batched: Inputs, inputs: Inputs) -> Inputs:
    """Inputs with the batch axis in its place: of size one where there was none, but not in `v`, which tells the size.

    Motions of joints without any batched parameter are left as they are, and those of all members the same.
    """
    leaves, structure = jax.tree.flatten(inputs)
    moved = structure.unflatten(
        [_move(size, *part) for part in zip(where, jax.tree.leaves(batched), leaves, strict=True)]
    )
    parts = zip(inputs.links.joints, batched.links.joints, moved.links.joints, strict=True)
    joints = tuple(_with_motion(*part) for part in parts)
    links = Links(joints, moved.links.mass, moved.links.inertia, moved.links.weight)
    return moved._replace(links=links, v=jnp.broadcast_to(moved.v, (moved.v.shape[0], size)))


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
