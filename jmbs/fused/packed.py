"""Kernels as XLA calls them: small arrays as they are, and small results as one array of each type.

XLA would launch a kernel for each array that it has to turn so that the members' axis is the innermost, which a fused
call's code reads and writes side by side. Arrays that are read once are quicker read as they are.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.core import ShapedArray

from jmbs.fused.printing import TYPES
from jmbs.fused.translate import Kernel

SMALL = 256
"""Entries of one member's array, up to which it is small. What reverse mode keeps of all steps is not."""
NAME = "packed"
INSIDE = "#define KERNEL static __device__ __forceinline__\n"


def is_small(of_one: ShapedArray) -> bool:
    """Whether one member's array is."""
    return math.prod(of_one.shape) <= SMALL


@dataclasses.dataclass(frozen=True)
class Packing:
    """Of results `types` of one member, in which arrays they are packed: `groups` of places in the list, each of one
    type."""

    types: tuple[ShapedArray, ...]
    groups: tuple[tuple[int, ...], ...]

    @property
    def packed_types(self) -> list[ShapedArray]:
        """What one member has of each packed array."""
        sizes = [sum(math.prod(self.types[i].shape) for i in group) for group in self.groups]
        return [ShapedArray((n,), self.types[g[0]].dtype) for n, g in zip(sizes, self.groups, strict=True)]

    def starts(self, group: Sequence[int]) -> list[int]:
        """The first entry of each array of a group."""
        sizes = (math.prod(self.types[i].shape) for i in group)
        return list(itertools.accumulate(sizes, initial=0))[:-1]

    def unpack(self, packed: Sequence[Any]) -> list:
        """Arrays `(members, ...)` of packed ones, `(members, entries)`."""
        found: dict[int, Any] = {}
        for group, whole in zip(self.groups, packed, strict=True):
            for i, start in zip(group, self.starts(group), strict=True):
                part = whole[:, start : start + math.prod(self.types[i].shape)]
                found[i] = jnp.reshape(part, (whole.shape[0], *self.types[i].shape))
        return [found[i] for i in range(len(self.types))]


def packing_of(types: Sequence[ShapedArray], minor: Sequence[bool]) -> Packing:
    """Small arrays of one type together, all others alone, and those whose members are the `minor` axis."""
    together: dict[np.dtype, list[int]] = {}
    alone: list[tuple[int, ...]] = []
    for i, of_one in enumerate(types):
        if is_small(of_one) and not minor[i]:
            together.setdefault(of_one.dtype, []).append(i)
        else:
            alone.append((i,))
    return Packing(tuple(types), (*(tuple(group) for group in together.values()), *alone))


def packed_source(kernel: Kernel, own: Sequence[bool], results: Packing) -> str:
    """The kernel `packed(members, inputs..., packed results...)` in C.

    **Arguments:** `own`: by input, whether each member has its own and they come one member after the other, where the
    `kernel` was made for an input that all share.
    """
    formal = [f"const {_pointer(t, f'in{i}')}" for i, t in enumerate(kernel.inputs)]
    actual = [
        f"in{i} + member * {math.prod(t.shape)}" if there else f"in{i}"
        for i, (t, there) in enumerate(zip(kernel.inputs, own, strict=True))
    ]
    places = {}
    for k, (group, of_one) in enumerate(zip(results.groups, results.packed_types, strict=True)):
        formal.append(_pointer(of_one, f"out{k}"))
        places |= {i: f"out{k} + {start} * many" for i, start in zip(group, results.starts(group), strict=True)}
    actual += [places[i] for i in range(len(results.types))]
    return f"""{INSIDE}{kernel.source}
extern "C" __global__ void {NAME}({", ".join(["const int *__restrict__ members", *formal])})
{{
  const long long many = *members, member = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  {kernel.name}({", ".join(["members", *actual])});
}}
"""


def _pointer(of_one: ShapedArray, name: str) -> str:
    return f"{TYPES[of_one.dtype.name]} *__restrict__ {name}"
