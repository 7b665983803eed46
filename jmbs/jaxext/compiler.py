"""What jmbs asks of JAX's compiler on a CPU: vectors of full width, quick compiling; and how long it takes."""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax

from jmbs.jaxext.switches import is_off

version = functools.cache(importlib.metadata.version)
"""Of a package; looking it up reads files."""

VECTOR_WIDTH = "xla_cpu_prefer_vector_width"
"""In bits; cores that have less use what they have."""
NOT_UNROLLED = "xla_cpu_disable_loop_unrolling"
"""For inner loops of kernels: unrolled, they take longer to compile and to run."""

EMITTERS = "xla_cpu_use_fusion_emitters"
"""For kernels of fused operations, which these emitters write by way of MLIR."""
WITHOUT_EMITTERS = f"--{EMITTERS}=false"
TRIED = "0.10."
"""Versions of jaxlib that know it."""

LEVEL = "xla_backend_optimization_level"
"""Of machine code, by LLVM."""

EXTRA = "xla_backend_extra_options"
FLAGS = {VECTOR_WIDTH: f"--{VECTOR_WIDTH}=512", EXTRA: f"--{EXTRA}={NOT_UNROLLED}"}


def ask_for_speed() -> None:
    """Asks for vectors as wide as the cores have and for loops that are not unrolled, by `XLA_FLAGS`, where these do
    not say it already. To be called before JAX has compiled anything."""
    _ask(FLAGS)


def ask_for_quick_compiling() -> None:
    """Asks for XLA's older way to write kernels of fused operations, by `XLA_FLAGS`, where these do not say it already.
    To be called before JAX has compiled anything. A program takes about two thirds of the time to compile.

    XLA stops a process that asks for what it does not know, so versions of it that were not tried are left alone.
    """
    if _tried():
        _ask({EMITTERS: WITHOUT_EMITTERS})


def _tried() -> bool:
    return version("jaxlib").startswith(TRIED)


def _ask(flags: Mapping[str, str]) -> None:
    if is_off("xla_options"):
        return
    given = os.environ.get("XLA_FLAGS", "")
    os.environ["XLA_FLAGS"] = " ".join([given, *(flag for name, flag in flags.items() if name not in given)]).strip()


@contextlib.contextmanager
def compile_clock() -> Iterator[Callable[[], float]]:
    """Measures how long JAX traces, lowers and compiles in its context: a function that gives the seconds so far."""
    spans: list[tuple[float, float]] = []

    def note(event: str, duration_secs: float, **_: str | int) -> None:
        """Notes when JAX traced, lowered or compiled something; parts of a program are traced inside of it."""
        if event.startswith("/jax/core/compile"):
            spans.append((time.perf_counter() - duration_secs, time.perf_counter()))

    jax.monitoring.register_event_duration_secs_listener(note)
    try:
        yield lambda: _length(spans)
    finally:
        jax.monitoring.unregister_event_duration_listener(note)


def _length(spans: list[tuple[float, float]]) -> float:
    """How long the union of spans of time is."""
    length, until = 0.0, -math.inf
    for start, end in sorted(spans):
        length += max(0.0, end - max(start, until))
        until = max(until, end)
    return length


def quick_options(repeated: bool) -> tuple[tuple[str, Any], ...]:
    """XLA's options for a program that runs for a moment, `repeated` if that may be often; see `quick_to_compile`."""
    if not runs_on_cpu() or not _tried() or is_off("xla_options"):
        return ()
    asked = WITHOUT_EMITTERS in os.environ.get("XLA_FLAGS", "")
    return ((EMITTERS, False),) if repeated and not asked else ((EMITTERS, False), (LEVEL, 0))


def runs_on_cpu() -> bool:
    """Whether programs run on a CPU, if nobody says otherwise. Equations never ask: they are one program everywhere."""
    return platform_of_programs() == "cpu"


def platform_of_programs() -> str:
    """Where programs run: JAX's setting `jax_default_device`, or else its default."""
    device = jax.config.values["jax_default_device"]
    return jax.default_backend() if device is None else getattr(device, "platform", str(device))
