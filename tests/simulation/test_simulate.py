"""What users do with a model: run, change parameters, drive inputs, batch, differentiate, fail."""

from __future__ import annotations

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from quick import quick_jit

import jmbs
from jmbs import ModelError, SimulationError, Status
from jmbs.running import tolerance_note
from jmbs.simulation import least_rtol

RUN = {"dt": 0.01, "solver": "rk4", "t1": 0.5, "save_every": 0.1}


@pytest.fixture(scope="module")
def sol(model, state):
    return jmbs.simulate(model, state, **RUN)


def pendulum_equation(q, v, mass=1.2, inertia=0.11, length=0.5, damping=0.05, torque=0.0):
    """The hinge's acceleration from its one equation of motion."""
    return (-mass * 9.81 * length * np.sin(q) - damping * v + torque) / (inertia + mass * length**2)


def test_dynamics_are_the_pendulums(model, state):
    rates = eqx.filter_jit(model.dynamics)(0.0, state)
    hinge = model.dae.plan.slots[model.dae.plan.junction_of["rod/ke", "p"]]
    momentum_rate = np.asarray(rates.velocity)[hinge]
    # About body y the momentum is the inertia about the centre of mass times the rate.
    np.testing.assert_allclose(momentum_rate[1] / 0.11, pendulum_equation(0.5, 1.0), rtol=1e-12)


def test_saved_times_and_shapes(sol):
    np.testing.assert_allclose(sol.ts, 0.1 * np.arange(6), atol=1e-15)
    assert sol.position["rod"].shape == (6, 3)
    assert sol.q["hinge"].shape == (6, 1)
    assert sol.reaction["hinge"].shape == (6, 6)
    assert bool(sol.status == Status.successful)
    assert int(sol.stats["steps"]) == 50


def test_the_books_close(sol):
    assert np.max(np.abs(sol.first_law_residual)) < 1e-8
    assert np.all(np.diff(sol.entropy_produced) > 0)
    np.testing.assert_allclose(sol.dissipated, 298.15 * sol.entropy_produced, rtol=1e-12)


def test_a_step_at_a_time_gives_the_same_motion(model, state, sol):
    stepped = jmbs.compile(_with_settings(pendulum_mechanism(), dt=0.01, method="rk4"))
    step = jax.jit(lambda s: stepped.step(s, {}, 0.01))
    for _ in range(10):
        state = step(state)
    np.testing.assert_allclose(state["rod/q"][:, 3], sol.position["rod"][1], atol=1e-13)


def pendulum_mechanism():
    from simulation.conftest import pendulum

    return pendulum()


def _with_settings(mechanism, **settings):
    from jmbs.library.mechanics import SimulationSpec

    mechanism.simulation = SimulationSpec(t1=0.5, save_every=0.1, **settings)
    return mechanism


def test_changing_a_mass_keeps_the_motion(model, state):
    heavier = model.with_parameters({"rod/mass": 2.4})
    dynamics = eqx.filter_jit(lambda m, s: m.dynamics(0.0, s))
    before, after = dynamics(model, state), dynamics(heavier, state)
    slots = model.dae.plan.slots[model.dae.plan.junction_of["rod/ke", "p"]]
    np.testing.assert_allclose(before.efforts[slots], after.efforts[slots], rtol=1e-14)
    assert float(heavier.parameters()["rod/mass"]["value"]) == 2.4
    assert float(model.parameters()["rod/mass"]["value"]) == 1.2


@pytest.mark.parametrize(
    ("values", "path"),
    [
        ({"rod/mas": 1.0}, "rod/mas"),
        ({"rod/mass": [1.0, 2.0]}, "rod/mass"),
        ({"rod/mass": "heavy"}, "rod/mass"),
        ({"rod/mass": None}, "rod/mass"),
        ({"rod/mass": True}, "rod/mass"),
        ({"rod/mass": 1j}, "rod/mass"),
        ({"rod/mass": {"a": 1.0}}, "rod/mass"),
        ({"rod/inertia": [[1.0], [1.0, 2.0]]}, "rod/inertia"),
        ({3: 1.0}, "parameters"),
        (None, "parameters"),
        ([1.0], "parameters"),
        ({"initial/rodd/position": [0, 0, 0]}, "initial/rodd/position"),
        ({"initial/hinge/w": [0.0]}, "initial/hinge/w"),
        ({"initial/hinge/v": [0.0, 1.0]}, "initial/hinge/v"),
    ],
)
def test_wrong_parameters_are_refused(model, values, path):
    with pytest.raises(ModelError) as error:
        model.with_parameters(values)
    assert error.value.path == path


