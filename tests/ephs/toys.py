"""Components as a user would write them, lawful and not, and the check that a model is refused as it should be."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
import pytest

import jmbs
from jmbs.ephs import ENTROPY, System, flatten, pattern, power_port, state_port, validate
from jmbs.errors import ModelError
from jmbs.lie import Rn


class Tank(eqx.Module):
    """A user's storage: `1/2 x^2 / capacity`."""

    capacity: float = 2.0

    @property
    def ports(self):
        return {"x": power_port(Rn(1), "charge")}

    def energy(self, x):
        return 0.5 * x["x"][0] ** 2 / self.capacity


class Coil(eqx.Module):
    """A storage of flux."""

    @property
    def ports(self):
        return {"y": power_port(Rn(1), "flux")}

    def energy(self, x):
        return 0.5 * x["y"][0] ** 2


class Watcher(eqx.Module):
    """A reversible component that reads a charge and carries another; its `J` and `C` are given."""

    J: object = None
    C: object = None

    @property
    def ports(self):
        return {"a": power_port(Rn(1), "flux"), "b": power_port(Rn(1), "flux"), "x": state_port(Rn(1), "charge")}

    def structure(self, x):
        del x
        return self.J, self.C


class Resistor(eqx.Module):
    """An irreversible component with a given Onsager matrix at unit temperature ratio."""

    matrix: object
    thermal: bool = True

    @property
    def ports(self):
        second = power_port(Rn(1), ENTROPY) if self.thermal else power_port(Rn(1), "charge")
        return {"x": power_port(Rn(1), "charge"), "s": second}

    def onsager(self, x, e):
        del x
        return self.matrix(e)


class Leak(eqx.Module):
    """A lawful resistor: conducts `e`, heats `s`."""

    conductance: float = 0.5

    @property
    def ports(self):
        return {"x": power_port(Rn(1), "charge"), "s": power_port(Rn(1), ENTROPY)}

    def onsager(self, x, e):
        del x
        v, theta = e["x"][0], e.temperature("s")
        return self.conductance * jnp.array([[theta, -v], [-v, v * v / theta]])


class Ideal(eqx.Module):
    """A reversible component without rows: lawful, and needs no state."""

    @property
    def ports(self):
        return {"x": power_port(Rn(1), "charge"), "y": power_port(Rn(1), "flux")}

    def structure(self, x):
        del x
        return jnp.array([[0.0, 1.0], [-1.0, 0.0]]), None


def system(boxes, junctions, outer=(), drives=None):
    return System(pattern({name: box.ports for name, box in boxes.items()}, junctions, outer), boxes, drives or {})


def refuse(build, path, found, wanted):
    """`build` raises a `ModelError` at exactly `path` whose found and wanted contain the given words."""
    with pytest.raises(ModelError) as caught:
        build()
    error = caught.value
    assert error.path == path
    assert found in str(error.found)
    assert wanted in error.wanted
    assert all(text in str(error) for text in (error.path, str(error.found), error.wanted))


def refuse_system(built, path, found, wanted):
    """Refused by `validate` and so by `jmbs.compile`."""
    refuse(lambda: validate(flatten(built)), path, found, wanted)
    refuse(lambda: jmbs.compile(built), path, found, wanted)
