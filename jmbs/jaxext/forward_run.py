"""Programs whose derivatives forwards are one kernel too, with all directions together.

See `docs/decisions/forward_jacobian.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, Primitive, jaxpr_as_fun
from jax.interpreters import ad, batching, mlir, partial_eval

from jmbs.arrays import batch_size
from jmbs.jaxext.along_last import Along
from jmbs.jaxext.kernels import one_kernel
from jmbs.jaxext.one_mode import refuse_reverse


def forward_kernel(function: Callable, *args: Any) -> Any:
    """`one_kernel(function, *args)`, whose derivative forwards is a kernel with the value in it; reverse mode raises
    `ModelError`. Under `jax.vmap`, as in `jax.jacfwd`, values are computed once and all directions together.

    **Arguments:** pytrees of arrays.
    """
    leaves, structure = jax.tree.flatten(args)
    results = None

    def flat(*leaves: Any) -> list:
        nonlocal results
        values, results = jax.tree.flatten(function(*structure.unflatten(leaves)))
        return values

    program = jax.make_jaxpr(flat)(*leaves)
    assert results is not None
    # What the function looks at without being given it may be traced, so it is given.
    n, given = len(program.consts), [*program.consts, *leaves]
    whole = jax.make_jaxpr(lambda *args: jaxpr_as_fun(ClosedJaxpr(program.jaxpr, args[:n]))(*args[n:]))(*given)
    return results.unflatten(_forward.bind(*given, program=whole))


_forward, _with_changes = Primitive("forward_kernel"), Primitive("forward_kernel_with_changes")
_forward.multiple_results = _with_changes.multiple_results = True


def _evaluate(*args: Any, program: ClosedJaxpr, **_: Any) -> list:
    return jaxpr_as_fun(program)(*args)


def _compute(*args: Any, program: ClosedJaxpr, **_: Any) -> list:
    return one_kernel(jaxpr_as_fun(program), *args)


def _types(*_, program: ClosedJaxpr, **__: Any) -> list:
    return list(program.out_avals)


def _differentiate(primals: Sequence, tangents: Sequence, *, program: ClosedJaxpr):
    changing = [i for i, tangent in enumerate(tangents) if not isinstance(tangent, ad.Zero)]
    types = [aval.to_tangent_aval() for aval in program.out_avals]
    real = [aval.dtype != jax.dtypes.float0 for aval in types]

    def with_changes(*args: Any) -> list:
        primals, along = args[: len(program.in_avals)], args[len(program.in_avals) :]

        def of_changing(*changed: Any) -> list:
            given = dict(zip(changing, changed, strict=True))
            return jaxpr_as_fun(program)(*(given.get(i, x) for i, x in enumerate(primals)))

        values, changes = jax.jvp(of_changing, tuple(primals[i] for i in changing), along)
        return [*values, *(x for x, wanted in zip(changes, real, strict=True) if wanted)]

    args = [*primals, *(tangents[i] for i in changing)]
    found = _with_changes.bind(*args, program=jax.make_jaxpr(with_changes)(*args), known=len(primals))
    values, changes = found[: len(types)], iter(found[len(types) :])
    return values, [next(changes) if wanted else ad.Zero(aval) for aval, wanted in zip(types, real, strict=True)]


def _differentiate_again(primals: Sequence, tangents: Sequence, *, program: ClosedJaxpr, known: int):
    del known
    return jax.jvp(jaxpr_as_fun(program), tuple(primals), tuple(map(ad.instantiate_zeros, tangents)))


def _many(program: ClosedJaxpr, args: Sequence, axes: Sequence) -> ClosedJaxpr:
    """The program of many members, whose axis is the first of all results."""
    return jax.make_jaxpr(jax.vmap(jaxpr_as_fun(program), tuple(axes)))(*args)


def _batch(args: Sequence, axes: Sequence, *, program: ClosedJaxpr):
    return _forward.bind(*args, program=_many(program, args, axes)), [0] * len(program.out_avals)


def _batch_with_changes(args: Sequence, axes: Sequence, *, program: ClosedJaxpr, known: int):
    if any(axis is not None for axis in axes[:known]):
        values = _with_changes.bind(*args, program=_many(program, args, axes), known=known)
        return values, [0] * len(values)
    args = [x if axis is None else jnp.moveaxis(x, axis, -1) for x, axis in zip(args, axes, strict=True)]
    many, along = (
        [axis is not None for axis in axes],
        Along(batch_size(args, [None if a is None else -1 for a in axes])),
    )
    flags = along.which(program, many)
    together = jax.make_jaxpr(lambda *args: along.values(program, args, many, flags))(*args)
    values = _with_changes.bind(*args, program=together, known=known)
    return values, [x.ndim - 1 if flag else None for x, flag in zip(values, flags, strict=True)]


def _refuse(*_, **__):
    refuse_reverse()


for primitive in (_forward, _with_changes):
    primitive.def_impl(_evaluate)
    primitive.def_abstract_eval(_types)
    mlir.register_lowering(primitive, mlir.lower_fun(_compute, multiple_results=True))
    partial_eval.custom_partial_eval_rules[primitive] = _refuse
ad.primitive_jvps[_forward] = _differentiate
ad.primitive_jvps[_with_changes] = _differentiate_again
batching.primitive_batchers[_forward] = _batch
batching.primitive_batchers[_with_changes] = _batch_with_changes