@pytest.mark.parametrize(
    ("arguments", "path"),
    [
        ({"t1": -1.0}, "t1"),
        ({"t1": 1.0, "save_every": 0.0}, "save_every"),
        ({"ts": [0.3, 0.2]}, "ts"),
        ({"t1": 1.0, "dt": 0.1, "tolerance": 1e-6}, "simulate"),
        ({"t1": 1.0, "dt": -0.1}, "dt"),
        ({"t1": 1.0, "solver": "rk4", "tolerance": 1e-6}, "dt"),
        ({"t1": 1.0, "solver": "rk5", "dt": 0.1}, "simulation/method"),
        ({"t1": 1.0, "constraints": "ggl"}, "constraints"),
        ({"t1": 1.0, "adjoint": "backwards"}, "adjoint"),
        ({"t1": "1.0"}, "t1"),
        ({"t1": np.ones(2)}, "t1"),
        ({"t1": 1.0, "t0": "0"}, "t0"),
        ({"t1": 1.0, "save_every": "0.1"}, "save_every"),
        ({"t1": 1.0, "dt": "0.1"}, "dt"),
        ({"ts": ["a", "b"]}, "ts"),
        ({"ts": 0.5}, "ts"),
        ({"t1": 1.0, "tolerance": "1e-6"}, "tolerance/rtol"),
        ({"t1": 1.0, "tolerance": -1e-6}, "tolerance"),
        ({"t1": 1.0, "tolerance": {"rtol": 1e-6}}, "tolerance"),
        ({"t1": 1.0, "solver": 5}, "solver"),
        ({"t1": 1.0, "solver": diffrax.Tsit5}, "solver"),
        ({"t1": 1.0, "max_steps": 0}, "max_steps"),
        ({"t1": 1.0, "max_steps": 2.5}, "max_steps"),
        ({"t1": 1.0, "max_steps": "many"}, "max_steps"),
        ({"t1": 1.0, "adjoint": 3}, "adjoint"),
        ({"t1": 1.0, "constraints": "baumgarte", "baumgarte": -1.0}, "baumgarte"),
        ({"t1": 1.0, "formulation": 3}, "simulation/formulation"),
        ({"t1": 1.0, "inputs": [1.0]}, "inputs"),
        ({"t1": 1.0, "inputs": {"hinge/actuatoin": 1.0}}, "inputs/hinge/actuatoin"),
        ({"t1": 1.0, "inputs": {"hinge/actuation": [1.0, 2.0]}}, "inputs/hinge/actuation"),
        ({"t1": 1.0, "inputs": {"hinge/actuation": lambda t: 1.0}}, "inputs/hinge/actuation"),
        ({"t1": 1.0, "inputs": {"hinge/actuation": lambda t, view: jnp.ones(3)}}, "inputs/hinge/actuation"),
        ({"t1": 1.0, "inputs": {"hinge/actuation": lambda t, view: "abc"}}, "inputs/hinge/actuation"),
        ({"ts": [0.0, 0.1], "save_every": 0.01}, "save_every"),
        ({"ts": [0.0, 0.1], "t1": 1.0}, "ts"),
    ],
)
def test_wrong_arguments_are_refused(model, state, arguments, path):
    with pytest.raises(ModelError) as error:
        jmbs.simulate(model, state, **arguments)
    assert error.value.path == path


@pytest.mark.parametrize("wrong", [pendulum_mechanism, "configs/pendulum.yaml", None, {}, 3.0])
def test_what_is_no_model_is_refused(state, wrong):
    wrong = wrong() if callable(wrong) else wrong
    with pytest.raises(ModelError, match="^model: found .*, wanted a Model, which jmbs.compile"):
        jmbs.simulate(wrong, state, **RUN)


def test_what_is_no_system_is_refused(model):
    for wrong in (model, {}, None, 3.0):
        with pytest.raises(ModelError, match="^system: found .{1,60}, wanted a Mechanism"):
            jmbs.compile(wrong)
    with pytest.raises(ModelError, match="^system: found 'pendulum.yaml', wanted .*jmbs.load reads files"):
        jmbs.compile("pendulum.yaml")
    for arguments in ({"dtype": "float16"}, {"dtype": 3}, {"settings": {"t1": 1.0}}, {"initial": {"q": [0.0]}}):
        with pytest.raises(ModelError):
            jmbs.compile(pendulum_mechanism(), **arguments)


