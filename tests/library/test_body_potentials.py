"""Potential energies of bodies by users' laws: in the tree, in loops, with parameters, in configs."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from quick import quick_jit

import jmbs
from jmbs.errors import ModelError
from jmbs.io import write_config


class Uniform(eqx.Module):
    """Weight, written anew."""

    weight: jax.Array

    def energy(self, pose):
        return -self.weight @ pose[:, 3]


class Magnet(eqx.Module):
    """A bar magnet on a body, in a field that weakens with height: acts on place and direction."""

    moment: jax.Array
    field: float = 3.0

    def energy(self, pose):
        return -self.field * (pose[:, :3] @ self.moment)[2] * jnp.exp(-pose[2, 3])


MAGNET = Magnet(jnp.asarray([0.3, 0.5, -0.2]))


def four_bar(gravity, potential) -> jmbs.Mechanism:
    """Links of 1, 2 and 2 m between hinges 2 m apart, moving; `potential` of the mass of a link."""
    mechanism = jmbs.Mechanism("four_bar", gravity=gravity)
    for name, mass in (("crank", 1.0), ("rod", 2.0), ("rocker", 3.0)):
        mechanism.add_body(name, mass=mass, inertia=[0.1 * mass] * 3, potential=potential(mass))
    hinge = {"axis": [0.0, 1.0, 0.0]}
    mechanism.add_joint("a", "revolute", "ground", "crank", child_frame=[0.5, 0, 0], **hinge)
    mechanism.add_joint("b", "revolute", "crank", "rod", [-0.5, 0, 0], [1, 0, 0], **hinge)
    mechanism.add_joint("c", "revolute", "rod", "rocker", [-1, 0, 0], [1, 0, 0], **hinge)
    mechanism.add_joint("d", "revolute", "ground", "rocker", [-2, 0, 0], [-1, 0, 0], **hinge)
    mechanism.set_initial(joints={"a": {"q": [1.0], "v": [2.0]}})
    return mechanism


@pytest.mark.slow
def test_weight_written_anew_moves_a_loop_as_weight_does():
    pull = jnp.asarray([0.5, 0.0, -9.0])
    usual = jmbs.compile(four_bar(pull, lambda mass: None))
    lawful = jmbs.compile(four_bar([0, 0, 0], lambda mass: Uniform(mass * pull)))
    assert lawful.tree is not None
    state = usual.initial_state()
    accelerations = [quick_jit(lambda m: m.forward_dynamics(0.0, state))(model) for model in (usual, lawful)]
    np.testing.assert_allclose(*accelerations, atol=1e-11)


@pytest.fixture(scope="module")
def swinging():
    mechanism = jmbs.Mechanism("chain")
    for name, parent, potential in (("upper", "ground", None), ("lower", "upper", MAGNET)):
        mechanism.add_body(name, mass=1.0, inertia=[0.1, 0.2, 0.15], potential=potential)
        mechanism.add_joint(f"{name}_ball", "spherical", parent, name, child_frame=[0.1, 0.0, 0.5])
    mechanism.set_initial(joints={"lower_ball": {"v": [1.0, 2.0, 0.5]}})
    return jmbs.compile(mechanism)


def test_the_account_holds_its_energy(swinging):
    run = quick_jit(lambda m: jmbs.simulate(m, t1=0.2, save_every=0.05, dt=0.01, solver="rk4"))(swinging)
    assert swinging.tree is not None and float(jnp.ptp(run.kinetic)) > 0.1
    np.testing.assert_allclose(run.total, run.total[0], atol=1e-6)
    weight = 9.80665 * sum(run.position[body][:, 2] for body in ("upper", "lower"))
    w, x, y, z = run.quaternion["lower"].T
    third = jnp.stack([2 * (x * z - w * y), 2 * (y * z + w * x), w * w - x * x - y * y + z * z], 1)
    magnetic = -3.0 * (third @ MAGNET.moment) * jnp.exp(-run.position["lower"][:, 2])
    np.testing.assert_allclose(run.potential, weight + magnetic, atol=1e-9)


@pytest.mark.slow
def test_its_arrays_are_parameters_with_gradients(swinging):
    assert {"lower/potential/moment", "lower/potential/field"} <= swinging.parameters().keys()
    state = swinging.initial_state()

    def spin(field):
        model = swinging.with_parameters({"lower/potential/field": field})
        return model.forward_dynamics(0.0, state) @ jnp.arange(6.0)

    slope, change = quick_jit(lambda f: (jax.grad(spin)(f), (spin(f + 1.0) - spin(f - 1.0)) / 2))(3.0)
    np.testing.assert_allclose(slope, change, rtol=1e-10)  # the force is linear in the field


MODULE = """
import equinox as eqx
class Well(eqx.Module):
    depth: float = 1.0
    def energy(self, pose):
        return -self.depth / (1 + (pose[:, 3] ** 2).sum())
"""


def test_potentials_in_configs(tmp_path):
    (tmp_path / "potentials_of_a_user.py").write_text(MODULE)
    config = tmp_path / "satellite.yaml"
    law = "{type: potentials_of_a_user:Well, parameters: {depth: 4.0}}"
    config.write_text(f"schema: jmbs/1\nbodies: {{b: {{mass: 1.0, inertia: [1, 1, 1], potential: {law}}}}}\n")
    mechanism = jmbs.load(config)
    assert mechanism.bodies["b"].potential.depth == 4.0
    written = tmp_path / "again.yaml"
    write_config(mechanism, written)
    assert jmbs.load(written).bodies["b"].potential.depth == 4.0
    config.write_text(config.read_text().replace(":Well", ":eqx"))
    with pytest.raises(ModelError, match=r"bodies/b/potential/type: .*a class with energy\(pose\)"):
        jmbs.load(config)


def test_what_is_no_law_is_refused():
    mechanism = jmbs.Mechanism("m")
    with pytest.raises(ModelError, match=r"bodies/b/potential: found 3, wanted a module with energy\(pose\), J"):
        mechanism.add_body("b", mass=1.0, inertia=[1, 1, 1], potential=3)
