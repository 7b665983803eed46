"""One function for every member of a batch, as quick as the machine allows."""

from __future__ import annotations

import os
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, PartitionSpec
from jaxtyping import PyTree

from jmbs.errors import ModelError
from jmbs.fusing import fused, fuses
from jmbs.jaxext import ask_for_speed, runs_on_cpu

PIECE = 64
"""Members that one CPU device takes at once: what they compute on the way still fits its caches."""


def usable_cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def use_all_cores() -> None:
    """Lets JAX use all that a CPU has: one device per core, of which it otherwise takes one; and vectors as wide as the
    cores have, of which its compiler otherwise uses half. What `XLA_FLAGS` says already is left alone.

    It changes JAX's configuration and `XLA_FLAGS` for the whole process. Raises `RuntimeError` once JAX has been used.
    """
    jax.config.update("jax_num_cpu_devices", usable_cores())
    ask_for_speed()


def batch_of(function: Callable[[PyTree], PyTree], batch: PyTree) -> int:
    """How many members a batch has. Raises `ModelError` as `map_batch` does."""
    if not callable(function):
        raise ModelError("function", f"a {type(function).__name__}", "a function of one member")
    sizes = {np.shape(leaf)[:1] for leaf in jax.tree.leaves(batch)}
    if len(sizes) != 1 or sizes <= {(), (0,)}:
        found = "leading axes " + ", ".join(str(s[0]) if s else "none" for s in sorted(sizes)) if sizes else "no array"
        raise ModelError("batch", found, "arrays with equal leading axes, of 1 member or more")
    ((size,),) = sizes
    return size


def map_batch(function: Callable[[PyTree], PyTree], batch: PyTree) -> PyTree:
    """`jax.vmap(function)(batch)`, spread over all devices, and in pieces on CPUs.

    On a CPU it uses one core, unless `use_all_cores` was called before. `jit`, `vmap` and all derivatives apply.

    **Arguments:** `batch`: a pytree of arrays with equal leading axes, as those of all results.

    Raises `ModelError` for a batch without members or with different leading axes, and for what is no function.
    """
    return _over_devices(lambda own, size: _in_pieces(function, own, size), batch, batch_of(function, batch))


def map_one_by_one(function: Callable[[PyTree], PyTree], batch: PyTree) -> PyTree:
    """The same, on each device one member after the other: loops of few numbers are quicker so, and nobody waits."""
    return _over_devices(lambda own, size: jax.lax.map(function, own), batch, batch_of(function, batch))


def _over_devices(mapped: Callable[[PyTree, int], PyTree], batch: PyTree, size: int) -> PyTree:
    """What a function of a device's members, and of how many these are, gives for all."""
    devices = jax.devices()[:size]
    if len(devices) == 1:
        return mapped(batch, size)
    share = -(-size // len(devices))
    members = np.minimum(np.arange(share * len(devices)), size - 1)
    padded = batch if size == len(members) else jax.tree.map(lambda x: jnp.asarray(x)[members], batch)
    mesh, axis = Mesh(np.array(devices), ("members",)), PartitionSpec("members")
    each = jax.shard_map(lambda own: mapped(own, share), mesh=mesh, in_specs=axis, out_specs=axis, check_vma=False)
    # As one program: operation by operation JAX cannot do those on arrays without entries.
    return jax.tree.map(lambda x: x[:size], jax.jit(each)(padded))


def _in_pieces(function: Callable[[PyTree], PyTree], batch: PyTree, size: int) -> PyTree:
    if fuses():
        return jax.vmap(lambda member: fused(function, member))(batch)
    piece = next((n for n in range(PIECE, PIECE // 4, -1) if size % n == 0), size)
    if not runs_on_cpu() or piece == size:
        return jax.vmap(function)(batch)
    pieces = jax.tree.map(lambda x: jnp.reshape(x, (size // piece, piece, *x.shape[1:])), batch)
    results = jax.lax.map(jax.vmap(function), pieces)
    return jax.tree.map(lambda x: jnp.reshape(x, (size, *x.shape[2:])), results)
