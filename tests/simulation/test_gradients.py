"""Reverse mode, forward mode and differences agree, at rest and at zero rotation too; so do second derivatives."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jmbs
from tests.conftest import ROOT

PATHS = (
    "shoulder/child_frame/position",
    "arm/mass",
    "hand/inertia",
    "shoulder/friction/viscous",
    "elbow/friction/viscous",
    "shoulder/friction/coulomb",
    "elbow/spring/stiffness",
    "initial/elbow/v",
    "initial/shoulder/v",
)
TOLERANCE = 1e-6


def mechanism() -> jmbs.Mechanism:
    """Two links on both groups, at rest, all joints at zero rotation."""
    m = jmbs.Mechanism(gravity=(0.0, 0.0, -9.81))
    m.add_body("arm", mass=2.7, inertia=[0.0128, 0.0195, 0.0212])
    m.add_body("hand", mass=1.7, inertia=[0.0128, 0.0195, 0.0212], group="SO3xR3")
    near, far = {"position": [-0.1, 0, 0]}, {"position": [0.1, 0, 0]}
    friction = {"viscous": 0.01, "coulomb": 0.01, "static": 0.011}
    m.add_joint("shoulder", "spherical", "ground", "arm", child_frame=near, friction=friction)
    spring = {"stiffness": 1.0, "rest": 0.3}
    m.add_joint(
        "elbow", "revolute", "arm", "hand", far, near, axis=[0, 1, 0], friction={"viscous": 0.05}, spring=spring
    )
    m.set_initial(joints={"elbow": {"v": [0.0]}, "shoulder": {"v": [0.0, 0.0, 0.0]}})
    return m


@pytest.fixture(scope="module")
def problem():
    model = jmbs.compile(mechanism())
    values = [jnp.asarray(model.parameters()[path]["value"]) for path in PATHS]

    def loss(values):
        changed = model.with_parameters(dict(zip(PATHS, values, strict=True)))
        sol = jmbs.simulate(changed, t1=0.2, save_every=0.1, dt=0.01, solver="rk4")
        motion = sol.position["hand"][-1] @ jnp.array([1.0, 2.0, 3.0]) + sol.q["elbow"][-1, 0]
        return motion + 1e3 * sol.entropy_produced[-1] + 1e-2 * jnp.sum(sol.reaction["elbow"][-1])

    return jax.jit(loss), values


@pytest.mark.slow
def test_reverse_forward_and_finite_differences_agree(problem):
    loss, values = problem
    reverse, forward = jax.jit(jax.grad(loss))(values), jax.jit(jax.jacfwd(loss))(values)
    for i, (path, r, f) in enumerate(zip(PATHS, reverse, forward, strict=True)):
        scale = max(float(jnp.max(jnp.abs(r))), 1e-3)
        assert np.all(np.isfinite(r)), path
        np.testing.assert_allclose(r, f, atol=1e-11 * scale, err_msg=path)
        symmetric = (r + r.T) / 2 if r.ndim == 2 else r
        np.testing.assert_allclose(symmetric, differences(loss, values, i), atol=TOLERANCE * scale, err_msg=path)


@pytest.mark.slow
def test_second_derivatives_in_batches():
    """Forward over reverse, of members that differ, as differences of the reverse gradient."""
    m = jmbs.Mechanism(gravity=(0.0, 0.0, -9.81))
    m.add_body("arm", mass=2.7, inertia=[0.0128, 0.0195, 0.0212])
    m.add_body("hand", mass=1.7, inertia=[0.0128, 0.0195, 0.0212])
    near, far = {"position": [-0.1, 0, 0]}, {"position": [0.1, 0, 0]}
    m.add_joint("shoulder", "spherical", "ground", "arm", child_frame=near)
    m.add_joint("elbow", "revolute", "arm", "hand", far, near, axis=[0, 1, 0])
    model = jmbs.compile(m)

    def loss(values):
        changed = model.with_parameters({"arm/mass": values[0], "initial/elbow/v": values[1:]})
        sol = jmbs.simulate(changed, t1=0.1, save_every=0.1, dt=0.02, solver="rk4", audit=False)
        return sol.position["hand"][-1] @ jnp.array([1.0, 2.0, 3.0]) + sol.q["elbow"][-1, 0]

    @jax.jit
    def gradients(members, direction):
        return jax.vmap(lambda values: jax.jvp(jax.grad(loss), (values,), (direction,)))(members)

    members, h = jnp.array([[2.7, 0.4], [1.3, -0.5]]), 1e-4
    for direction in jnp.eye(2):
        step = h * direction
        change = gradients(members + step, direction)[0] - gradients(members - step, direction)[0]
        found, wanted = gradients(members, direction)[1], change / (2 * h)
        assert np.all(np.abs(wanted).max(axis=1) > 1e-4)
        np.testing.assert_allclose(found, wanted, atol=1e-7 * np.abs(wanted).max())


@pytest.mark.slow
def test_second_derivatives_with_a_loop():
    """Forward over reverse through a parallelogram, whose loop has redundant rows, as differences of the gradient."""
    m = jmbs.Mechanism(gravity=(0.0, 0.0, -9.81))
    near, far = {"position": [-0.1, 0, 0]}, {"position": [0.1, 0, 0]}
    for name in ("crank", "coupler", "rocker"):
        m.add_body(name, mass=1.3, inertia=[0.002, 0.005, 0.006])
    turn = {"axis": [0, 1, 0], "friction": {"viscous": 0.02}}
    m.add_joint("a", "revolute", "ground", "crank", child_frame=near, **turn)
    m.add_joint("b", "revolute", "crank", "coupler", far, near, **turn)
    m.add_joint("c", "revolute", "coupler", "rocker", far, far, **turn)
    m.add_joint("d", "revolute", "ground", "rocker", {"position": [0.2, 0, 0]}, near, **turn)
    m.set_initial(joints={"a": {"q": [-1.0], "v": [2.0]}, "b": {"q": [1.0]}, "c": {"q": [-1.0]}, "d": {"q": [-1.0]}})
    model = jmbs.compile(m)
    state = model.initial_state()

    def loss(mass):
        changed = model.with_parameters({"coupler/mass": mass})
        sol = jmbs.simulate(changed, state, t1=0.1, save_every=0.1, dt=0.02, constraints="none", audit=False)
        return sol.position["coupler"][-1] @ jnp.array([1.0, 2.0, 3.0]) + sol.q["c"][-1, 0]

    at, h = jnp.asarray(1.3), 1e-4
    derivatives = jax.jit(lambda mass: jax.jvp(jax.grad(loss), (mass,), (jnp.ones(()),)))
    wanted = (derivatives(at + h)[0] - derivatives(at - h)[0]) / (2 * h)
    assert abs(wanted) > 1e-3
    np.testing.assert_allclose(derivatives(at)[1], wanted, rtol=1e-6)


def differences(loss, values, which: int, h: float = 1e-5) -> np.ndarray:
    """Central differences of fourth order; matrices are changed as symmetric ones, which inertias have to be."""
    base = np.asarray(values[which], float)
    result = np.zeros(base.shape)
    for index in np.ndindex(base.shape):

        def at(step, index=index):
            moved = base.copy()
            moved[index] += step / 2
            moved[index[::-1]] += step / 2
            return float(loss([*values[:which], jnp.asarray(moved), *values[which + 1 :]]))

        result[index] = (8 * (at(h) - at(-h)) - (at(2 * h) - at(-2 * h))) / (12 * h)
    return result


@pytest.mark.slow
def test_gradients_of_reactions_of_loops_in_batches():
    """XLA failed on their products of matrices, under three batch axes."""
    mechanism = jmbs.load(ROOT / "configs" / "slider_crank.yaml")
    guesses = {name: jmbs.guess(mechanism.initial_joints[name]["q"]) for name in ("crank_pin", "slider_pin", "guide")}
    mechanism.initial_joints.clear()
    mechanism.set_initial(joints={name: {"q": guess} for name, guess in guesses.items()})
    mechanism.set_initial(joints={"bearing": {"q": [1.0], "v": [15.0]}})
    model = mechanism.compile()
    settings = {"ts": np.linspace(0.0, 0.02, 3), "dt": 0.01, "solver": "euler", "constraints": "none"}

    def reaction(x):
        changed = model.with_parameters({"crank_pin/child_frame/position": jnp.array([x, 0.0, 0.0])})
        return jmbs.simulate(changed, **settings).reaction["crank_pin"][-1].sum()

    places, step = jnp.array([-0.2, -0.2002]), 1e-6
    found = jax.jit(jax.vmap(jax.grad(reaction)))(places)
    ahead, behind = (jax.jit(jax.vmap(reaction))(places + h) for h in (step, -step))
    np.testing.assert_allclose(found, (ahead - behind) / (2 * step), rtol=1e-6)
