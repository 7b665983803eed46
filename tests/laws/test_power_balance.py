"""The first and second law along the equations of motion, for every joint, element, drive and configuration group."""

from __future__ import annotations

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from quick import quick_jit
from zoo import MECHANISMS, Motion, accelerations, internal, sample

import jmbs
from jmbs.ephs import flatten, reference_dae

SAMPLES = 3
TIME = 0.3
STEP = 1e-5
SLOW = ("chain", "chain mixed", "chain direct", "tree direct", "loose", "loose mixed", "four_bar direct")
"""Their like are in the other mechanisms; they are here to compare the groups, and each has to be compiled."""


def marked(names):
    return [pytest.param(name, marks=pytest.mark.slow if name in SLOW else ()) for name in names]


every_mechanism = pytest.mark.parametrize("name", marked(MECHANISMS))


@functools.cache
def mechanism(name):
    return MECHANISMS[name]()


@functools.cache
def compiled(name):
    model = jmbs.compile(mechanism(name))
    assert model.dae.kinematic
    return model


@functools.cache
def motions(kind):
    """Random consistent motions of all variants of a mechanism, stacked."""
    if kind != "four_bar":
        return quick_jit(jax.vmap(lambda key: sample(mechanism(kind), key)))(jnp.arange(1.0, SAMPLES + 1.0))
    # A closed loop is assembled; it starts from the one coordinate and velocity that are given.
    state, plan = compiled(kind).initial_state(), compiled(kind).dae.plan
    at = lambda path, port: state[plan.junction_of[path, port]]  # noqa: E731
    bodies, joints = mechanism(kind).bodies, mechanism(kind).joints
    motion = Motion(
        {name: at(f"{name}/pe", "q") for name in bodies},
        {name: at(f"{name}/ke", "p") for name in bodies},
        {name: at(f"{name}/pe", "q_r") for name in joints},
        {"oil": jnp.array([0.4])},
    )
    return jax.tree.map(lambda leaf: leaf[None], motion)


def stirred(motion):
    """The same configuration with velocities that break the joints."""
    return motion._replace(twists={name: u + jnp.sin(jnp.arange(6.0)) for name, u in motion.twists.items()})


@quick_jit
@eqx.filter_vmap(in_axes=(None, 0, 0))
def equations(dae, t, x):
    """The equations' rates, and those of energies and closures along them."""
    rates = dae.rates(t, x)
    moving = dae.lift(x, rates.velocity)
    _, energy_rates = jax.jvp(dae.energies, (x,), (moving,))
    closures, closure_rates = jax.jvp(dae.closures, (x,), (moving,))
    return rates, energy_rates, closures, closure_rates


@functools.cache
def evaluated(name, eliminate=True):
    """Everything that the laws speak about, at consistent motions and then at stirred ones."""
    mech, dae = mechanism(name), compiled(name).dae
    if not eliminate:
        dae = reference_dae(flatten(mech.system()), mech.environment_temperature, jnp.float64, eliminate=False)
    still = motions(name.split()[0])
    motion = jax.tree.map(lambda a, b: jnp.concatenate([a, b]), still, quick_jit(jax.vmap(stirred))(still))
    x = quick_jit(jax.vmap(lambda motion: internal(mech, dae, motion)))(motion)
    t = jnp.full(len(x[0]), TIME)
    rates, energy_rates, closures, closure_rates = equations(dae, t, x)
    moving = quick_jit(jax.vmap(lambda x, v: dae.lift(x, v)))(x, rates.velocity)
    step = lambda h: jax.tree.map(lambda at, rate: at + h * rate, x, moving)  # noqa: E731
    ahead, behind = (equations(dae, t + h, step(h))[0].violation for h in (STEP, -STEP))
    found = {
        "rates": rates,
        "energy_rates": energy_rates,
        "closures": closures,
        "closure_rates": closure_rates,
        "violation_rates": (ahead - behind) / (2 * STEP),
        "accelerations": quick_jit(jax.vmap(lambda m, v: accelerations(mech, dae, m, v)))(motion, rates.velocity),
        "efforts": {junction: rates.efforts[:, slots] for junction, slots in dae.plan.slots.items()},
        "production": {path: rates.power.production[:, i] for i, path in enumerate(dae.plan.irreversible)},
    }
    return jax.tree.map(np.asarray, found)


