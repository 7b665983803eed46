"""Inputs in place of a model's drives: tables are checked, modules and closures are seen, also where JAX traces."""

from __future__ import annotations

import functools
import unittest.mock
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jmbs
from jmbs.arrays import is_traced
from jmbs.errors import ModelError
from jmbs.library.mechanics import SplineMotion
from jmbs.simulation import with_inputs
from jmbs.simulation.user_functions import looked_at

TIMES = np.linspace(0.0, 1.0, 6)
RUN = {"t1": 0.4, "dt": 0.02, "solver": "rk4", "save_every": 0.2, "audit": False}


@pytest.mark.parametrize(
    ("port", "size"), [("hinge/actuation", 1), ("push/force", 3), ("push/torque", 3)], ids=lambda given: str(given)
)
@pytest.mark.parametrize(
    ("times", "values", "message"),
    [
        ([0, 0.2, 0.4, 0.3], np.ones(4), r"/times: found time 0.3 after 0.4 \(row 4"),
        ([0, 0.2, 0.2, 0.3], np.ones(4), "/times: found time 0.2 after 0.2"),
        ([0, 0.2, 0.4, np.nan], np.ones(4), "/times"),
        ([0, 0.2], [1, np.inf], "/values"),
        ([0.0], [1.0], "/times: .* at least 2 times"),
        ([], [], "/times"),
        ([0, 0.2], np.ones(3), "/values: .* one row for each of the 2 times"),
    ],
)
def test_tables_are_checked(model, port, size, times, values, message):
    values = np.repeat(np.asarray(values, float)[:, None], size, axis=1)
    with pytest.raises(ModelError, match=f"inputs/{port}{message}"):
        with_inputs(model, {port: (times, values)})


def test_tables_are_checked_as_far_as_they_are_known(model):
    def run(times, values):
        return with_inputs(model, {"hinge/actuation": (times, values)}).dae.drives["hinge/actuation"].values

    values = np.sin(TIMES)
    np.testing.assert_allclose(jax.jit(lambda v: run(TIMES, v))(values), values[:, None])
    np.testing.assert_allclose(jax.jit(lambda t: run(t, values))(TIMES), values[:, None])
    for wrong, message in (
        (lambda v: run(TIMES[::-1], v), "strictly increasing"),
        (lambda v: run(TIMES[1:], v), "one row for each of the 5 times"),
        (lambda v: run(TIMES, jnp.stack([v, v], axis=1)), "shape"),
    ):
        with pytest.raises(ModelError, match=f"inputs/hinge/actuation.*{message}"):
            jax.jit(wrong)(values)


@pytest.mark.parametrize("n", [2, 3, 4, 9])
def test_splines_of_traced_values_are_those_of_known_ones(n):
    rng = np.random.default_rng(n)
    times, values = np.sort(rng.uniform(size=n)), rng.normal(size=(n, 2))
    known, traced = SplineMotion.through(times, values), jax.jit(lambda v: SplineMotion.through(times, v))(values)
    scale = float(jnp.max(jnp.abs(known.coefficients)))
    np.testing.assert_allclose(traced.coefficients, known.coefficients, atol=1e-12 * scale)
    np.testing.assert_allclose(traced.times, times)


@pytest.fixture(scope="module")
def driven() -> jmbs.Model:
    """A pendulum on a slider that is moved."""
    mechanism = jmbs.Mechanism("driven", gravity=(0.0, 0.0, -9.81))
    mechanism.add_body("cart", mass=1.0, inertia=[0.1, 0.1, 0.1])
    mechanism.add_body("rod", mass=1.2, inertia=[0.1, 0.11, 0.02])
    mechanism.add_joint("rail", "prismatic", "ground", "cart", axis=[1, 0, 0], motion=0.0)
    frame = {"position": [0.0, 0.0, 0.5]}
    mechanism.add_joint("hinge", "revolute", "cart", "rod", child_frame=frame, axis=[0, 1, 0])
    mechanism.set_initial(joints={"hinge": {"q": [0.5]}})
    return jmbs.compile(mechanism)


