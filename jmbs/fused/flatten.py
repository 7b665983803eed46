"""A program with all calls opened: equations in order, of which every one is an operation or a loop or branches.

What JAX calls by name has its program among its parameters; primitives of others say by `impl` what they do.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import ShapedArray, Tracer
from jax.extend.core import ClosedJaxpr

from jmbs.errors import JmbsError

PROGRAMS = "jaxpr", "call_jaxpr", "fun_jaxpr"
"""Parameters in which a call holds what it calls."""
PARTS = frozenset(("slice", "dynamic_slice", "gather"))
"""Operations that read a part of an array."""
Atom = int | np.ndarray
"""A variable's number, or a constant."""


class Untranslatable(JmbsError):
    """A program holds an operation of which C cannot be made.

    **Arguments:** `operation`: its name; `why`, in words.
    """

    def __init__(self, operation: str, why: str):
        self.operation, self.why = operation, why
        super().__init__(f"{operation}: {why}")


def is_update(name: str) -> bool:
    """Whether the operation of that name changes a part of an array."""
    return name == "dynamic_update_slice" or name.startswith("scatter")


@dataclasses.dataclass(frozen=True, eq=False)
class Equation:
    """One operation: its name, JAX's parameters, what goes in and out."""

    name: str
    params: dict[str, Any]
    inputs: tuple[Atom, ...]
    outputs: tuple[int, ...]
    given: tuple[ShapedArray, ...]
    types: tuple[ShapedArray, ...]


@dataclasses.dataclass(frozen=True, eq=False)
class Flat:
    """A program without calls; `last[v]`: the last equation that reads a variable; for results, how many there are."""

    inputs: tuple[int, ...]
    outputs: tuple[Atom, ...]
    given: tuple[ShapedArray, ...]
    types: tuple[ShapedArray, ...]
    equations: tuple[Equation, ...]
    last: dict[int, int]


class Flattener:
    """Opens programs; `kept`: names of what is an operation."""

    def __init__(self, kept: Callable[[str], bool]):
        self.kept = kept
        self._count = 0
        self._done: dict[int, tuple[Any, Flat]] = {}
        self._weights: dict[int, int] = {}

    def flat(self, program: ClosedJaxpr) -> Flat:
        """The program without calls, and without what no result needs."""
        if id(program) not in self._done:
            # With the program, so that no other one gets its number.
            self._done[id(program)] = program, self._flat(program)
        return self._done[id(program)][1]

    def weight(self, flat: Flat) -> int:
        """About how many scalar operations it is, rounds of loops counted."""
        if id(flat) not in self._weights:
            self._weights[id(flat)] = sum(map(self._weight, flat.equations))
        return self._weights[id(flat)]

    def _weight(self, eqn: Equation) -> int:
        params = eqn.params
        inner = [params[name] for name in ("jaxpr", "body_jaxpr") if isinstance(params.get(name), ClosedJaxpr)]
        inner += params.get("branches", ())
        if inner:
            return int(params.get("length", 1)) * sum(self.weight(self.flat(program)) for program in inner)
        return sum(math.prod(t.shape) for t in eqn.types)

    def _flat(self, program: ClosedJaxpr) -> Flat:
        inputs = tuple(self._new() for _ in program.jaxpr.invars)
        equations: list[Equation] = []
        outputs = tuple(self._inline(program.jaxpr, program.consts, inputs, equations))
        needed = {x for x in outputs if isinstance(x, int)}
        kept = []
        for equation in reversed(equations):
            if needed & set(equation.outputs):
                kept.append(equation)
                needed |= set(_variables(equation))
        kept.reverse()
        kept = _read_before_changed(kept)
        results = {x for x in outputs if isinstance(x, int)}
        last = {x: i for i, eqn in enumerate(kept) for x in _variables(eqn)}
        last.update(dict.fromkeys(results, len(kept)))
        types = tuple(v.aval for v in program.jaxpr.outvars)
        return Flat(inputs, outputs, tuple(v.aval for v in program.jaxpr.invars), types, tuple(kept), last)

    def _new(self) -> int:
        self._count += 1
        return self._count

    def _inline(self, jaxpr: Any, consts: Sequence, atoms: Sequence[Atom], equations: list[Equation]) -> list[Atom]:
        values: dict[Any, Atom] = dict(zip(jaxpr.constvars, map(_constant, consts), strict=True))
        values.update(zip(jaxpr.invars, atoms, strict=True))
        read = lambda atom: _constant(atom.val) if hasattr(atom, "val") else values[atom]  # noqa: E731
        for eqn in jaxpr.eqns:
            inputs, name = [read(atom) for atom in eqn.invars], eqn.primitive.name
            if self.kept(name):
                results = [self._new() for _ in eqn.outvars]
                given, types = (tuple(v.aval for v in atoms) for atoms in (eqn.invars, eqn.outvars))
                equations.append(Equation(name, eqn.params, tuple(inputs), tuple(results), given, types))
            else:
                inner, consts = opened(eqn)
                results = self._inline(inner, consts, inputs, equations)
            values.update(zip(eqn.outvars, results, strict=True))
        return [read(atom) for atom in jaxpr.outvars]


