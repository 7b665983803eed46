"""Components with networks inside: laws for any weights, in both formulations; weights by path, in configs, in fits."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from library.laws import assert_dirac
from quick import quick_jit

import jmbs
from jmbs.ephs import is_lawful, validate_component
from jmbs.errors import ModelError
from jmbs.io import write_config, write_fitted
from jmbs.library.learned import Network, NetworkCoupling, NetworkDissipation, NetworkFriction, NetworkPotential
from jmbs.library.mechanics import LawFriction, relative_momentum
from jmbs.lie import Rn
from jmbs.simulation.state import to_internal

RNG = np.random.default_rng(7)
INERTIA = 0.05


def with_random_weights(module, size=1.5):
    return jax.tree.map(lambda leaf: size * jnp.asarray(RNG.normal(size=leaf.shape)), module)


DISSIPATIONS = {
    "one": LawFriction(NetworkFriction(hidden=(4, 4)), relative_momentum(Rn(1))),
    "three": LawFriction(NetworkFriction(3, damping=0.3), relative_momentum(Rn(3))),
    "of two joints": NetworkDissipation(sizes=(1, 2), seed=3),
}


@pytest.mark.parametrize("name", DISSIPATIONS)
def test_dissipation_obeys_both_laws_whatever_the_weights(name):
    component = with_random_weights(DISSIPATIONS[name])
    assert is_lawful(component)
    validate_component(name, component)


def test_coupling_does_no_work_whatever_the_weights():
    component = with_random_weights(NetworkCoupling((1, 2), bodies=2, hidden=(4, 4), strength=0.3))
    assert is_lawful(component)
    validate_component("coupling", component)
    assert_dirac(component)


class Pushing:
    """A law that is not one: it drives slow motions."""

    def damping(self, v):
        return v**2 - 1.0


def arm(**upper) -> jmbs.Mechanism:
    """Two links that turn about y; friction of both joints, of both together, and a spring by networks."""
    mechanism = jmbs.Mechanism("arm")
    laws = {"spring": NetworkPotential(periodic=True, energy=3.0), "friction": NetworkFriction(hidden=4)} | upper
    mechanism.add_body("upper", 1.0, [INERTIA] * 3)
    mechanism.add_body("lower", 1.0, [INERTIA] * 3)
    hinge = {"type": "revolute", "child_frame": [0.0, 0.0, 0.5], "axis": [0.0, 1.0, 0.0]}
    mechanism.add_joint("shoulder", parent="ground", child="upper", **hinge, **laws)
    lower = {"friction": NetworkFriction(hidden=4, seed=2)}
    mechanism.add_joint("elbow", parent="upper", child="lower", parent_frame=[0.0, 0.0, -0.5], **hinge, **lower)
    mechanism.add_system("gearbox", NetworkDissipation(sizes=(1, 1), hidden=4, seed=3))
    mechanism.connect("first", ["gearbox.p_1", "shoulder.p_r"])
    mechanism.connect("second", ["gearbox.p_2", "elbow.p_r"])
    mechanism.connect("heat", ["gearbox.s", "environment.s"])
    mechanism.add_system("flywheel", NetworkCoupling(sizes=(1, 1), hidden=4, seed=5))
    mechanism.connect("third", ["flywheel.p_1", "shoulder.p_r"])
    mechanism.connect("fourth", ["flywheel.p_2", "elbow.p_r"])
    mechanism.connect("pose", ["flywheel.q_1", "lower.q"])
    mechanism.set_initial(joints={"shoulder": {"q": [1.0], "v": [2.0]}, "elbow": {"q": [-0.5], "v": [0.7]}})
    return mechanism


@pytest.fixture(scope="module")
def model():
    return jmbs.compile(arm())


def weights_of(model) -> dict[str, np.ndarray]:
    return {path: np.asarray(entry["value"]) for path, entry in model.parameters().items() if "/net/" in path}


@pytest.fixture(scope="module")
def evaluated(model):
    """At a state, with several weights: accelerations of the tree, those and the energy's rate by the reference, and
    powers."""
    start = weights_of(model)
    ahead = {path: RNG.normal(size=value.shape) for path, value in start.items()}
    state, plan = model.initial_state(), model.dae.plan

    @quick_jit
    @jax.vmap
    def at(share):
        changed = model.with_parameters({path: start[path] + share * ahead[path] for path in start})
        rates = changed.dynamics(0.0, state)
        x = to_internal(changed.dae, state)
        energy = jnp.sum(jax.jvp(changed.dae.energies, (x,), (changed.dae.lift(x, rates.velocity),))[1])
        turning = [rates.velocity[plan.slots[plan.junction_of[f"{body}/ke", "p"]][1]] for body in ("upper", "lower")]
        return changed.forward_dynamics(0.0, state), jnp.stack(turning) / INERTIA, energy, rates.power

    return at(jnp.asarray([0.0, 1.0, -2.0]))


def test_both_formulations_agree(model, evaluated):
    assert model.tree is not None and len(model.tree.friction) == 1
    tree, turning, *_ = evaluated
    np.testing.assert_allclose(np.cumsum(tree, axis=1), turning, rtol=1e-9)


def test_both_laws_hold_along_the_motion(model, evaluated):
    *_, energy, power = evaluated
    heat = model.dae.reference_temperature * np.sum(power.production, axis=1)
    np.testing.assert_allclose(energy, -heat, rtol=1e-9)
    assert len(model.dae.plan.irreversible) == 3 and np.all(np.asarray(power.production) > 0)


@pytest.mark.slow
def test_derivatives_of_a_run_by_weights_are_those_of_differences(model):
    start, step = weights_of(model), 1e-5
    ahead = {path: RNG.normal(size=value.shape) for path, value in start.items()}

    def end(share, adjoint):
        changed = model.with_parameters({path: start[path] + share * ahead[path] for path in start})
        run = jmbs.simulate(changed, t1=0.2, save_every=0.1, dt=0.01, solver="rk4", adjoint=adjoint, audit=False)
        return run.q["elbow"][-1, 0]

    difference = (end(step, "auto") - end(-step, "auto")) / (2 * step)
    for slope in (jax.grad(end)(0.0, "auto"), jax.jacfwd(end)(0.0, "forward")):
        np.testing.assert_allclose(slope, difference, rtol=1e-6)


def test_the_force_is_minus_the_derivative():
    laws = {p: with_random_weights(NetworkPotential(2, periodic=p, energy=2.0, length=0.3)) for p in (False, True)}
    q, step = jnp.asarray([0.4, -0.2]), 1e-6
    places = jnp.concatenate([q + step * jnp.eye(2), q - step * jnp.eye(2), q[None] + 2 * jnp.pi, q[None]])
    found = quick_jit(lambda laws: {p: (jax.vmap(x.energy)(places), jax.grad(x.energy)(q)) for p, x in laws.items()})
    for periodic, (energies, slope) in found(laws).items():
        np.testing.assert_allclose(slope, (energies[:2] - energies[2:4]) / (2 * step), rtol=1e-6)
        assert (abs(energies[4] - energies[5]) < 1e-12) == periodic


def test_friction_is_odd_and_never_pushes():
    law, v = with_random_weights(NetworkFriction(2)), jnp.asarray(RNG.normal(size=(5, 2)))
    there, back = quick_jit(lambda law: [jax.vmap(law.damping)(x) for x in (v, -v)])(law)
    np.testing.assert_array_equal(there, back)
    assert np.all(np.einsum("ni,nij,nj->n", v, there, v) > 0)


def test_first_values_follow_from_the_seed():
    one, same, other = (Network(2, 3, (4,), seed) for seed in (1, 1, 2))
    assert all(jax.tree.leaves(jax.tree.map(lambda a, b: bool(jnp.all(a == b)), one, same)))
    assert not jnp.any(one.weights[0] == other.weights[0])


CONFIG = """
schema: jmbs/1
bodies:
  link:
    mass: 1.0
    inertia: [0.1, 0.1, 0.1]
    potential: {type: 'jmbs.library.learned:NetworkPotential', parameters: {inputs: 12}}
  tip: {mass: 1.0, inertia: [0.1, 0.1, 0.1]}
