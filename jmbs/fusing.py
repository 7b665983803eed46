"""What is one kernel, and whether that is a fused call: where JAX computes on a CUDA device, or where one says so."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from jmbs.arrays import is_traced
from jmbs.jaxext import one_kernel, runs_on_cpu

VARIABLE = "JMBS_FUSED"
"""An environment variable: 1 for fused calls on any platform, 0 for none."""
TRIED = ("0.10.", "0.11.")
"""Versions of JAX whose private interfaces these calls were tried with."""

_said: list[bool] = []


def fuses() -> bool:
    """Whether `fused` makes fused calls in what is traced now.

    Other platforms would gain nothing from them, so there they cost nothing: no operation and no time to trace.
    """
    if not jax.__version__.startswith(TRIED):
        return False
    if _said:
        return _said[-1]
    said = os.environ.get(VARIABLE, "")
    return said == "1" if said in ("0", "1") else _on_cuda()


@functools.cache
def _on_cuda() -> bool:
    return jax.default_backend() == "gpu" and "cuda" in jax.devices()[0].client.platform_version.lower()


@contextlib.contextmanager
def fused_calls(wanted: bool = True) -> Iterator[None]:
    """Says so for what is traced in its context, whatever the platform: to compile for a device that is not there. What
    `jax.jit` has traced before stays as it was."""
    _said.append(wanted)
    try:
        yield
    finally:
        _said.pop()


@contextlib.contextmanager
def on_cpu() -> Iterator[None]:
    """Computes on the CPU what is in its context: work on few members, for which devices are slow; unless somebody says
    what to use: the environment variable JAX_PLATFORMS, JAX's setting `jax_platforms` or `jax_default_device`."""
    is_said = jax.config.values["jax_platforms"] or jax.config.values["jax_default_device"] is not None
    if is_said or runs_on_cpu():
        yield
        return
    with jax.default_device(jax.local_devices(backend="cpu")[0]), fused_calls(False):
        yield


def fused(function: Callable, *args: Any) -> Any:
    """`function(*args)`; a fused call where `fuses`, see `jmbs.fused.call`.

    **Arguments:** pytrees; what is no array in them stays as it is. Outside of `jax.jit` and the like nothing is
    traced, so that the function may look at numbers.
    """
    if not fuses() or not is_traced((args, jnp.zeros(()))):
        return function(*args)
    # Which takes a moment to import, and interfaces of JAX that other versions may not have.
    from jmbs.fused import fused_call

    return fused_call(function, *args)


def as_one_kernel(function: Callable, *args: Any) -> Any:
    """`function(*args)` in one kernel, such as a loop of one's own over `Model.step` with a controller in it; otherwise
    each of its operations may be a kernel, whose call takes 0.1 us on a CPU and some us on a GPU.

    On a CPU a kernel cannot call a library, so there are no factorisations in it, no sorting, and no matrix products of
    more than 2048 multiplications (of all members of a batch together). What has one of these is computed as without
    this function; the logger `jmbs` says at level debug what is in the way. Derivatives are not in one kernel. On a
    CUDA device it is a fused call, and so are its derivatives. Outside of `jax.jit` it is computed operation by
    operation.

    **Arguments:** pytrees; what is no array in them stays as it is. Results are pytrees of arrays.
    """
    if fuses():
        return fused(function, *args)
    arrays, others = eqx.partition(args, eqx.is_array)
    return one_kernel(lambda arrays: function(*eqx.combine(arrays, others)), arrays)
