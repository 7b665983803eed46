"""What only one mode of differentiation goes through refuses the other, and nothing else, in every transformation."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jmbs import ModelError
from jmbs.jaxext import forward_only, reverse_only

FORWARDS = {
    "jvp": lambda f: lambda x: jax.jvp(f, (x,), (x,))[1],
    "jacfwd": jax.jacfwd,
    "jit of jacfwd": lambda f: jax.jit(jax.jacfwd(f)),
    "jacfwd of jit": lambda f: jax.jacfwd(jax.jit(f)),
    "jvp of jit": lambda f: lambda x: jax.jvp(jax.jit(f), (x,), (x,))[1],
    "linearize": lambda f: lambda x: jax.linearize(f, x)[1](x),
}
REVERSES = {
    "grad": jax.grad,
    "jit of grad": lambda f: jax.jit(jax.grad(f)),
    "grad of jit": lambda f: jax.grad(jax.jit(f)),
    "jacrev": jax.jacrev,
    "grad of checkpoint": lambda f: jax.grad(jax.checkpoint(f)),
}


def through(guard):
    return lambda x: jnp.sin(guard({"x": x, "n": 3})["x"]) ** 2


X = jnp.asarray(0.7)
MANY = jnp.array([0.7, 0.8])


@pytest.mark.parametrize("forward", FORWARDS)
def test_forward_mode(forward):
    derivative = FORWARDS[forward]
    np.testing.assert_allclose(derivative(through(forward_only))(X), derivative(through(lambda x: x))(X))
    for of in (derivative, lambda f: jax.vmap(derivative(f))):
        with pytest.raises(ModelError, match='adjoint: found forward-mode .* wanted adjoint="forward"'):
            of(through(reverse_only))(X if of is derivative else MANY)


@pytest.mark.parametrize("reverse", REVERSES)
def test_reverse_mode(reverse):
    derivative = REVERSES[reverse]
    for x, of in ((X, derivative), (MANY, lambda f: jax.vmap(derivative(f)))):
        np.testing.assert_allclose(of(through(reverse_only))(x), np.sin(2 * x))
        with pytest.raises(ModelError, match='adjoint: found reverse-mode .* wanted adjoint="checkpoint"'):
            of(through(forward_only))(x)


def test_second_derivatives_and_values():
    """Forward over reverse, as `jax.hessian` takes them."""
    np.testing.assert_allclose(jax.hessian(through(reverse_only))(X), 2 * np.cos(2 * X))
    for guard in (reverse_only, forward_only):
        f = through(guard)
        values = [f(X), jax.jit(f)(X), jax.vmap(f)(MANY)[0], jax.jit(jax.vmap(f))(MANY)[0]]
        np.testing.assert_allclose(values, np.sin(X) ** 2)


def test_programs_do_not_grow():
    guarded, plain = (jax.jit(through(g)).lower(X).as_text() for g in (reverse_only, lambda x: x))
    assert guarded == plain
