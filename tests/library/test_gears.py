"""Gears between joints: what they do to two wheels, to a rack, in both formulations, in files; what they refuse."""

from __future__ import annotations

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from quick import forward_dynamics, quick_jit

import jmbs
from jmbs import Mechanism, load
from jmbs.errors import AssemblyError, ModelError
from jmbs.io import write_config
from jmbs.library.mechanics import Gear
from jmbs.simulation.assembly import assemble
from jmbs.simulation.tree_assembly import follows_from_joints

RATIO = -0.4


def wheels(**gear) -> Mechanism:
    """Two wheels about parallel axles, the first of them driven; the second one's centre of mass is off its axle."""
    m = Mechanism("wheels")
    m.add_body("small", mass=1.0, inertia=[0.1, 0.1, 0.2])
    m.add_body("large", mass=2.0, inertia=[0.4, 0.4, 0.7])
    m.add_joint("input", "revolute", "ground", "small", axis=[0, 1, 0], actuation=0.5, friction={"viscous": 0.05})
    m.add_joint("output", "revolute", "ground", "large", [1, 0, 0], [0.1, 0, 0.2], axis=[0, 1, 0])
    m.add_constraint("mesh", "gear", joint="output", driver="input", **({"ratio": RATIO, "offset": 0.3} | gear))
    return m


def rack() -> Mechanism:
    """A pinion on a swinging arm, that moves a rack in a cylindrical joint of the arm, by the joint's second motion."""
    m = Mechanism("rack")
    for name, mass in (("arm", 3.0), ("pinion", 1.0), ("rod", 0.5)):
        m.add_body(name, mass=mass, inertia=[0.2, 0.3, 0.25])
    m.add_joint("hinge", "revolute", "ground", "arm", child_frame={"position": [0, 0, 0.5]}, axis=[1, 0.2, 0])
    m.add_joint("axle", "revolute", "arm", "pinion", [0.1, 0, -0.2], [0.03, 0, 0.01], axis=[0, 1, 0])
    m.add_joint("guide", "cylindrical", "arm", "rod", [0.1, 0, -0.3], [0, 0.02, 0], axis=[1, 0, 0])
    m.add_constraint("mesh", "gear", joint="guide", coordinate=1, driver="axle", ratio=0.1)
    m.set_initial(joints={"axle": {"q": [0.4], "v": [3.0]}, "hinge": {"q": [0.7]}})
    return m


def test_wheels_turn_as_one_mass():
    """`J q'' = tau + ratio tau_2` with `J = J_1 + ratio^2 J_2`; the multiplier is the torque on the second wheel."""
    model = wheels().compile()
    state = model.initial_state()
    sol = jmbs.simulate(model, state, t1=0.2, save_every=0.1, solver="rk4", dt=0.01)
    q1, q2, v1, v2 = sol.q["input"], sol.q["output"], sol.v["input"], sol.v["output"]
    np.testing.assert_allclose(q2, RATIO * q1 + 0.3, atol=1e-12)
    np.testing.assert_allclose(v2, RATIO * v1, atol=1e-12)
    inertia, arm = 0.4 + 2.0 * (0.1**2 + 0.2**2), np.array([-0.1, 0.0, -0.2])
    cos, sin = np.cos(q2[:, 0]), np.sin(q2[:, 0])
    # Of a force (0, 0, -m g) at x the torque about y is m g x.
    weight = 2.0 * 9.80665 * (cos * arm[0] + sin * arm[2])
    rate = (0.5 - 0.05 * v1[:, 0] + RATIO * weight) / (0.1 + RATIO**2 * inertia)
    np.testing.assert_allclose(sol.multipliers["mesh"][:, 0], inertia * RATIO * rate - weight, rtol=1e-9)
    assert np.max(np.abs(sol.first_law_residual)) < 1e-7
    assert {"mesh/ratio", "mesh/offset"} <= set(model.parameters())


@pytest.mark.slow
def test_both_formulations_agree():
    """Motion and multipliers, and energy is kept."""
    model = rack().compile()
    state = model.initial_state()
    runs = {}
    for formulation in ("tree", "absolute"):
        run = quick_jit(lambda f=formulation: jmbs.simulate(model, state, t1=0.3, save_every=0.1, formulation=f))
        runs[formulation] = run()
    tree, absolute = runs["tree"], runs["absolute"]
    np.testing.assert_allclose(tree.q["guide"][:, 1], 0.1 * tree.q["axle"][:, 0], atol=1e-12)
    for name in tree.q:
        np.testing.assert_allclose(tree.q[name], absolute.q[name], atol=1e-7)
    np.testing.assert_allclose(tree.multipliers["mesh"], absolute.multipliers["mesh"], atol=1e-6)
    assert np.ptp(np.asarray(tree.total)) < 1e-6


