"""A flat program, equation by equation, becomes expressions, stores, loops and branches."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence

import jax
import numpy as np
from jax.core import ShapedArray
from jax.extend.core import ClosedJaxpr

from jmbs.fused import elementwise, factorisations, movement, places, reductions
from jmbs.fused.expressions import Buffer, Builder, Node
from jmbs.fused.flatten import Atom, Equation, Flat, Flattener, Untranslatable, is_key, is_update
from jmbs.fused.values import (
    LONG,
    Memory,
    Value,
    array,
    constants,
    fill,
    in_memory,
    put,
    scalars,
)

SCALAR_RULES = {**reductions.RULES, **factorisations.RULES}
KEPT = {
    "dynamic_update_slice",
    *places.SCATTERS,
    *SCALAR_RULES,
    *elementwise.RULES,
    *elementwise.IDENTITIES,
    *movement.RULES,
    *movement.SEVERAL,
    *factorisations.REFUSED,
}
MOST_WRITTEN_OUT = 1 << 16
"""Entries of an array of scalars."""


@dataclasses.dataclass(frozen=True)
class Options:
    """`unroll_below`: loops of at most so many rounds are written out, if that is at most `written_out` operations;
    `unroll_below=1` keeps all loops."""

    unroll_below: int = 64
    written_out: int = 25_000


class Scope:
    """Values of a program's variables, as long as any equation reads them, `pinned` ones that outlive them, and the
    `arguments` of the equation that is being written."""

    def __init__(self, pinned: Sequence[Value] = ()):
        self.values: dict[int, Value] = {}
        self.arguments: Sequence[Value] = ()
        self.pinned = pinned

    def holds(self, memory: Memory) -> bool:
        """Whether any value is in that buffer, arguments left aside."""
        return _is_in(memory, (*self.values.values(), *self.pinned)) > 0


def _is_in(memory: Memory, values: Sequence[Value]) -> int:
    """How many of the values are in that buffer."""
    return sum(isinstance(x, Memory) and x.buffer is memory.buffer for x in values)


ControlRule = Callable[["Interpreter", Equation, list[Value], Sequence[Memory | None]], list[Value]]
"""`(interpreter, equation, arguments, where results shall be)` to results."""


class Interpreter:
    """Writes a program into `code`; `control`: how loops and branches are written."""

    def __init__(self, code: Builder, options: Options, control: Mapping[str, ControlRule]):
        self.code, self.options, self.control = code, options, control
        self.flattener = Flattener(lambda name: name in KEPT or name in control)
        self.frames: list[Scope] = []

    def flat(self, program: ClosedJaxpr) -> Flat:
        """See `Flattener`."""
        return self.flattener.flat(program)

    def run(
        self,
        program: Flat,
        args: Sequence[Value],
        targets: dict[int, Memory] | None = None,
        pinned: Sequence[Value] = (),
    ) -> list[Value]:
        """The results. `targets`: where results shall be, if they come to be in memory; `pinned`: what is read again
        after the program, so that none of it may change in place."""
        frame, targets = Scope(pinned), targets or {}
        self.frames.append(frame)
        for v, value in zip(program.inputs, args, strict=True):
            if v in program.last:
                frame.values[v] = value
        for i, eqn in enumerate(program.equations):
            given = [self._read(frame, atom, aval) for atom, aval in zip(eqn.inputs, eqn.given, strict=True)]
            for v in eqn.inputs:
                if isinstance(v, int) and program.last.get(v) == i:
                    frame.values.pop(v, None)
            frame.arguments = given
            results = self._equation(eqn, given, [targets.get(v) for v in eqn.outputs])
            for v, value in zip(eqn.outputs, results, strict=True):
                if v in program.last:
                    frame.values[v] = value
        self.frames.pop()
        return [self._read(frame, atom, aval) for atom, aval in zip(program.outputs, program.types, strict=True)]

    def _read(self, frame: Scope, atom: Atom, aval: ShapedArray) -> Value:
        if isinstance(atom, int):
            return frame.values[atom]
        return constants(self.code, np.broadcast_to(atom, aval.shape), plain(aval.dtype))

    def _equation(self, eqn: Equation, args: list[Value], targets: list[Memory | None]) -> list[Value]:
        code, name = self.code, eqn.name
        if name in factorisations.REFUSED:
            raise Untranslatable(name, factorisations.REFUSED[name])
        for t in eqn.types:
            plain(t.dtype)
        if name in self.control:
            return self.control[name](self, eqn, args, targets)
        if is_update(name):
            return [self._updated(eqn, args, targets[0])]
        if name in movement.RULES:
            return [movement.RULES[name](code, eqn, args)]
        if name in movement.SEVERAL:
            return movement.SEVERAL[name](code, eqn, args)
        if name in elementwise.IDENTITIES:
            return args
        if name in elementwise.RULES:
            return [self._elementwise(eqn, args)]
        _hold(eqn, args)
        return list(SCALAR_RULES[name](code, eqn, [scalars(code, x) for x in args]))

    def _elementwise(self, eqn: Equation, args: list[Value]) -> Value:
        shape, rule = eqn.types[0].shape, elementwise.RULES[eqn.name]
        if any(isinstance(x, Memory) for x in args) and math.prod(shape) > LONG:
            return self._looped(eqn, args)
        _hold(eqn, args)
        every = [np.broadcast_to(scalars(self.code, x), shape).flat for x in args]
        return array((rule(self.code, eqn.params, *entry) for entry in zip(*every, strict=True)), shape)

    def _looped(self, eqn: Equation, args: list[Value]) -> Value:
        """Entry by entry in a loop, into memory."""
        code, t = self.code, eqn.types[0]
        sources = [self._spread(x, a, t.shape) for x, a in zip(args, eqn.given, strict=True)]
        found = Memory(code.local(plain(t.dtype), math.prod(t.shape)), t.shape)
        with code.loop(math.prod(t.shape)) as loop:
            i = code.variable(loop.index)
            entry = [scalars(code, places.at(code, x, i))[()] if isinstance(x, Memory) else x for x in sources]
            code.store(found.buffer, i, 0, elementwise.RULES[eqn.name](code, eqn.params, *entry))
        code.append(loop)
        found.buffer.version += 1
        return found

    def _spread(self, x: Value, aval: ShapedArray, shape: Sequence[int]) -> Memory | Node:
        """A scalar, or an array of that shape in memory."""
        if not x.shape:
            return scalars(self.code, x).item()
        return self.readable(x if x.shape == shape else np.broadcast_to(scalars(self.code, x), shape), aval)

    def readable(self, value: Value, aval: ShapedArray) -> Memory:
        """The value in memory, where places may be known only at run time."""
        return in_memory(self.code, value, plain(aval.dtype))

    # -- changes in place ---------------------------------------------------------------------------------------------

    def owned(self, value: Value, aval: ShapedArray, target: Memory | None = None) -> Memory:
        """The value in a buffer that may change: its own, if nothing reads the old value any more, or a copy."""
        if isinstance(value, Memory) and value.is_whole and not value.buffer.is_final:
            self._load_parts(value.buffer)
            is_read = any(frame.holds(value) for frame in self.frames) or _is_in(value, self.frames[-1].arguments) > 1
            if not is_read:
                return value
        if target is None:
            target = Memory(self.code.local(plain(aval.dtype), math.prod(aval.shape)), aval.shape)
        fill(self.code, target, value)
        return target

    def _load_parts(self, buffer: Buffer) -> None:
        """Loads parts of an array that are still to be read, so that it may change."""
        values = self.frames[-1].values
        for v, x in values.items():
            if isinstance(x, Memory) and x.buffer is buffer and not x.is_whole and math.prod(x.shape) <= LONG:
                values[v] = scalars(self.code, x)

    def _updated(self, eqn: Equation, args: list[Value], target: Memory | None) -> Value:
        code, x = self.code, args[0]
        if eqn.name == "dynamic_update_slice":
            parts = [(places.starts_of_update(code, args), None, scalars(code, args[1]))]
        else:
            parts = places.scatter_parts(code, eqn, args)
        combined = places.SCATTERS.get(eqn.name)
        is_known = all(start.is_constant for starts, _, _ in parts for start in starts)
        if isinstance(x, Memory) or not (is_known or places.has_few_places(x.shape, parts)):
            memory = self.owned(x, eqn.given[0], target)
            for starts, inside, values in parts:
                put(code, memory, starts, places.changed(code, memory, starts, inside, values, combined))
            return memory
        for starts, inside, values in parts:
            x = places.selected_update(code, x, starts, inside, values, combined)
        return x

    # -- whole arrays -------------------------------------------------------------------------------------------------

    def finished(self, targets: Sequence[Memory], values: Sequence[Value]) -> None:
        """Puts results where they belong."""
        for target, value in zip(targets, values, strict=True):
            if not (isinstance(value, Memory) and value.buffer is target.buffer and value.is_whole):
                fill(self.code, target, value)


def plain(dtype: np.dtype) -> np.dtype:
    """The type, if C has it. What JAX calls float0 is false."""
    if is_key(dtype):
        raise Untranslatable("dtype", f"{dtype}")
    if dtype == jax.dtypes.float0:
        return np.dtype(bool)
    if dtype.kind not in "fiub" or dtype.itemsize > 8 or dtype == np.float16:
        raise Untranslatable("dtype", f"{dtype}")
    return dtype


def _hold(eqn: Equation, args: Sequence[Value]) -> None:
    most = max(math.prod(x.shape) for x in (*args, *eqn.types)) if args else 0
    if most > MOST_WRITTEN_OUT:
        raise Untranslatable(eqn.name, f"of {most} entries, where {MOST_WRITTEN_OUT} at most are written out")
