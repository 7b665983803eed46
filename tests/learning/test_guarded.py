"""Derivatives of functions that fail for some members, and conditions that ask for any member."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from jmbs.jaxext import any_member
from jmbs.learning.guarded import guarded

XS = jnp.array([4.0, -1.0, 0.25])


def roots(x, scale):
    """Half a root each, NaN for a negative number, whose derivative is NaN too."""
    values, fine = guarded(lambda x, scale: {"root": scale * jnp.sqrt(x)}, x, scale)
    return jnp.where(fine, values["root"], 0.0), fine


def test_failures_have_no_derivative_in_either_mode():
    scale, expected = jnp.asarray(0.5), np.array([0.125, 0.0, 0.5])
    each = jax.vmap(lambda x: roots(x, scale)[0])
    assert np.array_equal(jax.vmap(lambda x: roots(x, scale)[1])(XS), [True, False, True])
    assert np.array_equal(jax.grad(lambda xs: jnp.sum(each(xs)))(XS), expected)
    assert np.array_equal(jax.jvp(each, (XS,), (jnp.ones(3),))[1], expected)
    shared = jax.grad(lambda scale: jnp.sum(jax.vmap(lambda x: roots(x, scale)[0])(XS)))(scale)
    assert shared == 2.0 + 0.5


def test_only_what_changes_is_differentiated():
    program = jax.make_jaxpr(jax.grad(lambda scale: roots(XS[0], scale)[0]))(jnp.asarray(0.5))
    assert "sqrt" in str(program) and "div" not in str(program)


def test_any_member_is_one_answer_for_a_batch():
    def doubled(x):
        return jax.lax.cond(any_member(x > 3), lambda: 2 * x, lambda: x)

    assert np.array_equal(jax.vmap(doubled)(XS), 2 * XS)
    assert np.array_equal(jax.jit(jax.vmap(doubled))(-XS), -XS)
    assert doubled(XS[0]) == 8 and doubled(XS[1]) == -1
    assert jnp.array_equal(jax.grad(lambda xs: jnp.sum(jax.vmap(doubled)(xs)))(XS), jnp.full(3, 2.0))
    assert "select_n" not in str(jax.make_jaxpr(jax.vmap(doubled))(XS))
