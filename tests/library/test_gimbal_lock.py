"""A row of turns in gimbal lock: no run starts there, one that fails there says so, one that comes close goes on."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from quick import quick_jit

import jmbs
from jmbs.library.mechanics import JOINT_DIMENSIONS

TURNS = [{"type": "revolute", "axis": axis} for axis in ([0, 0, 1], [0, 1, 0], [1, 0, 0])]


def gimbals(second: float, rates: list[float]) -> jmbs.Model:
    """A free body in massless gimbals; `second`: its angle about their second axis, rad."""
    m = jmbs.Mechanism(gravity=(0.0, 0.0, 0.0))
    m.add_body("disc", mass=1.0, inertia=[0.03, 0.02, 0.015])
    m.add_joint("gimbals", "composite", "ground", "disc", motions=TURNS)
    m.set_initial(joints={"gimbals": {"q": [0.0, second, 0.0], "v": rates}})
    return m.compile()


@pytest.mark.slow
@pytest.mark.parametrize("rate", [1e-3, 0.1])
def test_a_run_that_fails_in_gimbal_lock_says_so(rate):
    """Too large a step near lock, which is at 0.185 s."""
    model = gimbals(1.2, [rate, 2.0, 0.0])
    run = jmbs.simulate(model, t1=0.5, save_every=0.05, solver="rk4", dt=0.002, throw=False)
    assert run.status == jmbs.Status.singular_coordinates
    assert 0.18 < run.failure_time < 0.21
    with pytest.raises(jmbs.SimulationError, match="gimbal lock"):
        jmbs.simulate(model, t1=0.5, save_every=0.05, solver="rk4", dt=0.002)


@pytest.mark.slow
def test_a_run_that_comes_close_goes_on_with_small_steps():
    run = jmbs.simulate(gimbals(1.2, [0.1, 2.0, 0.0]), t1=0.5, save_every=0.05, solver="tsit5", tolerance=1e-8)
    assert run.status == jmbs.Status.successful
    assert np.abs(run.q["gimbals"][:, 1]).max() > 1.4
    assert np.abs(run.first_law_residual).max() < 1e-8


def test_no_run_starts_in_gimbal_lock():
    with pytest.raises(jmbs.AssemblyError, match="gimbal lock"):
        jmbs.simulate(gimbals(np.pi / 2, [0.0, 2.0, 0.0]), t1=0.1, save_every=0.1)


def test_under_jit_an_initial_state_is_the_same():
    """Nothing can be raised there of a state in lock."""
    wanted = gimbals(1.2, [0.1, 2.0, 0.0]).initial_state()
    assembled = quick_jit(lambda model: model.initial_state())
    found = assembled(gimbals(1.2, [0.1, 2.0, 0.0]))
    for a, b in zip(jax.tree.leaves(wanted), jax.tree.leaves(found), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-14)
    assembled(gimbals(np.pi / 2, [0.0, 2.0, 0.0]))


@pytest.mark.slow
def test_every_joint_is_assembled_and_run_under_jit():
    """On a body of its own; traced and not compiled."""
    m = jmbs.Mechanism("all joints")
    given = {"screw": {"pitch": 0.1}, "universal": {"axis2": [1, 0, 0]}, "composite": {"motions": TURNS}}
    for kind in JOINT_DIMENSIONS:
        m.add_body(f"on_{kind}", mass=1.0, inertia=[0.1, 0.2, 0.25])
        m.add_joint(kind, kind, "ground", f"on_{kind}", **given.get(kind, {}))
    model = m.compile()
    run = lambda: jmbs.simulate(model, t1=0.1, save_every=0.1, dt=0.01, solver="rk4", audit=False).q.array  # noqa: E731
    assert jax.eval_shape(run).shape[0] == 2