def _read_before_changed(equations: list[Equation]) -> list[Equation]:
    """The equations in an order in which an array's parts are read before it changes, where nothing is against it, so
    that it can change in place."""
    found = list(equations)
    for change in [eqn for eqn in equations if is_update(eqn.name)]:
        array = change.inputs[0]
        if not isinstance(array, int):
            continue
        i = found.index(change)
        if not any(_reads_part(eqn, array) for eqn in found[i + 1 :]):
            continue
        later = set(change.outputs)  # variables that are not there before
        ahead: list[Equation] = []
        for eqn in found[i + 1 :]:
            if later.isdisjoint(_variables(eqn)) and _is_light(eqn):
                ahead.append(eqn)
            else:
                later |= set(eqn.outputs)
        needed = {x for eqn in ahead if _reads_part(eqn, array) for x in eqn.outputs}
        moved: list[Equation] = []
        for eqn in reversed(ahead):
            if not needed.isdisjoint(eqn.outputs):
                moved.append(eqn)
                needed |= set(_variables(eqn))
        of_moved = set(map(id, moved))
        found[i:] = [*reversed(moved), *(eqn for eqn in found[i:] if id(eqn) not in of_moved)]
    return found


def _variables(eqn: Equation) -> list[int]:
    return [x for x in eqn.inputs if isinstance(x, int)]


def _reads_part(eqn: Equation, array: int) -> bool:
    return eqn.name in PARTS and isinstance(eqn.inputs[0], int) and eqn.inputs[0] == array


def _is_light(eqn: Equation) -> bool:
    """Whether it reads a part, or makes no more than numbers, such as the place of one."""
    return eqn.name in PARTS or all(math.prod(t.shape) <= 1 for t in eqn.types)


def opened(eqn: Any) -> tuple[Any, Sequence]:
    """The program that an equation calls, and its constants."""
    for name in PROGRAMS:
        inner = eqn.params.get(name)
        if inner is not None and hasattr(inner, "eqns"):
            inner = inner if hasattr(inner, "consts") else ClosedJaxpr(inner, ())
            if len(inner.jaxpr.invars) == len(eqn.invars):
                return inner.jaxpr, inner.consts
    shapes = [jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in eqn.invars]

    def call(*args: Any) -> Any:
        values = eqn.primitive.impl(*args, **eqn.params)
        return values if eqn.primitive.multiple_results else [values]

    try:
        with eqn.ctx.manager:
            inner = jax.make_jaxpr(call)(*shapes)
    except JmbsError:
        raise
    except Exception as error:
        raise Untranslatable(eqn.primitive.name, f"not known here, and it does not open: {error}") from error
    if _calls(inner.jaxpr, eqn.primitive):
        raise Untranslatable(eqn.primitive.name, "not known here")
    return inner.jaxpr, inner.consts


def _calls(jaxpr: Any, primitive: Any) -> bool:
    """Whether a program is but a call of that primitive, as JAX's own say what they do."""
    while len(jaxpr.eqns) == 1 and jaxpr.eqns[0].primitive is not primitive:
        inner = jaxpr.eqns[0].params.get("jaxpr")
        if inner is None:
            return False
        jaxpr = getattr(inner, "jaxpr", inner)
    return len(jaxpr.eqns) == 1 and jaxpr.eqns[0].primitive is primitive


def _constant(value: Any) -> np.ndarray:
    if isinstance(value, Tracer):
        raise Untranslatable("constant", "the program looks at a value that is traced outside of it")
    if is_key(getattr(value, "dtype", None)):
        raise Untranslatable("dtype", f"{value.dtype}")
    return np.asarray(value)


def is_key(dtype: Any) -> bool:
    """Whether it is the type of keys of random numbers."""
    return dtype is not None and jnp.issubdtype(dtype, jax.dtypes.prng_key)
