"""`forward_kernel` is its function, with derivatives forwards in one kernel: all directions at once, values once."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jmbs import ModelError
from jmbs.jaxext import forward_kernel

X, C = jnp.asarray([0.3, -0.7, 1.1]), jnp.asarray(2.0)


def function(x, c):
    """Real results and one that has no derivative."""
    y, count = jax.lax.scan(lambda carry, a: ((carry[0] * 0.9 + jnp.sin(a * c), carry[1] + 1), None), (x[0], 0), x)[0]
    return {"y": y * x, "count": count, "c": c}


def kernel(x, c):
    return forward_kernel(function, x, c)


TRANSFORMED = {
    "value": lambda f: f(X, C),
    "jvp": lambda f: jax.jvp(lambda x: f(x, C)["y"], (X,), (X,)),
    "jacfwd": lambda f: jax.jacfwd(lambda x: f(x, x[1])["y"])(X),
    "batch": lambda f: jax.vmap(f, (0, None))(jnp.stack([X, 2 * X]), C),
    "batch of jacfwd": lambda f: jax.vmap(jax.jacfwd(lambda x: f(x, C)["y"]))(jnp.stack([X, 2 * X])),
    "jacfwd of batch": lambda f: jax.jacfwd(lambda c: jax.vmap(f, (0, None))(jnp.stack([X, 2 * X]), c)["y"])(C),
    "twice": lambda f: jax.jacfwd(jax.jacfwd(lambda x: f(x, C)["y"]))(X),
    "what it looks at": lambda f: jax.jacfwd(lambda c: jnp.sum(f(X, C)["y"]) * c)(C),
}


@pytest.mark.parametrize("name", TRANSFORMED)
def test_it_is_its_function_in_every_transformation(name):
    found, wanted = (jax.jit(lambda f=f: TRANSFORMED[name](f))() for f in (kernel, function))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-13, atol=1e-15), found, wanted)


def test_what_it_looks_at_without_being_given_it_may_be_traced():
    def total(c, inner):
        return jnp.sum(inner(lambda x: jnp.sin(c * x), X))

    found, wanted = (jax.jit(jax.jacfwd(lambda c, i=i: total(c, i)))(C) for i in (forward_kernel, lambda f, x: f(x)))
    np.testing.assert_allclose(found, wanted, rtol=1e-14)


def test_values_are_computed_once_for_all_directions():
    jaxpr = jax.make_jaxpr(jax.jacfwd(lambda x: kernel(x, C)["y"]))(X)
    (eqn,) = (e for e in jaxpr.jaxpr.eqns if e.primitive.name == "forward_kernel_with_changes")
    shapes = [v.aval.shape for v in eqn.outvars]
    assert shapes.count((3,)) == 1 and shapes.count((3, 3)) == 1


@pytest.mark.parametrize("reverse", [jax.grad, jax.jacrev, lambda f: jax.jit(jax.grad(f))])
def test_reverse_mode_is_refused(reverse):
    with pytest.raises(ModelError, match='adjoint: found reverse-mode .* wanted adjoint="checkpoint"'):
        reverse(lambda x: jnp.sum(kernel(x, C)["y"]))(X)
