"""The tree takes over what it knows. What acts on poses, and laws that a derived class redefines, are not dropped."""

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
from jmbs.ephs import ENTROPY, Quantity, System, follows, is_lawful, pattern, power_port
from jmbs.errors import AssemblyError, ModelError
from jmbs.library.mechanics import Gravity, KineticEnergy, LiePoisson, PotentialKineticCoupling, ViscousFriction
from jmbs.library.mechanics.body import momentum_quantity
from jmbs.library.mechanics.friction import dissipation
from jmbs.lie import SE3, Revolute, Rn, quaternion_to_rotation, tangent
from jmbs.simulation.formulation import formulation_of
from jmbs.simulation.state import to_internal

RUN: dict[str, Any] = {"t1": 0.3, "dt": 0.01, "solver": "rk4", "save_every": 0.1}


class Drag(eqx.Module):
    """A loss that takes a force as its effort, as none does that moves with a velocity."""

    mobility: Array
    quantity: Quantity = eqx.field(static=True)

    @property
    def ports(self):
        return {"q": power_port(self.quantity.space, self.quantity.name), "s": power_port(Rn(1), ENTROPY)}

    def onsager(self, x, e):
        return dissipation(self.mobility * jnp.eye(self.quantity.space.dim), e["q"], e.temperature("s"))


class Doubled(Gravity):
    def energy(self, x):
        return 2 * super().energy(x)


class Renamed(Gravity):
    """Means what its base class means."""

    def weight(self):
        return self.mass * self.gravity


class Light(KineticEnergy):
    def energy(self, x):
        return 2 * super().energy(x)

    def state_from_effort(self, e):
        return {"p": 0.5 * super().state_from_effort(e)["p"]}


class Backwards(Revolute):
    """Turns the other way, which its base class's tangent does not say."""

    def inclusion(self, q):
        return super().inclusion(-q)


def falling() -> jmbs.Mechanism:
    mechanism = jmbs.Mechanism("falling", gravity=(0.0, 0.0, -9.81))
    mechanism.add_body("a", mass=1.0, inertia=[0.1, 0.2, 0.15])
    return mechanism


def body(gravity=None, energy=None) -> System:
    weight = jnp.asarray(1.0), jnp.asarray([0.0, 0.0, -9.81])
    boxes = {
        "pe": Gravity(*weight) if gravity is None else gravity(*weight),
        "pkc": PotentialKineticCoupling(Quantity(SE3, "pose"), momentum_quantity(SE3)),
        "ke": (energy or KineticEnergy)(jnp.asarray(1.0), 0.1 * jnp.eye(3)),
        "lp": LiePoisson(),
    }
    ports = {name: box.ports for name, box in boxes.items()}
    return System(pattern(ports, {"q": "pe.q pkc.q", "p": "pkc.p ke.p lp.p"}, outer=["q", "p"]), boxes)


def test_what_acts_on_a_pose_is_not_dropped():
    """Its power was 0.385 W in the reference semantics and nothing in the tree."""
    mechanism = falling()
    mechanism.add_system("b", body())
    mechanism.add_system("drag", Drag(jnp.asarray(0.004), Quantity(SE3, "pose")))
    mechanism.connect("on_pose", ["drag.q", "b.q"])
    mechanism.connect("heat", ["drag.s", "environment.s"])
    model = jmbs.compile(mechanism)
    assert model.tree is None and model.without_tree == "drag.q acts on the pose of b"
    assert model.without_tree in model.describe()
    trajectory = jmbs.simulate(model, **RUN)
    np.testing.assert_allclose(trajectory.position["b"][-1, 2], -9.81 * (0.045 + 0.004 * 0.3), rtol=1e-10)
    np.testing.assert_allclose(trajectory.dissipated[-1], 0.3 * 0.004 * 9.81**2, rtol=1e-10)
    with pytest.raises(ModelError, match=r"drag\.q acts on the pose of b"):
        jmbs.simulate(model, formulation="tree", **RUN)


def test_power_at_the_pose_of_a_body_that_shows_its_state_alone_is_refused():
    mechanism = falling()
    mechanism.add_system("drag", Drag(jnp.asarray(0.004), Quantity(SE3, "pose")))
    mechanism.connect("on_pose", ["drag.q", "a.q"])
    with pytest.raises(ModelError, match=r"drag\.q at a\.q, a state port of a system, which carries no power"):
        jmbs.compile(mechanism)