TAKERS = {
    "simulate": lambda model, state: jmbs.simulate(model, state, **RUN),
    "step": lambda model, state: model.step(state, {}, 0.01),
    "dynamics": lambda model, state: model.dynamics(0.0, state),
    "balance": lambda model, state: model.balance(0.0, state),
    "mass_matrix": lambda model, state: model.mass_matrix(state),
    "forward_dynamics": lambda model, state: model.forward_dynamics(0.0, state),
}


@pytest.mark.parametrize("taker", TAKERS)
def test_what_is_no_state_is_refused(model, state, taker):
    other = jmbs.State(state.blocks, tuple(tuple(f"x{name}" for name in names) for names in state.names))
    several = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), state)
    for wrong in (np.zeros(13), jnp.zeros(13), {"rod/q": np.zeros(7)}, "here", 3.0, (1.0, 2.0), model, other, several):
        with pytest.raises(ModelError) as error:
            TAKERS[taker](model, wrong)
        assert error.value.path == "state" and len(str(error.value)) < 400


@pytest.mark.parametrize("dt", [None, "0.01", np.ones(2), np.nan])
def test_a_wrong_step_is_refused(model, state, dt):
    with pytest.raises(ModelError, match="^dt: found"):
        model.step(state, {}, dt)
    with pytest.raises(ModelError, match="^inputs: found"):
        model.step(state, [1.0], 0.01)


def test_how_often_to_save_and_tolerances_are_known_before_tracing(model, state):
    for name in ("save_every", "tolerance"):
        arguments = lambda x, name=name: {"t1": 1.0, "save_every": 0.5, name: x}  # noqa: E731
        with pytest.raises(ModelError, match=f"^{name}.*: found a traced value, wanted .* known before tracing"):
            jax.eval_shape(lambda x, of=arguments: jmbs.simulate(model, state, **of(x)).q.array, 0.1)


def test_the_mode_of_differentiation_is_named(model, state):
    """See `tests/jaxext/test_one_mode.py`; here that the guards stand where they shall. Traced and not compiled."""

    def last(angle, adjoint):
        member = model.with_parameters({"initial/hinge/q": angle[None]})
        run = jmbs.simulate(member, t1=0.2, save_every=0.2, tolerance=1e-4, adjoint=adjoint, audit=False)
        return run.q["hinge"][-1, 0]

    at = jnp.asarray(0.5)
    for derivative, adjoint, wanted in ((jax.jacfwd, "auto", "forward"), (jax.grad, "forward", "checkpoint")):
        with pytest.raises(ModelError, match=f'^adjoint: found .* wanted adjoint="{wanted}"'):
            jax.eval_shape(derivative(lambda angle, kind=adjoint: last(angle, kind)), at)


def test_inputs_do_work(model, state):
    torque = lambda t, view: 0.3 * view.effort("hinge/hc", "p_r")  # noqa: E731
    times = np.array([0.0, 1.0])
    for inputs in (
        {"hinge/actuation": (times, np.array([0.0, 1.0]))},
        {"hinge/actuation": torque},
        {"push/force": [1.0, 0.0, 0.0]},
    ):
        sol = jmbs.simulate(model, state, inputs=inputs, **RUN)
        assert abs(float(sol.supplied[-1])) > 1e-3
        assert np.max(np.abs(sol.first_law_residual)) < 1e-8
    # A constant force does its force times the displacement.
    np.testing.assert_allclose(sol.supplied[-1], sol.position["rod"][-1, 0] - sol.position["rod"][0, 0], rtol=1e-7)


def test_functions_may_look_at_traced_parameters(model, state):
    def final_angle(gain):
        inputs = {"hinge/actuation": lambda t, view: gain * jnp.cos(t)}
        return jmbs.simulate(model, state, inputs=inputs, audit=False, throw=False, **RUN).q["hinge"][-1, 0]

    gains = jnp.array([0.3, 0.4, 0.5])
    angles, slopes = jax.jit(jax.vmap(jax.value_and_grad(final_angle)))(gains)
    np.testing.assert_allclose(slopes[1], (angles[2] - angles[0]) / 0.2, rtol=1e-3)


def test_a_table_that_ends_too_early_stops_the_run(model, state):
    table = (np.array([0.0, 0.25]), np.array([0.0, 1.0]))
    sol = jmbs.simulate(model, state, inputs={"hinge/actuation": table}, throw=False, **RUN)
    assert bool(sol.status == Status.table_exceeded) and 0.25 < float(sol.failure_time) <= 0.3
    assert np.all(np.isfinite(sol.position["rod"][:3])) and np.all(np.isnan(sol.position["rod"][3:]))


def test_a_failure_raises_and_says_when(model, state):
    with pytest.raises(SimulationError, match="t = 0"):
        jmbs.simulate(model, state, inputs={"push/force": [np.nan, 0.0, 0.0]}, **RUN)