def consistent(found):
    """The first half: motions that meet all joints."""
    return jax.tree.map(lambda leaf: leaf[: leaf.shape[0] // 2], found)


def assert_small(residual, size, tolerance):
    assert np.all(np.abs(residual) <= tolerance * (1e-3 + np.abs(size)))


def assert_same_power(one, other, scale):
    """Irreversible components are compared by path: their order is the plan's."""
    for field in ("supplied", "dissipated", "entropy", "constraint"):
        assert_small(getattr(one["rates"].power, field) - getattr(other["rates"].power, field), scale, 1e-9)
    assert one["production"].keys() == other["production"].keys()
    for path, production in one["production"].items():
        assert_small(production - other["production"][path], scale, 1e-9)


def entropy_rates(name, velocity):
    """Entropy rates by junction: of environments, and of stores."""
    plan = compiled(name).dae.plan
    blocks = [block for block in plan.blocks if block.label.startswith("entropy")]
    into = lambda environment: sum(  # noqa: E731
        (velocity[:, b.slots].sum(1) for b in blocks if b.environment == environment), np.zeros(len(velocity))
    )
    return into(True), into(False)


@every_mechanism
def test_first_law(name):
    """`dH/dt = supplied - dissipated (+ what multipliers feed in off the constraints)`, and the latter is heat."""
    found = evaluated(name)
    power, rates = found["rates"].power, found["energy_rates"]
    thermal = np.array([path in mechanism(name).stores for path in compiled(name).dae.plan.storages], bool)
    size = np.sum(np.abs(rates), axis=1) + np.abs(power.supplied)
    size = size + power.dissipated + np.abs(power.constraint)
    mechanical = np.sum(rates[:, ~thermal], axis=1)
    gap = mechanical - (power.supplied - power.dissipated + power.constraint)
    assert_small(consistent(gap), consistent(size), 1e-10)
    # Velocities that break redundant joints cause large self-stress, which costs digits.
    assert_small(gap, size, 1e-8)
    heat = np.sum(rates[:, thermal], axis=1)
    environment, _ = entropy_rates(name, found["rates"].velocity)
    heat = heat + mechanism(name).environment_temperature * environment
    assert_small(heat - power.dissipated, size, 1e-10)
    assert_small(consistent(power.constraint), consistent(size), 1e-10)


@every_mechanism
def test_second_law(name):
    power = evaluated(name)["rates"].power
    environment, stores = entropy_rates(name, evaluated(name)["rates"].velocity)
    assert np.all(power.entropy >= 0)
    assert np.all(power.dissipated >= 0)
    np.testing.assert_allclose(environment + stores, power.entropy, rtol=1e-12)


@every_mechanism
def test_the_motion_stays_on_the_constraints(name):
    found = consistent(evaluated(name))
    size = np.max(np.abs(found["rates"].velocity))
    assert_small(found["closures"], 1.0, 1e-10)
    assert_small(found["rates"].violation, size, 1e-10)
    assert_small(found["violation_rates"], size, 1e-7)


@every_mechanism
def test_rows_are_the_rates_of_closures(name):
    """Where positions meet the joints, and whatever the velocities."""
    found = evaluated(name)
    size = np.max(np.abs(found["rates"].violation))
    assert_small(found["closure_rates"] - found["rates"].violation, size, 1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tree", "chain mixed", "four_bar"])
def test_eliminated_transformers_change_nothing(name):
    """Offsets, ground and lines of action kept as constraints give the same motion and the same efforts everywhere."""
    one, other = consistent(evaluated(name)), consistent(evaluated(name, eliminate=False))
    scale = np.max(np.abs(one["rates"].velocity))
    assert_small(one["rates"].velocity - other["rates"].velocity, scale, 1e-9)
    for junction, effort in one["efforts"].items():
        assert_small(effort - other["efforts"][junction], np.max(np.abs(effort), initial=1.0), 1e-9)
    assert_same_power(one, other, scale)


@pytest.mark.slow
@pytest.mark.parametrize(
    "variant",
    ["chain mixed", *(n for n in MECHANISMS if n.endswith(("direct", "e mixed")))],
)
def test_both_groups_give_the_same_motion(variant):
    reference = variant.split()[0]
    one, other = consistent(evaluated(reference)), consistent(evaluated(variant))
    scale = max(np.max(np.abs(a)) for a in one["accelerations"].values())
    for body, acceleration in one["accelerations"].items():
        assert_small(acceleration - other["accelerations"][body], scale, 1e-9)
    assert_same_power(one, other, scale)
