"""Programs along many directions: what differs by direction has a last axis for them, all else is computed once.

`jax.vmap` of a derivative does that too, but puts the axis first, or wherever an operation wants it. Beside axes of
length one to three, loops of compiled programs are quicker along a last axis.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, Primitive
from jax.extend.core import primitives as p
from jaxtyping import Array

from jmbs.jaxext.scans import constants_and_carry

OPENED: set[Primitive] = {p.linear_solve_p, p.remat_p, p.custom_jvp_call_p}
"""Those whose inside is taken along too; but for those in `_INSIDES` it is what their `impl` does."""

ELEMENTWISE = {
    *(p.add_p, p.sub_p, p.mul_p, p.div_p, p.rem_p, p.pow_p, p.max_p, p.min_p, p.atan2_p, p.add_jaxvals_p),
    *(p.and_p, p.or_p, p.xor_p, p.eq_p, p.ne_p, p.lt_p, p.le_p, p.gt_p, p.ge_p),
}
"""Of several arrays, of one shape or scalars."""

Flags = list[bool]
"""By array, whether it differs by direction and so has the axis."""


@dataclasses.dataclass(frozen=True, eq=False)
class Along:
    """Programs along `size` directions.

    What is neither opened nor known here goes through `jax.vmap`. Conditions of branches and loops, and places in
    arrays, must not differ by direction; in derivatives they never do.
    """

    size: int
    _insides: dict[int, tuple[Any, ClosedJaxpr]] = dataclasses.field(default_factory=dict)

    def which(self, program: ClosedJaxpr, along: Sequence[bool]) -> Flags:
        """Which results differ if those arguments do; at least those that `values` finds to."""
        known = dict(zip(program.jaxpr.invars, along, strict=True))
        read = lambda atom: not hasattr(atom, "val") and known.get(atom, False)  # noqa: E731
        for eqn in program.jaxpr.eqns:
            flags = self._which_of(eqn, [read(atom) for atom in eqn.invars])
            known.update(zip(eqn.outvars, flags, strict=True))
        return [read(atom) for atom in program.jaxpr.outvars]

    def values(
        self, program: ClosedJaxpr, args: Sequence[Array], along: Sequence[bool], wanted: Sequence[bool]
    ) -> list:
        """The results, those `wanted` with the axis, which must be all that differ."""
        return self._spread(*self._values(program, args, along), wanted)

    def _values(self, program: ClosedJaxpr, args: Sequence[Array], along: Sequence[bool]) -> tuple[list[Array], Flags]:
        """The results, and which differ."""
        jaxpr = program.jaxpr
        known: dict[Any, tuple[Array, bool]] = {
            v: (x, False) for v, x in zip(jaxpr.constvars, program.consts, strict=True)
        }
        known.update(zip(jaxpr.invars, zip(args, along, strict=True), strict=True))

        def read(atoms: Sequence[Any]) -> tuple[list[Array], Flags]:
            pairs = [(atom.val, False) if hasattr(atom, "val") else known[atom] for atom in atoms]
            return [x for x, _ in pairs], [flag for _, flag in pairs]

        for eqn in jaxpr.eqns:
            with eqn.ctx.manager:
                values, flags = self._equation(eqn, *read(eqn.invars))
            known.update(zip(eqn.outvars, zip(values, flags, strict=True), strict=True))
        return read(jaxpr.outvars)

    def _equation(self, eqn: Any, args: list[Array], along: Flags) -> tuple[list[Array], Flags]:
        primitive = eqn.primitive
        if not any(along):
            values = primitive.bind(*args, **primitive.get_bind_params(eqn.params))
            values = values if primitive.multiple_results else [values]
            return values, [False] * len(values)
        if primitive in _CONTROL:
            return _CONTROL[primitive](self, eqn.params, args, along)
        if primitive in OPENED:
            return self._values(self._inside(eqn), args, along)
        if primitive in _RULES:
            return [_RULES[primitive](self.size, eqn, args, along)], [True]
        call = lambda *args: primitive.bind(*args, **primitive.get_bind_params(eqn.params))  # noqa: E731
        values = jax.vmap(call, [-1 if flag else None for flag in along], -1, axis_size=self.size)(*args)
        values = values if primitive.multiple_results else [values]
        return values, [True] * len(values)

    def _which_of(self, eqn: Any, along: Flags) -> Flags:
        params = eqn.params
        if not any(along):
            return [False] * len(eqn.outvars)
        if eqn.primitive is p.jit_p:
            return self.which(params["jaxpr"], along)
        if eqn.primitive is p.scan_p:
            return self._which_of_scan(params, along)[1]
        if eqn.primitive is p.while_p:
            return self._which_of_while(params, along)
        if eqn.primitive is p.cond_p:
            return self._which_of_cond(params, along)
        if eqn.primitive in OPENED:
            return self.which(self._inside(eqn), along)
        return [True] * len(eqn.outvars)

    def _inside(self, eqn: Any) -> ClosedJaxpr:
        if id(eqn) not in self._insides:
            shapes = [jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in eqn.invars]

            def call(*args: Array) -> Any:
                values = eqn.primitive.impl(*args, **eqn.params)
                return values if eqn.primitive.multiple_results else [values]

            given = _INSIDES.get(eqn.primitive)
            inside = given(eqn.params) if given else jax.make_jaxpr(call)(*shapes)
            # With the equation, so that no other one gets its number.
            self._insides[id(eqn)] = eqn, inside
        return self._insides[id(eqn)][1]

    def _spread(self, xs: Sequence[Array], has: Sequence[bool], wanted: Sequence[bool]) -> list[Array]:
        return [
            _with_axis(self.size, x, False, jnp.shape(x)) if want and not already else x
            for x, already, want in zip(xs, has, wanted, strict=True)
        ]

    # -- control: a loop's carry has the axis if anything that it becomes has ----------------------------------------

    def _jit(self, params: Mapping, args: list[Array], along: Flags) -> tuple[list[Array], Flags]:
        wanted = self.which(params["jaxpr"], along)
        return jax.jit(lambda *args: self.values(params["jaxpr"], args, along, wanted))(*args), wanted

    def _which_of_scan(self, params: Mapping, along: Flags) -> tuple[Flags, Flags]:
        n, m = constants_and_carry(params)
        inside = along
        while True:
            after = self.which(params["jaxpr"], inside)
            carry = [a or b for a, b in zip(inside[n:m], after, strict=False)]
            if carry == inside[n:m]:
                return inside, [*carry, *after[m - n :]]
            inside = [*inside[:n], *carry, *inside[m:]]

    def _scan(self, params: Mapping, args: list[Array], along: Flags) -> tuple[list[Array], Flags]:
        n, m = constants_and_carry(params)
        inside, outside = self._which_of_scan(params, along)
        args = self._spread(args, along, inside)

        def body(carry: list[Array], xs: list[Array]) -> tuple[list[Array], list[Array]]:
            values = self.values(params["jaxpr"], [*args[:n], *carry, *xs], inside, outside)
            return values[: m - n], values[m - n :]

        settings = params["length"], params["reverse"], params["unroll"]
        carry, ys = jax.lax.scan(body, args[n:m], args[m:], *settings)
        return [*carry, *ys], outside

    def _which_of_while(self, params: Mapping, along: Flags) -> Flags:
        n, m = params["cond_nconsts"], params["cond_nconsts"] + params["body_nconsts"]
        carry = along[m:]
        while True:
            after = self.which(params["body_jaxpr"], [*along[n:m], *carry])
            whole = [a or b for a, b in zip(carry, after, strict=True)]
            if whole == carry:
                return carry
            carry = whole

    def _while(self, params: Mapping, args: list[Array], along: Flags) -> tuple[list[Array], Flags]:
        n, m = params["cond_nconsts"], params["cond_nconsts"] + params["body_nconsts"]
        flags = self._which_of_while(params, along)

        def going(carry: list[Array]) -> Array:
            return self.values(params["cond_jaxpr"], [*args[:n], *carry], [*along[:n], *flags], [False])[0]

        def body(carry: list[Array]) -> list[Array]:
            return self.values(params["body_jaxpr"], [*args[n:m], *carry], [*along[n:m], *flags], flags)

        return jax.lax.while_loop(going, body, self._spread(args[m:], along[m:], flags)), flags

    def _which_of_cond(self, params: Mapping, along: Flags) -> Flags:
        return [any(flags) for flags in zip(*(self.which(b, along[1:]) for b in params["branches"]), strict=True)]

    def _cond(self, params: Mapping, args: list[Array], along: Flags) -> tuple[list[Array], Flags]:
        flags = self._which_of_cond(params, along)

        def branch(program: ClosedJaxpr) -> Callable:
            return lambda *args: self.values(program, args, along[1:], flags)

        return jax.lax.switch(args[0], [branch(program) for program in params["branches"]], *args[1:]), flags


_INSIDES = {
    p.remat_p: lambda params: ClosedJaxpr(params["jaxpr"], ()),
    p.custom_jvp_call_p: lambda params: params["call_jaxpr"],
}
_CONTROL = {p.jit_p: Along._jit, p.scan_p: Along._scan, p.while_p: Along._while, p.cond_p: Along._cond}


def _with_axis(size: int, x: Array, has: bool, shape: Sequence[int]) -> Array:
    """`x`, of this shape or a scalar, in this shape and with the axis."""
    rank = jnp.ndim(x) - has
    if has and rank == len(shape):
        return x
    return jax.lax.broadcast_in_dim(x, (*shape, size), (*range(rank), *([len(shape)] if has else [])))


def _elementwise(size: int, eqn: Any, args: list[Array], along: Flags) -> Array:
    shape = eqn.outvars[0].aval.shape
    return eqn.primitive.bind(*(_with_axis(size, *pair, shape) for pair in zip(args, along, strict=True)), **eqn.params)


def _select(size: int, eqn: Any, args: list[Array], along: Flags) -> Array:
    shape, (which, *cases) = eqn.outvars[0].aval.shape, args
    cases = [_with_axis(size, *pair, shape) for pair in zip(cases, along[1:], strict=True)]
    return jax.lax.select_n(_with_axis(size, which, along[0], shape) if jnp.ndim(which) else which, *cases)


def _broadcast(size: int, eqn: Any, args: list[Array], along: Flags) -> Array:
    shape = *eqn.params["shape"], size
    return jax.lax.broadcast_in_dim(args[0], shape, (*eqn.params["broadcast_dimensions"], len(shape) - 1))


def _reshape(size: int, eqn: Any, args: list[Array], along: Flags) -> Array:
    return jax.lax.reshape(args[0], (*eqn.params["new_sizes"], size))


def _concatenate(size: int, eqn: Any, args: list[Array], along: Flags) -> Array:
    shapes = (v.aval.shape for v in eqn.invars)
    parts = [_with_axis(size, *each) for each in zip(args, along, shapes, strict=True)]
    return jax.lax.concatenate(parts, eqn.params["dimension"])


def _dynamic_slice(size: int, eqn: Any, args: list[Array], along: Flags) -> Array:
    x, *places = args
    return jax.lax.dynamic_slice(x, [*places, jnp.zeros_like(places[0])], (*eqn.params["slice_sizes"], size))


def _dynamic_update_slice(size: int, eqn: Any, args: list[Array], along: Flags) -> Array:
    places = args[2:]
    shapes = (v.aval.shape for v in eqn.invars[:2])
    whole, part = (_with_axis(size, *each) for each in zip(args[:2], along[:2], shapes, strict=True))
    return jax.lax.dynamic_update_slice(whole, part, [*places, jnp.zeros_like(places[0])])


_RULES: dict[Primitive, Callable[[int, Any, list[Array], Flags], Array]] = {
    **dict.fromkeys(ELEMENTWISE, _elementwise),
    p.select_n_p: _select,
    p.broadcast_in_dim_p: _broadcast,
    p.reshape_p: _reshape,
    p.concatenate_p: _concatenate,
    p.dynamic_slice_p: _dynamic_slice,
    p.dynamic_update_slice_p: _dynamic_update_slice,
}
