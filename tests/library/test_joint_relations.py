"""Linear relations of several joints: a wrist differential in both formulations, what is given, files, refusals."""

from __future__ import annotations

import functools
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from quick import forward_dynamics, quick_jit

import jmbs
from jmbs import Mechanism, load
from jmbs.errors import ModelError
from jmbs.io import write_config

JOINTS = {"wrist": [2.0, 2.0], "left": -0.5}
OFFSET = 0.1


def wrist() -> Mechanism:
    """Two motors turn a hand about two axes, each by a sum of both angles; the centre of mass is off the axes."""
    m = Mechanism("wrist")
    m.add_body("hand", mass=1.0, inertia=[0.02, 0.03, 0.025])
    m.add_joint("wrist", "universal", "ground", "hand", None, [-0.1, 0.02, 0], axis=[0, 1, 0], axis2=[1, 0, 0])
    for side in ("left", "right"):
        m.add_body(f"{side}_rotor", mass=0.2, inertia=[0.001, 0.002, 0.001])
        m.add_joint(side, "revolute", "ground", f"{side}_rotor", axis=[0, 1, 0])
    m.add_constraint("first", "gear", joints=JOINTS, offset=OFFSET)
    m.add_constraint("second", "gear", joints={"right": 0.5, "wrist": [-2.0, 2.0]})
    m.set_initial(joints={"wrist": {"q": [0.3, -0.4], "v": [1.0, 2.0]}})
    return m


@pytest.fixture(scope="module")
def model():
    return wrist().compile()


@pytest.fixture(scope="module")
def state(model):
    return model.initial_state()


@pytest.fixture(scope="module")
def run(model, state):
    """A function of coefficients and formulation."""

    def of(coefficients=None, formulation="tree", audit=False):
        changed = model if coefficients is None else model.with_parameters({"first/coefficients": coefficients})
        settings = {"t1": 0.1, "save_every": 0.05, "solver": "rk4", "dt": 2.5e-3, "throw": False}
        return jmbs.simulate(changed, state, formulation=formulation, audit=audit, **settings)

    return of


def sums(joints: dict[str, list[float]], values) -> np.ndarray:
    return sum(np.asarray(values[name]) @ np.atleast_1d(own) for name, own in joints.items())


def test_accelerations_and_forces_are_those_of_the_relations(model, state):
    """`C dv = 0`, and what the motion needs beside other forces is `C^T lambda`."""
    both = quick_jit(lambda m, s: (dv := m.forward_dynamics(0.0, s), m.inverse_dynamics(0.0, s, dv)))
    dv, forces = both(model, state)
    numbers = {"wrist": [], "left": [], "right": []}
    for place, (joint, _) in enumerate(model.velocity_names):
        numbers[joint].append(place)
    rows = np.zeros((2, len(dv)))
    for row, joints in zip(rows, (JOINTS, {"right": 0.5, "wrist": [-2.0, 2.0]}), strict=True):
        for name, own in joints.items():
            row[numbers[name]] = own
    assert np.max(np.abs(dv)) > 1.0
    np.testing.assert_allclose(rows @ dv, 0.0, atol=1e-10)
    multipliers = np.linalg.lstsq(rows.T, forces)[0]
    assert np.min(np.abs(multipliers)) > 1e-3
    np.testing.assert_allclose(rows.T @ multipliers, forces, atol=1e-12)


@pytest.mark.slow
def test_both_formulations_agree_and_keep_energy_and_relations(run):
    tree, absolute = (quick_jit(functools.partial(run, formulation=f, audit=True))() for f in ("tree", "absolute"))
    assert np.ptp(np.asarray(tree.q["left"])) > 0.1
    np.testing.assert_allclose(sums(JOINTS, tree.q), OFFSET, atol=1e-12)
    np.testing.assert_allclose(sums(JOINTS, tree.v), 0.0, atol=1e-12)
    for name in tree.q:
        np.testing.assert_allclose(tree.q[name], absolute.q[name], atol=1e-7)
    for name in tree.multipliers:
        np.testing.assert_allclose(tree.multipliers[name], absolute.multipliers[name], atol=1e-6)
    assert np.max(np.abs(tree.first_law_residual)) < 1e-6
    assert np.ptp(np.asarray(tree.total)) < 1e-6


@pytest.mark.slow
def test_beside_other_components_they_say_the_same(model, state):
    """A load that does nothing; a gear by ratio stands among the relations."""
    loaded = wrist()
    loaded.add_load("nothing", "hand", force=[0, 0, 0])
    rates = [forward_dynamics(m, m.initial_state()) for m in (model, loaded.compile())]
    np.testing.assert_allclose(*rates, atol=1e-11)


