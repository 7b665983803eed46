"""Prescribed motions of joints: they hold without drift, their force and work are known, in configs and as inputs."""

from __future__ import annotations

import shutil
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from quick import forward_dynamics, quick_jit

import jmbs
from jmbs import Mechanism, load
from jmbs.errors import AssemblyError, ModelError
from jmbs.io import write_config
from jmbs.library.mechanics import MotionDrive, SplineMotion, TableSpec

CONFIGS = Path(__file__).parents[2] / "configs"
TROLLEY, BOB, LENGTH, FRICTION, PHASE = 3.0, 1.0, 0.5, 0.4, 0.5


class Swing(eqx.Module):
    """`amplitude sin(rate t + PHASE) + 0.2`."""

    amplitude: jax.Array
    rate: float = eqx.field(static=True)

    def __init__(self, amplitude: float = 0.5, rate: float = 3.0):
        self.amplitude, self.rate = jnp.asarray(amplitude), rate

    def __call__(self, t):
        return self.amplitude * jnp.sin(self.rate * t + PHASE) + 0.2


def crane(motion=None, **joint) -> Mechanism:
    """A trolley that moves as told along a rail with friction, and a pendulum below it."""
    m = Mechanism("crane")
    m.add_body("trolley", mass=TROLLEY, inertia=[0.1, 0.1, 0.1])
    m.add_body("bob", mass=BOB, inertia=[0.01, 0.01, 0.01])
    rail = {"axis": [1, 0, 0], "friction": {"viscous": FRICTION}, "motion": Swing() if motion is None else motion}
    m.add_joint("rail", "prismatic", "ground", "trolley", **(rail | joint))
    m.add_joint("hinge", "revolute", "trolley", "bob", None, [0, 0, LENGTH], axis=[0, 1, 0])
    m.set_initial(joints={"hinge": {"q": [0.3]}})
    return m


@pytest.fixture(scope="module")
def model():
    return crane().compile()


@pytest.fixture(scope="module")
def state(model):
    return model.initial_state()


@pytest.fixture(scope="module")
def run(model, state):
    """A function of amplitude and formulation."""

    def of(amplitude=0.5, formulation="tree", audit=True):
        changed = model.with_parameters({"rail/motion/amplitude": amplitude})
        settings = {"t1": 0.2, "save_every": 0.1, "solver": "rk4", "dt": 5e-3, "throw": False}
        return jmbs.simulate(changed, state, formulation=formulation, audit=audit, **settings)

    return of


def test_it_starts_where_the_motion_does(model, state):
    np.testing.assert_allclose(state["rail/q_r"], [0.5 * np.sin(PHASE) + 0.2], atol=1e-15)
    np.testing.assert_allclose(state["trolley/p"], [0, 0, 0, 1.5 * np.cos(PHASE), 0, 0], atol=1e-12)
    np.testing.assert_allclose(state["hinge/q_r"], [0.3], atol=1e-15)


@pytest.mark.parametrize("steps", ["fixed", *(pytest.param(x, marks=pytest.mark.slow) for x in ("adaptive", "batch"))])
def test_a_run_that_starts_later_starts_where_the_motion_is_then(model, steps):
    later = 0.4
    where, speed = 0.5 * np.sin(3 * later + PHASE) + 0.2, 1.5 * np.cos(3 * later + PHASE)
    state = model.initial_state(later)
    np.testing.assert_allclose([state["rail/q_r"][0], state["trolley/p"][3]], [where, speed], atol=1e-12)
    settings = {"t0": later, "t1": later + 0.02, "save_every": 0.01, "audit": False}
    if steps == "batch":
        sol = jmbs.simulate_batch(lambda _: model, jnp.zeros(1), **settings)
    else:
        sol = jmbs.simulate(model, **settings, **({"dt": 0.01, "solver": "rk4"} if steps == "fixed" else {}))
    first = (np.ravel(sol.q["rail"])[0], np.ravel(sol.v["rail"])[0])
    np.testing.assert_allclose(first, [where, speed], atol=1e-12)


