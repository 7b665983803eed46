"""A rule that is kept holds in loops, batches and every order.

`root(a, scale)` solves `y + y^3 = scale a` by iterations that have no reverse derivative; what is expected is what JAX
makes of the closed solution.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jmbs.jaxext import kept_rule


def solution(a):
    return 2 / jnp.sqrt(3.0) * jnp.sinh(jnp.arcsinh(1.5 * jnp.sqrt(3.0) * a) / 3)


def by_newton(a, scale):
    def improve(state):
        y, _ = state
        step = (y + y**3 - scale * a) / (1 + 3 * y**2)
        return y - step, jnp.max(jnp.abs(step)) > 1e-14

    return jax.lax.while_loop(lambda state: state[1], improve, (jnp.zeros_like(a), jnp.asarray(True)))[:1]


def rule(arguments, tangents):
    (a, scale), (da, dscale) = arguments, tangents
    y = root(a, scale)
    along_a = jnp.zeros_like(y) if da is None else scale * da
    along_scale = jnp.zeros_like(y) if dscale is None else a * dscale
    return (y,), ((along_a + along_scale) / (1 + 3 * y**2),)


def root(a, scale):
    return kept_rule(by_newton, rule, (jax.ShapeDtypeStruct(a.shape, a.dtype),))(a, scale)[0]


def rollout(function, x):
    def step(y, _):
        return y + 0.1 * function(jnp.cos(y) + x[:2], x[2]), None

    return jnp.sum(jax.lax.scan(step, x[:2], length=5)[0] ** 2)


def expected(x):
    return rollout(lambda a, scale: solution(scale * a), x)


def found(x):
    return rollout(root, x)


X = jnp.asarray(np.random.default_rng(0).normal(size=(3, 3)))
TRANSFORMS = {
    "value": lambda f: jax.vmap(f),
    "gradient": lambda f: jax.vmap(jax.grad(f)),
    "forward over reverse": lambda f: jax.vmap(jax.hessian(f)),
    "forward over reverse of a batch": lambda f: jax.hessian(lambda x: jnp.sum(jax.vmap(f)(x))),
    "reverse over reverse": lambda f: jax.vmap(jax.jacrev(jax.grad(f))),
    "forward over forward": lambda f: jax.vmap(jax.jacfwd(jax.jacfwd(f))),
    "third": lambda f: jax.vmap(jax.jacfwd(jax.hessian(f))),
    "half of it batched": lambda f: lambda x: jax.vmap(lambda scale: jax.grad(f)(x[0].at[2].set(scale)))(x[:, 2]),
    "evaluated anew": lambda f: jax.vmap(jax.hessian(jax.checkpoint(f))),
}


@pytest.mark.parametrize("transform", TRANSFORMS.values(), ids=TRANSFORMS.keys())
@pytest.mark.parametrize("jit", [False, True])
def test_rule_holds(transform, jit):
    compiled = jax.jit if jit else lambda f: f
    np.testing.assert_allclose(compiled(transform(found))(X), transform(expected)(X), rtol=1e-10, atol=1e-12)


def test_inside_has_no_reverse_derivative():
    """Or the tests above would pass without the rule."""
    with pytest.raises(ValueError, match="Reverse-mode"):
        jax.grad(lambda x: rollout(lambda a, scale: by_newton(a, scale)[0], x))(X[0])


def test_value_alone():
    np.testing.assert_allclose(root(X[0], X[0, 0]), solution(X[0] * X[0, 0]), rtol=1e-12)
