"""Fused calls: functions of one member that a CUDA device runs as one kernel, a thread to a member.

A fused call keeps the program of one member and says which arguments have axes of members. `jax.vmap` adds an axis and
leaves the program alone, so what `jit`, `grad` and `jvp` make of it are fused calls too: a reverse gradient is two, one
forwards that keeps what the other needs. `jmbs.fused.cuda` lowers them for CUDA devices; elsewhere, and where a program
cannot be translated, they are what `jax.vmap` would have made of the function.
See `docs/decisions/fused_calls_on_cuda.md`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax._src import source_info_util
from jax._src.core import jaxprs_in_params
from jax._src.interpreters import ad as internal_ad
from jax._src.interpreters import partial_eval as internal
from jax.core import Tracer
from jax.extend.core import ClosedJaxpr, Literal, Primitive, Var, jaxpr_as_fun
from jax.interpreters import ad, batching, mlir

from jmbs.arrays import batch_size, is_traced
from jmbs.fused.members import Members, Own, chosen, one_axis, spread
from jmbs.jaxext import OPENED, Along

MOST_WRITTEN = 100_000
"""Scalar operations of a program that is one kernel. Compilers take minutes for more, such as all that is observed at
hundreds of saved times; calls inside of it are kernels then, and XLA does the rest."""


def fused_call(function: Callable, *args: Any) -> Any:
    """`function(*args)` as a fused call. All transformations of JAX apply.

    **Arguments:** pytrees of arrays. Those that are traced are arguments of the kernel, all others constants in it.
    """
    leaves, structure = jax.tree.flatten(args)
    traced = [i for i, leaf in enumerate(leaves) if isinstance(leaf, Tracer)]
    results = None

    def flat(*given: Any) -> list:
        nonlocal results
        whole = list(leaves)
        for i, leaf in zip(traced, given, strict=True):
            whole[i] = leaf
        values, results = jax.tree.flatten(function(*structure.unflatten(whole)))
        return values

    given = [leaves[i] for i in traced]
    program = jax.make_jaxpr(flat)(*given)
    assert results is not None
    is_one = [eqn.primitive for eqn in program.eqns] == [fused]
    if program.effects or is_one or _hands_over(program.jaxpr) or _is_long(program):
        return results.unflatten(jaxpr_as_fun(program)(*given))
    # What the function looks at without being given it may be traced, so it is given.
    ahead = [i for i, const in enumerate(program.consts) if isinstance(const, Tracer)]
    program, given = _with_arguments(program, ahead), [*(program.consts[i] for i in ahead), *given]
    members = Members((), (Own(()),) * len(given), (False,) * len(program.out_avals))
    return results.unflatten(_bind(given, program, members))


def _hands_over(jaxpr: Any) -> bool:
    """Whether calls inside hand arrays to each other, as those of a reverse gradient do: what is kept of all steps does
    not fit into one kernel's own memory, so they stay several."""
    return any(
        any(eqn.params["members"].minor)
        if eqn.primitive is fused
        else any(map(_hands_over, jaxprs_in_params(eqn.params)))
        for eqn in jaxpr.eqns
    )


def _is_long(program: ClosedJaxpr) -> bool:
    """Whether compilers would take minutes for it as one kernel."""
    needed, _ = internal.dce_jaxpr(program.jaxpr, [True] * len(program.out_avals))
    return _weight(needed) > MOST_WRITTEN


def _weight(jaxpr: Any) -> int:
    """About how many scalar operations are written out: a loop once, as it is where that would be many."""
    return sum(
        sum(map(_weight, inner)) if (inner := list(jaxprs_in_params(eqn.params))) else _entries(eqn)
        for eqn in jaxpr.eqns
    )


def _entries(eqn: Any) -> int:
    """Those of all results, each as many as the products that a product of matrices sums for it."""
    entries = sum(math.prod(var.aval.shape) for var in eqn.outvars)
    if eqn.primitive.name != "dot_general":
        return entries
    (summed, _), _ = eqn.params["dimension_numbers"]
    return entries * math.prod(eqn.invars[0].aval.shape[axis] for axis in summed)


def _with_arguments(program: ClosedJaxpr, ahead: Sequence[int]) -> ClosedJaxpr:
    """The program, in which those of its constants are arguments, the first ones."""
    if not ahead:
        return program
    jaxpr, chosen = program.jaxpr, set(ahead)
    rest = [i for i in range(len(program.consts)) if i not in chosen]
    invars = [*(jaxpr.constvars[i] for i in ahead), *jaxpr.invars]
    jaxpr = jaxpr.replace(
        constvars=[jaxpr.constvars[i] for i in rest],
        invars=invars,
        debug_info=jaxpr.debug_info._replace(arg_names=None, result_paths=None),
    )
    return ClosedJaxpr(jaxpr, [program.consts[i] for i in rest])