def test_a_table_that_does_not_hold_the_start_is_named():
    times = np.linspace(2.0, 6.0, 9)
    model = crane(TableSpec(times, np.sin(times)[:, None])).compile()
    with pytest.raises(AssemblyError, match="inputs/rail/motion: found a table from 2 to 6 s, wanted one .* at 1 s"):
        model.initial_state(1.0)


@pytest.mark.parametrize("formulation", ["tree", "absolute"])
def test_a_model_in_single_precision_has_no_other(formulation):
    settings = {"t1": 0.02, "save_every": 0.01, "dt": 0.01, "solver": "rk4", "formulation": formulation}
    run = lambda model: jmbs.simulate(model, **settings, throw=False)  # noqa: E731
    shapes = jax.eval_shape(run, crane().compile(dtype="float32"))
    arrays = [leaf for leaf in jax.tree.leaves(shapes) if jnp.issubdtype(leaf.dtype, jnp.floating)]
    assert arrays and {leaf.dtype for leaf in arrays} == {np.dtype("float32")}


def test_the_force_is_what_the_momentum_asks_for(model, state):
    """The trolley accelerates as told; the drive's force and friction change the momentum of both bodies along x."""
    rates = quick_jit(lambda m, s: m.dynamics(0.0, s))(model, state)
    plan, speed = model.dae.plan, 1.5 * np.cos(PHASE)
    trolley, bob = (np.asarray(rates.velocity)[plan.slots[f"{body}/p"]][3:] for body in ("trolley", "bob"))
    np.testing.assert_allclose(trolley[0] / TROLLEY, -4.5 * np.sin(PHASE), atol=1e-10)
    # The bob does not turn, and its momentum is in its own axes.
    along = trolley[0] + np.cos(0.3) * bob[0] + np.sin(0.3) * bob[2]
    batch, member = plan.member_of["rail/motion"]
    force = rates.multipliers[plan.batches[batch].multipliers[member]][0]
    np.testing.assert_allclose(force - FRICTION * speed, along, atol=1e-10)
    np.testing.assert_allclose(rates.power.supplied, force * speed, rtol=1e-12)


@pytest.mark.slow
def test_both_formulations_hold_it_and_agree(run):
    """Without drift; the drive's force is what changes the momentum, and its work leaves nothing unexplained."""
    tree, absolute = (quick_jit(lambda f=f: run(formulation=f))() for f in ("tree", "absolute"))
    for sol in (tree, absolute):
        t = np.asarray(sol.ts)
        np.testing.assert_allclose(sol.q["rail"][:, 0], 0.5 * np.sin(3 * t + PHASE) + 0.2, atol=1e-12)
        np.testing.assert_allclose(sol.v["rail"][:, 0], 1.5 * np.cos(3 * t + PHASE), atol=1e-12)
        assert np.max(np.abs(sol.first_law_residual)) < 1e-7
    np.testing.assert_allclose(tree.q["hinge"], absolute.q["hinge"], atol=1e-8)
    np.testing.assert_allclose(tree.multipliers["rail/motion"], absolute.multipliers["rail/motion"], atol=1e-6)
    momentum = TROLLEY * tree.velocity["trolley"][:, 0] + BOB * tree.velocity["bob"][:, 0]
    drag, force = FRICTION * tree.v["rail"][:, 0], tree.multipliers["rail/motion"][:, 0]
    np.testing.assert_allclose(np.gradient(momentum, tree.ts)[1], (force - drag)[1], rtol=0.05)
    assert tree.labels.constraints == (("rail/motion", ("force",)),)


@pytest.mark.slow
def test_reverse_gradients_pass_through_its_parameters(run):
    angle = lambda amplitude: run(amplitude, audit=False).q["hinge"][-1, 0]  # noqa: E731
    both, h = quick_jit(jax.value_and_grad(angle)), 1e-4
    at = [both(jnp.asarray(amplitude)) for amplitude in (0.5, 0.5 + h, 0.5 - h)]
    np.testing.assert_allclose(at[0][1], (at[1][0] - at[2][0]) / (2 * h), rtol=1e-5)