def test_members_fail_alone(model):
    """By a torque, a start and a mass; whatever stands beside them, the others are the same to the last bit."""

    def run(velocity, torque, mass):
        member = model.with_parameters({"initial/hinge/v": velocity[None], "rod/mass": mass})
        return jmbs.simulate(member, inputs={"hinge/actuation": torque}, throw=False, audit=False, **RUN)

    velocities, torques = jnp.array([0.0, 0.5, 1.0, 1.0, jnp.nan]), jnp.array([0.0, jnp.nan, 0.0, 0.0, 0.0])
    masses = jnp.array([1.2, 1.2, 2.0, -1.2, 1.2])
    together = jax.jit(jax.vmap(run))
    batch = together(velocities, torques, masses)
    S = Status
    for found, wanted in zip(
        jmbs.simulation.members(batch.status),
        [S.successful, S.not_finite, S.successful, S.invalid_parameters, S.not_finite],
        strict=True,
    ):
        assert bool(found == wanted)
    np.testing.assert_allclose(batch.failure_time, [np.nan, 0.01, np.nan, 0.0, 0.0])
    assert np.all(np.isfinite(batch.position["rod"][::2][:2]))
    assert np.all(np.isnan(batch.position["rod"][3:])) and np.all(np.isnan(batch.position["rod"][1, 1:]))
    healthy = together(jnp.nan_to_num(velocities), jnp.nan_to_num(torques), jnp.abs(masses))
    assert np.all(np.asarray(healthy.status == Status.successful))
    np.testing.assert_array_equal(healthy.position["rod"][::2][:2], batch.position["rod"][::2][:2])
    # The same as alone.
    alone = run(velocities[2], torques[2], 2.0)
    np.testing.assert_allclose(batch.position["rod"][2], alone.position["rod"], atol=1e-14)


@pytest.mark.parametrize(
    "step",
    [{"dt": 0.01, "solver": "rk4"}, pytest.param({"tolerance": 1e-5}, marks=pytest.mark.slow)],
    ids=["fixed", "adaptive"],
)
def test_a_run_from_nothing_finite_fails_at_its_start(model, state, step):
    """And not at the largest number of steps."""
    nowhere = jax.tree.map(lambda leaf: leaf.at[0].set(jnp.nan), state)
    sol = jmbs.simulate(model, nowhere, t0=0.1, ts=np.linspace(0.1, 0.5, 6), throw=False, **step)
    assert bool(sol.status == Status.not_finite) and float(sol.failure_time) == 0.1
    assert int(sol.stats["steps"]) == 0
    assert all(np.all(np.isnan(values)) for values in (sol.position.array, sol.q.array, sol.total))


@pytest.mark.slow
def test_adaptive_members_fail_when_they_fail(model):
    """By a start, a parameter, and on the way."""

    def run(velocity, damping, until):
        member = model.with_parameters({"initial/hinge/v": velocity[None], "hinge/friction/viscous": damping})
        torque = {"hinge/actuation": lambda t, view: jnp.where(t > until, jnp.nan, 0.0)}
        return jmbs.simulate(member, t1=0.2, save_every=0.05, inputs=torque, throw=False, audit=False)

    together = jax.jit(jax.vmap(run))
    batch = together(jnp.array([0.5, jnp.nan, 1.0, 1.0]), jnp.array([0.1, 0.1, -0.1, 0.1]), jnp.array([1, 1, 1, 0.12]))
    wanted = [Status.successful, Status.not_finite, Status.invalid_parameters, Status.not_finite]
    assert all(bool(a == b) for a, b in zip(jmbs.simulation.members(batch.status), wanted, strict=True))
    np.testing.assert_allclose(batch.failure_time, [np.nan, 0.0, 0.0, 0.12], rtol=1e-9)
    np.testing.assert_array_equal(batch.stats["steps"][1:3], 0)
    finite = np.isfinite(batch.q["hinge"][..., 0]).sum(axis=1)
    np.testing.assert_array_equal(finite, [5, 0, 0, 3])
    healthy = together(jnp.full(4, 0.5), jnp.full(4, 0.1), jnp.ones(4))
    np.testing.assert_array_equal(healthy.q["hinge"][0], batch.q["hinge"][0])


