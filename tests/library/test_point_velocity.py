"""The velocity of a body's point is the rate of the point's position, on both pose groups."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest
from library.random_states import KEYS, assert_close, by_group, element, normal

from jmbs.ephs import validate_component
from jmbs.library.mechanics.point_velocity import PointVelocity
from jmbs.library.redundant import examples

POINT = jnp.array([0.4, -0.3, 0.7])
AXES = {"world": PointVelocity(POINT).axes, "plane": ((1, 0, 0), (0, 1, 0)), "slanted": [[0.6, 0.0, 0.8]]}


@by_group
@pytest.mark.parametrize("axes", AXES.values(), ids=AXES)
def test_it_is_the_rate_of_the_position(group, axes):
    box = PointVelocity(POINT, axes, group)
    validate_component("point", box)
    q, u = element(KEYS[0], group), normal(KEYS[1], 6)
    position = lambda q: q[:, :3] @ POINT + q[:, 3]  # noqa: E731
    _, rate = jax.jvp(position, (q,), (group.lift(q, u),))
    assert_close(box.ratio({"q": q}) @ u, jnp.array(axes, float) @ rate)


def test_its_port_meets_those_of_redundant_systems():
    pin = PointVelocity([0.1, 0, 0], ((1, 0, 0), (0, 1, 0)))
    assert pin.ports["v"] == examples.crank().ports["C"]