fused = Primitive("fused_call")
fused.multiple_results = True


def _bind(args: Sequence[Any], program: ClosedJaxpr, members: Members) -> list:
    """The results of a fused call that gives each value once, and none that it was given."""
    outputs = program.jaxpr.outvars
    inputs = zip(program.jaxpr.invars, zip(args, members.arguments, strict=True), strict=True)
    given = {id(var): pair for var, pair in inputs}
    given |= {id(atom): (atom.val, members.nothing) for atom in outputs if isinstance(atom, Literal)}
    firsts = {id(atom): i for i, atom in reversed(list(enumerate(outputs))) if id(atom) not in given}
    wanted = [firsts.get(id(atom)) == i for i, atom in enumerate(outputs)]
    asked = program if all(wanted) else internal.prune_closed_jaxpr_outputs(program, wanted)
    values = iter(_call(args, asked, members.of(members.arguments, chosen(wanted, members.minor))))
    found = {i: next(values) for i, flag in enumerate(wanted) if flag}

    def value(atom: Any) -> Any:
        if id(atom) in firsts:
            return found[firsts[id(atom)]]
        x, own = given[id(atom)]
        return spread(x, own, members.sizes)

    return [value(atom) for atom in outputs]


def _call(args: Sequence[Any], program: ClosedJaxpr, members: Members) -> list:
    """A call, if there is anything to compute from anything."""
    if not args or not program.jaxpr.outvars:
        return plain(*args, program=program, members=members)
    return fused.bind(*args, program=program, members=members)


def plain(*args: Any, program: ClosedJaxpr, members: Members) -> list:
    """What `jax.vmap` would have made of the program."""
    function = jaxpr_as_fun(program)
    for axis in reversed(range(len(members.sizes))):
        function = _mapped(function, [own.axes[axis] for own in members.arguments], members.sizes[axis])
    return function(*args)


def _mapped(function: Callable, has: Sequence[bool], size: int) -> Callable:
    if any(has):
        return jax.vmap(function, tuple(0 if there else None for there in has), axis_size=size)
    return lambda *args: [jnp.broadcast_to(x, (size, *jnp.shape(x))) for x in function(*args)]


def _one_by_one(*args: Any, program: ClosedJaxpr, members: Members) -> list:
    """The same in a loop over the members: for a kernel that has this call in it, where one thread does all."""
    function = jaxpr_as_fun(program)
    if not members.sizes:
        return function(*args)
    along = [own.by_member for own in members.arguments]
    filled = [spread(x, own, members.sizes) for x, own in zip(args, members.arguments, strict=True)]
    flat = [one_axis(x, members) for x in chosen(along, filled)]

    def one(_: None, own: list) -> tuple[None, list]:
        each = iter(own)
        return None, function(*(next(each) if flag else x for x, flag in zip(args, along, strict=True)))

    values = jax.lax.scan(one, None, flat, members.count)[1]
    return [jnp.reshape(x, (*members.sizes, *x.shape[1:])) for x in values]


_alone = jax.jit(
    lambda *args, program, members: fused.bind(*args, program=program, members=members),
    static_argnames=("program", "members"),
)


def _evaluate(*args: Any, program: ClosedJaxpr, members: Members) -> list:
    """Outside of `jax.jit` a program of its own; where another call's program is opened, what is inside."""
    return (_one_by_one if is_traced(args) else _alone)(*args, program=program, members=members)


def _batch(args: Sequence, axes: Sequence, *, program: ClosedJaxpr, members: Members):
    size = batch_size(args, axes)
    args = [x if axis is None else jnp.moveaxis(x, axis, 0) for x, axis in zip(args, axes, strict=True)]
    along = [axis is not None for axis in axes]
    arguments = [Own((flag, *had.axes), had.minor) for flag, had in zip(along, members.arguments, strict=True)]
    many = Members((size, *members.sizes), tuple(arguments), members.minor)
    differs = Along(size).which(program, along)
    # What is the same for all, such as values under `jax.jacfwd`, is computed once.
    values = iter(_some(args, program, many, differs))
    once = iter(_some(args, program, members, [not flag for flag in differs]))
    return [next(values) if flag else next(once) for flag in differs], [0 if flag else None for flag in differs]


def _some(args: Sequence, program: ClosedJaxpr, members: Members, wanted: Sequence[bool]) -> list:
    """Some of the results."""
    if all(wanted):
        return _call(args, program, members)
    jaxpr, needed = internal.dce_jaxpr(program.jaxpr, wanted)
    of_some = members.of(chosen(needed, members.arguments), chosen(wanted, members.minor))
    return _call(chosen(needed, args), ClosedJaxpr(jaxpr, program.consts), of_some)


