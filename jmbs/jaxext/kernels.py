"""Functions that a CPU computes in one kernel.

XLA calls one kernel per operation, which takes longer than an operation on few numbers does. It makes one kernel of a
function that a program calls if the call says so. `one_kernel` says so, where such a kernel is possible.
"""

from __future__ import annotations

import functools
import logging
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax.core import Tracer
from jax.experimental.xla_metadata import set_xla_metadata
from jax.extend.core import ClosedJaxpr, Primitive, jaxpr_as_fun
from jax.extend.mlir.dialects import stablehlo
from jax.interpreters import ad, batching, mlir, partial_eval

from jmbs.jaxext.along_last import OPENED
from jmbs.jaxext.small_products import is_small_product, write_out
from jmbs.jaxext.switches import is_off


def one_kernel(function: Callable, *args: Any) -> Any:
    """`function(*args)`; on a CPU in one kernel, if that is possible: without libraries, scatters and matrix products
    of more than `FEW` multiplications. Outside of `jax.jit` it is computed operation by operation.

    The compiler neither looks into a kernel from outside nor out of it: values are computed once, and all of them. A
    kernel that is called inside of another is opened. Derivatives are those of the function, not in one kernel.

    **Arguments:** pytrees of arrays.
    """
    leaves, structure = jax.tree.flatten(args)
    if not leaves or is_off("one_kernel"):
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
    if is_off("evaluated_once"):
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
    obstacles = sorted({operation.name for operation in operations if not _is_possible(operation)})
    tags = mlir.ir.DictAttr.get({name: mlir.ir.StringAttr.get(value) for name, value in AS_KERNEL.items()})
    if obstacles:
        _log.debug("not one kernel, but one for each operation, since it has in it: %s", ", ".join(obstacles))
    else:
        for operation in operations:
            if is_small_product(operation, FEW):
                write_out(operation, context)
            elif operation.name == CALL and TAGS in operation.attributes and operation.attributes[TAGS] == tags:
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
"""Reductions of so many entries at most: of twice as many XLA hands some to a library. See `jmbs.arrays.total`. Matrix
products of so many multiplications are such reductions."""


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
    if is_small_product(operation, FEW):
        return True
    return name in CONTROL or (name in POSSIBLE and len(operation.results) == 1)


def _puts_once(scatter: Any) -> bool:
    """Whether a scatter is an update of one slice, which XLA sees: `jax.vmap` makes scatters of such updates."""
    numbers = stablehlo.ScatterDimensionNumbers(scatter.attributes["scatter_dimension_numbers"])
    places = scatter.operands[len(scatter.results)].type.shape
    return math.prod(places) == len(numbers.scattered_dims_to_operand_dims)


_log = logging.getLogger("jmbs")

OPENED.add(_kernel)
_kernel.def_impl(_evaluate)
_kernel.def_abstract_eval(lambda *types, program: program.out_avals)
ad.primitive_jvps[_kernel] = _differentiate
batching.primitive_batchers[_kernel] = _batch
mlir.register_lowering(_kernel, mlir.lower_fun(_evaluate, multiple_results=True))
mlir.register_lowering(_kernel, _lower, platform="cpu")
