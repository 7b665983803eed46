"""States by the names of joints and bodies: what a state says and what a view of it says is what was given."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from quick import quick_jit

import jmbs
from jmbs.errors import ModelError

Q = {"elbow": [0.3], "wrist": [0.8, 0.0, 0.6, 0.0]}
V = {"elbow": [0.5], "wrist": [0.1, -0.2, 0.3]}


@pytest.fixture(scope="module")
def model() -> jmbs.Model:
    m = jmbs.Mechanism("arm")
    m.add_body("upper", mass=1.0, inertia=[0.1, 0.1, 0.02])
    m.add_body("hand", mass=0.5, inertia=[0.01, 0.01, 0.01])
    m.add_joint("elbow", "revolute", "ground", "upper", axis=[0, 1, 0], child_frame=[0, 0, -0.3])
    m.add_joint("wrist", "spherical", "upper", "hand", parent_frame=[0, 0, 0.3])
    m.set_initial(joints={name: {"q": Q[name], "v": V[name]} for name in Q})
    return jmbs.compile(m)


def test_a_state_has_the_coordinates_of_its_joints(model):
    state = model.initial_state()
    assert list(state.q) == ["elbow", "wrist"]
    for name, q in Q.items():
        np.testing.assert_allclose(state.q[name], q, atol=1e-12)
    later = state.replace("elbow/q_r", [0.7])
    np.testing.assert_allclose(later.q["elbow"], [0.7])


def test_a_view_has_the_rest(model):
    state = model.initial_state()
    view = model.view(state)
    for name in Q:
        np.testing.assert_allclose(view.v[name], V[name], atol=1e-12)
        np.testing.assert_allclose(view.q[name], state.q[name], atol=1e-12)
    np.testing.assert_allclose(view.position["upper"], 0.3 * np.array([np.sin(0.3), 0.0, np.cos(0.3)]), atol=1e-12)


def test_under_transformations(model):
    """Of many states at once too, and of a state that a step gave; a step keeps the kind of a state, as scans want."""
    state, angles = model.initial_state(), jnp.array([0.1, 0.2, 0.3])

    @quick_jit
    def turned(angles):
        states = jax.vmap(lambda angle: state.replace("elbow/q_r", angle[None]))(angles)
        rates = jax.vmap(lambda state: model.view(state).v["wrist"])(states)
        return (
            states.q["elbow"],
            rates,
            jax.lax.scan(lambda s, _: (model.step(s, {}, 0.01), s.q["elbow"]), state, None, 2),
        )

    q, rates, (_, along) = turned(angles)
    np.testing.assert_allclose(q[:, 0], angles)
    assert rates.shape == (3, 3)
    np.testing.assert_allclose(along[:, 0], [0.3, 0.305], atol=1e-3)


def test_wrong_names_are_refused_with_the_nearest(model):
    with pytest.raises(ModelError, match="state: found no joint 'elbo', .*the nearest known is elbow"):
        model.initial_state().q["elbo"]


@pytest.mark.parametrize("value, found", [([1.0, 2.0], r"shape \(2,\)"), ("a", "'a'"), (1j, "an array of complex128")])
def test_what_is_no_entry_is_refused(model, value, found):
    with pytest.raises(ModelError, match=f"state/elbow/q_r: found {found}, wanted"):
        model.initial_state().replace("elbow/q_r", value)


def test_one_number_stands_for_one_entry_alone(model):
    state = model.initial_state()
    assert state.replace("elbow/q_r", 0.5).q["elbow"] == 0.5
    body = next(name for names in state.names for name in names if state[name].size > 1)
    with pytest.raises(ModelError, match=f"state/{body}: found shape"):
        state.replace(body, 0.5)


def test_velocities_of_joints_are_asked_of_the_model(model):
    """A state has no frames of joints, so it says who does."""
    with pytest.raises(ModelError, match=r"state\.v: found a state without its model, wanted model\.view\(state\)\.v"):
        model.initial_state().v  # noqa: B018