def _differentiate(primals: Sequence, tangents: Sequence, *, program: ClosedJaxpr, members: Members):
    changing = [not isinstance(tangent, ad.Zero) for tangent in tangents]
    both, changed = internal_ad.jvp_jaxpr(program, changing, instantiate=False)
    args = [*primals, *chosen(changing, tangents)]
    arguments = [*members.arguments, *(Own(own.axes) for own in chosen(changing, members.arguments))]
    found = _bind(args, both, members.of(arguments, [*members.minor, *([False] * sum(changed))]))
    values, changes = found[: len(changed)], iter(found[len(changed) :])
    types = [members.type(of_one).to_tangent_aval() for of_one in program.out_avals]
    return values, [next(changes) if moves else ad.Zero(type) for moves, type in zip(changed, types, strict=True)]


def _evaluate_ahead(trace: Any, *tracers: Any, program: ClosedJaxpr, members: Members) -> list:
    """Partial evaluation: one call of what is known, which keeps what the other one, of the rest, needs of it."""
    unknown = [not tracer.is_known() for tracer in tracers]
    known = [not flag for flag in unknown]
    ahead, rest, left, kept_types, forwarded = internal.partial_eval_jaxpr_nounits_fwd(program, unknown, False)
    ahead, rest, inside = _constants_inside(ahead, rest, [i for i, source in enumerate(forwarded) if source is None])
    forwarded = [source for i, source in enumerate(forwarded) if i not in inside]
    kept_types = kept_types[len(inside) :]
    given, own = [tracer.pval.get_known() for tracer in chosen(known, tracers)], chosen(known, members.arguments)
    minor = [*chosen([not flag for flag in left], members.minor), *([True] * len(kept_types))]
    found = _bind(given, ahead, members.of(own, minor))
    values, kept = found[: len(found) - len(kept_types)], iter(found[len(found) - len(kept_types) :])
    # What the rest needs is kept, or given already, or a constant.
    sources = [*((const, members.nothing) for const in program.consts), *zip(given, own, strict=True)]
    needed = [(next(kept), members.whole(minor=True)) if i is None else sources[i] for i in forwarded]
    inputs = [*(trace.new_instantiated_const(x) for x, _ in needed), *chosen(unknown, tracers)]
    outputs = [internal.JaxprTracer(trace, internal.PartialVal.unknown(members.type(t)), None) for t in rest.out_avals]
    arguments = [*(own for _, own in needed), *chosen(unknown, members.arguments)]
    params = {"program": rest, "members": members.of(arguments, chosen(left, members.minor))}
    equation = internal.new_eqn_recipe(trace, inputs, outputs, fused, params, rest.effects, source_info_util.current())
    for tracer in outputs:
        tracer.recipe = equation
    known_values, unknown_values = iter(values), iter(outputs)
    return [next(unknown_values) if flag else next(known_values) for flag in left]


def _constants_inside(
    ahead: ClosedJaxpr, rest: ClosedJaxpr, places: Sequence[int]
) -> tuple[ClosedJaxpr, ClosedJaxpr, set[int]]:
    """Both programs of a partial evaluation, where `rest` has in it what `ahead` would have made for it of constants
    alone, so that the translator computes with them; and at which places of its arguments they were.

    **Arguments:** `places`: of those arguments of `rest` that are the last results of `ahead`.
    """
    varying = {id(var) for var in ahead.jaxpr.invars}
    for eqn in ahead.jaxpr.eqns:
        if any(id(atom) in varying for atom in eqn.invars):
            varying |= {id(var) for var in eqn.outvars}
    outputs = ahead.jaxpr.outvars
    first = len(outputs) - len(places)
    constant = [i >= first and id(atom) not in varying for i, atom in enumerate(outputs)]
    inside = {place for place, flag in zip(places, constant[first:], strict=True) if flag}
    if not inside:
        return ahead, rest, inside
    of_constants = ClosedJaxpr(internal.dce_jaxpr(ahead.jaxpr, constant)[0], ahead.consts)

    def function(*given: Any) -> list:
        values, others = iter(jaxpr_as_fun(of_constants)()), iter(given)
        return jaxpr_as_fun(rest)(*(next(values if i in inside else others) for i in range(len(rest.in_avals))))

    types = [t for i, t in enumerate(rest.in_avals) if i not in inside]
    whole = jax.make_jaxpr(function)(*(jax.ShapeDtypeStruct(t.shape, t.dtype) for t in types))
    return internal.prune_closed_jaxpr_outputs(ahead, [not flag for flag in constant]), whole, inside


