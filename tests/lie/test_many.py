"""Methods of groups take many elements, whose axes come last; so evaluated they give what `jax.vmap` gives, in every
mode and order."""

from __future__ import annotations

import math
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jmbs.lie import SE2, SE3, SO3, AbstractGroup, Product, Rn, along_batches, of_members, retract_blocks

close = dict(rtol=0, atol=1e-13)
OF_TANGENTS = ("exp", "cay")
OF_TWO_TANGENTS = ("ad", "ad_dual", "dexp", "dexp_inv", "dcay", "dcay_inv")
OF_ELEMENTS = ("inverse", "log", "normalise", "to_coordinates")
OF_BOTH = ("lift", "Ad", "Ad_dual")


def test_methods_take_many(group, draw):
    xi, eta = draw(group, seed=1)[1:], draw(group, seed=2)[1:]
    q, p = jax.vmap(group.exp)(xi), jax.vmap(group.exp)(eta)
    cases = [(name, (xi,)) for name in OF_TANGENTS]
    cases += [(name, (xi, eta)) for name in OF_TWO_TANGENTS]
    cases += [(name, (q,)) for name in OF_ELEMENTS]
    cases += [(name, (q, eta)) for name in OF_BOTH]
    cases += [("compose", (q, p)), ("lower", (q, jax.vmap(group.lift)(q, eta)))]
    cases += [("from_coordinates", (jax.vmap(group.to_coordinates)(q),))]
    for name, arguments in cases:
        method = getattr(group, name)
        together = method(*(jnp.moveaxis(x, 0, -1).reshape(*x.shape[1:], 2, -1) for x in arguments))
        one_by_one = jnp.moveaxis(jax.vmap(method)(*arguments), 0, -1)
        np.testing.assert_allclose(together.reshape(one_by_one.shape), one_by_one, err_msg=name, **close)


def moved(q, xi):
    return SE3.compose(q, SE3.exp(xi))


@pytest.fixture(scope="module")
def samples(draw):
    """Elements and tangents: `(4, 2, 3, 4)` and `(4, 2, 6)`."""
    xi = draw(SE3, np.linspace(0.1, 2.5, 8), seed=1).reshape(4, 2, 6)
    return jax.vmap(jax.vmap(SE3.exp))(xi), draw(SE3, np.linspace(2.0, 0.1, 8), seed=2).reshape(4, 2, 6)


def ours(q, xi):
    together = lambda q, xi: [of_members(moved, q, xi, more=xi.ndim - 2)]  # noqa: E731
    return along_batches(together, q, xi)[0]


theirs = jax.vmap(moved)


def loss(function):
    return lambda q, xi: jnp.sum(jnp.sin(function(q, xi)))


def second(function):
    gradient = jax.grad(loss(function), (0, 1))
    along = lambda q, xi: (jnp.cos(q), jnp.sin(xi))  # noqa: E731
    return lambda q, xi: jax.jvp(gradient, (q, xi), along(q, xi))


MODES = {
    "value": lambda f: f,
    "forward": lambda f: lambda q, xi: jax.jvp(f, (q, xi), (jnp.cos(q), jnp.sin(xi))),
    "along the tangents alone": lambda f: lambda q, xi: jax.jvp(lambda xi: f(q, xi), (xi,), (jnp.sin(xi),)),
    "reverse": lambda f: jax.grad(loss(f), (0, 1)),
    "forward over reverse": second,
    "reverse over reverse": lambda f: jax.grad(lambda q, xi: loss(jax.grad(loss(f), 1))(q, xi), (0, 1)),
}


@pytest.mark.parametrize("mode", [pytest.param(mode, marks=[pytest.mark.slow] * ("reverse" in mode)) for mode in MODES])
def test_like_vmap(samples, mode):
    q, xi = samples
    batched = lambda f, axes: jax.jit(jax.vmap(MODES[mode](f), axes))  # noqa: E731
    for arguments, axes in (((q, xi), (0, 0)), ((q[0], xi), (None, 0)), ((q, xi.swapaxes(0, 1)), (0, 1))):
        found, wanted = batched(ours, axes)(*arguments), batched(theirs, axes)(*arguments)
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, **close), found, wanted)
    alone = q[0], xi[0]
    found, wanted = MODES[mode](ours)(*alone), MODES[mode](theirs)(*alone)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, **close), found, wanted)


class Elements(NamedTuple):
    """What blocks of states are to charts."""

    space: AbstractGroup
    junctions: tuple[str, ...]
    slots: np.ndarray


@pytest.mark.parametrize("mode", ["forward", "reverse", pytest.param("forward over reverse", marks=pytest.mark.slow)])
def test_steps_of_blocks(mode, draw):
    """`x exp(step)` of elements of several groups; its derivative is by rule."""
    spaces, members, start = (SE3, SE2, Rn(2), Product((SO3, Rn(1)))), ("a", "b"), 0
    blocks, x = [], []
    for k, space in enumerate(spaces):
        blocks.append(Elements(space, members, np.arange(start, start + 2 * space.dim)))
        x.append(jax.vmap(jax.vmap(space.exp))(draw(space, np.linspace(0.1, 2.0, 8), seed=k).reshape(4, 2, -1)))
        start += 2 * space.dim
    step = 0.5 * jax.random.normal(jax.random.key(0), (4, start))
    ends = np.cumsum([2 * math.prod(space.shape) for space in spaces])[:-1]

    def plainly(blocks, x, step):
        parts = [step[b.slots].reshape(2, -1) for b in blocks]
        move = lambda q, xi, space: space.compose(q, space.exp(xi))  # noqa: E731
        return [jax.vmap(partial(move, space=b.space))(q, xi) for b, q, xi in zip(blocks, x, parts, strict=True)]

    def of_entries(function):
        """The function of all elements' entries as one array, to such an array."""

        def of(entries, step):
            x = [e.reshape(2, *space.shape) for e, space in zip(jnp.split(entries, ends), spaces, strict=True)]
            return jnp.concatenate([q.ravel() for q in function(blocks, x, step)])

        return jax.jit(jax.vmap(MODES[mode](of)))

    entries = jnp.concatenate([q.reshape(4, -1) for q in x], axis=1)
    found, wanted = of_entries(retract_blocks)(entries, step), of_entries(plainly)(entries, step)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, **close), found, wanted)
