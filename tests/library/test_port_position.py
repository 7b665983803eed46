"""Systems in redundant coordinates joined with joints: port and coordinate keep the distance of the start."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from quick import quick_jit

import jmbs
from jmbs.errors import AssemblyError
from jmbs.library.mechanics import SimulationSpec
from jmbs.library.mechanics.point_velocity import PointVelocity
from jmbs.library.redundant import redundant_system


def wheel(known: bool = True):
    """An oscillator whose port follows the sine of its coordinate."""
    at = {"positions": {"shaft": jnp.sin}} if known else {}
    return redundant_system(M=[[0.5]], B={"shaft": lambda z: jnp.cos(z)[None]}, V=lambda z: 3.0 * z[0] ** 2, **at)


def geared(known: bool = True, states: dict[str, Any] | None = None, **hinge) -> jmbs.Model:
    machine = jmbs.Mechanism("geared")
    machine.add_body("arm", mass=1.0, inertia=[0.01, 0.02, 0.02])
    machine.add_joint("hinge", "revolute", "ground", "arm", axis=[0, 1, 0], child_frame=[-0.3, 0, 0])
    machine.add_system("wheel", wheel(known))
    machine.connect("shaft", ["wheel.shaft", "hinge.p_r"])
    machine.simulation = SimulationSpec(method="rk4", dt=0.1)
    machine.set_initial(joints={"hinge": hinge}, states={"wheel/zeta": [0.2], **(states or {})})
    return machine.compile()


@pytest.fixture(scope="module")
def model():
    return geared(q=0.3)


@quick_jit
def steps(model: jmbs.Model, state: jmbs.State) -> Any:
    """Coordinates of wheel and hinge along ten steps."""
    step = lambda s, _: (model.step(s, {}, 0.1), (s["wheel/zeta"], s.q["hinge"]))  # noqa: E731
    return jax.lax.scan(step, state, None, 10)[1]


def distances(zeta, q) -> np.ndarray:
    """From the port to the coordinate."""
    return np.asarray(jnp.sin(zeta) - q)[:, 0]


@pytest.mark.slow
def test_the_distance_stays_what_it_is_at_the_start(model):
    assert model.tree is not None and "rows on velocities alone" not in model.describe()
    np.testing.assert_allclose(distances(*steps(model, model.initial_state())), np.sin(0.2) - 0.3, atol=1e-9)


@pytest.mark.slow
def test_velocities_alone_drift():
    model = geared(known=False, q=0.3)
    assert np.ptp(distances(*steps(model, model.initial_state()))) > 1e-7


@pytest.mark.slow
@pytest.mark.parametrize("formulation", ["tree", "absolute"])
def test_what_is_missing_is_reported(model, formulation):
    sol = jmbs.simulate(model, t1=1.0, save_every=0.25, dt=0.05, solver="rk4", formulation=formulation)
    np.testing.assert_allclose(distances(sol.states["wheel/zeta"], sol.q["hinge"]), np.sin(0.2) - 0.3, atol=1e-9)
    assert float(jnp.max(sol.constraint_position["wheel/b_shaft"])) < 1e-9
    np.testing.assert_allclose(sol.total, sol.total[0], atol=1e-3)


@pytest.mark.slow
def test_a_distance_may_be_given():
    """Then the joint's coordinate follows from it; what contradicts it is refused."""
    name = "wheel/b_shaft/distance"
    q = geared(states={name: [0.1]}).initial_state().q["hinge"]
    np.testing.assert_allclose(q, [np.sin(0.2) - 0.1], atol=1e-12)
    with pytest.raises(AssemblyError, match=f"states/{name}: found an assembly that misses by 0.1"):
        geared(states={name: [0.1]}, q=0.3).initial_state()


@pytest.mark.slow
def test_a_point_of_a_body_in_the_tree_takes_a_system_along():
    """The projection moves what the system's momenta move, and not the tree alone."""
    machine = jmbs.Mechanism("pendulum", gravity=[0, 0, 0])
    machine.add_body("arm", mass=1.0, inertia=[0.01, 0.014, 0.02])
    machine.add_joint("A", "revolute", "ground", "arm")
    machine.add_system("pin", PointVelocity([0.5, 0, 0], axes=((1, 0, 0), (0, 1, 0))))
    weight = {"V": lambda at: 2.0 * 9.81 * at[1], "positions": {"at": lambda at: at}}
    machine.add_system("mass", redundant_system(M=2.0 * np.eye(2), B={"at": np.eye(2)}, **weight))
    for name, ports in (("p", ["arm.p", "pin.p"]), ("q", ["arm.q", "pin.q"]), ("C", ["pin.v", "mass.at"])):
        machine.connect(name, ports)
    machine.set_initial(joints={"A": {"q": 0.3}}, states={"mass/zeta": [0.5 * np.cos(0.3), 0.5 * np.sin(0.3)]})
    model = machine.compile()
    assert model.tree is not None
    sol = jmbs.simulate(model, t1=1.0, save_every=0.25, dt=0.05, solver="rk4")
    assert float(jnp.max(sol.constraint_position["pin"])) < 1e-8
