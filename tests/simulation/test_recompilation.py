"""Nothing recompiles that need not: what is an argument of a program, and that equal mechanisms share programs."""

from __future__ import annotations

import pickle

import jax
import numpy as np
import pytest
from mechanisms import chain
from zoo import MECHANISMS

import jmbs
from jmbs.lie import SO3

COMPILED = "/jax/core/compile/backend_compile_duration"
TIMES = {"t1": 0.03, "save_every": 0.01}
METHODS = {"adaptive": {"tolerance": 1e-4}, "fixed": {"solver": "rk4", "dt": 0.005, "audit": False}}


@pytest.fixture
def compiled():
    """The names of the functions that JAX has compiled since the test cleared the list."""
    names = []

    def listen(event: str, duration: float, **more) -> None:
        del duration
        if event == COMPILED:
            names.append(more.get("fun_name"))

    jax.monitoring.register_event_duration_secs_listener(listen)
    yield names
    jax.monitoring.unregister_event_duration_listener(listen)


@pytest.mark.parametrize("method", METHODS)
def test_other_numbers_run_in_the_same_programs(method: str, compiled):
    """Times, steps, tolerances, parameters, initial values; a mechanism compiled again or pickled."""
    model = jmbs.compile(chain(1))
    numbers, settings = {"link1/mass": np.array(1.1), "initial/joint1/v": np.array([-0.1])}, METHODS[method]

    def run(model: jmbs.Model, **changed) -> jmbs.Trajectory:
        return jmbs.simulate(model, model.initial_state(), **{**TIMES, **settings, **changed})

    before = run(model.with_parameters(numbers), progress=True).q["joint1"]
    assert compiled.count("jit(_advance)") == 1  # though it ran in parts
    compiled.clear()
    run(model, t1=0.04, save_every=0.015)
    run(model, t1=None, save_every=None, ts=np.array([0.0, 0.003, 0.01, 0.02]))
    run(model, dt=0.004) if method == "fixed" else run(model, tolerance={"rtol": 1e-3, "atol": 1e-5})
    if method == "adaptive":
        run(model, max_steps=77)
    for again in (jmbs.compile(chain(1)), pickle.loads(pickle.dumps(model))):
        assert np.array_equal(run(again.with_parameters(numbers)).q["joint1"], before)
    assert compiled == []
    run(model, t1=0.04)  # one saved time more
    assert compiled[-3:] == ["jit(_begin)", "jit(_advance)", "jit(_finish)"]


def test_instants_outside_of_jit_are_programs_that_are_kept(compiled):
    """Not hundreds of operations, each compiled; nor compiled again for another time, or in a batch for another one."""
    model = jmbs.compile(chain(1))
    state = model.initial_state()
    compiled.clear()
    first = model.dynamics(0.0, state)
    assert compiled.count("jit(_rates)") == 1 and len(compiled) < 20
    compiled.clear()
    assert np.array_equal(model.dynamics(0.1, state).velocity, first.velocity)
    batch = jax.tree.map(lambda x: jax.numpy.stack([x, x]), state)
    several = [jax.vmap(lambda s, t=t: model.forward_dynamics(t, s))(batch) for t in (0.0, 0.1)]
    assert np.array_equal(*several) and compiled.count("jit(_forward_dynamics)") == 1
    compiled.clear()
    SO3.exp(jax.numpy.asarray([0.1, 0.2, 0.3]))
    compiled.clear()
    SO3.exp(jax.numpy.asarray([0.3, 0.2, 0.1]))
    assert compiled == []


def test_plans_are_equal_by_value_and_change_with_what_they_hold():
    """Also where bodies have other groups alone; a pickle holds nothing that is known of one process only."""
    model, again = (jmbs.compile(MECHANISMS["four_bar"]()) for _ in range(2))
    assert model.dae.plan == again.dae.plan and model.tree == again.tree and model.layout == again.layout
    assert hash(model.tree) == hash(again.tree) and model.tree is not again.tree
    for other in (MECHANISMS["four_bar direct"](), MECHANISMS["chain"]()):
        changed = jmbs.compile(other)
        assert changed.dae.plan != model.dae.plan and changed.tree != model.tree and changed.layout != model.layout
    copy = pickle.loads(pickle.dumps(model.tree))
    assert copy == model.tree and not {"_key", "_hash"} & set(pickle.loads(pickle.dumps(model.tree)).__dict__)
