"""What systems in redundant coordinates report by name: port velocities, multipliers, residuals, connection forces."""

from __future__ import annotations

from pathlib import Path

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

import jmbs
from jmbs.ephs import power_port
from jmbs.io import summarise
from jmbs.library.mechanics.joint import relative_momentum
from jmbs.library.redundant import examples, redundant_system
from jmbs.lie import Rn
from jmbs.running import report
from jmbs.visualise.plots import constraint_figure, motion_figure


@pytest.fixture(scope="module")
def sol() -> jmbs.Trajectory:
    machine = jmbs.Mechanism("slider_crank", gravity=[0, 0, 0])
    machine.add_system("crank", examples.crank(inertia=0.02, length=0.1))
    machine.add_system("rod", examples.rod_with_slider(mass=1.2, inertia=0.03, centre=0.12, length=0.3))
    machine.connect("pin", ["crank.C", "rod.C"])
    machine.set_initial(states={**examples.slider_crank_positions(0.3), "crank/w": [10.0]})
    return jmbs.simulate(machine.compile(), t1=0.02, dt=0.0002, solver="rk4", save_every=0.001)


def pin_rows(sol) -> np.ndarray:
    angle = np.asarray(sol.states["crank/zeta"][:, 0])
    return 0.1 * np.stack([-np.sin(angle), np.cos(angle)], axis=1)


def test_port_velocities(sol):
    wanted = pin_rows(sol) * sol.states["crank/w"]
    np.testing.assert_allclose(sol.outputs["crank/b_C/velocity"], wanted, atol=1e-12)
    np.testing.assert_allclose(sol.outputs["rod/b_C/velocity"], wanted, atol=1e-9)


def test_forces_of_connections_and_of_constraints(sol):
    """The pin turns the crank, `J dw/dt = B F`; pin and track give the slider its momentum along and across."""
    force = np.asarray(sol.multipliers["rod/b_C"])
    rate = np.gradient(np.asarray(sol.states["crank/w"][:, 0]), 0.001, edge_order=2)
    turning = np.sum(pin_rows(sol) * force, axis=1) / 0.02
    np.testing.assert_allclose(turning[2:-2], rate[2:-2], atol=2e-3 * np.max(np.abs(rate)))
    angle = np.asarray(sol.states["rod/zeta"][:, 2])
    v, w = np.asarray(sol.states["rod/w"]).T[[0, 1]], np.asarray(sol.states["rod/w"][:, 2])
    up = np.sin(angle) * v[0] + np.cos(angle) * v[1] + 0.12 * np.cos(angle) * w
    lift = np.gradient(1.2 * up, 0.001, edge_order=2)
    track = -np.asarray(sol.multipliers["rod/kin"][:, 0])
    np.testing.assert_allclose((track - force[:, 1])[2:-2], lift[2:-2], atol=2e-3 * np.max(np.abs(lift)))


def test_residuals_are_saved_reported_and_drawn(sol):
    names = ["rod/b_C", "rod/kin"]
    assert list(sol.constraint_velocity) == names
    data, summary = sol.to_xarray(), summarise(sol)
    for name in names:
        variable = name.replace("/", ".")
        np.testing.assert_array_equal(data[f"constraint_position_{variable}"], sol.constraint_position[name])
        np.testing.assert_array_equal(data[f"constraint_velocity_{variable}"], sol.constraint_velocity[name])
        assert data[f"multiplier_{variable}"].shape == sol.multipliers[name].shape
        assert 0 <= summary["largest_constraint_residuals"][name]["velocity"] < 1e-9
    assert "none to hold" not in report(summary, Path(), [])
    assert [line.get_label() for line in constraint_figure(data).axes[1].lines] == names


def test_rows_of_any_component_are_reported():
    """Nonholonomic ones, which no position belongs to, and those of users' components."""

    class Belt(eqx.Module):
        """Binds two velocities to each other."""

        @property
        def ports(self):
            momentum = relative_momentum(Rn(1))
            return {name: power_port(momentum.space, momentum.name) for name in ("a", "b")}

        def structure(self, x):
            return None, jnp.array([[1.0, -2.0]])

    m = jmbs.Mechanism("belt")
    m.add_system("skate", redundant_system(np.eye(2), A=[0, 1], B={"a": [1, 0]}))
    m.add_system("cart", redundant_system(np.eye(1), B={"b": [[1.0]]}))
    m.add_system("belt", Belt())
    m.connect("a", ["skate.a", "belt.a"])
    m.connect("b", ["cart.b", "belt.b"])
    constraints = jmbs.compile(m).layout.constraints
    assert [(entry.name, entry.multipliers) for entry in constraints] == [
        ("belt", ("row_1",)),
        ("skate/con", ("row_1",)),
    ]


def test_states_are_drawn(sol):
    labels = [ax.get_ylabel() for ax in motion_figure(sol.to_xarray()).axes]
    assert labels == ["w", "zeta"]
