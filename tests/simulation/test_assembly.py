"""Initial states from partial data: completed, or refused with what could not be met."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from quick import quick_jit

import jmbs
from jmbs import AssemblyError, Mechanism


def two_links(bent: bool = False, **initial) -> Mechanism:
    mechanism = Mechanism()
    for name in ("a", "b"):
        mechanism.add_body(name, mass=1.0, inertia=[0.01, 0.02, 0.02])
    far, near = {"position": [0.5, 0, 0]}, {"position": [-0.5, 0, 0]}
    mechanism.add_joint("j1", "revolute", "ground", "a", child_frame=near, axis=[0, 1, 0])
    elbow = {**far, "quaternion": [np.cos(0.5), 0.0, np.sin(0.5), 0.0]} if bent else far
    mechanism.add_joint("j2", "universal", "a", "b", elbow, near, axis=[0, 1, 0], axis2=[0, 0, 1])
    mechanism.set_initial(**initial)
    return mechanism


def assembled(mechanism):
    model = jmbs.compile(mechanism)
    return model, model.initial_state()


def test_joint_values_place_the_bodies():
    model, state = assembled(two_links(joints={"j1": {"q": [0.3], "v": [2.0]}, "j2": {"q": [0.1, -0.4]}}))
    assert np.max(np.abs(model.dae.closures(state.blocks))) < 1e-15
    np.testing.assert_allclose(state["a/q"][:, 3], [0.5 * np.cos(0.3), 0.0, -0.5 * np.sin(0.3)], atol=1e-15)
    # The second joint's rates are not given: they stay zero and b moves with a.
    np.testing.assert_allclose(state["a/p"][1], 2.0, atol=1e-12)
    spin = state["b/q"][:, :3] @ state["b/p"][:3]
    np.testing.assert_allclose(spin, [0.0, 2.0, 0.0], atol=1e-12)


def test_a_body_given_places_its_joints():
    first, s1 = assembled(two_links(joints={"j1": {"q": [0.3]}, "j2": {"q": [0.1, -0.4]}}))
    b = first.initial_state()["b/q"]
    given = {"position": b[:, 3], "quaternion": jmbs.lie.rotation_to_quaternion(b[:, :3])}
    _, s2 = assembled(two_links(bodies={"b": given}))
    np.testing.assert_allclose(s2["b/q"], b, atol=1e-12)
    np.testing.assert_allclose(s2["a/q"], s1["a/q"], atol=1e-9)


def test_contradictions_are_refused_with_names():
    with pytest.raises(AssemblyError, match=r"(joints/j1|initial/bodies/a).*misses by"):
        assembled(two_links(joints={"j1": {"q": [0.3]}}, bodies={"a": {"position": [0.5, 0.1, 0.0]}}))


def test_joint_velocity_that_a_body_contradicts_is_refused():
    with pytest.raises(AssemblyError, match="initial/bodies/a"):
        assembled(
            two_links(joints={"j1": {"q": [0.3], "v": [1.0]}}, bodies={"a": {"angular_velocity": [0.0, 3.0, 0.0]}})
        )


def test_a_loop_that_cannot_close_is_refused():
    mechanism = two_links()
    mechanism.add_joint("j3", "spherical", "ground", "b", {"position": [5.0, 0, 0]}, {"position": [0.5, 0, 0]})
    with pytest.raises(AssemblyError, match="wanted data that all joints"):
        assembled(mechanism)


@pytest.mark.parametrize("derivative", [jax.grad, pytest.param(jax.jacfwd, marks=pytest.mark.slow)])
def test_a_loop_closes_and_gradients_run_through_it(derivative):
    # Bent at the start, since a stretched pair of links cannot tell which way to fold.
    mechanism = two_links(bent=True)
    mechanism.add_joint("j3", "spherical", "ground", "b", {"position": [1.2, 0, 0]}, {"position": [0.5, 0, 0]})
    model, state = assembled(mechanism)
    assert np.max(np.abs(model.dae.closures(state.blocks))) < 1e-14

    def height(x):
        moved = model.with_parameters({"j3/parent_frame/position": [x, 0.0, 0.0]})
        from jmbs.simulation.assembly import assemble

        return assemble(moved)[0]["b/q"][2, 3]

    at, h = quick_jit(height), 1e-5
    after, before = (at(x) for x in jnp.array([1.2 + h, 1.2 - h]))
    np.testing.assert_allclose(quick_jit(derivative(height))(1.2), (after - before) / (2 * h), rtol=1e-7)
