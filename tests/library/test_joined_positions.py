"""Systems in redundant coordinates that are joined in position: met at the start, held, reported."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from quick import quick_jit

import jmbs
from jmbs.errors import AssemblyError, ModelError
from jmbs.library.mechanics.point_velocity import PointVelocity
from jmbs.library.redundant import redundant_system

LENGTH = 0.5


def tip(zeta):
    return LENGTH * jnp.stack([jnp.cos(zeta[0]), jnp.sin(zeta[0])])


def across(zeta):
    return LENGTH * jnp.stack([-jnp.sin(zeta[0]), jnp.cos(zeta[0])])[None]


def crank(positions: Any = None):
    return redundant_system(M=[[0.1]], B={"tip": across}, positions={"tip": tip} if positions is None else positions)


def mass(known: bool = True):
    """A point mass in the plane, under weight."""
    at = {"positions": {"at": lambda zeta: zeta}} if known else {}
    return redundant_system(M=2.0 * np.eye(2), B={"at": np.eye(2)}, V=lambda zeta: 2.0 * 9.81 * zeta[1], **at)


def pendulum(angle: float, place: Any = None, known: bool = True) -> jmbs.Model:
    machine = jmbs.Mechanism("pendulum", gravity=[0, 0, 0])
    machine.add_system("crank", crank())
    machine.add_system("mass", mass(known))
    machine.connect("joint", ["crank.tip", "mass.at"])
    start = {"crank/zeta": [angle], "mass/zeta": np.asarray(tip([angle])) if place is None else place}
    machine.set_initial(states=start)
    return machine.compile()


@pytest.fixture(scope="module")
def joined():
    return pendulum(-0.3)


@pytest.mark.slow
def test_the_gap_is_closed_by_the_projection(joined):
    """Velocities alone, joined, drift apart."""
    run = quick_jit(lambda m, s: jmbs.simulate(m, s, t1=1.0, save_every=0.25, dt=0.05, solver="rk4"))
    held, free = (run(model, model.initial_state()) for model in (joined, pendulum(-0.3, known=False)))

    def apart(sol):
        angle = np.asarray(sol.states["crank/zeta"])[:, 0]
        at = LENGTH * np.stack([np.cos(angle), np.sin(angle)], axis=-1)
        return np.abs(at - sol.states["mass/zeta"]).max()

    assert apart(held) < 1e-9 < 1e-7 < apart(free)
    assert float(jnp.max(held.constraint_position["mass/b_at"])) < 1e-9
    assert jnp.all(free.constraint_position["mass/b_at"] == 0)
    np.testing.assert_allclose(held.total, held.total[0], atol=1e-3)


def test_the_start_is_asked_for_the_gap():
    with pytest.raises(AssemblyError, match=r"states/mass/zeta: found an assembly that misses by 0\.1"):
        pendulum(0.0, [LENGTH + 0.1, 0.0]).initial_state()


def test_descriptions_count_what_is_integrated(joined):
    assert "rows on velocities alone" not in joined.describe()
    assert "rows on velocities alone" in pendulum(-0.3, known=False).describe()


def test_a_bodys_point_knows_its_position():
    machine = jmbs.Mechanism("mixed", gravity=[0, 0, 0])
    machine.add_body("arm", mass=1.0, inertia=[0.01, 0.014, 0.02])
    machine.add_joint("A", "revolute", "ground", "arm")
    machine.add_system("pin", PointVelocity([LENGTH, 0, 0], axes=((1, 0, 0), (0, 1, 0))))
    machine.add_system("mass", mass())
    for name, ports in (("p", ["arm.p", "pin.p"]), ("q", ["arm.q", "pin.q"]), ("C", ["pin.v", "mass.at"])):
        machine.connect(name, ports)
    machine.set_initial(joints={"A": {"q": 0.3}}, states={"mass/zeta": np.asarray(tip([0.3]))})
    model = machine.compile()
    assert "rows on velocities alone" not in model.describe()
    machine.set_initial(states={"mass/zeta": [0.0, 0.0]})
    with pytest.raises(AssemblyError, match="states/mass/zeta: found an assembly that misses by 0.478"):
        machine.compile().initial_state()


@pytest.mark.parametrize(
    ("positions", "message"),
    [
        ({"tip": lambda zeta: -tip(zeta)}, "positions/tip: found a position with the rate"),
        ({"tip": lambda zeta: zeta}, r"positions/tip: found shape \(1,\), wanted \(2,\), the port's size"),
        ({"top": tip}, "positions/top: found no such port, wanted one of tip"),
        ({"tip": 3.0}, "positions/tip: found 3.0, wanted a function of zeta"),
    ],
)
def test_what_is_refused(positions, message):
    with pytest.raises(ModelError, match=message):
        crank(positions)
