"""Rows of windows side by side: their matrix in blocks and by walks along its band, against dense linear algebra."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from mechanisms import n_four_bar
from quick import quick_jit

from jmbs.constraints.constrained_dynamics import ConstrainedTree
from jmbs.constraints.row_blocks import band_solver, block_solver, in_blocks

MEMBERS = 3


@pytest.fixture(scope="module")
def constrained() -> ConstrainedTree:
    layout = n_four_bar(5).compile().tree
    assert layout is not None and layout.only_loops is not None
    return ConstrainedTree(layout.tree, layout.only_loops, layout.rows)


@pytest.mark.parametrize("redundant", [False, True])
def test_solutions_of_the_coupled_rows(constrained, redundant):
    rng, J = np.random.default_rng(0), constrained.jacobian
    # Five rows that see three velocities depend on each other, unless the unit matrix is added to what they make.
    entries = jnp.asarray(rng.normal(size=(*J.columns.shape, MEMBERS)) * (J.columns >= 0)[..., None])
    dense = np.asarray(quick_jit(lambda entries: J.at(entries, J.places))(entries))
    whole = np.einsum("ivb,jvb->ijb", dense, dense)
    assert not whole[~constrained.rows.pattern].any()
    unit = 0.0 if redundant else 1.0
    whole = whole + unit * np.eye(len(whole))[..., None]
    own = (np.arange(len(whole)), constrained.rows.colours)
    b = np.einsum("ijb,jb->ib", whole, rng.normal(size=(len(whole), MEMBERS)))

    @quick_jit
    def solutions(entries, b):
        compressed = J.times(entries, jnp.swapaxes(J.at(entries, constrained.coloured), 0, 1)).at[own].add(unit)
        in_rounds = lambda A, b: block_solver(constrained.rows, in_blocks(constrained.rows, A))(b)  # noqa: E731
        return band_solver(constrained.rows, compressed)(b), jax.vmap(in_rounds, -1, -1)(compressed, b)

    by_walks, in_rounds = solutions(entries, jnp.asarray(b))
    for found in (by_walks, in_rounds):
        np.testing.assert_allclose(np.einsum("ijb,jb->ib", whole, found), b, atol=1e-11)
    if not redundant:
        np.testing.assert_allclose(by_walks, np.linalg.solve(whole.T, b.T[..., None])[..., 0].T, rtol=1e-10, atol=1e-11)


def test_products_with_the_rows(constrained):
    rng, J = np.random.default_rng(1), constrained.jacobian
    entries = jnp.asarray(rng.normal(size=(*J.columns.shape, MEMBERS)) * (J.columns >= 0)[..., None])
    x, y = jnp.asarray(rng.normal(size=(J.size, 2, MEMBERS))), jnp.asarray(rng.normal(size=(len(J.columns), MEMBERS)))
    products = quick_jit(lambda e, x, y: (J.at(e, J.places), J.times(e, x), J.transposed_times(e, y)))
    dense, along, across = products(entries, x, y)
    np.testing.assert_allclose(along, np.einsum("ivb,vcb->icb", dense, x), atol=1e-13)
    np.testing.assert_allclose(across, np.einsum("ivb,ib->vb", dense, y), atol=1e-13)
