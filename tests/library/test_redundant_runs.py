"""Runs of systems in redundant coordinates: singular coordinates, constraints that lose rank, gradients."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from documents import run_examples
from library.random_states import assert_close

import jmbs
from jmbs.io import summarise
from jmbs.library.redundant import examples, point_masses, redundant_system


def trailer_run(eliminated: bool) -> jmbs.Trajectory:
    """A truck that turns so fast that its hitch passes 90 degrees, with the rows written in one form or the other."""
    hitch, speed = 1.2, 0.5
    w = [speed, speed * np.cos(hitch), 2.0, speed * np.sin(hitch)]
    system = examples.truck_with_trailers(1, eliminated=eliminated)
    model = jmbs.compile(system, initial={"zeta": [0, 0, hitch, 0], "w": w})
    return jmbs.simulate(model, t1=0.6, save_every=0.03, solver="rk4", dt=0.01)


@pytest.fixture(scope="module")
def trailer_runs() -> dict[bool, jmbs.Trajectory]:
    return {eliminated: trailer_run(eliminated) for eliminated in (False, True)}


def test_rows_that_lose_rank_are_reported(trailer_runs):
    run = trailer_runs[True]
    hitch = np.asarray(run.states["zeta"][:, 2] - run.states["zeta"][:, 3])
    assert hitch[0] < np.pi / 2 < hitch[-1]
    (warning,) = summarise(run)["warnings"]
    told, time = warning.split(" t = ")
    assert told == "the constraints lose rank near"
    assert_close(float(time.split()[0]), np.interp(np.pi / 2, hitch, run.ts), 1e-2)
    assert np.min(run.constraint_margin) < 0.05


def test_rows_of_constant_rank_are_not(trailer_runs):
    run = trailer_runs[False]
    assert summarise(run)["warnings"] == []
    assert set(np.asarray(run.constraint_rank)) == {2.0}
    assert_close(run.states["zeta"], trailer_runs[True].states["zeta"], 1e-6)


def test_trailers_follow_their_hitches(trailer_runs):
    """Speeds obey the kinematics of the train, whichever rows were written."""
    for run in trailer_runs.values():
        v0, v1, _, omega1 = np.asarray(run.states["w"]).T
        hitch = np.asarray(run.states["zeta"][:, 2] - run.states["zeta"][:, 3])
        assert_close(v1, v0 * np.cos(hitch), 1e-9)
        assert_close(omega1, v0 * np.sin(hitch), 1e-7)


@pytest.mark.slow
def test_an_interconnection_whose_rows_lose_rank_is_reported():
    """A crank as long as its rod: when both stand upright the slider's track and the pin bind the same motion."""
    length, angle = 0.3, 1.2
    system = examples.slider_crank(examples.crank(length=length), examples.rod_with_slider(length=length))
    start = examples.slider_crank_positions(angle, length, length * (1 + 1e-15))
    model = jmbs.compile(system, initial={**start, "crank/w": [10.0]})
    assert "constraint rows on velocities alone: 2" in model.describe()
    run = jmbs.simulate(model, t1=0.06, save_every=0.003, solver="rk4", dt=1e-3)
    (warning,) = summarise(run)["warnings"]
    assert "lose rank near" in warning


VANISHING = {
    "a branch point": ({"c": lambda z: z[:1] * z[1:2]}, [0.5, 0.0, 0.0], [-1.0, 0.0, 0.0]),
    "a row of zeros": ({"A": lambda z: (1 - z[1]) * jnp.eye(3)[:1]}, [0.0, 0.5, 0.0], [0.0, 1.0, 0.0]),
}


@pytest.mark.parametrize("name", [pytest.param("a branch point", marks=pytest.mark.slow), "a row of zeros"])
def test_rows_that_vanish_are_reported(name):
    """They were not: each keeps its direction, of which the rank is taken."""
    rows, zeta, w = VANISHING[name]
    model = jmbs.compile(redundant_system(np.eye(3), Z=np.eye(3), **rows), initial={"zeta": zeta, "w": w})
    run = jmbs.simulate(model, t1=1.01, save_every=0.0505, solver="rk4", dt=0.0101)
    (warning,) = summarise(run)["warnings"]
    assert warning.startswith("the constraints lose rank near t = 0.5")


def test_gimbal_lock_ends_the_run_with_a_status():
    model = jmbs.compile(examples.gimbal_gyroscope(), initial={"zeta": [0, 1.2, 0], "w": [0, 2.0, 0]})
    run = jmbs.simulate(model, t1=0.5, save_every=0.05, solver="rk4", dt=0.01, throw=False)
    assert run.status == jmbs.Status.singular_coordinates
    assert_close(run.failure_time, (np.pi / 2 - 1.2) / 2, 0.02)
    with pytest.raises(jmbs.SimulationError, match="singularity"):
        jmbs.simulate(model, t1=0.5, save_every=0.05, solver="rk4", dt=0.01)


@pytest.mark.slow
def test_gradients_through_a_run_from_rest():
    """Reverse mode equals finite differences, through constraints, damping at rest, and a module's parameter."""
    system = point_masses(
        [1.5],
        2,
        c=lambda r: jnp.sum(r**2) - 0.64,
        V=lambda r: 14.7 * r[1],
        tau_d=lambda r, v: 0.4 * v * jnp.sqrt(1.0 + v @ v),
    )
    model = jmbs.compile(system, initial={"zeta": [0.8, 0.0]})
    state = model.initial_state()

    @jax.jit
    def end(mass):
        heavier = model.with_parameters({"ke/M": mass * jnp.eye(2)})
        run = jmbs.simulate(heavier, state, t1=0.2, save_every=0.2, solver="rk4", dt=0.02, audit=False)
        return run.states["zeta"][-1, 1]

    slope = float(jax.jit(jax.grad(end))(1.5))
    step = 1e-5
    assert slope == pytest.approx(float(end(1.5 + step) - end(1.5 - step)) / (2 * step), rel=1e-6)
    assert abs(slope) > 1e-3


def test_the_pages_examples_run():
    names = run_examples("redundant_coordinates.md")
    run = names["sol"]
    assert np.max(np.abs(run.first_law_residual)) < 1e-9 * np.max(run.kinetic)
    assert run.dissipated[-1] > 0.1
    assert "degrees of freedom: 1" in names["joined"].describe()
    assert {"crank", "A", "pin", "rod"} <= set(names["system"].boxes)
