"""Programs along directions give what `jax.vmap` gives, and compute once what does not differ by direction."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jmbs.jaxext import Along, entries_at, one_kernel, sums_at

SIZE = 5
RNG = np.random.default_rng(0)
X, Y = jnp.asarray(RNG.normal(size=(3, 2))), jnp.asarray(RNG.normal(size=(3, 2)))


def looped(x, y):
    def body(carry, row):
        a, count = carry
        return (a * 0.5 + row * y[0], count + 1), (a + row, count)

    return jax.lax.scan(body, (jnp.zeros(2), 0), x, reverse=True)


def repeated(x, y):
    return jax.lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * y + x[0, 0], c[1]), (0, y, y))


def chosen(x, y):
    return jax.lax.cond(y[0, 0] > 0, lambda x: (x * 2, y), lambda x: (y, y), x)


def solved(x, y):
    double = lambda v: 2 * v  # noqa: E731
    return jax.lax.custom_linear_solve(double, x + y, lambda _, b: b / 2, symmetric=True)


FUNCTIONS = {
    "elements": lambda x, y: jnp.where(y > 0, jnp.sin(x) * y, jnp.maximum(x, 2.0)) + x[0, 0] ** 3 - y,
    "shapes": lambda x, y: (jnp.concatenate([x, y]).reshape(2, 6).T[:, None], jnp.stack([x[:, 0], y[:, 0]])),
    "sums": lambda x, y: (jnp.sum(x, axis=0), x @ y.T, jnp.cumsum(x, axis=1)),
    "places": lambda x, y: (entries_at(x, np.array([2, 0])), sums_at(x, np.array([1, 1, -1]), 2), x[jnp.array([1, 1])]),
    "slices": lambda x, y: (jax.lax.dynamic_index_in_dim(x, 1), jax.lax.dynamic_update_index_in_dim(y, x[0], 1, 0)),
    "scan": looped,
    "while": repeated,
    "cond": chosen,
    "jit": lambda x, y: jax.jit(lambda x, y: (x * y, y + 1))(x, y),
    "checkpoint": lambda x, y: jax.checkpoint(lambda x: jnp.tanh(x) * y)(x),
    "solve": solved,
    "kernel": lambda x, y: one_kernel(lambda x, y: (x * y, y * 2), x, y),
    "derivative": lambda x, y: jax.jvp(lambda y: jnp.exp(y) * jnp.sum(y), (y,), (x,)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_it_is_vmap_and_what_does_not_differ_has_no_axis(name):
    flat = lambda *args: jax.tree.leaves(FUNCTIONS[name](*args))  # noqa: E731
    program, along = jax.make_jaxpr(flat)(X, Y), Along(SIZE)
    many = jnp.asarray(RNG.normal(size=(*X.shape, SIZE)))
    flags = along.which(program, [True, False])
    found = jax.jit(lambda x, y: along.values(program, [x, y], [True, False], flags))(many, Y)
    wanted = jax.vmap(flat, (-1, None), -1)(many, Y)
    changed = [not np.allclose(x, x[..., :1]) for x in wanted]
    assert all(flag or not differs for flag, differs in zip(flags, changed, strict=True))
    if name in ("scan", "while", "cond", "jit", "kernel", "derivative"):
        assert not all(flags)
    for x, y, flag in zip(found, wanted, flags, strict=True):
        np.testing.assert_allclose(x if flag else jnp.broadcast_to(x[..., None], y.shape), y, rtol=1e-14, atol=1e-14)