@pytest.mark.slow
def test_motions_of_traced_tables_have_derivatives(driven):
    def angle(values):
        return jmbs.simulate(driven, inputs={"rail/motion": (TIMES, values)}, **RUN).q["hinge"][-1, 0]

    values, step = 0.3 * np.sin(3 * TIMES), 1e-5
    compiled = jax.jit(angle)
    ends = [[float(compiled(values + s * step * row)) for s in (1, -1)] for row in np.eye(len(values))]
    differences = [(a - b) / (2 * step) for a, b in ends]
    np.testing.assert_allclose(jax.jit(jax.grad(angle))(values), differences, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(compiled(values), angle(values), rtol=1e-9)


def test_motions_want_times_that_are_known(driven):
    for values in (0.3 * TIMES, None):
        with pytest.raises(ModelError, match="inputs/rail/motion: found times that are traced"):
            jax.jit(lambda t, v=values: with_inputs(driven, {"rail/motion": (t, t if v is None else v)}))(TIMES)


class Feedback(eqx.Module):
    """A controller with an array of its own and a function in it."""

    net: eqx.nn.MLP
    gain: jax.Array

    def __call__(self, t, view):
        return self.gain * self.net(jnp.stack([view.q["hinge"][0], view.v["hinge"][0]]))


def feedback(gain) -> Feedback:
    return Feedback(eqx.nn.MLP(2, 1, 4, 1, activation=jnp.tanh, key=jax.random.PRNGKey(0)), jnp.asarray(gain))


def test_controllers_may_be_modules_with_arrays(model):
    """Of which two are one program."""
    plain = [float(_angle(model, gain)) for gain in (0.5, 0.6)]
    assert plain[0] != plain[1]


def _angle(model, gain):
    return jmbs.simulate(model, inputs={"hinge/actuation": feedback(gain)}, **RUN).q["hinge"][-1, 0]


@pytest.mark.slow
def test_arrays_of_controllers_may_be_traced(model):
    angle = functools.partial(_angle, model)
    plain = [float(angle(gain)) for gain in (0.5, 0.6)]
    value, slope = jax.jit(jax.value_and_grad(angle))(0.55)
    assert float(value) == pytest.approx(np.mean(plain), abs=1e-3)
    assert float(slope) == pytest.approx((plain[1] - plain[0]) / 0.1, rel=1e-3)
    np.testing.assert_allclose(jax.jit(jax.vmap(angle))(jnp.array([0.5, 0.6])), plain, rtol=1e-9)


class Flow:
    """A drive that is no tree."""

    def __init__(self, gain):
        self.gain = gain

    def flow(self, t, view):
        return -self.gain * view.v["hinge"]


def _twice_closed(gain):
    def inner(t, view):
        return -gain * view.v["hinge"]

    return lambda t, view: inner(t, view)


class Law:
    """A force as a method, of an object with what has no order."""

    def __init__(self, gain):
        self.odd, self.gain = {1: 2.0, "a": 3.0}, gain

    def force(self, t, view):
        return -self.gain * view.v["hinge"]


class Servo(eqx.Module):
    """A module of one array."""

    gain: Any

    def __call__(self, t, view):
        return -self.gain * view.v["hinge"]


CLOSED = {
    "twice closed": _twice_closed,
    "a default": lambda gain: lambda t, view, gain=gain: -gain * view.v["hinge"],
    "an object closed over": lambda gain: (lambda law: lambda t, view: law.force(t, view))(Law(gain)),
    "a method": lambda gain: Law(gain).force,
    "a partial in a tree": lambda gain: jax.tree_util.Partial(_twice_closed(gain)),
    "given beforehand": lambda gain: functools.partial(lambda a, t, view: -a * view.v["hinge"], gain),
    "a partial of one closed over": lambda gain: functools.partial(_twice_closed(gain)),
    "of an object": lambda gain: Flow(gain).flow,
    "an object": Flow,
}


@pytest.mark.parametrize("kind", CLOSED)
def test_what_functions_look_at_is_seen(kind):
    """However deep: a run whose functions hold what is traced is no program that others may have."""
    seen = []
    jax.jit(lambda gain: seen.append(is_traced(looked_at({"port": CLOSED[kind](gain)}))) or gain)(1.0)
    assert seen == [True] and not is_traced(looked_at({"port": CLOSED[kind](1.0)}))


class Odd:
    """One of whose attributes none may be asked for."""

    def __getattr__(self, name):
        raise RuntimeError(name)


@pytest.mark.parametrize(
    "odd", [{1: 2.0, "a": 3.0}, Odd(), unittest.mock.MagicMock()], ids=lambda odd: type(odd).__name__
)
def test_what_cannot_be_looked_into_is_left_alone(odd):
    assert not is_traced(looked_at(lambda t, view: odd))


@pytest.mark.parametrize("gain", [np.ones(1), jnp.ones(1), 1.0])
def test_controllers_may_be_modules_of_one_number(model, gain):
    drive = with_inputs(model, {"hinge/actuation": Servo(gain)}).dae.drives["hinge/actuation"]
    (leaf,) = jax.tree.leaves(drive)
    assert leaf is gain


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["twice closed", "given beforehand", "an object"])
def test_derivatives_through_what_functions_hold(model, kind):
    def angle(gain):
        return jmbs.simulate(model, inputs={"hinge/actuation": CLOSED[kind](gain)}, **RUN).q["hinge"][-1, 0]

    difference = (float(angle(0.3001)) - float(angle(0.2999))) / 2e-4
    assert float(jax.grad(angle)(0.3)) == pytest.approx(difference, rel=1e-6)


def test_transformations_that_nobody_compiles_are_one_program(model):
    compiled: list[str] = []

    def end(mass):
        changed = model.with_parameters({"rod/mass": mass})
        return jmbs.simulate(changed, **RUN).q["hinge"][-1, 0]

    def note(event, seconds, **about):
        if event == "/jax/core/compile/backend_compile_duration":
            compiled.append(about.get("fun_name", ""))

    jax.monitoring.register_event_duration_secs_listener(note)
    try:
        slope = float(jax.grad(end)(1.2))
        assert any("whole" in name for name in compiled) and any("assemble" in name for name in compiled)
        del compiled[:]
        assert float(jax.grad(end)(1.2)) == slope and not compiled
    finally:
        jax.monitoring.unregister_event_duration_listener(note)
    assert slope == pytest.approx((float(end(1.2001)) - float(end(1.1999))) / 2e-4, rel=1e-5)