@pytest.mark.slow
def test_a_table_turns_the_crank_of_a_closed_loop(tmp_path: Path):
    """A slider-crank with redundant joints has nothing left free; its slider is where geometry says."""
    shutil.copy(CONFIGS / "slider_crank.yaml", tmp_path)
    t = np.linspace(0, 0.5, 11)
    rows = np.stack([t, 20 * t + 3 * t**3], axis=1)
    np.savetxt(tmp_path / "turn.csv", rows, fmt="%.17g", delimiter=",", header="t,phi", comments="")
    changes = ["joints.bearing.motion={table: turn.csv, columns: [phi]}", "simulation.t1=0.4"]
    m = load(tmp_path / "slider_crank.yaml", changes)
    m.initial_joints.clear()
    sol = quick_jit(lambda m: jmbs.simulate(m, t1=0.4, save_every=0.1, solver="rk4", dt=5e-3, throw=False))(m.compile())
    phi = 20 * sol.ts + 3 * sol.ts**3
    np.testing.assert_allclose(sol.q["bearing"][:, 0], phi, atol=1e-10)
    place = 0.15 * np.cos(phi) + np.sqrt(0.4**2 - (0.15 * np.sin(phi)) ** 2)
    np.testing.assert_allclose(sol.position["slider"][:, 0], place, atol=1e-6)
    assert np.max(np.abs(sol.first_law_residual)) < 1e-4


@pytest.mark.slow
def test_several_coordinates_and_joints_of_added_systems_move_as_told():
    inner, outer = Mechanism("inner"), Mechanism("outer")
    for m in (inner, outer):
        m.add_body("b", mass=1.0, inertia=[0.1, 0.1, 0.1])
    motion = lambda t: jnp.stack([2 * t + 1, t**2])  # noqa: E731
    inner.add_joint("c", "cylindrical", "ground", "b", None, [0.1, 0, 0], axis=[0, 1, 0], motion=motion)
    outer.add_joint("h", "revolute", "ground", "b", None, [0.1, 0, 0], axis=[1, 0, 0], motion=0.4)
    outer.add_system("arm", inner.system())
    model = outer.compile()
    state = model.initial_state()
    np.testing.assert_allclose(state["arm/c/q_r"], [1.0, 0.0], atol=1e-15)
    np.testing.assert_allclose(state["h/q_r"], [0.4], atol=1e-15)
    rates = dict(zip(model.velocity_names, np.asarray(forward_dynamics(model, state)), strict=True))
    assert rates == pytest.approx({("arm/c", "rate"): 0.0, ("arm/c", "speed"): 2.0, ("h", "rate"): 0.0}, abs=1e-12)
    names = {constraint.name: constraint.multipliers for constraint in model.layout.parts.constraints}
    assert names == {"h/motion": ("torque",), "arm/c/motion": ("torque_angle", "force_travel")}
    assert jmbs.simulation.inputs.with_inputs(model, {"h/motion": lambda t: t}).tree is not None


def test_a_spline_is_twice_differentiable_and_ends_with_its_table():
    """It goes through the rows, gives cubics exactly, and its rate, the drive's effort, is that of the motion."""
    times = np.array([0.0, 0.3, 0.5, 1.1, 1.4])
    cubic = lambda t: np.stack([t**3 - 2 * t, 4 - t**2], axis=-1)  # noqa: E731
    drive = MotionDrive(SplineMotion.through(times, cubic(times)), 2)
    all_of = quick_jit(jax.vmap(lambda t: (drive.target(t), drive.effort(t), jax.jacfwd(drive.effort)(t))))
    t = np.linspace(0.0, 1.4, 29)
    places, rates, accelerations = all_of(t)
    np.testing.assert_allclose(places, cubic(t), atol=1e-13)
    np.testing.assert_allclose(rates, np.stack([3 * t**2 - 2, -2 * t], axis=-1), atol=1e-12)
    np.testing.assert_allclose(accelerations, np.stack([6 * t, -2 + 0 * t], axis=-1), atol=1e-11)
    wild = MotionDrive(SplineMotion.through(times, np.array([1.0, -2.0, 4.0, 0.0, 7.0])[:, None]), 1)
    step = 1e-9
    curved = quick_jit(lambda t: jax.vmap(jax.jacfwd(wild.effort))(t))
    np.testing.assert_allclose(curved(times[1:-1] - step), curved(times[1:-1] + step), rtol=1e-5)
    assert np.isnan(all_of(t + 0.1)[0][-1]).all()


