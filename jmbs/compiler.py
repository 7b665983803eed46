"""What jmbs asks of JAX's compiler on a CPU: programs of few kernels, and vectors of full width; and how long it takes.

XLA calls one kernel per operation, which takes longer than an operation on few numbers does. It makes one kernel of a
function that a program calls if the call says so. `one_kernel` says so, where such a kernel is possible.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.core import Tracer
from jax.experimental.xla_metadata import set_xla_metadata
from jax.extend.core import ClosedJaxpr, Primitive, jaxpr_as_fun
from jax.extend.mlir.dialects import stablehlo
from jax.interpreters import ad, batching, mlir, partial_eval

from jmbs.along_last import OPENED
from jmbs.arrays import is_traced
from jmbs.fusing import fuses

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


def quick_to_compile(function: Callable | None = None, *, repeated: bool = False) -> Callable:
    """`eqx.filter_jit` for programs that run for a moment: on a CPU they take a third to half of the time to compile,
    and two to four times as long to run. Not to be called under `jax.jit`, where JAX refuses a compiler's options.

    **Arguments:** `repeated`: a program that may run so often that its machine code is worth it; it is quick to compile
    too where `ask_for_quick_compiling` was called.
    """
    if function is None:
        return functools.partial(quick_to_compile, repeated=repeated)

    @functools.wraps(function)
    def call(*args: Any) -> Any:
        return _jitted(function, _quick_options(repeated))(*args)

    return call


def as_one_program(function: Callable) -> Callable:
    """A function that is compiled as a whole, also where it is called outside of `jit`.

    Operation by operation, as JAX takes it there, a model's equations are hundreds of programs to compile.
    """
    alone, within = quick_to_compile(function), eqx.filter_jit(function)

    @functools.wraps(function)
    def call(*args: Any) -> Any:
        return (within if is_traced((args, jnp.zeros(()))) else alone)(*args)

    return call


@functools.cache
def _jitted(function: Callable, options: tuple[tuple[str, Any], ...]) -> Callable:
    if not options:
        return eqx.filter_jit(function)
    return eqx.filter_jit(function, compiler_options=dict(options))  # pyright: ignore[reportCallIssue]


def _quick_options(repeated: bool) -> tuple[tuple[str, Any], ...]:
    if not on_cpu() or not _tried():
        return ()
    asked = WITHOUT_EMITTERS in os.environ.get("XLA_FLAGS", "")
    return ((EMITTERS, False),) if repeated and not asked else ((EMITTERS, False), (LEVEL, 0))


def has_kernels() -> bool:
    """Whether `one_kernel` or a fused call makes kernels, in which many small operations cost little."""
    return fuses() or on_cpu()


def on_cpu() -> bool:
    """Whether what is traced now is for a CPU: not where fused calls are asked for, which are for another device."""
    return jax.default_backend() == "cpu" and not fuses()


def one_kernel(function: Callable, *args: Any) -> Any:
    """`function(*args)`; on a CPU in one kernel, if that is possible: without libraries, matrix products and scatters.
    Outside of `jax.jit` it is computed operation by operation.

    The compiler neither looks into a kernel from outside nor out of it: values are computed once, and all of them. A
    kernel that is called inside of another is opened. Derivatives are those of the function, not in one kernel.

    **Arguments:** pytrees of arrays.
    """
    leaves, structure = jax.tree.flatten(args)
    if not leaves:
        return function(*args)
    results = None

    def flat(*leaves: Any) -> list:
        nonlocal results
        values, results = jax.tree.flatten(function(*structure.unflatten(leaves)))
        # XLA stops the process where a kernel does not use one of its arguments, so they are among its results.
        return [*values, *leaves]

    program = _without_dead_code(jax.make_jaxpr(flat)(*leaves))
    assert results is not None
    if program.effects:
        values = jaxpr_as_fun(program)(*leaves)
    elif traced := [x for x in program.consts if isinstance(x, Tracer)]:
        values = one_kernel(functools.partial(_with_traced, program), traced, *leaves)
    else:
        values = _kernel.bind(*leaves, program=program)
    return results.unflatten(values[: results.num_leaves])


def evaluated_once(function: Callable, *args: Any) -> Any:
    """`function(*args)`, for values that are expensive and used in many places.

    Inside of a kernel the compiler would evaluate them anew in every one of those. It does not look into a function
    that a program calls, if the call says so.

    **Arguments:** pytrees of arrays, which are traced; what the function looks at beside them stays as it is.
    """
    if not on_cpu():
        return function(*args)
    with set_xla_metadata(inlineable="false"):
        return jax.jit(function)(*args)


def _without_dead_code(program: ClosedJaxpr) -> ClosedJaxpr:
    """The program without what no result needs, which JAX would otherwise lower."""
    jaxpr, _ = partial_eval.dce_jaxpr(program.jaxpr, [True] * len(program.out_avals), instantiate=True)
    return ClosedJaxpr(jaxpr, program.consts)


def _with_traced(program: ClosedJaxpr, traced: Sequence, *args: Any) -> list:
    """The program, with these traced arrays where its function looked at some without being given them."""
    ahead = iter(traced)
    consts = [next(ahead) if isinstance(x, Tracer) else x for x in program.consts]
    return jaxpr_as_fun(ClosedJaxpr(program.jaxpr, consts))(*args)


_kernel = Primitive("one_kernel")
_kernel.multiple_results = True


def _evaluate(*args: Any, program: ClosedJaxpr) -> list:
    return jaxpr_as_fun(program)(*args)


def _differentiate(primals: Sequence, tangents: Sequence, *, program: ClosedJaxpr):
    changing = [i for i, tangent in enumerate(tangents) if not isinstance(tangent, ad.Zero)]

    def of_changing(*changed: Any) -> list:
        given = dict(zip(changing, changed, strict=True))
        return jaxpr_as_fun(program)(*(given.get(i, x) for i, x in enumerate(primals)))

    values, changes = jax.jvp(of_changing, tuple(primals[i] for i in changing), tuple(tangents[i] for i in changing))
    types = zip(program.out_avals, changes, strict=True)
    return values, [ad.Zero(t.to_tangent_aval()) if dx.dtype == jax.dtypes.float0 else dx for t, dx in types]


def _batch(args: Sequence, axes: Sequence, *, program: ClosedJaxpr):
    count = len(program.out_avals) - len(args)
    values = one_kernel(jax.vmap(lambda *args: jaxpr_as_fun(program)(*args)[:count], in_axes=tuple(axes)), *args)
    return [*values, *args], [0] * count + list(axes)


AS_KERNEL = {"xla_cpu_small_call": "true", "inlineable": "false"}
"""What a call says to be one kernel. An XLA that does not know it makes one of each operation."""
TAGS, CALL, CALLEE = "mhlo.frontend_attributes", "func.call", "callee"


def _lower(context: mlir.LoweringRuleContext, *args: Any, program: ClosedJaxpr):
    # XLA would move constants into the function, which then would not use its arguments.
    behind = stablehlo.OptimizationBarrierOp(args).results
    # With functions of its own, so that kernels are opened in them for no other caller.
    module = context.module_context.replace(lowering_cache={}, cached_primitive_lowerings={})
    context = context.replace(module_context=module)
    values = mlir.core_call_lowering(context, *behind, name="one_kernel", call_jaxpr=program)
    call = values[0].owner
    operations = _operations(call, module.symbol_table)
    tags = mlir.ir.DictAttr.get({name: mlir.ir.StringAttr.get(value) for name, value in AS_KERNEL.items()})
    if all(_is_possible(operation) for operation in operations):
        for operation in operations:
            if operation.name == CALL and TAGS in operation.attributes and operation.attributes[TAGS] == tags:
                _open(operation)
        call.attributes[TAGS] = tags
    return values


def _operations(call: Any, functions: Any) -> list:
    """Those of the function that is called, and of the functions that it calls."""
    found, names = [], [call.attributes[CALLEE].value]

    def visit(operation: Any) -> Any:
        found.append(operation)
        if operation.name == CALL and operation.attributes[CALLEE].value not in names:
            names.append(operation.attributes[CALLEE].value)
        return mlir.ir.WalkResult.ADVANCE

    for name in names:  # which grow
        functions[name].operation.walk(visit)
    return found


def _open(call: Any) -> None:
    """Turns the call of a kernel back into one as others are, into which the compiler looks."""
    del call.attributes[TAGS]
    barrier = call.operands[0].owner
    for given, behind in zip(barrier.operands, barrier.results, strict=True):
        behind.replace_all_uses_with(given)
    barrier.erase()


POSSIBLE = frozenset(
    """
    abs add and atan2 broadcast_in_dim cbrt ceil clamp compare concatenate constant convert cosine divide
    dynamic_slice dynamic_update_slice exponential exponential_minus_one floor gather iota is_finite log log_plus_one
    logistic maximum minimum multiply negate not or pad power remainder reshape reverse round_nearest_afz
    round_nearest_even rsqrt select sign sine slice sqrt subtract tan tanh transpose xor
    """.split()
)
"""Operations of StableHLO, with one result, that XLA computes without a library."""
CONTROL = frozenset(("case", "if", "optimization_barrier", "return", "while"))
"""Those that may have several results, and others inside."""
FEW = 2048
"""Reductions of so many entries at most: of twice as many XLA hands some to a library. See `jmbs.arrays.total`."""


def _is_possible(operation: Any) -> bool:
    """Whether a kernel can have this operation in it; those inside of it are asked for themselves."""
    dialect, _, name = operation.name.partition(".")
    if dialect == "chlo":
        return name != "ragged_dot" and len(operation.results) == 1
    if dialect == "func":
        return True
    if name == "scatter":
        return _puts_once(operation)
    if name in ("reduce", "reduce_window"):
        return len(operation.results) == 1 and math.prod(operation.operands[0].type.shape) <= FEW
    return name in CONTROL or (name in POSSIBLE and len(operation.results) == 1)


def _puts_once(scatter: Any) -> bool:
    """Whether a scatter is an update of one slice, which XLA sees: `jax.vmap` makes scatters of such updates."""
    numbers = stablehlo.ScatterDimensionNumbers(scatter.attributes["scatter_dimension_numbers"])
    places = scatter.operands[len(scatter.results)].type.shape
    return math.prod(places) == len(numbers.scattered_dims_to_operand_dims)


OPENED.add(_kernel)
_kernel.def_impl(_evaluate)
_kernel.def_abstract_eval(lambda *types, program: program.out_avals)
ad.primitive_jvps[_kernel] = _differentiate
batching.primitive_batchers[_kernel] = _batch
mlir.register_lowering(_kernel, mlir.lower_fun(_evaluate, multiple_results=True))
mlir.register_lowering(_kernel, _lower, platform="cpu")