def test_traced_parameters_that_are_not_allowed_become_nan(model, state):
    """What has no status has no number either."""
    acceleration = lambda mass: model.with_parameters({"rod/mass": mass}).dynamics(0.0, state).velocity  # noqa: E731
    found = np.asarray(quick_jit(jax.vmap(acceleration))(jnp.array([1.2, 0.0, -1.0])))
    assert np.isfinite(found).all(axis=1).tolist() == [True, False, False]
    with pytest.raises(ModelError, match="rod/mass: found 0.0, wanted a finite positive number, kg"):
        jax.jit(lambda state: model.with_parameters({"rod/mass": 0.0}).dynamics(0.0, state))(state)


def test_an_inconsistent_state_sets_a_status(model, state):
    shifted = model.with_parameters({"hinge/child_frame/position": [0.0, 0.0, 0.6]})
    sol = jmbs.simulate(shifted, state, throw=False, constraints="none", **RUN)
    assert bool(sol.status == Status.inconsistent_initial_state)
    # What follows from there may be anything.
    drive = {"hinge/actuation": lambda t, state: jnp.where(t > 0.2, jnp.nan, 0.0)[None]}
    failed = jmbs.simulate(shifted, state, inputs=drive, throw=False, constraints="none", **RUN)
    assert bool(failed.status == Status.inconsistent_initial_state) and np.isnan(failed.q["hinge"][-1]).all()


def test_adaptive_runs_follow_their_tolerance(model, state):
    ts = np.array([0.25, 0.5])
    tight = jmbs.simulate(model, state, ts=ts, tolerance=1e-12, solver="dopri8", audit=False)
    errors = []
    for tolerance in (1e-5, 1e-8):
        sol = jmbs.simulate(model, state, ts=ts, tolerance=tolerance, audit=False)
        errors.append(np.max(np.abs(sol.position["rod"] - tight.position["rod"])))
    assert errors[1] < 1e-7 and errors[1] < 0.1 * errors[0] < 1e-4
    np.testing.assert_array_equal(tight.ts, ts)


@pytest.mark.slow
def test_baumgarte_holds_what_drifts(model, state):
    run = {**RUN, "dt": 0.05, "t1": 2.0}
    gaps = {}
    for constraints in ("none", "baumgarte", "project"):
        heavy = jmbs.simulate(_on_direct_product(), None, constraints=constraints, **run)
        gaps[constraints] = float(heavy.constraint_position["hinge"][-1])
        assert np.max(np.abs(heavy.first_law_residual)) < 2e-3
    assert gaps["project"] < 1e-12 < gaps["baumgarte"] < 0.5 * gaps["none"]


def _on_direct_product():
    from simulation.conftest import pendulum

    return jmbs.compile(pendulum("SO3xR3"))


def test_float32(state):
    single = jmbs.compile(pendulum_mechanism(), dtype="float32")
    sol = jmbs.simulate(single, **RUN)
    assert sol.position["rod"].dtype == jnp.float32
    double = jmbs.simulate(jmbs.compile(pendulum_mechanism()), **RUN)
    np.testing.assert_allclose(sol.position["rod"], double.position["rod"], atol=2e-5)
    assert float(jnp.max(sol.constraint_position["hinge"])) < 1e-5


def test_tolerances_below_rounding_are_those_of_rounding(configs):
    """A heavy top in single precision took a hundred thousand steps, of which the run failed."""
    mechanism = jmbs.load(configs / "heavy_top.yaml")
    double = jmbs.simulate(mechanism.compile(), t1=0.2, save_every=0.1)
    single = jmbs.compile(mechanism, dtype="float32")
    sol = jmbs.simulate(single, t1=0.2, save_every=0.1, tolerance=1e-10)
    assert single.settings.rtol == 1e-10 and sol.stats["steps"] < 1000
    same = jmbs.simulate(single, t1=0.2, save_every=0.1, tolerance={"rtol": least_rtol(np.float32), "atol": 1e-10})
    np.testing.assert_array_equal(sol.q["pivot"], same.q["pivot"])
    np.testing.assert_allclose(sol.position["top"], double.position["top"], atol=1e-5)
    assert "1e-10 is less than float32 holds" in tolerance_note(single) and not tolerance_note(mechanism.compile())
    # An absolute tolerance alone, which diffrax refused in float64.
    absolute = jmbs.simulate(mechanism.compile(), t1=0.2, save_every=0.1, tolerance={"rtol": 0.0, "atol": 1e-10})
    np.testing.assert_allclose(absolute.position["top"], double.position["top"], atol=1e-8)


def test_audit_off_gives_the_same_motion(model, state, sol):
    lean = jmbs.simulate(model, state, audit=False, **RUN)
    assert lean.total is None and lean.reaction is None
    np.testing.assert_allclose(lean.position["rod"], sol.position["rod"], atol=1e-13)
