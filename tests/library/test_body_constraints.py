"""Constraints between two bodies: by a user's law, and rolling and sliding on surfaces of bodies that move."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from quick import dynamics, quick_jit

import jmbs
from jmbs.errors import ModelError
from jmbs.io import write_config


class Bar(eqx.Module):
    """A bar without mass between two points."""

    point: jax.Array
    length: float

    def gap(self, pose, other):
        end = pose[:, :3] @ self.point + pose[:, 3]
        return jnp.linalg.norm(end - other[:, 3])[None] - self.length


class Skate(eqx.Module):
    """A body goes along an axis of another alone."""

    def rate(self, pose, velocity, other, other_velocity):
        return (other[:, :3].T @ pose[:, :3] @ velocity[3:])[:1]


def pair(**constraint: Any) -> jmbs.Mechanism:
    """Two bodies in motion under gravity, the second on a hinge."""
    mechanism = jmbs.Mechanism("pair")
    mechanism.add_body("a", mass=1.0, inertia=[0.1, 0.2, 0.25])
    mechanism.add_body("b", mass=2.0, inertia=[0.3, 0.2, 0.25])
    mechanism.add_joint("hinge", "revolute", "ground", "b", child_frame=[0.5, 0, 0], axis=[0, 1, 0])
    mechanism.add_constraint("c", body="a", other="b", **constraint)
    mechanism.set_initial(
        joints={"hinge": {"v": [0.7]}},
        bodies={"a": {"position": [0.6, 0.2, 0.1], "angular_velocity": [1.0, -2.0, 0.5]}},
    )
    return mechanism


@pytest.fixture(scope="module")
def barred():
    return jmbs.compile(pair(type=Bar(jnp.asarray([0.1, 0.0, 0.2]), 1.2)))


@pytest.mark.slow
def test_a_law_holds_a_gap(barred):
    assert barred.tree is not None
    run = quick_jit(lambda m: jmbs.simulate(m, t1=0.3, save_every=0.1, dt=0.01, solver="rk4"))(barred)
    np.testing.assert_allclose(run.constraint_position["c"], 0.0, atol=1e-9)
    np.testing.assert_allclose(run.constraint_velocity["c"], 0.0, atol=1e-9)
    np.testing.assert_allclose(run.total, run.total[0], atol=1e-5)
    assert run.multipliers["c"].shape == (4, 1) and float(jnp.min(jnp.abs(run.multipliers["c"]))) > 0.1
    assert float(barred.parameters()["c/length"]["value"]) == 1.2


def cart(kind: str, **constraint: Any) -> jmbs.Model:
    """A cart that is pushed along x, 3 kg, and a body on it, 7 kg."""
    mechanism = jmbs.Mechanism("cart")
    mechanism.add_body("cart", mass=3.0, inertia=[1, 1, 1])
    mechanism.add_joint("rail", "prismatic", "ground", "cart", axis=[1, 0, 0], actuation=10.0)
    mechanism.add_body("ball", mass=7.0, inertia=[0.4 * 7.0 * 0.25] * 3)
    mechanism.add_constraint("deck", kind, "ball", **constraint)
    mechanism.set_initial(bodies={"ball": {"position": [0, 0, 0.7], "velocity": [0, 0, 0]}})
    return jmbs.compile(mechanism)


@pytest.fixture(scope="module")
def rolling():
    return cart("rolling", radius=0.5, plane={"body": "cart", "point": [0, 0, 0.2]})


@pytest.mark.slow
def test_a_ball_begins_to_roll_on_a_cart(rolling):
    """As below, at the instant of rest; nothing is supplied yet."""
    rates, plan = dynamics(rolling, 0.0, rolling.initial_state()), rolling.dae.plan
    a = 10.0 / (3.0 + 7.0 * 2 / 7)
    of = lambda body: np.asarray(rates.velocity[plan.slots[plan.junction_of[f"{body}/ke", "p"]]])  # noqa: E731
    np.testing.assert_allclose(of("cart")[3:], [3.0 * a, 0.0, 0.0], atol=1e-12)
    np.testing.assert_allclose(of("ball"), [0.0, -5 / 7 * a / 0.5 * 0.7, 0.0, 2.0 * a, 0.0, 0.0], atol=1e-12)
    for force in (2.0 * a, 7.0 * 9.80665):
        assert np.min(np.abs(np.abs(rates.multipliers) - force)) < 1e-11
    assert abs(float(rates.power.supplied)) < 1e-12


@pytest.mark.slow
def test_a_ball_rolls_on_a_cart(rolling):
    """A solid ball takes 2/7 of the cart's acceleration, `F = M a + m 2/7 a`; it turns as if it were left behind."""
    run = quick_jit(lambda m: jmbs.simulate(m, t1=0.2, save_every=0.1, dt=0.02, solver="rk4"))(rolling)
    a = 10.0 / (3.0 + 7.0 * 2 / 7)
    np.testing.assert_allclose(run.v["rail"][:, 0], a * run.ts, atol=1e-9)
    np.testing.assert_allclose(run.velocity["ball"][:, 0], 2 / 7 * a * run.ts, atol=1e-9)
    np.testing.assert_allclose(run.angular_velocity["ball"][:, 1], -5 / 7 * a / 0.5 * run.ts, atol=1e-9)
    np.testing.assert_allclose(run.first_law_residual, 0.0, atol=1e-8)
    forces = run.multipliers["deck"]
    np.testing.assert_allclose(forces[:, [0, 2]], [[2 * a, 7.0 * 9.80665]] * 3, atol=1e-6)
    assert [rows for name, rows in run.labels.constraints if name == "deck"] == [("force_x", "force_y", "force_normal")]
    assert {"deck/radius", "deck/plane/normal", "deck/plane/point"} <= rolling.parameters().keys()


