"""The basic multibody system, two bodies and a joint, and its flattening."""

from __future__ import annotations

import jax.numpy as jnp

from jmbs.ephs import flatten, validate
from jmbs.library.mechanics import Mechanism, rigid_body, two_body_system


def test_its_flattening_has_the_boxes_of_bodies_and_joint():
    mechanism = Mechanism()
    for name in ("b1", "b2"):
        mechanism.add_body(name, mass=1.0, inertia=[1.0, 1.0, 1.0])
    mechanism.add_joint("j", "revolute", "b1", "b2")
    body = rigid_body(jnp.asarray(1.0), jnp.eye(3), jnp.zeros(3))
    flat = flatten(two_body_system(body, body, mechanism.system().boxes["j"]))
    validate(flat)
    bodies = {f"{b}/{box}" for b in ("b1", "b2") for box in ("pe", "pkc", "ke", "lp")}
    joint = {f"j/{box}" for box in ("hc", "o1", "o2", "pe", "pkc", "mf", "env")}
    assert set(flat.components) == bodies | joint
    momenta = {j.name: {path for path, _ in j.ports} for j in flat.junctions if j.name in ("b1/p", "b2/p")}
    assert momenta == {f"b{i}/p": {f"b{i}/pkc", f"b{i}/ke", f"b{i}/lp", f"j/o{i}"} for i in (1, 2)}
    assert [closure.name for closure in flat.closures] == ["j"]
