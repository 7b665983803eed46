"""Joints that bind only what others bind already, as the second hinge of a door does: nothing moves otherwise, and all
of them carry."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from quick import quick_jit

import jmbs
from jmbs.linear import without_rounding

# Directions whose components are no binary fractions, so that the rows are rounding and not zero.
AXIS = np.array([0.36, 0.48, 0.8])
PLACE, OWN = np.array([0.1, 0.0, 0.1]), np.array([0.0, 0.1, -0.3])


def leaf(kind: str, second: str | None, dtype: str = "float64", away: float = 0.0) -> jmbs.Model:
    """A body in a joint, and in a second one 0.2 m along its axis, or with a velocity constraint along it; so far
    `away` from the origin, m."""
    place = PLACE + np.array([away, 0.0, 0.0])
    m = jmbs.Mechanism("leaf", gravity=(0.0, -3.0, -9.0))
    m.add_body("leaf", mass=0.7, inertia=[0.03, 0.05, 0.04])
    m.add_joint("first", kind, "ground", "leaf", place, OWN, axis=AXIS)
    if second == "no_slide":
        m.add_constraint("second", "no_slide", "leaf", point=OWN + 0.2 * AXIS, direction=AXIS, frame="body")
    elif second is not None:
        axis = {} if second == "spherical" else {"axis": AXIS}
        m.add_joint("second", second, "ground", "leaf", place + 0.2 * AXIS, OWN + 0.2 * AXIS, **axis)
    m.set_initial(joints={"first": {"q": [0.4], "v": [3.0]}})
    m.simulation = dataclasses.replace(m.simulation, precision=dtype)
    return m.compile()


def run(model: jmbs.Model, formulation: str = "tree") -> jmbs.Trajectory:
    program = lambda model, state: jmbs.simulate(  # noqa: E731
        model, state, ts=np.linspace(0.0, 0.5, 3), dt=5e-3, solver="rk4", formulation=formulation
    )
    return quick_jit(program)(model, model.initial_state())


PAIRS = [
    ("revolute", "revolute"),
    *(
        pytest.param(*pair, marks=pytest.mark.slow)
        for pair in (("revolute", "spherical"), ("revolute", "cylindrical"), ("revolute", "no_slide"))
    ),
    pytest.param("prismatic", "prismatic", marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("kind", "second"), PAIRS)
def test_it_moves_as_with_one_joint(kind, second):
    found, wanted = run(leaf(kind, second)), run(leaf(kind, None))
    for name in ("q", "v"):
        np.testing.assert_allclose(getattr(found, name)["first"], getattr(wanted, name)["first"], rtol=1e-11)
    np.testing.assert_allclose(found.first_law_residual, wanted.first_law_residual, rtol=0, atol=1e-11)
    np.testing.assert_allclose(found.projection_work, 0.0, atol=1e-20)
    assert np.ptp(found.constraint_rank) == 0.0 and np.max(np.abs(found.reaction["first"])) < 20.0


@pytest.mark.slow
@pytest.mark.parametrize("second", ["revolute", "no_slide"])
def test_far_from_the_origin_too(second):
    found, wanted = run(leaf("revolute", second, away=1000.0)), run(leaf("revolute", None, away=1000.0))
    np.testing.assert_allclose(found.q["first"], wanted.q["first"], rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "second"), PAIRS)
def test_they_share_the_load_as_in_the_absolute_formulation(kind, second):
    model = leaf(kind, second)
    found, wanted = run(model), run(model, "absolute")
    for a, b in zip(jax.tree.leaves(found.reaction), jax.tree.leaves(wanted.reaction), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-7)
    np.testing.assert_allclose(jax.tree.leaves(found.multipliers), jax.tree.leaves(wanted.multipliers), atol=1e-7)


@pytest.mark.slow
def test_in_single_precision_and_for_gradients():
    found, wanted = run(leaf("revolute", "revolute", "float32")), run(leaf("revolute", None))
    np.testing.assert_allclose(found.q["first"], wanted.q["first"], rtol=2e-4)

    def end(second):
        model = leaf("revolute", second)

        def of_mass(mass):
            settings = {"ts": np.array([0.0, 0.2]), "dt": 5e-3, "solver": "rk4", "audit": False}
            return jmbs.simulate(model.with_parameters({"leaf/mass": mass}), **settings).q["first"][-1, 0]

        return quick_jit(lambda m: (jax.grad(of_mass)(m), jax.jacfwd(of_mass)(m)))(jnp.asarray(0.7))

    np.testing.assert_allclose(end("revolute"), np.tile(end(None)[0], 2), rtol=1e-9)


@pytest.mark.parametrize("shape", [(3, 4), (3, 4, 2)])
def test_rows_of_rounding_become_zero_and_keep_their_derivatives(shape):
    rows = jnp.ones(shape).at[1].set(1e-14).at[2, 1:].set(0.0)
    size = jnp.ones(shape[2:])
    found, change = jax.jvp(lambda rows: without_rounding(rows, size), (rows,), (rows,))
    np.testing.assert_array_equal(found, rows.at[1].set(0.0))
    np.testing.assert_array_equal(change, rows)
    assert without_rounding(jnp.zeros((0, 3)), jnp.ones(())).shape == (0, 3)
