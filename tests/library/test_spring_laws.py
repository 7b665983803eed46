"""Springs by users' laws: energies of modules, in the tree, with their arrays as parameters, in configs."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array
from quick import quick_jit

import jmbs
from jmbs.errors import ModelError
from jmbs.io import write_config
from jmbs.library.mechanics import array_fields
from jmbs.lie import Revolute, Rn


class Quadratic(eqx.Module):
    stiffness: Array
    rest: float = 0.2

    def energy(self, q):
        return 0.5 * jnp.sum(self.stiffness * (q - self.rest) ** 2)


class Band(eqx.Module):
    """The same along a line, and another class."""

    laws: tuple[Quadratic, ...]

    def energy(self, length):
        return sum((law.energy(length) for law in self.laws), jnp.zeros(()))


class Learned(eqx.Module):
    net: eqx.nn.MLP

    def energy(self, q):
        return self.net(q) ** 2


def arm(first: Any, second: Any, band: Any) -> jmbs.Mechanism:
    mechanism = jmbs.Mechanism("arm")
    frames: dict[str, Any] = {"child_frame": [0.0, 0.0, 0.5], "axis": (0.0, 1.0, 0.0)}
    for name, parent, spring in (("upper", "ground", first), ("lower", "upper", second)):
        mechanism.add_body(name, mass=1.0, inertia=[0.1, 0.1, 0.1])
        at = None if parent == "ground" else [0.0, 0.0, -0.5]
        mechanism.add_joint(f"{name}_hinge", "revolute", parent, name, at, spring=spring, **frames)
    mechanism.add_spring_damper("band", "ground", "lower", [1.0, 0.0, 0.0], **band)
    mechanism.set_initial(joints={"upper_hinge": {"q": [0.4], "v": [1.0]}, "lower_hinge": {"q": [-0.9]}})
    return mechanism


@pytest.fixture(scope="module")
def lawful():
    half = Quadratic(jnp.asarray(15.0), 0.7)
    quadratic, learned = Quadratic(jnp.asarray([8.0])), {"stiffness": Band((half, half)), "damping": 0.3}
    return jmbs.compile(arm(quadratic, quadratic, learned))


def rates_and_energy(model):
    state = model.initial_state()
    return quick_jit(lambda m, x: (m.forward_dynamics(0.0, x), jnp.sum(m.dae.energies(x.blocks))))(model, state)


def test_laws_move_as_the_springs_that_they_write_down(lawful):
    spring = {"stiffness": 8.0, "rest": 0.2}
    usual = jmbs.compile(arm(spring, spring, {"stiffness": 30.0, "length": 0.7, "damping": 0.3}))
    assert lawful.tree is not None
    for a, b in zip(rates_and_energy(lawful), rates_and_energy(usual), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


def test_their_arrays_are_parameters(lawful):
    mine = ["upper_hinge/spring/stiffness", "upper_hinge/spring/rest", "band/stiffness/laws/1/rest"]
    assert set(mine) <= lawful.parameters().keys()
    changed = lawful.with_parameters(dict.fromkeys(mine[:2], 5.0) | {mine[2]: 0.1})
    assert [float(jnp.ravel(changed.parameters()[path]["value"])[0]) for path in mine] == [5.0, 5.0, 0.1]
    assert float(changed.parameters()["lower_hinge/spring/rest"]["value"]) == 0.2
    assert float(changed.parameters()["band/stiffness/laws/0/rest"]["value"]) == 0.7


def test_weights_of_networks_are_parameters_at_any_depth():
    """They were not listed at all."""
    net = eqx.nn.MLP(1, "scalar", 3, 2, key=jax.random.key(0))
    names = set(array_fields(Learned(net)))
    assert names == {f"net.layers.{i}.{part}" for i in range(3) for part in ("weight", "bias")}
    learned = Learned(net)
    model = jmbs.compile(arm(learned, None, {"stiffness": 1.0}))
    weight = model.parameters()["upper_hinge/spring/net/layers/1/weight"]["value"]
    np.testing.assert_allclose(weight, net.layers[1].weight)


class Pinion(eqx.Module):
    """Rolls along a rack: travels as far as it turns times its radius."""

    radius: float
    group = Rn(1)

    def inclusion(self, q):
        turned = Revolute(jnp.asarray([0.0, 1.0, 0.0], q.dtype)).inclusion(q)
        return turned.at[0, 3].set(self.radius * q[0])


def test_fields_of_users_joints_are_parameters():
    mechanism = jmbs.Mechanism("rack")
    mechanism.add_body("pinion", mass=1.0, inertia=[0.1, 0.1, 0.1])
    mechanism.add_joint("rack", Pinion(0.5), "ground", "pinion")
    mechanism.set_initial(joints={"rack": {"q": [2.0]}})
    model = jmbs.compile(mechanism)
    assert float(model.parameters()["rack/radius"]["value"]) == 0.5
    state = model.with_parameters({"rack/radius": 0.25}).initial_state()
    np.testing.assert_allclose(state["pinion/q"][:, 3], [0.5, 0.0, 0.0], atol=1e-14)


CONFIG = """
schema: jmbs/1
bodies: {leaf: {mass: 1.0, inertia: [0.1, 0.1, 0.1]}}
joints:
  hinge:
    {type: revolute, parent: ground, child: leaf, spring: {type: spring_laws_of_a_user:Cubic, parameters: {k: 3.0}}}
elements:
  band: {type: spring_damper, a: ground, b: leaf, stiffness: {type: spring_laws_of_a_user:Cubic}}
"""
MODULE = """
import equinox as eqx
class Cubic(eqx.Module):
    k: float = 1.0
    def energy(self, q):
        return self.k * (q**3).sum()
class Other:
    pass
"""


def test_laws_in_configs(tmp_path):
    (tmp_path / "spring_laws_of_a_user.py").write_text(MODULE)
    config = tmp_path / "door.yaml"
    config.write_text(CONFIG)
    mechanism = jmbs.load(config)
    assert (mechanism.joints["hinge"].spring.k, mechanism.elements["band"].stiffness.k) == (3.0, 1.0)
    written = tmp_path / "again.yaml"
    write_config(mechanism, written)
    assert jmbs.load(written).joints["hinge"].spring.k == 3.0
    config.write_text(CONFIG.replace("Cubic, parameters: {k: 3.0}", "Other"))
    with pytest.raises(ModelError, match=r"joints/hinge/spring/type: .*a class with energy\(q\)"):
        jmbs.load(config)


def test_a_rest_length_beside_a_law_is_refused():
    with pytest.raises(ModelError, match="elements/band/length: found 0.3, wanted none beside a law"):
        arm(None, None, {"stiffness": Band(()), "length": 0.3})
