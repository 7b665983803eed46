"""Writes the diagrams of the documentation: `python docs/figures/make.py`."""

from __future__ import annotations

from pathlib import Path

import jax.numpy as jnp

from jmbs import draw, load
from jmbs.ephs import System
from jmbs.library.mechanics import (
    NoPotential,
    Offset,
    joint,
    relative_momentum,
    rigid_body,
    two_body_system,
    viscous_friction,
)
from jmbs.library.oscillator import damped_oscillator, oscillator
from jmbs.lie import Revolute
from jmbs.visualise.diagram import Drawing

HERE = Path(__file__).parent
CONFIGS = HERE.parents[1] / "configs"


def body() -> System:
    """A rigid body."""
    return rigid_body(jnp.asarray(1.0), jnp.eye(3), jnp.zeros(3))


def hinge() -> System:
    """A joint, here a hinge with friction."""
    motion = Revolute(jnp.array([0.0, 0.0, 1.0]))
    offset = Offset(jnp.zeros(3), jnp.array([1.0, 0.0, 0.0, 0.0]))
    friction = viscous_friction([0.1], relative_momentum(motion.group))
    return joint(motion, offset, offset, NoPotential(motion.group), friction)


def drawings() -> dict[str, Drawing]:
    """The pictures by file name."""
    two_bodies = two_body_system(body(), body(), hinge())
    oscillator_with_friction = damped_oscillator(1.0, 1.0, 0.1)
    return {
        "figure_1_two_bodies": draw(two_bodies, name="mbs"),
        "figure_2_rigid_body": draw(body(), name="body"),
        "figure_3_joint": draw(hinge(), name="joint"),
        "figure_4_two_bodies_flat": draw(two_bodies, flat=True, name="mbs"),
        "figure_5_oscillator": draw(oscillator(1.0, 1.0), name="osc"),
        "figure_6_damped_oscillator": draw(oscillator_with_friction, name="damped_osc"),
        "figure_7_damped_oscillator_flat": draw(oscillator_with_friction, flat=True, name="damped_osc"),
        "two_bodies_opened": draw(two_bodies, depth=2, name="mbs"),
        "slider_crank": draw(load(CONFIGS / "slider_crank.yaml")),
    }


if __name__ == "__main__":
    for name, drawing in drawings().items():
        print(drawing.save(HERE / f"{name}.svg"))