def _evaluate_equation_ahead(saveable: Any, unknown: Sequence[bool], at_hand: Sequence[bool], equation: Any):
    """Partial evaluation inside of `jax.checkpoint`, whose rule says what is saved and what is computed anew."""
    program, members = equation.params["program"], equation.params["members"]
    ahead, rest, left, staged, n = internal.partial_eval_jaxpr_custom(
        program.jaxpr, list(unknown), list(at_hand), False, False, saveable
    )
    ahead, rest, inside = _constants_inside(
        ClosedJaxpr(ahead, program.consts), ClosedJaxpr(rest, program.consts), range(n)
    )
    known, n = [not flag for flag in unknown], n - len(inside)
    kept = [Var(members.type(of_one)) for of_one in rest.in_avals[:n]]
    results = [*chosen([not flag for flag in left], equation.outvars), *kept]
    arguments = [*kept, *chosen(at_hand, equation.invars)]
    minor = [*chosen([not flag for flag in left], members.minor), *([True] * n)]
    of_ahead = members.of(chosen(known, members.arguments), minor)
    own = [*([members.whole(minor=True)] * n), *chosen(at_hand, members.arguments)]
    of_rest = members.of(own, chosen(staged, members.minor))
    first = equation.replace(
        invars=chosen(known, equation.invars),
        outvars=results,
        params={"program": ahead, "members": of_ahead},
    )
    second = equation.replace(
        invars=arguments,
        outvars=chosen(staged, equation.outvars),
        params={"program": rest, "members": of_rest},
    )
    fresh = [x for x, there in zip(equation.invars, at_hand, strict=True) if isinstance(x, Var) and not there]
    return first, second, left, staged, [*fresh, *kept]


def _transpose(cotangents: Sequence, *args: Any, program: ClosedJaxpr, members: Members) -> list:
    linear = [isinstance(x, ad.UndefinedPrimal) for x in args]
    known = [not flag for flag in linear]
    pulled = [not isinstance(x, ad.Zero) for x in cotangents]
    found: list[bool] = []

    def transposed(*given: Any) -> list:
        residuals, pulling = iter(given[: sum(known)]), iter(given[sum(known) :])
        primals = [
            ad.UndefinedPrimal(type) if flag else next(residuals)
            for flag, type in zip(linear, program.in_avals, strict=True)
        ]
        of_one = [type.to_tangent_aval() for type in program.out_avals]
        whole = [next(pulling) if flag else ad.Zero(t) for flag, t in zip(pulled, of_one, strict=True)]
        back = internal_ad.backward_pass(program.jaxpr, False, program.consts, primals, whole)
        pulls = [ct for ct, flag in zip(back, linear, strict=True) if flag]
        found[:] = [not isinstance(ct, ad.Zero) for ct in pulls]
        return chosen(found, pulls)

    types = [*chosen(known, program.in_avals), *chosen(pulled, program.out_avals)]
    backwards = jax.make_jaxpr(transposed)(*(jax.ShapeDtypeStruct(t.shape, t.dtype) for t in types))
    own = [*chosen(known, members.arguments), *([members.whole()] * sum(pulled))]
    of_backwards = members.of(own, [False] * sum(found))
    values = iter(_bind([*chosen(known, args), *chosen(pulled, cotangents)], backwards, of_backwards))
    some = iter(found)
    return [
        _shared(next(values), own) if flag and next(some) else (ad.Zero(x.aval.to_ct_aval()) if flag else None)
        for x, flag, own in zip(args, linear, members.arguments, strict=True)
    ]


def _shared(cotangent: Any, own: Own) -> Any:
    """The sum over those axes of members that the argument does not have."""
    axes = tuple(axis for axis, there in enumerate(own.axes) if not there)
    return jnp.sum(cotangent, axis=axes) if axes else cotangent


def _without_dead_code(used: list[bool], equation: Any) -> tuple[list[bool], Any]:
    program, members = equation.params["program"], equation.params["members"]
    if not any(used):
        return [False] * len(equation.invars), None
    jaxpr, needed = internal.dce_jaxpr(program.jaxpr, used)
    of_used = members.of(chosen(needed, members.arguments), chosen(used, members.minor))
    params = {"program": ClosedJaxpr(jaxpr, program.consts), "members": of_used}
    invars, outvars = chosen(needed, equation.invars), chosen(used, equation.outvars)
    return needed, equation.replace(invars=invars, outvars=outvars, params=params)


OPENED.add(fused)
fused.def_impl(_evaluate)
fused.def_abstract_eval(lambda *types, program, members: [members.type(t) for t in program.out_avals])
ad.primitive_jvps[fused] = _differentiate
ad.primitive_transposes[fused] = _transpose
batching.primitive_batchers[fused] = _batch
internal.custom_partial_eval_rules[fused] = _evaluate_ahead
internal.partial_eval_jaxpr_custom_rules[fused] = _evaluate_equation_ahead
internal.dce_rules[fused] = _without_dead_code
mlir.register_lowering(fused, mlir.lower_fun(plain, multiple_results=True))