stores: {oil: {type: thermal, capacity: 10.0, temperature: 300.0}}
joints:
  hinge:
    type: revolute
    parent: ground
    child: link
    spring: {type: 'jmbs.library.learned:NetworkPotential', parameters: {periodic: true}}
    friction: {type: 'jmbs.library.learned:NetworkFriction', parameters: {hidden: [3], seed: 4}}
  wrist:
    type: revolute
    parent: link
    child: tip
    child_frame: {position: [0.2, 0, 0]}
    friction: {type: 'jmbs.library.learned:NetworkFriction', heats: oil}
systems:
  gearbox: {type: 'jmbs.library.learned:NetworkDissipation', parameters: {sizes: [1, 1]}}
connections:
  first: {ports: [gearbox.p_1, hinge.p_r]}
  second: {ports: [gearbox.p_2, wrist.p_r]}
  heat: {ports: [gearbox.s, environment.s]}
simulation: {t1: 1.0}
"""


def test_in_configs_and_in_those_of_fitted_models(tmp_path):
    config = tmp_path / "arm.yaml"
    config.write_text(CONFIG)
    mechanism = jmbs.load(config)
    assert mechanism.joints["wrist"].friction.heats == "oil"
    write_config(mechanism, tmp_path / "again.yaml")
    model = jmbs.compile(jmbs.load(tmp_path / "again.yaml"))
    # The one that heats a store is evaluated beside the tree.
    assert model.tree is not None and len(model.tree.friction) == 1
    changed = model.with_parameters({path: value + 0.1 for path, value in weights_of(model).items()})
    assert len(weights_of(changed)) == 20
    write_fitted(changed, mechanism, tmp_path / "fitted.yaml")  # which refuses what does not read back
    weights = jmbs.load(tmp_path / "fitted.yaml").joints["hinge"].friction.law.net.weights
    np.testing.assert_allclose(weights[1], changed.parameters()["hinge/friction/net/weights/1"]["value"], rtol=1e-12)


def test_coupling_of_a_single_velocity_is_refused():
    with pytest.raises(ModelError, match="sizes: found 1 velocities, wanted 2 or more"):
        NetworkCoupling(sizes=[1])


@pytest.mark.parametrize(
    "friction, words",
    [
        (NetworkFriction(2), "joints/shoulder/friction: found 1 inputs, wanted 2"),
        ({"law": 3.0}, r"joints/shoulder/friction/law: found 3.0, wanted a module whose damping\(v\) of 1 velocities"),
        ({"law": NetworkFriction(), "viscous": 1.0}, "friction/viscous: found 1.0, wanted none beside a law"),
        ({"law": NetworkFriction(), "heats": "oil"}, "friction/heats"),
    ],
)
def test_refusals(friction, words):
    with pytest.raises(ModelError, match=words):
        arm(friction=friction).validate()


def test_potentials_of_another_number_of_coordinates_are_refused():
    two = NetworkPotential(2)
    with pytest.raises(ModelError, match="joints/shoulder/spring: found 1 inputs, wanted 2"):
        arm(spring=two).system()
    with pytest.raises(ModelError, match="bodies/bob/potential: found 12 inputs, wanted 2"):
        jmbs.Mechanism("free").add_body("bob", 1.0, [1.0] * 3, potential=two)
    with pytest.raises(ModelError, match="elements/band/stiffness: found 1 inputs, wanted 2"):
        arm().add_spring_damper("band", "ground", "lower", stiffness=two)


def test_a_law_of_users_is_tried():
    with pytest.raises(ModelError, match="shoulder/mf: .*negative eigenvalue"):
        jmbs.compile(arm(friction=Pushing()))


@pytest.mark.parametrize(
    "arguments, words",
    [
        ({"hidden": [0]}, "hidden/0: found 0"),
        ({"seed": -1}, "seed: found -1"),
        ({"given": {"weight": {}}}, "net: .*keys among weights, biases"),
        ({"given": {"weights": {"2": 1.0}}}, "net/weights: .*keys among 0, 1"),
        ({"given": {"weights": {0: [1.0, 2.0]}}}, r"net/weights/0: .*finite numbers of shape \(4, 2\)"),
    ],
)
def test_networks_refuse(arguments, words):
    with pytest.raises(ModelError, match=words):
        Network(2, 1, **{"hidden": [4]} | arguments)
