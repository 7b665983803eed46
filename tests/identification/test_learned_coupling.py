"""Gyroscopic forces of a flywheel that the model lacks, learned from the angles of its gimbals."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.integrate

import jmbs
from jmbs.library.learned import NetworkCoupling

OUTER, INNER, SPIN, NOISE = 0.05, 0.02, 0.15, 1e-3
"""Inertias about the gimbals' axes, kg m^2; angular momentum of the flywheel, N m s; noise, rad."""
TS = np.arange(0.0, 2.0 - 1e-9, 0.01)


def gimbals() -> jmbs.Mechanism:
    """Two rings, the outer about z, the inner about its x; about the inner's y turns a flywheel that is not known."""
    mechanism = jmbs.Mechanism("gimbals", gravity=[0.0, 0.0, 0.0])
    mechanism.add_body("ring", 0.1, [OUTER / 2] * 3)
    mechanism.add_body("frame", 0.1, [INNER, INNER, OUTER / 2])
    mechanism.add_joint("outer", "revolute", "ground", "ring", axis=[0.0, 0.0, 1.0])
    mechanism.add_joint("inner", "revolute", "ring", "frame", axis=[1.0, 0.0, 0.0])
    mechanism.add_system("flywheel", NetworkCoupling(hidden=3, strength=0.1))
    mechanism.connect("first", ["flywheel.p_1", "outer.p_r"])
    mechanism.connect("second", ["flywheel.p_2", "inner.p_r"])
    mechanism.connect("pose", ["flywheel.q_1", "frame.q"])
    mechanism.set_initial(joints={"outer": {"q": [0.0], "v": [0.0]}, "inner": {"q": [0.0], "v": [0.0]}})
    return mechanism


def recorded(name: str, role: str, seed: int, v: tuple[float, float]) -> jmbs.Recording:
    """Angles by scipy: of the inner ring's inertia only y and z turn with the outer one."""

    def rates(t, y):
        a, b, da, db = y
        about_z = OUTER / 2 + INNER * np.sin(b) ** 2 + OUTER / 2 * np.cos(b) ** 2
        slope = (INNER - OUTER / 2) * np.sin(2 * b)
        outer = -slope * da * db - SPIN * np.cos(b) * db
        inner = 0.5 * slope * da**2 + SPIN * np.cos(b) * da
        return [da, db, outer / about_z, inner / INNER]

    found = scipy.integrate.solve_ivp(rates, (0.0, TS[-1]), [0.0, 0.3, *v], "DOP853", TS, rtol=1e-10, atol=1e-12).y
    noisy = found[:2] + NOISE * np.random.default_rng(seed).normal(size=(2, len(TS)))
    start = {"initial/outer/v": [v[0]], "initial/inner/v": [v[1]], "initial/inner/q": [0.3]}
    return jmbs.Recording(name, TS, dict(zip(("a", "b"), noisy, strict=True)), role=role, set=start)


@pytest.mark.slow
def test_a_hidden_flywheel_is_found():
    data = [recorded("one", "train", 1, (1.0, 0.0)), recorded("two", "train", 2, (-0.5, 4.0))]
    data.append(recorded("three", "test", 3, (0.3, 1.2)))
    model, prior = jmbs.compile(gimbals()), jmbs.Parameter(prior=jmbs.Prior(0.0, 1.0))
    sensors = {"a": jmbs.Sensor("outer/q", NOISE), "b": jmbs.Sensor("inner/q", NOISE)}
    estimator = jmbs.Estimator(tolerance=1e-4, max_iterations=40)
    # Held out is a motion within the angles of the others: a network knows little beyond.
    fit = jmbs.fit(model, data, {"flywheel/*": prior}, sensors=sensors, estimator=estimator)
    assert 0.8 < fit.chi2_per_degree < 1.25
    assert max(channel.rms for channel in fit.heldout["three"].values()) < 3 * NOISE
    run = jmbs.simulate(fit.models["three"], t1=2.0, save_every=0.02, tolerance=1e-10)
    energy = np.asarray(run.total)
    assert np.max(np.abs(energy - energy[0])) < 1e-8 * energy[0] and np.all(np.asarray(run.entropy_produced) == 0)