@pytest.mark.slow
def test_beside_other_components_they_say_the_same():
    """A load that does nothing."""
    loaded = rack()
    loaded.add_load("nothing", "rod", force=[0, 0, 0])
    short, general = rack().compile(), loaded.compile()
    rates = [forward_dynamics(model, model.initial_state()) for model in (short, general)]
    np.testing.assert_allclose(*rates, atol=1e-11)


@pytest.mark.slow
def test_gradients_pass_through_a_gear():
    model, ts = wheels().compile(), jnp.array([0.0, 0.2])

    def angle(ratio):
        changed = model.with_parameters({"mesh/ratio": ratio})
        return jmbs.simulate(changed, ts=ts, t1=0.2, solver="rk4", dt=0.02).q["input"][-1, 0]

    ratio, h = jnp.asarray(RATIO), 1e-4
    both = quick_jit(jax.value_and_grad(angle))
    wanted = (both(ratio + h)[0] - both(ratio - h)[0]) / (2 * h)
    np.testing.assert_allclose(both(ratio)[1], wanted, rtol=1e-6)


@pytest.mark.parametrize(
    "given, wanted",
    [
        pytest.param({}, [0.0, 0.3, 0.9], marks=pytest.mark.slow),
        ({"input": 0.5}, [0.5, 0.1, 0.5]),
        pytest.param({"output": 0.1}, [0.5, 0.1, 0.5], marks=pytest.mark.slow),
        pytest.param({"last": 0.5}, [0.5, 0.1, 0.5], marks=pytest.mark.slow),
    ],
)
def test_a_train_starts_from_what_is_given(given, wanted):
    m = wheels()
    m.add_body("third", mass=1.0, inertia=[1, 1, 1])
    m.add_joint("last", "prismatic", "large", "third", axis=[1, 0, 0])
    m.add_constraint("rail", "gear", joint="last", driver="output", ratio=2.0, offset=0.3)
    m.set_initial(joints={name: {"q": [value]} for name, value in given.items()})
    state = m.compile().initial_state()
    q = [float(state.blocks[i][k, 0]) for name in ("input", "output", "last") for i, k in [_place(state, name)]]
    np.testing.assert_allclose(q, wanted, atol=1e-14)


@pytest.mark.slow
def test_what_no_gear_moves_stays():
    m = rack()
    m.set_initial(joints={"axle": {"q": [0.4]}})
    sol = jmbs.simulate(m.compile(), t1=0.01, save_every=0.01)
    np.testing.assert_allclose(sol.q["guide"][0], [0.0, 0.04], atol=1e-14)


GIVEN = [
    pytest.param(wheels, {}, marks=pytest.mark.slow),
    pytest.param(wheels, {"joints": {"output": {"q": [0.4], "v": [2.0]}}}, marks=pytest.mark.slow),
    pytest.param(wheels, {"joints": {"input": {"v": [2.0]}}}, marks=pytest.mark.slow),
    (rack, {}),
    pytest.param(rack, {"joints": {"hinge": {"q": [0.3], "v": [0.5]}}}, marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("mechanism", "given"), GIVEN)
def test_starts_without_a_solve_are_those_of_the_general_assembly(mechanism, given, monkeypatch):
    m = mechanism()
    m.set_initial(**given)
    model = m.compile()
    ratio = jnp.asarray(m.gears["mesh"].ratio)

    def start(ratio):
        state, misses = assemble(model.with_parameters({"mesh/ratio": ratio}), jnp.zeros(()))
        return state.blocks, misses

    def both():
        (blocks, misses), (change, _) = quick_jit(lambda r: jax.jvp(start, (r,), (jnp.ones(()),)))(ratio)
        return blocks, change, misses

    assert follows_from_joints(model)
    *found, misses = both()
    monkeypatch.setattr("jmbs.simulation.assembly.follows_from_joints", lambda model: False)
    *wanted, _ = both()
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-12)
    assert set(misses.sizes) == {"mesh"}
    np.testing.assert_allclose(jax.tree.leaves(misses.sizes), 0.0, atol=1e-15)


def test_a_ratio_of_zero_that_cannot_hold_is_named():
    m = wheels(ratio=0.0)
    m.set_initial(joints={"output": {"q": [0.5]}})
    assert follows_from_joints(m.compile())
    with pytest.raises(AssemblyError, match=r"^mesh: .* misses by 0\.2 rad"):
        m.compile().initial_state()


def test_values_that_are_given_later_count():
    """As parameters, which sweeps and fits change."""
    model = wheels().compile().with_parameters({"initial/output/v": [2.0], "initial/output/q": [0.1]})
    assert follows_from_joints(model)
    view = model.view(model.initial_state())
    np.testing.assert_allclose([float(view.q["input"][0]), float(view.q["output"][0])], [0.5, 0.1], atol=1e-14)
    np.testing.assert_allclose([float(view.v["input"][0]), float(view.v["output"][0])], [-5.0, 2.0], atol=1e-14)


