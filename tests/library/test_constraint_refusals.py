"""What acts on a rotation without inertia is refused when the model is built, and so are wrong constraints."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

from jmbs import Mechanism
from jmbs.errors import ModelError
from jmbs.library.mechanics import TableSpec
from jmbs.library.mechanics.point_velocity import PointVelocity

AXIS = [0.0, 1.0, 0.0]
END, OFF = {"position": [0.0, 0.5, 0.0]}, {"position": [0.0, 0.5, 0.1]}


def mechanism(kind: str) -> Mechanism:
    m = Mechanism("m")
    m.add_body("it", mass=1.0, inertia=[0.1, 0.0, 0.1] if kind == "rod" else None, kind=kind)
    m.add_body("box", mass=1.0, inertia=[1, 1, 1])
    return m


def joint(type, child_frame=END, **values):
    return lambda m: m.add_joint("j", type, "ground", "it", child_frame=child_frame, **values)


def load(**values):
    return lambda m: m.add_load("l", "it", **values)


def constraint(type, body="it", **values):
    return lambda m: m.add_constraint("c", type, body, **values)


def force(pattern):
    return lambda m: m.add_force("f", "it", lambda t, pose, velocity: velocity * jnp.asarray(pattern, float))


def point_velocity(point):
    def add(m):
        m.add_system("tip", PointVelocity(np.array(point)))
        m.connect("push", ["it.p", "tip.p"])
        m.connect("look", ["it.q", "tip.q"])

    return add


def driven_pivot(m):
    joint("spherical")(m)
    m.connect("twist", ["j.p_r"], flow=1.0)


ALLOWED = {
    "rod by its end": ("rod", joint("spherical")),
    "rod as parent": ("rod", lambda m: m.add_joint("j", "spherical", "it", "box", parent_frame=END)),
    "rod on a hinge along itself": ("rod", joint("revolute", axis=AXIS)),
    "rod in a sleeve": (
        "rod",
        joint("cylindrical", axis=AXIS, spring={"stiffness": [0, 1]}, friction={"viscous": [0, 1]}, actuation=[0, 1]),
    ),
    "rod on a cross": ("rod", joint("universal", axis=[1, 0, 0], axis2=AXIS)),
    "actuation across the rod": ("rod", joint("spherical", actuation=[1.0, 0.0, 0.5])),
    "particle by its centre": ("particle", joint("spherical", child_frame=None)),
    "force on the rod": ("rod", load(point=[0, 0.3, 0], force=[1, 2, 3])),
    "torque across the rod": ("rod", load(torque=[1, 0, 2], frame="body")),
    "tip on a plane": ("rod", constraint("no_slide", point=[0, 0.5, 0], direction=[0, 0, 1], frame="world")),
    "level rod": ("rod", constraint("perpendicular", direction=AXIS)),
    "particle on a surface": ("particle", constraint("no_slide", direction=[0, 0, 1], frame="world")),
    "drag": ("rod", force([-1, 0, -1, -1, -1, -1])),
    "velocity of a point of the rod": ("rod", point_velocity([0.0, 0.2, 0.0])),
}

# kind of body, what is added, path, part of what was found.
REFUSED = {
    "joint off the axis": ("rod", joint("spherical", OFF), "joints/j", "spherical joint that restrains"),
    "parent off": (
        "rod",
        lambda m: m.add_joint("j", "spherical", "it", "box", parent_frame=OFF),
        "joints/j",
        "restrains the rotation of rod it",
    ),
    "hinge across": ("rod", joint("revolute", axis=[1, 0, 0]), "joints/j", "revolute joint that restrains"),
    "cross across": ("rod", joint("universal", axis=AXIS, axis2=[1, 0, 0]), "joints/j", "restrains"),
    "glued particle": ("particle", joint("fixed", None), "joints/j", "restrains the rotation of particle it"),
    "particle by a stick": ("particle", joint("spherical"), "joints/j", "restrains"),
    "spring": ("rod", joint("spherical", spring={"stiffness": 1.0}), "joints/j/spring", "acts on"),
    "friction": ("rod", joint("revolute", axis=AXIS, friction={"coulomb": 1.0}), "joints/j/friction", "acts on"),
    "actuation": ("rod", joint("spherical", actuation=[0, 1, 0]), "joints/j/actuation", "acts on"),
    "tabulated actuation": (
        "rod",
        joint("revolute", axis=AXIS, actuation=TableSpec(np.array([0.0, 1.0]), np.array([[0.0], [1.0]]))),
        "joints/j/actuation",
        "acts on",
    ),
    "actuation by a system": ("rod", driven_pivot, "connections/twist", "j.p_r"),
    "force off the axis": ("rod", load(point=[0, 0.3, 0.1], force=[1, 0, 0]), "loads/l/point", "no point of rod it"),
    "force off the particle": ("particle", load(point=[0, 0.3, 0], force=[1, 0, 0]), "loads/l/point", "no point"),
    "torque along": ("rod", load(torque=[1, 0.1, 0], frame="body"), "loads/l/torque", "torque on the rotation"),
    "torque in world axes": ("rod", load(torque=[1, 0, 0]), "loads/l/torque", "torque on the rotation"),
    "torque on a particle": ("particle", load(torque=[1, 0, 0], frame="body"), "loads/l/torque", "torque on"),
    "spring-damper off the axis": (
        "rod",
        lambda m: m.add_spring_damper("s", "ground", "it", point_b=[0.1, 0, 0], stiffness=1.0),
        "elements/s/point_b",
        "no point of rod it",
    ),
    "user's torque": ("rod", force([1, 1, 1, 1, 1, 1]), "elements/f/wrench", "torque on the rotation of rod it"),
    "system off the axis": ("rod", point_velocity([0.0, 0.2, 0.1]), "connections/push", "it.p"),
    "rolling particle": ("particle", constraint("rolling", radius=0.1), "constraints/c", "rolling constraint that"),
    "rolling rod": ("rod", constraint("rolling", radius=0.1, axis=AXIS), "constraints/c", "restrains"),
    "rod kept from turning": ("rod", constraint("perpendicular", direction=[1, 0, 0]), "constraints/c", "restrains"),
    "spin": (
        "rod",
        lambda m: m.set_initial(bodies={"it": {"angular_velocity": [1, 0.5, 0]}}),
        "initial/bodies/it/angular_velocity",
        "a part along the rotation of rod it",
    ),
    "body": ("rod", constraint("no_slide", "bax", direction=[1, 0, 0]), "constraints/c/body", "bax"),
    "ground": ("rod", constraint("no_slide", "ground", direction=[1, 0, 0]), "constraints/c/body", "ground"),
    "type": ("rod", constraint("no_slid", direction=[1, 0, 0]), "constraints/c/type", "no_slid"),
    "missing key": ("rod", constraint("no_slide"), "constraints/c/direction", "nothing"),
    "key of another type": (
        "rod",
        constraint("rolling", "box", radius=1, direction=[1, 0, 0]),
        "constraints/c/direction",
        "1",
    ),
    "zero direction": ("rod", constraint("no_slide", direction=[0, 0, 0]), "constraints/c/direction", "0"),
    "frame": ("rod", constraint("no_slide", direction=AXIS, frame="bod"), "constraints/c/frame", "bod"),
    "radius": ("rod", constraint("rolling", "box", radius=-1), "constraints/c/radius", "-1"),
    "rising plane": (
        "rod",
        constraint("rolling", "box", radius=1, plane={"velocity": [1, 0, 1]}),
        "constraints/c/plane/velocity",
        "1",
    ),
    "tilting plane": (
        "rod",
        constraint("rolling", "box", radius=1, plane={"angular_velocity": lambda t: jnp.array([t, 0, 1])}),
        "constraints/c/plane/angular_velocity",
        "values that leave it",
    ),
    "function of two": (
        "rod",
        constraint("rolling", "box", radius=1, plane={"velocity": lambda t: jnp.array([t, 0])}),
        "constraints/c/plane/velocity",
        "shape (2,)",
    ),
    "unknown key of a plane": (
        "rod",
        constraint("rolling", "box", radius=1, plane={"velocit": [1, 0, 0]}),
        "constraints/c/plane/velocit",
        "unknown key",
    ),
    "normal of a surface": (
        "rod",
        constraint("no_slide", direction=AXIS, relative_to={"normal": [0, 0, 1]}),
        "constraints/c/relative_to/normal",
        "unknown key",
    ),
    "short table": (
        "rod",
        constraint("rolling", "box", radius=1, plane={"velocity": TableSpec(np.arange(2.0), np.zeros((2, 2)))}),
        "constraints/c/plane/velocity",
        "2 columns",
    ),
}

# Kind, inertia, what was wanted.
BODIES = {
    "rigid rod": ("rigid", [1, 1, 0], "kind: rod"),
    "rigid rod, oblique": ("rigid", (np.eye(3) - np.outer([0, 0.6, 0.8], [0, 0.6, 0.8])).tolist(), "kind: rod"),
    "rigid particle": ("rigid", [0, 0, 0], "kind: particle"),
    "no body at all": ("rigid", [1, 2, 0], "positive definite"),
    "thick rod": ("rod", [1, 1, 0.1], "one principal moment zero"),
    "uneven rod": ("rod", [1, 1.1, 0], "one principal moment zero"),
    "rod without inertia": ("rod", None, "one principal moment zero"),
    "rod of zeros": ("rod", [0, 0, 0], "one principal moment zero"),
    "particle with inertia": ("particle", [1, 1, 0], "a particle has no inertia"),
}


@pytest.mark.parametrize("name", ALLOWED)
def test_what_leaves_the_rotation_free_is_allowed(name):
    kind, add = ALLOWED[name]
    m = mechanism(kind)
    add(m)
    m.validate()


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_is_refused(name):
    kind, add, path, found = REFUSED[name]
    m = mechanism(kind)
    with pytest.raises(ModelError) as caught:
        add(m)
        m.validate()
    assert caught.value.path == path
    assert found in caught.value.found


@pytest.mark.parametrize("name", BODIES)
def test_kind_and_inertia_must_agree(name):
    kind, inertia, wanted = BODIES[name]
    with pytest.raises(ModelError, match=wanted) as caught:
        Mechanism("m").add_body("b", mass=1.0, inertia=inertia, kind=kind)
    assert caught.value.path == "bodies/b/inertia"


def test_degenerate_bodies_have_no_density():
    with pytest.raises(ModelError, match="bodies/b/density"):
        Mechanism("m").add_body("b", shape={"cylinder": [0.1, 1.0]}, density=1.0, kind="rod")


def test_a_joint_that_spins_with_a_rod_has_no_actuation_port():
    m = mechanism("rod")
    joint("spherical")(m)
    m.add_joint("k", "revolute", "ground", "box")
    ports = m.system().ports
    assert "j/actuation" not in ports
    assert "k/actuation" in ports
