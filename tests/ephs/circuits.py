"""Electrical components as a user would write them, without a base class, and a compiled system to look rates up in.

A charge port has the voltage as effort and the current as flow; a flux port the current as effort, the voltage as flow.
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from quick import quick_jit

import jmbs
from jmbs.ephs import ENTROPY, ConstantEffort, System, flatten, pattern, power_port, reference_dae
from jmbs.lie import Rn
from jmbs.simulation.state import to_internal

THETA0 = 290.0
CHARGE, FLUX = power_port(Rn(1), "charge"), power_port(Rn(1), "flux_linkage")
HEAT = power_port(Rn(1), ENTROPY)


class Capacitor(eqx.Module):
    """Stores charge; its effort is the voltage `q / capacity`."""

    capacity: float

    @property
    def ports(self):
        return {"x": CHARGE}

    def energy(self, x):
        return 0.5 * x["x"][0] ** 2 / self.capacity


class Inductor(eqx.Module):
    """Stores flux linkage; its effort is the current `phi / inductance`."""

    inductance: float

    @property
    def ports(self):
        return {"y": FLUX}

    def energy(self, x):
        return 0.5 * x["y"][0] ** 2 / self.inductance


class Branch(eqx.Module):
    """A flux port between the nodes `a` and `b`: its current leaves `a` and enters `b`, its voltage is theirs."""

    @property
    def ports(self):
        return {"a": CHARGE, "b": CHARGE, "y": FLUX}

    def structure(self, x):
        del x
        return jnp.array([[0.0, 0.0, 1.0], [0.0, 0.0, -1.0], [-1.0, 1.0, 0.0]]), None


class Grounded(eqx.Module):
    """A flux port between the node `x` and earth."""

    @property
    def ports(self):
        return {"x": CHARGE, "y": FLUX}

    def structure(self, x):
        del x
        return jnp.array([[0.0, 1.0], [-1.0, 0.0]]), None


class Sum(eqx.Module):
    """Efforts add up, `a + b = c`; the multiplier is what all three have in common."""

    port: object

    @property
    def ports(self):
        return dict.fromkeys("abc", self.port)

    def structure(self, x):
        del x
        return None, jnp.array([[1.0, 1.0, -1.0]])


class Resistor(eqx.Module):
    """A flow `value (u + cubic u^3)` through a drop of efforts `u`: from a node to earth, or between two nodes."""

    value: float
    cubic: float = 0.0
    port: object = eqx.field(static=True, default=CHARGE)
    nodes: tuple = eqx.field(static=True, default=("x",))

    @property
    def ports(self):
        return {**dict.fromkeys(self.nodes, self.port), "s": HEAT}

    def onsager(self, x, e):
        del x
        sign = jnp.array([1.0, -1.0][: len(self.nodes)])
        drop = sum(s * e[n][0] for s, n in zip(sign, self.nodes, strict=True))
        theta = e.temperature("s")
        row = jnp.concatenate([theta * sign, -drop[None]])
        return self.value * (1 + self.cubic * drop**2) * jnp.outer(row, row) / theta


class Gear(eqx.Module):
    """An ideal transformer: `b = ratio a`."""

    turns: float
    output = "b"

    @property
    def ports(self):
        return {"a": CHARGE, "b": CHARGE}

    def ratio(self, x):
        del x
        return jnp.reshape(jnp.asarray(self.turns), (1, 1))


def system(boxes, junctions, outer=(), drives=None):
    return System(pattern({name: box.ports for name, box in boxes.items()}, junctions, outer), boxes, drives or {})


def effort(value):
    return ConstantEffort(jnp.array([value]))


@quick_jit
def dynamics(model, t, state):
    return model.dynamics(t, state)


@quick_jit
def reference_rates(dae, t, x):
    return dae.rates(t, x)


class Solved:
    """A system's rates at its initial state, looked up by junction.

    Through `jmbs.compile`, or (less to compile) straight from the general semantics.
    """

    def __init__(self, built, initial=None, t=0.0, compiled=True):
        initial = {name: jnp.array([value]) for name, value in (initial or {}).items()}
        if compiled:
            self.model = jmbs.compile(built, initial=initial, environment_temperature=THETA0)
            state = self.model.initial_state()
            self.dae, self.rates = self.model.dae, dynamics(self.model, t, state)
            self.x = to_internal(self.dae, state)
        else:
            self.dae = reference_dae(flatten(built), THETA0, jnp.float64, kinematic=False)
            zero = jnp.zeros(1)
            self.x = tuple(jnp.stack([initial.get(n, zero) for n in b.junctions]) for b in self.dae.plan.blocks)
            self.rates = reference_rates(self.dae, t, self.x)

    def rate(self, junction):
        return float(self.rates.velocity[self.dae.plan.slots[junction]][0])

    def effort(self, junction):
        return float(self.rates.efforts[self.dae.plan.slots[junction]][0])

    @property
    def power(self):
        return self.rates.power


def close(value, wanted):
    assert value == pytest.approx(wanted, rel=1e-10, abs=1e-10)


def balanced(solved, temperature=THETA0):
    """Supplied less dissipated power goes into stored energy; all heat makes entropy at the given temperature."""
    dae, x = solved.dae, solved.x

    def energy(x):
        return jnp.sum(dae.energies(x)[np.array([path != "store" for path in dae.plan.storages], bool)])

    _, rate = jax.jvp(energy, (x,), (dae.lift(x, solved.rates.velocity),))
    close(float(rate), float(solved.power.supplied - solved.power.dissipated))
    close(float(solved.power.entropy), float(solved.power.dissipated) / temperature)
    close(float(solved.power.constraint), 0.0)
