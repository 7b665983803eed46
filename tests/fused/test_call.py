"""Fused calls are the function itself, in every transformation of JAX; `jax.vmap` leaves their programs alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jmbs.fused.call import fused_call

X = np.array([0.5, 1.5, 2.5])
MANY = np.stack([X, 2 * X, -X, X - 1])
RATE, WHOLE = 1.3, np.arange(2)


def plain(x, rate, whole):
    """A loop whose values are kept, an integer result, one that is an argument, and one that depends on nothing."""

    def step(carry, _):
        return carry + 0.01 * jnp.sin(rate * carry) * x, carry.sum()

    final, sums = jax.lax.scan(step, x, None, length=5)
    return {"final": final, "sums": sums, "whole": whole + 1, "x": x, "nothing": jnp.ones(2)}


def fused(x, rate, whole):
    return fused_call(plain, x, rate, whole)


def loss(function: Callable) -> Callable:
    def one(x, rate, whole):
        values = function(x, rate, whole)
        return (values["final"] ** 2).sum() + values["sums"].sum() + values["x"].sum()

    return one


def over_members(function: Callable) -> Callable:
    return jax.vmap(function, (0, None, None))


def total(function: Callable) -> Callable:
    return lambda *args: over_members(loss(function))(*args).sum()


def in_a_scan(function: Callable) -> Callable:
    def rolled(x, rate, whole):
        def step(carry, _):
            values = function(carry, rate, whole)
            return values["final"], values["sums"]

        return jax.lax.scan(step, x, None, length=3)[0].sum()

    return jax.grad(rolled, (0, 1))


def saved_in_part(function: Callable) -> Callable:
    """Inside of `jax.checkpoint`, with an argument that is known and one that changes."""
    return jax.grad(jax.checkpoint(lambda x, whole: loss(function)(jnp.sin(x), 2.0 * RATE, whole)))


CASES = {
    "value": (lambda f: f, (X, RATE, WHOLE)),
    "vmap": (over_members, (MANY, RATE, WHOLE)),
    "nested vmap": (lambda f: jax.vmap(over_members(f), (None, 0, None)), (MANY, RATE * X, WHOLE)),
    "jvp": (lambda f: lambda *args: jax.jvp(lambda x, r: f(x, r, WHOLE), args, args), (X, RATE)),
    "jvp of vmap": (
        lambda f: lambda *args: jax.jvp(lambda x, r: over_members(f)(x, r, WHOLE), args, args),
        (MANY, RATE),
    ),
    "grad": (lambda f: jax.grad(loss(f), (0, 1)), (X, RATE, WHOLE)),
    "vmap of grad": (lambda f: over_members(jax.grad(loss(f), (0, 1))), (MANY, RATE, WHOLE)),
    "grad of vmap": (lambda f: jax.grad(total(f), (0, 1)), (MANY, RATE, WHOLE)),
    "integers": (lambda f: jax.grad(loss(f), (0, 2), allow_int=True), (X, RATE, WHOLE)),
    "forward Jacobian": (lambda f: jax.jacfwd(f, (0, 1)), (X, RATE, WHOLE)),
    "reverse Jacobian": (lambda f: jax.jacrev(lambda *a: f(*a)["final"], (0, 1)), (X, RATE, WHOLE)),
    "second derivative": (lambda f: jax.hessian(loss(f), (0, 1)), (X, RATE, WHOLE)),
    "linearize": (lambda f: lambda *a: jax.linearize(lambda x: f(x, RATE, WHOLE)["sums"], *a)[1](*a), (X,)),
    "checkpoint": (lambda f: jax.grad(jax.checkpoint(loss(f)), (0, 1)), (X, RATE, WHOLE)),
    "checkpoint, in part": (saved_in_part, (X, WHOLE)),
    "scan": (in_a_scan, (X, RATE, WHOLE)),
}


@pytest.mark.parametrize("name", CASES)
def test_transformations_are_those_of_the_function(name):
    transformed, args = CASES[name]
    args = jax.tree.map(jnp.asarray, args)
    wanted = jax.jit(transformed(plain))(*args)
    found = jax.jit(transformed(fused))(*args)
    jax.tree.map(assert_equal, found, wanted)


def assert_equal(a: Any, b: Any) -> None:
    if a.dtype == jax.dtypes.float0:
        assert b.dtype == jax.dtypes.float0 and a.shape == b.shape
    else:
        np.testing.assert_allclose(a, b, rtol=1e-13, atol=1e-14)


def test_outside_of_jit():
    jax.tree.map(assert_equal, over_members(fused)(MANY, RATE, WHOLE), over_members(plain)(MANY, RATE, WHOLE))


def test_what_the_function_looks_at_changes_too():
    def outer(call: Callable) -> Callable:
        return jax.grad(lambda x: call(lambda y: y * x.sum() * x, jnp.sin(x)).sum())

    found = jax.jit(outer(fused_call))(X)
    np.testing.assert_allclose(found, jax.jit(outer(lambda function, *args: function(*args)))(X), rtol=1e-13)


def calls(function: Callable, *args: Any) -> list:
    """Fused calls of a program, as parameters of their equations."""
    equations = jax.make_jaxpr(function)(*args).eqns
    return [eqn.params for eqn in equations if eqn.primitive.name == "fused_call"]


def test_a_batch_leaves_the_program_that_of_one_member():
    (one,) = calls(lambda x: fused(x, RATE, WHOLE)["final"], X)
    (many,) = calls(lambda x: jax.vmap(lambda x: fused(x, RATE, WHOLE)["final"])(x), MANY)
    assert one["program"].in_avals == many["program"].in_avals
    assert one["members"].sizes == () and many["members"].sizes == (len(MANY),)


def test_a_reverse_gradient_is_two_calls():
    forwards, backwards = calls(jax.grad(lambda x: jax.vmap(lambda x: fused(x, RATE, WHOLE)["final"])(x).sum()), MANY)
    assert forwards["members"].sizes == backwards["members"].sizes == (len(MANY),)
    assert all(own.axes == (True,) for own in backwards["members"].arguments)


@pytest.mark.parametrize("saved", [lambda f: f, jax.checkpoint])
def test_what_comes_of_constants_alone_is_computed_where_it_is_needed(saved):
    """The translator then knows its numbers, such as zeros, in both kernels of a reverse gradient."""

    def function(x):
        matrix = jnp.cos(np.arange(9.0).reshape(3, 3))
        return jnp.sin(matrix @ jnp.sin(matrix @ x)).sum()

    def gradients(call: Callable) -> Callable:
        return jax.vmap(jax.grad(saved(lambda x: call(function, x))))

    wanted = gradients(lambda f, x: f(x))(MANY)
    np.testing.assert_allclose(jax.jit(gradients(fused_call))(MANY), wanted, rtol=1e-13)
    outer = jax.make_jaxpr(gradients(fused_call))(MANY).eqns
    inner = [e for eqn in outer for e in getattr(eqn.params.get("jaxpr"), "eqns", ())]
    shapes = [[x.aval.shape for x in e.invars] for e in [*outer, *inner] if e.primitive.name == "fused_call"]
    assert len(shapes) >= 2 and all((3, 3) not in given for given in shapes)


def test_values_are_computed_once_for_all_directions():
    first, second = calls(jax.jacfwd(lambda x: fused(x, RATE, WHOLE)["final"], has_aux=False), jnp.asarray(X))[:2]
    assert {first["members"].sizes, second["members"].sizes} == {(), (3,)}


def test_what_nobody_needs_is_left_out():
    lowered = jax.jit(lambda x: fused(x, RATE, WHOLE)["nothing"]).lower(jnp.asarray(X)).as_text()
    assert "sine" not in lowered
    assert "sine" in jax.jit(lambda x: fused(x, RATE, WHOLE)["final"]).lower(jnp.asarray(X)).as_text()


def test_a_call_inside_of_another_goes_member_by_member():
    """As a kernel has it, which opens calls by what they are outside of `jax.jit`."""

    def outer(function: Callable) -> Callable:
        return lambda many: over_members(function)(many, RATE, WHOLE)["sums"]

    (call,) = calls(outer(fused), MANY)
    (equation,) = [e for e in jax.make_jaxpr(outer(fused))(MANY).eqns if e.primitive.name == "fused_call"]
    opened = jax.make_jaxpr(lambda *args: equation.primitive.impl(*args, **call))(MANY)
    assert [e.primitive.name for e in opened.eqns].count("scan") == 1
    np.testing.assert_allclose(jax.core.eval_jaxpr(opened.jaxpr, opened.consts, MANY)[1], outer(plain)(MANY))