def test_configs_and_back(tmp_path):
    config = tmp_path / "table.yaml"
    (tmp_path / "bonds_of_a_user.py").write_text(
        "import equinox as eqx\n"
        "class Tie(eqx.Module):\n"
        "    length: float = 1.0\n"
        "    def gap(self, pose, other):\n"
        "        return pose[:, 3] - other[:, 3] - self.length\n"
    )
    config.write_text("""
schema: jmbs/1
bodies: {table: {mass: 1.0, inertia: [1, 1, 1]}, ball: {mass: 1.0, inertia: [1, 1, 1]}}
constraints:
  roll: {type: rolling, body: ball, radius: 0.1, plane: {body: table, normal: [0, 1, 0]}}
  edge: {type: no_slide, body: ball, direction: [1, 0, 0], frame: other, relative_to: {body: table}}
  tie: {type: bonds_of_a_user:Tie, parameters: {length: 2.0}, body: ball, other: table}
""")
    mechanism = jmbs.load(config)
    written = tmp_path / "again.yaml"
    write_config(mechanism, written)
    for bonds in (mechanism.body_constraints, jmbs.load(written).body_constraints):
        assert [(bond.type, bond.body, bond.other) for bond in bonds.values()] == [
            ("rolling", "ball", "table"),
            ("no_slide", "ball", "table"),
            ("Tie", "ball", "table"),
        ]
        assert bonds["tie"].laws[""][0].length == 2.0 and bonds["edge"].laws[""][0].frame == "other"
        np.testing.assert_allclose(bonds["roll"].laws["slip"][0].roller.normal, [0, 1, 0])


class Affine(eqx.Module):
    def rate(self, pose, velocity, other, other_velocity):
        return velocity[:1] - 1.0


class Scalar(eqx.Module):
    def gap(self, pose, other):
        return pose[0, 3]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"type": Affine()}, "constraints/c/type: found a rate that is not linear in the velocities"),
        ({"type": Scalar()}, r"constraints/c/type: found values of shape \(\), wanted a law with values \(m,\)"),
        ({"type": 3.0}, "constraints/c/type: found 3.0, wanted a module with gap"),
        ({"type": Skate(), "length": 2.0}, "constraints/c/length: "),
    ],
)
def test_what_is_refused(given, message):
    with pytest.raises(ModelError, match=message):
        pair(**given)


def test_bodies_are_looked_for():
    mechanism = pair(type=Skate())
    mechanism.add_constraint("d", "rolling", "a", radius=1.0, plane={"body": "bb"})
    with pytest.raises(ModelError, match="constraints/d/plane/body: found 'bb', wanted the name of a body"):
        mechanism.validate()
    with pytest.raises(ModelError, match=r"constraints/e/plane/velocity: .*wanted none: b moves itself"):
        mechanism.add_constraint("e", "rolling", "a", radius=1.0, plane={"body": "b", "velocity": [0, 0, 0]})
    with pytest.raises(ModelError, match="constraints/f/other: found a, wanted another body"):
        mechanism.add_constraint("f", Skate(), "a", other="a")


def test_a_particle_is_not_turned():
    mechanism = pair(type=Skate())
    mechanism.add_body("p", mass=1.0, kind="particle")
    mechanism.add_constraint("bar", Bar(jnp.asarray([0.1, 0.0, 0.0]), 1.0), "p", other="b")
    with pytest.raises(ModelError, match="constraints/bar: found a Bar constraint that restrains the rotation"):
        mechanism.validate()