def test_an_input_on_a_pose_is_not_dropped():
    mechanism = falling()
    mechanism.add_system("b", body())
    mechanism.connect("on_pose", ["b.q"])
    model = jmbs.compile(mechanism)
    drift = np.array([0.0, 0.0, 0.0, 0.5, 0.0, 0.0])
    assert model.tree is not None
    moved = [
        jmbs.simulate(model, inputs={"on_pose": drift}, formulation=f, audit=False, **RUN).position["b"][-1]
        for f in (None, "absolute")
    ]
    np.testing.assert_allclose(*moved, atol=1e-12)
    assert abs(moved[0][0]) == pytest.approx(0.15)
    mechanism.connections.clear()
    mechanism.connect("on_pose", ["b.q"], flow=drift)
    assert jmbs.compile(mechanism).without_tree == "inputs/on_pose acts on the pose of b"


def test_an_input_on_a_state_is_refused():
    mechanism = falling()
    mechanism.connect("watched", ["a.q"])
    with pytest.raises(ModelError, match="inputs/watched: found no such port"):
        jmbs.simulate(jmbs.compile(mechanism), inputs={"watched": np.zeros(6)}, **RUN)


@pytest.mark.slow
def test_what_acts_on_joint_coordinates_is_not_dropped():
    """The joint is left to the reference semantics."""
    mechanism = falling()
    mechanism.add_joint("slow", "prismatic", "ground", "a", axis=(0, 0, 1), spring={"stiffness": [40.0]})
    built = mechanism.system()
    joint = built.boxes["slow"]
    boxes = dict(joint.boxes) | {"creep": Drag(jnp.asarray(0.01), Quantity(Rn(1), "relative_pose"))}
    junctions = {j.name: [".".join(pair) for pair in j.inner] for j in joint.pattern.junctions}
    outer = {port: j.name for j in joint.pattern.junctions for port in j.outer}
    for beside, port in (("pe.q_r", "creep.q"), ("mf.s", "creep.s")):
        next(ports for ports in junctions.values() if beside in ports).append(port)
    creeping = System(pattern({n: b.ports for n, b in boxes.items()}, junctions, outer), boxes)
    whole = System(built.pattern, dict(built.boxes) | {"slow": creeping}, built.drives, built.closures)
    mechanism.system = lambda: whole  # type: ignore[method-assign]
    mechanism.set_initial(joints={"slow": {"q": [0.2], "v": [0.3]}})
    model = jmbs.compile(mechanism)
    by_tree, wanted = motions(model, model.initial_state())
    for a, b in zip(by_tree, wanted, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-12)
    block, row = model.dae.plan.state_of[model.dae.plan.junction_of["slow/pe", "q_r"]]
    assert float(jnp.abs(by_tree[block][row][0] - 0.3)) == pytest.approx(0.01 * 40.0 * 0.2, rel=1e-12)


@quick_jit
def motions(model, state):
    """The rates of all states by the tree and by the reference semantics, as the latter keeps them."""
    formulation, x = formulation_of(model), to_internal(model.dae, state)
    y = formulation.start(state)
    along = formulation.dae.lift(y, formulation.dae.rates(0.0, y).velocity)
    by_tree = jax.jvp(formulation.reference_state, (y,), (along,))[1]
    return by_tree, model.dae.lift(x, model.dae.rates(0.0, x).velocity)


@pytest.mark.parametrize("changed", [{"gravity": Doubled}, {"energy": Light}], ids=["weight", "inertia"])
def test_a_law_that_a_derived_class_redefines_holds(changed):
    """A body of twice the weight, or of half the inertia, fell with 9.81 m/s^2 beside others."""
    mechanism = falling()
    mechanism.add_system("b", body(**changed))
    model = jmbs.compile(mechanism)
    assert model.tree is None and "b/" in model.without_tree
    trajectory = jmbs.simulate(model, audit=False, **RUN)
    np.testing.assert_allclose(trajectory.velocity["b"][-1, 2], -2 * 9.81 * 0.3, rtol=1e-10)
    np.testing.assert_allclose(trajectory.velocity["a"][-1, 2], -9.81 * 0.3, rtol=1e-10)


def test_a_derived_class_that_redefines_nothing_is_known():
    mechanism = falling()
    mechanism.add_system("b", body(gravity=Renamed))
    assert jmbs.compile(mechanism).tree is not None


def test_who_follows_a_class():
    class Wider(eqx.Module):
        lawful_by_construction = True

        def structure(self, x):
            return None, None

    class Narrower(Wider):
        def structure(self, x):
            return jnp.ones((1, 1)), None

    class Declared(Narrower):
        lawful_by_construction = True

    assert follows(Wider(), Wider) and follows(Wider(), (Gravity, Wider))
    assert not follows(Narrower(), Wider) and follows(Declared(), Narrower)
    assert is_lawful(Wider()) and not is_lawful(Narrower()) and is_lawful(Declared())
    friction = ViscousFriction(jnp.ones(1), Quantity(Rn(1), "relative_momentum_R1"))
    assert follows(friction, ViscousFriction) and not follows(friction, Gravity)


