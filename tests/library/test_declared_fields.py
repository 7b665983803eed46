"""Units and bounds that fields of users' components, joints and spring laws declare are those of the parameters."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest

import jmbs
from jmbs import ModelError, parameter
from jmbs.ephs import System, pattern, power_port
from jmbs.library.electric import Capacitor
from jmbs.lie import AbstractJointMotion, Rn, pose


class Valves(eqx.Module):
    openings: tuple[jax.Array, jax.Array]
    lift: jax.Array = parameter(unit="m", bounds=(0.0, 0.01))


class Tank(eqx.Module):
    area: float = parameter(unit="m^2", bounds=(0.1, 10.0))
    valves: Valves = parameter(unit="1", bounds=(0.0, 1.0))
    plain: float = 2.0

    @property
    def ports(self):
        return {"q": power_port(Rn(1), "charge")}

    def energy(self, x):
        return 0.5 * self.plain * x["q"][0] ** 2 / self.area * (1 + self.valves.lift + sum(self.valves.openings))


class Law(eqx.Module):
    rate: jax.Array = parameter(unit="N m/rad", bounds=(0.0, float("inf")))

    def energy(self, q):
        return 0.5 * self.rate * q[0] ** 2


class Track(AbstractJointMotion):
    radius: jax.Array = parameter(unit="m", bounds=(0.2, 2.0))
    name = "track"
    group = Rn(1)
    coordinate_names, coordinate_units = ("angle",), ("rad",)
    velocity_names, velocity_units = ("rate",), ("rad/s",)

    def inclusion(self, q):
        position = self.radius * jnp.array([jnp.cos(q[0]), jnp.sin(q[0]), 0.0 * q[0]])
        return pose(jnp.eye(3, dtype=q.dtype), position)


def tanks(area: Any = 1.0, lift: Any = 0.005) -> System:
    valves = Valves((jnp.array(0.5), jnp.array(1.0)), jnp.asarray(lift))
    boxes = {"a": Tank(1.0, valves), "b": Tank(area, valves), "c": Capacitor(1e-3)}
    ports = {name: box.ports for name, box in boxes.items()}
    return System(pattern(ports, {f"q{name}": f"{name}.q" for name in boxes}), boxes)


@pytest.fixture(scope="module")
def model():
    m = jmbs.Mechanism("track")
    m.add_body("car", mass=1.0, inertia=[1.0, 1.0, 1.0])
    m.add_joint("track", Track(jnp.array(0.5)), "ground", "car", spring=Law(jnp.array(3.0)))
    m.add_system("tanks", tanks())
    return m.compile()


def test_units_are_listed(model):
    units = {path: entry["unit"] for path, entry in model.parameters().items()}
    assert units["tanks/a/area"] == units["tanks/b/area"] == "m^2" and units["tanks/a/plain"] == "1"
    assert (units["tanks/b/valves/openings/1"], units["tanks/b/valves/lift"]) == ("1", "m")
    assert (units["track/radius"], units["track/spring/rate"], units["tanks/c/capacitance"]) == ("m", "N m/rad", "F")


@pytest.mark.parametrize(
    ("path", "value", "wanted"),
    [
        ("tanks/b/area", 0.05, "numbers from 0.1 up to 10, in m^2"),
        ("tanks/a/valves/openings/0", 1.1, "numbers from 0 up to 1, in 1"),
        ("tanks/b/valves/lift", 0.5, "numbers from 0 up to 0.01, in m"),
        ("track/radius", 2.1, "numbers from 0.2 up to 2, in m"),
        ("track/spring/rate", -1.0, "numbers from 0, in N m/rad"),
        ("tanks/c/capacitance", 0.0, "a finite positive number, F"),
    ],
)
def test_what_is_beyond_is_refused(model, path, value, wanted):
    with pytest.raises(ModelError) as error:
        model.with_parameters({path: value})
    assert (error.value.path, error.value.wanted) == (path, wanted)
    traced = jax.jit(lambda v: model.with_parameters({path: v}).allowed)
    assert not traced(jnp.array(value))


def test_ends_belong_to_the_bounds(model):
    assert model.with_parameters({"tanks/b/area": 0.1, "track/radius": 2.0, "tanks/a/plain": -5.0}).allowed is None
    assert jax.jit(lambda v: model.with_parameters({"tanks/b/area": v}).allowed)(jnp.array(10.0))


def test_what_is_beyond_does_not_compile():
    with pytest.raises(ModelError, match="b/area: found 20.0, wanted numbers from 0.1 up to 10, in m\\^2"):
        jmbs.compile(tanks(area=20.0))
    with pytest.raises(ModelError, match="a/valves/lift: found -1.0"):
        jmbs.compile(tanks(lift=-1.0))


@pytest.mark.parametrize("given", [{"bounds": (1.0, 0.0)}, {"bounds": 3.0}, {"bounds": (0.0, "x")}, {"unit": 3}])
def test_wrong_declarations(given):
    with pytest.raises(ModelError, match="bounds: found|unit: found"):
        parameter(**given)