def test_it_replaces_and_is_replaced_as_an_input(model):
    """By numbers, tables, functions; each of them says positions."""
    times = np.linspace(0.0, 1.0, 5)
    for value in (0.7, (times, 0.7 + times), TableSpec(times, 0.7 + times), lambda t: 0.7 + t):
        drive = jmbs.simulation.inputs.with_inputs(model, {"rail/motion": value}).dae.drives["rail/motion"]
        np.testing.assert_allclose(drive.target(jnp.asarray(0.0)), [0.7], atol=1e-12)
    with pytest.raises(ModelError, match="inputs/rail/motion: found .* wanted 1 column"):
        jmbs.simulation.inputs.with_inputs(model, {"rail/motion": TableSpec(times, np.ones((5, 2)))})


def test_parameters():
    assert "rail/motion/amplitude" in crane().compile().parameters()
    held = crane(0.3).compile()
    assert held.parameters()["rail/motion"] == {"value": jnp.array([0.3]), "unit": "rad or m", "shape": (1,)}
    drive = held.with_parameters({"rail/motion": 0.4}).dae.drives["rail/motion"]
    np.testing.assert_allclose(drive.target(jnp.asarray(0.0)), [0.4])


def test_it_reads_back(tmp_path: Path):
    (tmp_path / "swings.py").write_text("class Slow:\n    def __call__(self, t):\n        return 0.1 * t\n")
    times = np.linspace(0.0, 1.0, 4)
    write_config(crane(TableSpec(times, np.sin(times))), tmp_path / "crane.yaml")
    read = load(tmp_path / "crane.yaml").joints["rail"].prescribed
    np.testing.assert_allclose(read.values[:, 0], np.sin(times))
    named = load(tmp_path / "crane.yaml", ["joints.rail.motion={type: 'swings:Slow'}"])
    write_config(named, tmp_path / "again.yaml")
    assert load(tmp_path / "again.yaml").joints["rail"].prescribed(2.0) == 0.2
    write_config(crane(0.3), tmp_path / "held.yaml")
    np.testing.assert_allclose(load(tmp_path / "held.yaml").joints["rail"].prescribed, [0.3])
    with pytest.raises(ModelError, match="joints/rail/motion: found times 0 to 1 s .* covers the simulated"):
        load(tmp_path / "crane.yaml", ["simulation={t1: 2.0}"])


@pytest.mark.parametrize(
    "type, motion, message",
    [
        ("spherical", [0.0, 0.0, 0.0], "joints/j/motion: found one of a spherical joint, wanted a joint whose"),
        ("fixed", 0.0, "joints/j/motion: found one on a fixed joint, wanted no motion"),
        ("cylindrical", [0.0, 0.0, 0.0], "joints/j/motion: found [0.0, 0.0, 0.0], wanted a number or 2 numbers"),
        ("revolute", lambda t: jnp.stack([t, t]), "joints/j/motion: found a function with values of shape (2,)"),
        ("revolute", lambda t: np.sin(t), "joints/j/motion: found a function that cannot be evaluated"),
        ("revolute", "fast", "joints/j/motion: found 'fast', wanted a number"),
    ],
)
def test_refusals(type, motion, message):
    m = Mechanism()
    m.add_body("b", mass=1.0, inertia=[1, 1, 1])
    with pytest.raises(ModelError) as caught:
        m.add_joint("j", type, "ground", "b", motion=motion)
        m.validate()
    assert str(caught.value).startswith(message)


def test_what_contradicts_it_is_named():
    """A given coordinate that is elsewhere."""
    m = crane()
    m.set_initial(joints={"rail": {"q": [0.5]}})
    with pytest.raises(
        jmbs.errors.AssemblyError, match=r"joints/rail/motion: .* one of initial/joints/rail/q left out"
    ):
        m.compile().initial_state()