def test_a_motion_that_redefines_where_it_leads_has_that_tangent():
    axis, q = jnp.asarray([0.0, 0.6, 0.8]), jnp.asarray([0.4])
    np.testing.assert_allclose(tangent(Backwards(axis), q), -tangent(Revolute(axis), q), atol=1e-14)


def test_a_joint_with_a_motion_that_redefines_another_turns_its_way():
    moved = []
    for motion, sign in ((Revolute, 1.0), (Backwards, -1.0)):
        mechanism = falling()
        mechanism.add_joint("hinge", motion(jnp.asarray([0.0, 1.0, 0.0])), "ground", "a", child_frame=[0.0, 0.0, 0.5])
        mechanism.set_initial(joints={"hinge": {"q": [sign * 0.4], "v": [sign * 0.7]}})
        trajectory = jmbs.simulate(jmbs.compile(mechanism), audit=False, **RUN)
        moved.append((sign * trajectory.q["hinge"][-1], trajectory.position["a"][-1]))
    for a, b in zip(*moved, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-10)


def swinging() -> System:
    """Two links in hinges on the ground, to be added to a mechanism."""
    mechanism = jmbs.Mechanism("swinging", gravity=(0.0, 0.0, -9.81))
    for name, parent in (("upper", "ground"), ("lower", "upper")):
        mechanism.add_body(name, mass=1.0, inertia=[0.1, 0.1, 0.1])
        frame = None if parent == "ground" else [0.0, 0.0, -0.5]
        frames = {"parent_frame": frame, "child_frame": [0.0, 0.0, 0.5]}
        mechanism.add_joint(f"{name}_hinge", "revolute", parent, name, axis=(0.0, 1.0, 0.0), **frames)
    return mechanism.system()


ANGLES = {"arm/upper_hinge/q_r": [0.4], "arm/lower_hinge/q_r": [2.9]}


def pose_of(angle: float, hinge: np.ndarray) -> np.ndarray:
    """The pose of a link that hangs from a hinge."""
    c, s = np.cos(angle), np.sin(angle)
    R = np.array([[c, 0, s], [0, 1, 0], [-s, 0, c]])
    return np.column_stack([R, hinge - R @ [0.0, 0.0, 0.5]])


UPPER = pose_of(0.4, np.zeros(3))
LOWER = pose_of(3.3, 2 * UPPER[:, 3])


@pytest.mark.parametrize(
    "given",
    [
        ANGLES,
        pytest.param(ANGLES | {"arm/upper/p": [0.0, 0.7, 0.0, -0.35, 0.0, 0.0]}, marks=pytest.mark.slow),
        {"arm/upper/q": UPPER, "arm/lower/q": LOWER},
    ],
    ids=["angles", "velocity", "poses"],
)
def test_initial_values_of_nested_bodies_hold(given):
    mechanism = falling()
    mechanism.add_system("arm", swinging())
    mechanism.set_initial(states=given)
    state = jmbs.compile(mechanism).initial_state()
    for name, value in (given | {"arm/upper/q": UPPER, "arm/lower/q": LOWER}).items():
        np.testing.assert_allclose(state[name], value, atol=1e-10)


@pytest.mark.slow
def test_initial_values_of_nested_free_bodies_hold_in_both_formulations():
    pose, velocity = np.column_stack([UPPER[:, :3], [1.0, 2.0, 3.0]]), np.arange(1.0, 7.0)
    mechanism = falling()
    mechanism.add_system("b", body())
    mechanism.set_initial(states={"b/q": pose, "b/p": velocity})
    model = jmbs.compile(mechanism)
    for formulation in ("tree", "absolute"):
        run = jmbs.simulate(model, formulation=formulation, audit=False, **RUN)
        np.testing.assert_allclose(run.position["b"][0], pose[:, 3], atol=1e-14)
        np.testing.assert_allclose(quaternion_to_rotation(run.quaternion["b"][0]), pose[:, :3], atol=1e-14)
        np.testing.assert_allclose(run.angular_velocity["b"][0], velocity[:3], atol=1e-13)
        np.testing.assert_allclose(run.velocity["b"][0], pose[:, :3] @ velocity[3:], atol=1e-13)


def test_poses_of_nested_bodies_that_joints_do_not_allow_are_refused_by_name():
    mechanism = falling()
    mechanism.add_system("arm", swinging())
    mechanism.set_initial(states={"arm/upper/q": UPPER + np.array([0.0, 0.0, 0.0, 0.1])})
    with pytest.raises(AssemblyError, match="initial/states/arm/upper/q"):
        jmbs.compile(mechanism).initial_state()
