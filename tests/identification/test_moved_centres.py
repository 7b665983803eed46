"""A body whose centre of mass moves within it: all that is counted from there is carried along, or it is refused."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import jmbs
from jmbs.errors import ModelError
from jmbs.identification.parameter_paths import known_parameters
from jmbs.identification.places import place_of, with_places
from jmbs.lie import quaternion_to_rotation

SHIFT = np.array([0.01, -0.02, 0.03])
QUATERNION = np.array([0.8, 0.0, 0.6, 0.0])
RATE = np.array([0.3, -0.2, 0.5])


def mechanism(shift: Any = (0.0, 0.0, 0.0)) -> jmbs.Mechanism:
    """A link on a hinge with a load, a spring to a free ball and the ball's start; the centres of mass of both lie
    `shift` away, and everything else is where it was."""
    made, shift = jmbs.Mechanism("carried"), np.asarray(shift)
    for name in ("link", "ball"):
        made.add_body(name, 1.0, [0.1, 0.1, 0.1])
    frame = {"position": np.array([0, 0, 0.5]) - shift}
    made.add_joint("hinge", "revolute", "ground", "link", child_frame=frame, axis=[0, 1, 0])
    made.add_joint(
        "anchor", "free", "link", "ball", parent_frame={"position": -shift}, child_frame={"position": -shift}
    )
    ends = {"point_a": np.array([0, 0, -0.5]) - shift, "point_b": np.array([0, 0.1, 0]) - shift}
    made.add_spring_damper("tendon", "link", "ball", **ends, stiffness=30.0, length=0.7)
    made.add_load("wind", "link", point=np.array([0, 0, -0.2]) - shift, force=[1.0, 0, 0])
    turned = np.asarray(quaternion_to_rotation(jnp.asarray(QUATERNION)))
    start = {"position": np.array([0.4, 0, 1.0]) + turned @ shift, "quaternion": QUATERNION}
    moving = {"velocity": np.array([0.1, 0, 0]) + turned @ np.cross(RATE, shift), "angular_velocity": RATE}
    made.set_initial(bodies={"ball": start | moving})
    return made


def moved(model: jmbs.Model, **more: Any) -> jmbs.Model:
    values = {"link/com": SHIFT, "ball/com": SHIFT} | more
    return with_places(model, {place_of(model, path): jnp.asarray(value) for path, value in values.items()})[0]


def test_what_is_counted_from_a_centre_is_carried_along():
    found, wanted = (m.parameters() for m in (moved(mechanism().compile()), mechanism(SHIFT).compile()))
    assert found.keys() == wanted.keys()
    for path, row in wanted.items():
        np.testing.assert_allclose(found[path]["value"], row["value"], atol=1e-15, err_msg=path)


def test_unknown_starts_are_said_of_the_place_before():
    model = mechanism().compile()
    more = {"initial/ball/position": [1.0, 2.0, 3.0], "initial/ball/quaternion": [1.0, 0, 0, 0]}
    found = moved(model, **more).parameters()
    np.testing.assert_allclose(found["initial/ball/position"]["value"], more["initial/ball/position"] + SHIFT)
    wanted = np.array([0.1, 0, 0]) + np.cross(RATE, SHIFT)
    np.testing.assert_allclose(found["initial/ball/velocity"]["value"], wanted)


def test_values_that_a_recording_fixes_are_carried_too():
    model = mechanism().compile()
    fixed = {"initial/ball/position": jnp.array([1.0, 2.0, 3.0]), "wind/point": jnp.array([0.0, 0.1, 0.0])}
    values = {"ball/com": SHIFT, "link/com": SHIFT, "wind/point": np.ones(3)}
    placed = {place_of(model, path): jnp.asarray(value) for path, value in values.items()}
    found = with_places(model, placed, fixed)[0].parameters()
    turned = np.asarray(quaternion_to_rotation(jnp.asarray(QUATERNION)))
    np.testing.assert_allclose(found["initial/ball/position"]["value"], fixed["initial/ball/position"] + turned @ SHIFT)
    np.testing.assert_allclose(found["wind/point"]["value"], fixed["wind/point"] - SHIFT)


@pytest.mark.parametrize("start", ["states", "position"])
def test_starts_that_cannot_be_carried_are_refused(start):
    made = jmbs.Mechanism("bob")
    made.add_body("bob", 1.0, [0.1, 0.1, 0.1])
    if start == "states":
        made.set_initial(states={"bob/q": np.eye(4)[:3]})
    else:
        made.add_joint("hinge", "revolute", "ground", "bob", child_frame=[0, 0, 0.5], axis=[0, 1, 0])
        made.set_initial(bodies={"bob": {"position": [0.5, 0.0, 0.0]}})
    with pytest.raises(ModelError, match="parameters/bob/com: found a start of the body"):
        moved_model = made.compile()
        with_places(moved_model, {place_of(moved_model, "bob/com"): jnp.asarray(SHIFT)})


class Heavy:
    """A potential energy of one's own."""

    def energy(self, pose: Any) -> Any:
        return 2.0 * pose[2, 3]


@pytest.mark.parametrize(
    "add, found",
    [
        (lambda m: m.add_constraint("edge", "no_slide", "puck", direction=[0, 1, 0]), "the constraint edge"),
        (lambda m: m.add_force("pull", "puck", lambda t, pose, velocity: jnp.zeros(6)), "the force pull"),
        (lambda m: m.connect("hand", ["puck.p"]), "the connection hand"),
        (lambda m: m.add_body("other", 1.0, [1.0, 1.0, 1.0], potential=Heavy()), "its potential"),
    ],
)
def test_what_acts_at_a_centre_otherwise_is_refused(add, found):
    made = jmbs.Mechanism("puck")
    made.add_body("puck", 1.0, [0.1, 0.1, 0.1])
    add(made)
    model, body = made.compile(), "other" if "other" in made.bodies else "puck"
    with pytest.raises(ModelError, match=f"parameters/{body}/com: found a body with {found}"):
        with_places(model, {place_of(model, f"{body}/com"): jnp.asarray(SHIFT)})


def test_bodies_of_the_mechanism_alone_have_a_centre_that_moves():
    outer = jmbs.Mechanism("outer")
    outer.add_body("own", 1.0, [0.1, 0.1, 0.1])
    outer.add_system("inner", mechanism().system())
    names = known_parameters(outer.compile())
    assert [name for name in names if name.endswith("/com")] == ["own/com"]
