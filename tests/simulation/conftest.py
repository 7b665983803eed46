"""One small compiled model for the whole folder: compiling is what costs."""

from __future__ import annotations

import pytest

import jmbs


def pendulum(group: str = "SE3", **friction) -> jmbs.Mechanism:
    """A planar pendulum with viscous friction, a quarter turn from hanging, with an actuated hinge."""
    mechanism = jmbs.Mechanism("pendulum", gravity=(0.0, 0.0, -9.81))
    mechanism.add_body("rod", mass=1.2, inertia=[0.1, 0.11, 0.02], group=group)
    mechanism.add_joint(
        "hinge",
        "revolute",
        "ground",
        "rod",
        child_frame={"position": [0.0, 0.0, 0.5]},
        axis=[0, 1, 0],
        friction={"viscous": 0.05, **friction},
        actuation=0.0,
    )
    mechanism.add_load("push", "rod", force=[0.0, 0.0, 0.0])
    mechanism.set_initial(joints={"hinge": {"q": [0.5], "v": [1.0]}})
    return mechanism


@pytest.fixture(scope="session")
def model() -> jmbs.Model:
    return jmbs.compile(pendulum())


@pytest.fixture(scope="session")
def state(model) -> jmbs.State:
    return model.initial_state()