def test_what_leaves_rates_free_is_for_the_general_assembly():
    """Rates that nobody gave are as small as possible, here in the sense of least squares."""
    m = wheels()
    for name in ("third", "fourth"):
        m.add_body(name, mass=1.0, inertia=[1.0, 1.0, 1.0])
        m.add_joint(f"{name}_shaft", "revolute", "ground", name, axis=[0, 1, 0])
    joints = {"output": [1.0], "third_shaft": [1.0], "fourth_shaft": [1.0]}
    m.add_constraint("sum", "gear", joints=joints)
    m.set_initial(joints={"third_shaft": {"q": [0.2]}})
    assert follows_from_joints(m.compile())  # at rest
    m.set_initial(joints={"third_shaft": {"q": [0.2], "v": [1.0]}})
    assert not follows_from_joints(m.compile())


def test_a_relation_of_a_joint_with_two_coordinates_is_for_the_general_assembly():
    m = rack()
    m.add_constraint("sum", "gear", joints={"guide": [1.0, 0.5], "hinge": [-2.0]})
    assert not follows_from_joints(m.compile())


def test_a_gear_to_something_that_is_no_joint():
    """To a speed that a drive prescribes."""
    m = jmbs.Mechanism("driven")
    m.add_body("wheel", mass=1.0, inertia=[0.1, 0.1, 0.2])
    m.add_joint("axle", "revolute", "ground", "wheel", axis=[0, 1, 0])
    m.add_spring_damper("tie", "ground", "wheel", [0.5, 0, 0], [0, 0, 0.1], stiffness=1.0, damping=0.1)
    m.add_system("mesh", Gear(jnp.asarray(2.0), jnp.asarray(0.0), (0, 0), (1, 1)))
    m.connect("shaft", ["mesh.p_joint", "axle.p_r"])
    m.connect("spin", ["mesh.p_driver"], effort=2.0)
    model = m.compile()
    assert model.tree is None or model.tree.only_gears is None


@pytest.mark.parametrize("more", [{"input": {"q": [0.5]}, "output": {"q": [0.1]}}, {"output": {"v": [0.1]}}])
def test_what_is_given_twice_is_for_the_general_assembly(more):
    m = wheels()
    m.set_initial(joints={"input": {"v": [1.0]}} | more)
    assert not follows_from_joints(m.compile())


def _place(state, joint: str) -> tuple[int, int]:
    """Block and row of a joint's coordinates."""
    return next((i, names.index(f"{joint}/q_r")) for i, names in enumerate(state.names) if f"{joint}/q_r" in names)


def test_it_reads_back(tmp_path: Path):
    write_config(rack(), tmp_path / "rack.yaml")
    gear = load(tmp_path / "rack.yaml").gears["mesh"]
    assert (gear.joint, gear.coordinate, gear.driver, gear.ratio, gear.offset) == ("guide", 1, "axle", 0.1, 0.0)


def refused(m: Mechanism, **gear) -> str:
    with pytest.raises(ModelError) as caught:
        m.add_constraint("g", "gear", **gear)
        m.validate()
    return str(caught.value)


@pytest.mark.parametrize(
    "gear, message",
    [
        ({"joint": "input", "driver": "output"}, "constraints/g/ratio: found nothing, wanted the ratio"),
        ({"joint": "input", "driver": "input", "ratio": 1}, "constraints/g/driver: found 'input', wanted another"),
        ({"joint": "inpt", "driver": "output", "ratio": 1}, "constraints/g/joint: found 'inpt', wanted the name"),
        ({"joint": "input", "driver": "output", "ratio": "x"}, "constraints/g/ratio: found 'x', wanted a finite"),
        (
            {"joint": "input", "driver": "output", "ratio": 1, "coordinate": 1},
            "constraints/g/coordinate: found 1, wanted a coordinate of input, below 1",
        ),
        (
            {"joint": "input", "driver": "output", "ratio": 1, "driver_coordinate": -1},
            "constraints/g/driver_coordinate: found -1, wanted the number of a coordinate",
        ),
        ({"joint": "input", "driver": "output", "ratio": 1, "body": "small"}, "constraints/g/body: found 'small'"),
        ({"joint": "input", "driver": "ball", "ratio": 1}, "constraints/g/driver: found ball, a spherical joint"),
    ],
)
def test_refusals(gear, message):
    m = wheels()
    m.add_body("third", mass=1.0, inertia=[1, 1, 1])
    m.add_joint("ball", "spherical", "ground", "third")
    assert refused(m, **gear).startswith(message)


def test_a_gear_on_a_rotation_without_inertia_is_refused():
    m = wheels()
    m.add_body("rod", mass=1.0, inertia=[0.1, 0.0, 0.1], kind="rod")
    m.add_joint("spin", "revolute", "ground", "rod", axis=[0, 1, 0])
    assert "without inertia" in refused(m, joint="spin", driver="input", ratio=1.0)
