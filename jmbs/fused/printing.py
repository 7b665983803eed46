"""C of what was built: the text of one function, for a C compiler and, with a thread per member, for CUDA's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from jmbs.fused.algebra import OPERATIONS
from jmbs.fused.expressions import (
    CONSTANT,
    LOAD,
    VARIABLE,
    Break,
    Buffer,
    Builder,
    CodeBlock,
    IfElse,
    Loop,
    Node,
    Store,
)

TYPES = {
    "bool": "flag",
    "int8": "signed char",
    "uint8": "unsigned char",
    "int16": "short",
    "uint16": "unsigned short",
    "int32": "int",
    "uint32": "unsigned int",
    "int64": "long long",
    "uint64": "unsigned long long",
    "float32": "float",
    "float64": "double",
}
BEGINNING = """\
#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
#define DEVICE 1
#ifndef KERNEL
#define KERNEL extern "C" __global__
#endif
#define TABLE static __device__ const
#define INFINITE __longlong_as_double(0x7ff0000000000000LL)
#define NO_NUMBER __longlong_as_double(0x7ff8000000000000LL)
typedef bool flag;
#else
#include <math.h>
#define KERNEL
#define TABLE static const
#define INFINITE ((double)INFINITY)
#define NO_NUMBER ((double)NAN)
typedef _Bool flag;
static inline double rsqrt(double x) { return 1.0 / sqrt(x); }
static inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
#endif
#ifdef __CUDA_ARCH__
/* CUDA's sines reduce large angles by code that is most of them: a kernel has it once, and not at each place. */
#define INLINE static __device__ __forceinline__
static __device__ __noinline__ double2 any_sincos(double x) { double2 y; sincos(x, &y.x, &y.y); return y; }
static __device__ __noinline__ float2 any_sincosf(float x) { float2 y; sincosf(x, &y.x, &y.y); return y; }
INLINE bool is_near(double x) { return !(fabs(x) >= 2147483648.0); }
INLINE bool is_nearf(float x) { return !(fabsf(x) >= 105615.0f); }
INLINE void near_sincos(double x, double *s, double *c) { __builtin_assume(is_near(x)); sincos(x, s, c); }
INLINE void near_sincosf(float x, float *s, float *c) { __builtin_assume(is_nearf(x)); sincosf(x, s, c); }
INLINE void far_sincos(double x, double *s, double *c) { const double2 y = any_sincos(x); *s = y.x; *c = y.y; }
INLINE void far_sincosf(float x, float *s, float *c) { const float2 y = any_sincosf(x); *s = y.x; *c = y.y; }
#else
#define is_near(x) 1
#define is_nearf(x) 1
static inline void near_sincos(double x, double *s, double *c) { *s = sin(x); *c = cos(x); }
static inline void near_sincosf(float x, float *s, float *c) { *s = sinf(x); *c = cosf(x); }
#define far_sincos near_sincos
#define far_sincosf near_sincosf
#endif
"""
LONGEST = 160
"""Characters of an expression that is written where it is used."""
PAIRED = ("sin", "cos")
"""Computed together."""


def source(code: Builder, name: str, inputs: Sequence[Buffer], outputs: Sequence[Buffer]) -> str:
    """The text of the function, of what `liveness.mark` found to be needed."""
    printer = _Printer()
    body = "\n".join(printer.block(code.root, "    "))
    tables = "\n".join(_table(buffer) for buffer in code.buffers if buffer.kind == "table" and buffer.is_live)
    arguments = [f"const {TYPES[b.dtype.name]} *__restrict__ {b.name}" for b in inputs]
    arguments += [f"{TYPES[b.dtype.name]} *__restrict__ {b.name}" for b in outputs]
    return f"""{BEGINNING}
{tables}
KERNEL void {name}({", ".join(["const int *__restrict__ members", *arguments])})
{{
  const long long many = *members;
#ifdef DEVICE
  const long long member = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (member >= many) return;
#else
  for (long long member = 0; member < many; ++member)
#endif
  {{
{body}
  }}
}}
"""


def _table(buffer: Buffer) -> str:
    assert buffer.content is not None
    values = ", ".join(constant(x) for x in buffer.content.ravel())
    return f"TABLE {TYPES[buffer.dtype.name]} {buffer.name}[{max(buffer.size, 1)}] = {{{values}}};"


def constant(value: Any) -> str:
    """A constant, which C reads as the same number."""
    dtype = np.asarray(value).dtype
    if dtype.kind == "b":
        return str(int(value))
    if dtype.kind == "f":
        if not np.isfinite(value):
            name = "NO_NUMBER" if np.isnan(value) else "INFINITE" if value > 0 else "-INFINITE"
            return f"(({TYPES[dtype.name]}){name})"
        text = repr(float(value)) if dtype == np.float64 else f"{float(value):.9g}"
        text = text if any(c in text for c in ".e") else f"{text}.0"
        text += "" if dtype == np.float64 else "f"
    elif dtype.itemsize < 4:
        text = str(int(value))
    elif dtype.kind == "u":
        text = f"{int(value)}U" + ("LL" if dtype.itemsize == 8 else "")
    elif int(value) == np.iinfo(dtype).min:
        return f"({int(value) + 1}{'LL' if dtype.itemsize == 8 else ''} - 1)"
    else:
        text = f"{int(value)}" + ("LL" if dtype.itemsize == 8 else "")
    return f"({text})" if text.startswith("-") else text


class _Printer:
    """Names of what is computed, as it is written."""

    def __init__(self) -> None:
        self.count = 0

    def _new(self, letter: str) -> str:
        self.count += 1
        return f"{letter}{self.count}"

    # -- statements ---------------------------------------------------------------------------------------------------

    def block(self, block: CodeBlock, indent: str) -> Iterator[str]:
        """Its lines."""
        for i, statement in enumerate(block.statements):
            if isinstance(statement, Node):
                if statement.uses and not statement.name:
                    lines = self._sines(block.statements[i:]) if statement.op in PAIRED else self._definition(statement)
                    yield from (indent + line for line in lines)
            elif isinstance(statement, Buffer):
                if statement.is_live:
                    yield f"{indent}{TYPES[statement.dtype.name]} {statement.name}[{max(statement.size, 1)}];"
            elif isinstance(statement, Store):
                if statement.is_live:
                    place = self._entry(statement.buffer, statement.base, statement.offset)
                    yield f"{indent}{place} = {self.text(statement.value)};"
            elif isinstance(statement, Loop) and statement.is_live:
                yield from self._loop(statement, indent)
            elif isinstance(statement, IfElse) and statement.is_live:
                yield from self._branch(statement, indent)
            elif isinstance(statement, Break):
                yield f"{indent}if (!({self.text(statement.condition)})) break;"

    def _definition(self, node: Node) -> Iterator[str]:
        text = self._operation(node)
        if node.uses == 1 and not node.outside and _is_movable(node) and len(text) <= LONGEST:
            node.name = text
        else:
            node.name = self._new("v")
            yield f"const {TYPES[node.dtype.name]} {node.name} = {text};"

    def _sines(self, statements: Sequence[Any]) -> Iterator[str]:
        """Sine and cosine of all angles that come next, with one question whether they are all near to zero, so that
        a compiler can interleave them."""
        dtype, angles = statements[0].dtype, {}
        for node in statements:
            if not (isinstance(node, Node) and (node.name or not node.uses or node.op in PAIRED)):
                break
            if node.uses and not node.name:
                if node.dtype != dtype or not self._is_there(node.args[0]):
                    break
                angles.setdefault(node.args[0].number, (node.args[0], {}))[1][node.op] = node
        kind, f = TYPES[dtype.name], "f" if dtype == np.float32 else ""
        calls = []
        for angle, nodes in angles.values():
            names = {op: self._new("v") for op in PAIRED}
            for op, node in nodes.items():
                node.name = names[op]
            calls.append((self.text(angle), names["sin"], names["cos"]))
        yield f"{kind} {', '.join(f'{s}, {c}' for _, s, c in calls)};"
        yield f"if ({' && '.join(f'is_near{f}({x})' for x, _, _ in calls)}) {{"
        yield from (f"  near_sincos{f}({x}, &{s}, &{c});" for x, s, c in calls)
        yield "} else {"
        yield from (f"  far_sincos{f}({x}, &{s}, &{c});" for x, s, c in calls)
        yield "}"

    def _is_there(self, node: Node) -> bool:
        return bool(node.name) or node.op in (CONSTANT, VARIABLE)

    def _loop(self, loop: Loop, indent: str) -> Iterator[str]:
        carried = [v for v in loop.carried if v.is_live]
        for v in carried:
            v.number = self.count = self.count + 1
            yield f"{indent}{TYPES[v.dtype.name]} c{v.number} = {self.text(v.values[0])};"
        loop.index.number = self.count = self.count + 1
        i = f"i{loop.index.number}"
        if loop.length is None:
            yield f"{indent}for (;;) {{"
        elif loop.reverse:
            yield f"{indent}for (int {i} = {loop.length - 1}; {i} >= 0; --{i}) {{"
        else:
            yield f"{indent}for (int {i} = 0; {i} < {loop.length}; ++{i}) {{"
        yield from self.block(loop.body, indent + "  ")
        values = [self.text(v.values[1]) for v in carried]
        # All are read before any changes.
        moved = {v for v, node in ((v, v.values[1]) for v in carried) if node.op == VARIABLE and node.home is loop.body}
        for k, v in enumerate(carried):
            if v in moved:
                name = self._new("v")
                yield f"{indent}  const {TYPES[v.dtype.name]} {name} = {values[k]};"
                values[k] = name
        yield from (f"{indent}  c{v.number} = {value};" for v, value in zip(carried, values, strict=True))
        yield f"{indent}}}"

    def _branch(self, branch: IfElse, indent: str) -> Iterator[str]:
        given = [v for v in branch.given if v.is_live]
        for v in given:
            v.number = self.count = self.count + 1
            yield f"{indent}{TYPES[v.dtype.name]} c{v.number};"
        for k, (head, block) in enumerate(
            zip((f"if ({self.text(branch.condition)})", "else"), branch.blocks, strict=True)
        ):
            yield f"{indent}{head} {{"
            yield from self.block(block, indent + "  ")
            yield from (f"{indent}  c{v.number} = {self.text(v.values[k])};" for v in given)
            yield f"{indent}}}"

    # -- expressions --------------------------------------------------------------------------------------------------

    def text(self, node: Node) -> str:
        """An expression that was defined, a constant, or a variable."""
        if node.op == CONSTANT:
            return constant(node.extra)
        if node.op == VARIABLE:
            variable = node.extra
            is_index = isinstance(variable.owner, Loop) and variable is variable.owner.index
            return f"{'i' if is_index else 'c'}{variable.number}"
        assert node.name, f"{node.op} is used before it is there"
        return node.name

    def _operation(self, node: Node) -> str:
        if node.op == LOAD:
            buffer, offset = node.extra
            return self._entry(buffer, node.args[0] if node.args else None, offset)
        args = [self.text(x) for x in node.args]
        kind = TYPES[node.dtype.name]
        if node.op == "convert":
            return f"(({kind}){args[0]})"
        form = OPERATIONS[node.op].text
        if "{" in form:
            text = f"({form.format(*args)})"
            return f"(({kind}){text})" if node.dtype.kind in "iu" and node.dtype.itemsize < 4 else text
        return f"{form}{'f' if node.dtype == np.float32 else ''}({', '.join(args)})"

    def _entry(self, buffer: Buffer, base: Node | None, offset: int) -> str:
        place = str(offset) if base is None else self.text(base) + (f" + {offset}" if offset else "")
        if buffer.kind in ("argument", "output"):
            return f"{buffer.name}[({place}) * many + member]"
        return f"{buffer.name}[{place}]"


def _is_movable(node: Node) -> bool:
    """Whether it is the same wherever in its block it is computed."""
    return node.op not in PAIRED and (node.op != LOAD or node.extra[0].is_final)
