"""What fused calls are on CUDA devices: one kernel of ours, one thread a member, called from XLA's program.

XLA takes a kernel in PTX by a custom call of its own, without a call back to the host. Arrays of members come with the
members' axis innermost, so that threads side by side read numbers side by side.
"""

from __future__ import annotations

import functools
import logging
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax._src.interpreters.mlir import custom_call
from jax.core import ShapedArray
from jax.extend.core import ClosedJaxpr, Primitive, jaxpr_as_fun
from jax.extend.mlir import ir
from jax.interpreters import mlir

from jmbs.fused.call import fused, fused_call, plain
from jmbs.fused.flatten import Untranslatable
from jmbs.fused.members import Members, chosen, one_axis, spread
from jmbs.fused.nvrtc import NotCompiled, ptx
from jmbs.fused.packed import NAME, is_small, packed_source, packing_of
from jmbs.fused.translate import translate

__all__ = ["fused_call"]

TARGET = "__gpu$xla.gpu.ptx"
MOST_ARGUMENTS = 1024
"""Of a kernel that XLA calls."""
BLOCK = 32
"""Threads to a block: a warp, so that few members are on many multiprocessors."""

_log = logging.getLogger("jmbs")


def _lower(context: mlir.LoweringRuleContext, *args: Any, program: ClosedJaxpr, members: Members):
    launch = functools.partial(plain, program=program, members=members)
    try:
        if any(_filled(program.out_avals)):
            launch = _launcher(program, members)
    except (Untranslatable, NotCompiled) as error:
        _log.debug("a fused call of %d equations is no kernel: %s", len(program.eqns), error)
    return mlir.lower_fun(launch, multiple_results=True)(context, *args)


def _launcher(program: ClosedJaxpr, members: Members) -> Callable[..., list]:
    """The function that calls the kernel of a fused call. Raises `Untranslatable` or `NotCompiled`."""
    filled = _filled(program.in_avals)
    arguments, types = chosen(filled, members.arguments), chosen(filled, program.in_avals)
    pairs = list(zip(arguments, types, strict=True))
    minor = tuple(own.by_member and (own.minor or not is_small(of_one)) for own, of_one in pairs)
    straight = [own.by_member and not flag for own, flag in zip(arguments, minor, strict=True)]
    kernel = translate(_without_empty(program), minor, "fused")
    results = packing_of(kernel.outputs, chosen(_filled(program.out_avals), members.minor))
    if 1 + len(types) + len(results.groups) > MOST_ARGUMENTS:
        raise Untranslatable("fused_call", f"more than {MOST_ARGUMENTS} arrays go in and out")
    code = ptx(packed_source(kernel, straight, results))
    _log.debug("a fused call of %d members is a kernel of %d bytes of PTX", members.count, len(code))

    def launch(*args: Any) -> list:
        pairs = zip(chosen(filled, args), arguments, strict=True)
        given = [one_axis(spread(x, own, members.sizes), members) if own.by_member else x for x, own in pairs]
        types = tuple(ShapedArray((members.count, *t.shape), t.dtype) for t in results.packed_types)
        count = jnp.asarray(members.count, np.int32)
        found = iter(results.unpack(_ptx.bind(count, *given, code=code, minor=minor, types=types)))
        wanted = zip(_filled(program.out_avals), program.out_avals, strict=True)
        values = [next(found) if flag else jnp.zeros((members.count, *t.shape), t.dtype) for flag, t in wanted]
        return [jnp.reshape(x, (*members.sizes, *x.shape[1:])) for x in values]

    return launch


def _filled(types: Sequence[Any]) -> list[bool]:
    """Which arrays have entries; others have no memory that a kernel could be given."""
    return [math.prod(of_one.shape) > 0 for of_one in types]


def _without_empty(program: ClosedJaxpr) -> ClosedJaxpr:
    """The program without arguments and results that have no entries."""
    inputs, outputs = _filled(program.in_avals), _filled(program.out_avals)
    if all(inputs) and all(outputs):
        return program

    def function(*given: Any) -> list:
        each, types = iter(given), zip(inputs, program.in_avals, strict=True)
        args = [next(each) if flag else jnp.zeros(t.shape, t.dtype) for flag, t in types]
        return chosen(outputs, jaxpr_as_fun(program)(*args))

    return jax.make_jaxpr(function)(*(jax.ShapeDtypeStruct(t.shape, t.dtype) for t in chosen(inputs, program.in_avals)))


_ptx = Primitive("ptx_call")
_ptx.multiple_results = True


def _lower_ptx(
    context: mlir.LoweringRuleContext, *args: Any, code: str, minor: Sequence[bool], types: Sequence[ShapedArray]
):
    blocks = -(-types[0].shape[0] // BLOCK)
    numbers = {"grid_x": blocks, "grid_y": 1, "grid_z": 1, "block_x": BLOCK, "block_y": 1, "block_z": 1}
    i32, text = ir.IntegerType.get_signless(32), ir.StringAttr.get
    config: dict[str, Any] = {
        name: ir.IntegerAttr.get(i32, x) for name, x in (numbers | {"shared_mem_bytes": 0}).items()
    }
    config |= {"name": text(NAME), "kernel_type": text("ptx"), "kernel_data": text(code)}
    inputs: list[Any] = list(context.avals_in)
    ranks = [len(t.shape) for t in inputs]
    return custom_call(
        TARGET,
        result_types=[mlir.aval_to_ir_type(context.module_context, t) for t in types],
        operands=args,
        backend_config=str(ir.DictAttr.get(config)),
        api_version=2,
        operand_layouts=[_layout(rank, flag) for rank, flag in zip(ranks, (False, *minor), strict=True)],
        result_layouts=[_layout(len(t.shape), True) for t in types],
    ).results


def _layout(rank: int, minor: bool) -> tuple[int, ...]:
    """Axes, the innermost first: that of the members, the first one, where it is the minor one."""
    return (0, *reversed(range(1, rank))) if minor else tuple(reversed(range(rank)))


_ptx.def_abstract_eval(lambda *_, types, **__: list(types))
mlir.register_lowering(_ptx, _lower_ptx, platform="cuda")
mlir.register_lowering(fused, _lower, platform="cuda")
