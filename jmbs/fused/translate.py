"""From a program of one member to C."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from jax.core import ShapedArray
from jax.extend.core import ClosedJaxpr

from jmbs.fused import control
from jmbs.fused.expressions import Buffer, Builder
from jmbs.fused.flatten import Untranslatable
from jmbs.fused.interpreter import Interpreter, Options, plain
from jmbs.fused.liveness import mark
from jmbs.fused.printing import source
from jmbs.fused.values import Memory

MOST_LOCAL = 400_000
"""Bytes of one thread; CUDA has 512 KiB, of which compilers need some."""


@dataclasses.dataclass(frozen=True)
class Kernel:
    """A function in C: `void name(const int *members, inputs..., outputs...)`.

    Entry e, row by row, of member m is at `e * members + m` of an array that is `batched`, as all outputs are, and at e
    of one that all members share. Under nvcc and NVRTC it is a kernel in which each thread computes one member.
    """

    name: str
    source: str
    inputs: tuple[ShapedArray, ...]
    outputs: tuple[ShapedArray, ...]
    batched: tuple[bool, ...]


def translate(
    program: ClosedJaxpr, batched: Sequence[bool], name: str = "member", options: Options | None = None
) -> Kernel:
    """The program of one member as a function of many in C.

    **Arguments:** `batched`: by argument of the program, whether each member has its own; `options`: which loops are
    written out.

    Raises `Untranslatable` where the program holds an operation of which C cannot be made.
    """
    code = Builder()
    to = Interpreter(code, options or Options(), control.RULES)
    flat = to.flat(program)
    inputs = [_buffer(code, f"in{i}", t, "argument" if b else "shared") for i, (t, b) in enumerate(
        zip(flat.given, batched, strict=True))]  # fmt: skip
    outputs = [_buffer(code, f"out{i}", t, "output") for i, t in enumerate(flat.types)]
    places = [Memory(buffer, t.shape) for buffer, t in zip(outputs, flat.types, strict=True)]
    targets: dict[int, Memory] = {}
    for atom, place in zip(flat.outputs, places, strict=True):
        if isinstance(atom, int):
            targets.setdefault(atom, place)
    args = [Memory(buffer, t.shape) for buffer, t in zip(inputs, flat.given, strict=True)]
    to.finished(places, to.run(flat, args, targets))
    mark(code)
    _hold(code)
    return Kernel(name, source(code, name, inputs, outputs), flat.given, flat.types, tuple(batched))


def _hold(code: Builder) -> None:
    """Refuses arrays of a member that a device's thread has no memory for."""
    size = sum(b.size * b.dtype.itemsize for b in code.buffers if b.kind == "local" and b.is_live)
    if size > MOST_LOCAL:
        raise Untranslatable("local memory", f"{size} bytes of arrays of one member, where there are {MOST_LOCAL}")


def _buffer(code: Builder, name: str, t: ShapedArray, kind: str) -> Buffer:
    return code.buffer(plain(t.dtype), math.prod(t.shape), kind, name)