@pytest.mark.slow
def test_a_relation_of_two_is_a_gear_and_both_stand_side_by_side():
    """Relations of different sizes and gears by ratio make one set of rows."""

    def train(**gear) -> Mechanism:
        m = wrist()
        m.add_body("wheel", mass=1.0, inertia=[0.1, 0.2, 0.1])
        m.add_joint("wheel_axle", "revolute", "ground", "wheel", axis=[0, 1, 0])
        m.add_constraint("mesh", "gear", **gear)
        return m

    by_ratio = train(joint="wheel_axle", driver="left", ratio=-0.3, offset=0.2).compile()
    by_sum = train(joints={"wheel_axle": 2.0, "left": 0.6}, offset=0.4).compile()
    state = by_ratio.initial_state()
    np.testing.assert_allclose(jax.tree.leaves(by_sum.initial_state())[0], jax.tree.leaves(state)[0], atol=1e-12)
    rates = [forward_dynamics(m, state) for m in (by_ratio, by_sum)]
    np.testing.assert_allclose(*rates, atol=1e-11)


@pytest.mark.slow
def test_gradients_pass_through_coefficients(run):
    angle = lambda c: run(c).q["wrist"][-1, 0]  # noqa: E731
    both = quick_jit(jax.value_and_grad(angle))
    given, h = jnp.array([2.0, 2.0, -0.5]), 1e-4
    for direction in np.eye(3)[1:]:
        wanted = (both(given + h * direction)[0] - both(given - h * direction)[0]) / (2 * h)
        np.testing.assert_allclose(both(given)[1] @ direction, wanted, rtol=1e-5)


def test_it_starts_from_what_is_given(model, state):
    """A motor's angle far beyond what steps of assembly reach follows at once; the other one's follows too."""
    q = {name: np.asarray(state[f"{name}/q_r"]) for name in ("wrist", "left", "right")}
    np.testing.assert_allclose(q["wrist"], [0.3, -0.4], atol=0)
    np.testing.assert_allclose(q["left"], [(2 * (0.3 - 0.4) - OFFSET) / 0.5], atol=1e-14)
    far = model.with_parameters({"first/coefficients": [2.0, 2.0, -1e-3]}).initial_state()
    np.testing.assert_allclose(far["left/q_r"], [(2 * (0.3 - 0.4) - OFFSET) / 1e-3], rtol=1e-12)


def test_it_is_described(model):
    assert "constraint first: 1 rows, 2 wrist/angle1 + 2 wrist/angle2 - 0.5 left/angle = 0.1" in model.describe()


def test_it_reads_back(tmp_path: Path):
    write_config(wrist(), tmp_path / "wrist.yaml")
    gear = load(tmp_path / "wrist.yaml").gears["first"]
    assert {name: list(own) for name, own in gear.joints.items()} == {"wrist": [2.0, 2.0], "left": [-0.5]}
    assert gear.offset == OFFSET
    text = (tmp_path / "wrist.yaml").read_text()
    (tmp_path / "twice.yaml").write_text(text.replace("left: -0.5", "left: -0.5\n      left: 0.5"))
    with pytest.raises(ModelError, match="left"):
        load(tmp_path / "twice.yaml")


@pytest.mark.parametrize(
    "gear, message",
    [
        ({"joints": {"left": 1.0}}, "constraints/g/joints: found {'left': 1.0}, wanted at least two joints"),
        ({"joints": ["left", "right"]}, "constraints/g/joints: found ['left', 'right'], wanted at least two joints"),
        ({"joints": {"left": 1.0, "rigt": 1.0}}, "constraints/g/joints/rigt: found 'rigt', wanted the name of a joint"),
        ({"joints": {"left": 0.0, "right": 0.0}}, "constraints/g/joints: found [0.0, 0.0], wanted finite numbers, not"),
        ({"joints": {"left": 1.0, "wrist": 1.0}}, "constraints/g/joints/wrist: found 1.0, wanted 2 numbers, one for"),
        ({"joints": {"left": "x", "right": 1.0}}, "constraints/g/joints/left: found 'x', wanted a coefficient"),
        ({"joints": {"left": 1.0, "ball": 1.0}}, "constraints/g/joints/ball: found ball, a spherical joint"),
        ({"joints": {"left": 1.0, "right": 1.0}, "ratio": 2.0}, "constraints/g/ratio: found 2.0, wanted no ratio"),
        ({"joints": {"left": 1.0, "right": 1.0}, "offset": "x"}, "constraints/g/offset: found 'x', wanted a finite"),
    ],
)
def test_refusals(gear, message):
    m = wrist()
    m.add_body("third", mass=1.0, inertia=[1, 1, 1])
    m.add_joint("ball", "spherical", "ground", "third")
    with pytest.raises(ModelError) as caught:
        m.add_constraint("g", "gear", **gear)
        m.validate()
    assert str(caught.value).startswith(message)


def test_coefficients_of_zero_are_refused_later_too(model):
    with pytest.raises(ModelError, match="first/coefficients: found .* wanted finite numbers, not all zero"):
        model.with_parameters({"first/coefficients": [0.0, 0.0, 0.0]})
