"""`one_kernel` computes what the function does, in every mode, and is one kernel where that is possible."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.xla_metadata import set_xla_metadata

from jmbs.arrays import largest, total
from jmbs.jaxext import evaluated_once, one_kernel
from jmbs.jaxext.kernels import AS_KERNEL, FEW

TAG = next(iter(AS_KERNEL))
X = jnp.linspace(0.1, 2.0, 64).reshape(16, 4)
Y = jnp.linspace(-1.0, 1.0, 32).reshape(8, 4)

POSSIBLE = {
    "arithmetic": lambda x, y: (jnp.sin(x) * 2, jnp.exp(y), jnp.arctan2(x, 2.0), x**2.5, jnp.log(x), jnp.tanh(y)),
    "one result": lambda x, y: jnp.sin(x) + y[0],
    "an argument is not used": lambda x, y: jnp.sin(x),
    "an argument is a result": lambda x, y: (jnp.sin(x), y),
    "only an argument": lambda x, y: y,
    "multiplied by zero": lambda x, y: jnp.sin(x) + jnp.sum(y.ravel()[:0]),
    "a result is constant": lambda x, y: (x + y[0], jnp.zeros((3, 5)), jnp.arange(4)),
    "shapes": lambda x, y: (x[::-1], x.T, x.reshape(4, 4, 4), jnp.concatenate([x, y]), jnp.pad(y, 1)),
    "integers and truth values": lambda x, y: (x > 1, jnp.floor(x).astype(int), jnp.isfinite(x).all()),
    "sums": lambda x, y: (x.sum(0), y.max(), jnp.cumsum(x, axis=0), jnp.sum(x * x)),
    "look-ups": lambda x, y: (x[np.array([1, 3])], x[jnp.floor(x[0]).astype(int)]),
    "one slice put": lambda x, y: jax.lax.dynamic_update_index_in_dim(x, y[1], jnp.floor(y[0, 0] + 4).astype(int), 0),
    "a loop": lambda x, y: jax.lax.scan(lambda c, a: (c * 0.5 + a, c), y[0], x),
    "cases": lambda x, y: jax.lax.scan(lambda c, a: jax.lax.cond(a[0] > 1, lambda: (c, a), lambda: (a, c)), y[0], x),
    "a kernel in it": lambda x, y: one_kernel(lambda x: (jnp.sin(x) * 2, x), x)[0] + 1,
    "products of few numbers": lambda x, y: (x @ y.T, y[0] @ y[1], x @ y[0], jnp.matmul(x[None], y.T[None])),
    "products along two axes": lambda x, y: jnp.einsum("iabc,ibkc->ika", x.reshape(2, 2, 4, 4), y.reshape(2, 4, 1, 4)),
    "products in a loop": lambda x, y: jax.lax.scan(lambda c, a: (jnp.tanh(y[: len(a)] @ c) + a, y @ c), y[0], x),
    "products in cases": lambda x, y: jax.lax.cond(x[0, 0] > 1, lambda: x @ y.T, lambda: x @ y.T * 2.0),
    "special functions": lambda x, y: (jax.lax.erf(x), jax.lax.lgamma(x), jnp.arcsinh(y)),
    "inner functions": lambda x, y: jax.jit(lambda x: jnp.where(x > 1, one_kernel(jnp.sin, x), x))(x) * 2,
}
IMPOSSIBLE = {
    "products of many numbers": lambda x, y: jnp.tile(x, (1, 4)) @ jnp.tile(y, (2, 4)).T,
    "products of integers": lambda x, y: x.astype(int) @ y.astype(int).T,
    "scatters": lambda x, y: x.at[jnp.array([1, 3])].add(y[:2]),
    "sorting": lambda x, y: jnp.sort(x, axis=0),
    "the largest few": lambda x, y: jax.lax.top_k(x, 2),
    "a library": lambda x, y: jnp.linalg.cholesky(jnp.eye(4) + 0.1 * jnp.ones((4, 4)) * x[0, 0]),
    "a kernel in it": lambda x, y: jnp.sort(x @ one_kernel(lambda y: y.T * 2, y)),
}


def _same(found, wanted) -> None:
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("name", POSSIBLE)
def test_it_is_one_kernel_and_computes_the_same(name):
    function = POSSIBLE[name]
    kernel = jax.jit(lambda x, y: one_kernel(function, x, y))
    assert kernel.lower(X, Y).as_text().count(TAG) == 1  # no other inside
    _same(kernel(X, Y), function(X, Y))


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_what_cannot_be_a_kernel_is_none(name):
    function = IMPOSSIBLE[name]
    kernel = jax.jit(lambda x, y: one_kernel(function, x, y))
    assert kernel.lower(X, Y).as_text().count(TAG) == ("kernel" in name)
    _same(kernel(X, Y), function(X, Y))


@pytest.mark.parametrize("name", ["arithmetic", "integers and truth values", "one slice put", "cases"])
def test_batches_are_one_kernel(name):
    """Members with an argument of their own and one they share."""
    function = POSSIBLE[name]
    batch = jax.jit(jax.vmap(lambda x, y: one_kernel(function, x, y), (0, None)))
    many = jnp.stack([X, 1.5 * X, X - 0.05])
    assert batch.lower(many, Y).as_text().count(TAG) == 1
    _same(batch(many, Y), jax.vmap(function, (0, None))(many, Y))


@pytest.mark.parametrize("name", ["arithmetic", "a loop", "a kernel in it", "products in a loop"])
def test_derivatives_in_every_mode(name):
    def sum_of(function):
        return lambda x: sum(jnp.sum(jnp.sin(leaf)) for leaf in jax.tree.leaves(function(x, Y[:, :2])))

    function = POSSIBLE[name]
    plain, kernel = sum_of(function), sum_of(lambda x, y: one_kernel(function, x, y))
    x = X[:3, :2]
    for derivative in (jax.grad, jax.jacfwd, jax.hessian):
        _same(jax.jit(derivative(kernel))(x), jax.jit(derivative(plain))(x))
    _same(jax.vmap(jax.grad(kernel))(jnp.stack([x, 2 * x])), jax.vmap(jax.grad(plain))(jnp.stack([x, 2 * x])))


def test_what_is_in_the_way_is_said(caplog):
    with caplog.at_level("DEBUG", logger="jmbs"):
        jax.jit(lambda x: one_kernel(lambda x: jnp.sort(x) * 2, x)).lower(X)
    assert caplog.messages == ["not one kernel, but one for each operation, since it has in it: stablehlo.sort"]


def test_what_is_evaluated_once_is_a_call_that_stays_one():
    """In every mode, inside of a kernel too; it may look at arrays that it is not given."""

    def function(call):
        def whole(x):
            a, b = call(lambda x, y: (jnp.sin(x) * y, jnp.exp(-x) + X[:3, :2]), x, 2.0 * x)
            return jnp.stack([a + b, a * b, a - b])

        return lambda x: jnp.sum(one_kernel(whole, x) ** 2)

    once, plain, x = function(evaluated_once), function(lambda f, *args: f(*args)), X[:3, :2]
    optimised = jax.jit(once).lower(x).compile().as_text()
    assert optimised.count("sine(") == 1 and " call(" in optimised
    for derivative in (lambda f: f, jax.grad, jax.jacfwd, jax.hessian):
        _same(jax.jit(derivative(once))(x), jax.jit(derivative(plain))(x))
    many = jnp.stack([x, 2 * x])
    _same(jax.jit(jax.vmap(jax.grad(once)))(many), jax.jit(jax.vmap(jax.grad(plain)))(many))


def test_on_other_devices_a_kernel_is_a_plain_call():
    traced = jax.jit(lambda x: one_kernel(jnp.sin, x)).trace(X)
    assert TAG in traced.lower().as_text()
    assert TAG not in traced.lower(lowering_platforms=("cuda",)).as_text()


def test_constants_and_arrays_without_entries_as_arguments():
    def function(x, c, d, none, k):
        return jnp.sin(x) * c + d + k + jnp.sum(none), none

    def calling(call):
        known = jnp.asarray(np.arange(4.0)), jnp.ones((16, 4))
        return jax.jit(lambda x, z: call(function, x, *known, z, jnp.arange(4.0)))

    none = jnp.zeros(0)
    _same(calling(one_kernel)(X, none), calling(lambda function, *args: function(*args))(X, none))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", [2, 64, 4096])
def test_large_arrays(size, dtype):
    """For which XLA uses several threads and libraries elsewhere."""

    def function(x):
        return jnp.sin(x) * jnp.exp(x), jnp.sum(x, axis=1), jnp.max(x), total(x), largest(x.T)

    x = jnp.linspace(0.0, 1.0, 64 * size).astype(dtype).reshape(64, -1)
    kernel = jax.jit(lambda x: one_kernel(function, x))
    assert (TAG in kernel.lower(x).as_text()) == (x.size <= FEW)
    for a, b in zip(kernel(x), jax.jit(function)(x), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6 if dtype == np.float32 else 1e-13)
    elementwise = jax.jit(lambda x: one_kernel(lambda x: (jnp.sin(x), total(x), largest(x)), x))
    assert TAG in elementwise.lower(x).as_text()
    np.testing.assert_allclose(elementwise(x)[1], jnp.sum(x, axis=0), rtol=1e-5 if dtype == np.float32 else 1e-13)
    np.testing.assert_array_equal(elementwise(x)[2], jnp.max(x, axis=0))


def test_effects_and_no_arguments():
    seen = []

    def function(x):
        jax.debug.callback(lambda x: seen.append(float(x)), x[0, 0])
        return 2 * x

    _same(jax.jit(lambda x: one_kernel(function, x))(X), 2 * X)
    jax.effects_barrier()
    assert seen == [float(X[0, 0])]
    assert one_kernel(lambda: 3) == 3


def test_traced_arrays_of_the_outside():
    """Functions of users may look at parameters that JAX differentiates or batches."""

    def whole(c, x):
        return jnp.sum(one_kernel(lambda x: jnp.sin(c * x) + jnp.arange(4.0), x) ** 2)

    def plain(c, x):
        return jnp.sum((jnp.sin(c * x) + jnp.arange(4.0)) ** 2)

    c = jnp.array([0.3, 0.7])
    for change in (jax.jit, jax.grad, jax.jacfwd, jax.hessian):
        _same(change(whole)(c[0], X), change(plain)(c[0], X))
    _same(jax.jit(jax.vmap(whole, (0, None)))(c, X), jax.vmap(plain, (0, None))(c, X))
    assert TAG in jax.jit(whole).lower(c[0], X).as_text()


def test_what_members_share_is_not_copied():
    function = lambda x, table: one_kernel(lambda x, table: x + table[0], x, table)  # noqa: E731
    many = jax.make_jaxpr(jax.vmap(jax.vmap(function, (0, None)), (0, None)))(X, jnp.zeros(1000))
    assert max(np.size(variable.aval) for equation in many.eqns for variable in equation.outvars) <= 1000


def test_metadata_inside_stays():
    def marked(x):
        with set_xla_metadata(own="value"):
            return jnp.negative(x) * 2

    _same(jax.jit(lambda x: one_kernel(marked, x))(X), -2 * X)
