"""Efforts of storages against closed forms."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from library.random_states import (
    INERTIA,
    KEYS,
    assert_close,
    by_group,
    by_name,
    element,
    gradient,
    normal,
    sampled,
    states,
)

from jmbs.ephs import Role, role
from jmbs.library.mechanics.body import Gravity, KineticEnergy
from jmbs.library.mechanics.elements import LineSpring, ThermalStore
from jmbs.library.mechanics.joint import (
    JointPotential,
    NoPotential,
)
from jmbs.library.oscillator import Mass, Spring
from jmbs.lie import (
    SE3,
    SO3,
    Rn,
)


@by_group
def test_kinetic_energy_gives_the_velocity(group):
    component = KineticEnergy(jnp.asarray(2.5), INERTIA, group)
    assert role(component) is Role.STORAGE

    def sample(key):
        p = normal(key, 6)
        u = gradient(component, {"p": p})["p"]
        wanted = jnp.concatenate([jnp.linalg.solve(INERTIA, p[:3]), p[3:] / 2.5])
        back = component.state_from_effort({"p": u})["p"]
        return u - wanted, back - p, component.energy({"p": p}) - 0.5 * u @ p

    for difference in sampled(sample):
        assert_close(difference, 0.0)


@by_group
def test_gravity_pulls_with_the_weight(group):
    g = jnp.array([0.5, -1.0, -9.0])
    component = Gravity(jnp.asarray(2.5), g, group)

    def sample(key):
        q = element(key, group)
        weight = q[:, :3].T @ g if group == SE3 else g
        energy = component.energy({"q": q})
        return gradient(component, {"q": q})["q"] + 2.5 * jnp.concatenate([jnp.zeros(3), weight]), energy + 2.5 * g @ q[
            :, 3
        ]

    for difference in sampled(sample):
        assert_close(difference, 0.0)


@pytest.mark.parametrize("k", [1, 2])
def test_a_joint_spring_on_coordinates_is_linear(k):
    stiffness, rest = jnp.array([3.0, 5.0][:k]), jnp.array([0.4, -1.0][:k])
    component = JointPotential(stiffness, rest, Rn(k))

    def sample(key):
        q = normal(key, k)
        return gradient(component, {"q_r": q})["q_r"] - stiffness * (q - rest)

    assert_close(sampled(sample), 0.0)


def test_an_isotropic_spherical_spring_turns_back_along_the_rotation_vector():
    rest = element(KEYS[0], SO3)
    component = JointPotential(4.0 * jnp.eye(3), SO3.to_coordinates(rest), SO3)

    def sample(key):
        d = normal(key, 3)
        q = SO3.compose(rest, SO3.exp(d))
        return gradient(component, {"q_r": q})["q_r"] - 4.0 * d, component.energy({"q_r": q}) - 2.0 * d @ d

    for difference in sampled(sample):
        assert_close(difference, 0.0)


@pytest.mark.parametrize("group", [SO3, SE3], ids=lambda group: group.name)
def test_a_joint_spring_on_a_group_is_the_dual_of_the_logarithm(group):
    """`<e | u> = <K d | dexp^-1 u>` with `d = log(rest^-1 q)`: against finite differences of the logarithm."""
    half = normal(KEYS[0], group.dim, group.dim)
    stiffness, rest = half @ half.T, element(KEYS[1], group)
    component = JointPotential(stiffness, group.to_coordinates(rest), group)

    def sample(key):
        q = group.compose(rest, element(key, group))
        log = lambda step: group.log(group.compose(group.inverse(rest), group.compose(q, group.exp(step))))  # noqa: E731
        h = 1e-5
        slopes = jax.vmap(lambda s: (log(h * s) - log(-h * s)) / (2 * h), out_axes=1)(jnp.eye(group.dim))
        d = log(jnp.zeros(group.dim))
        return gradient(component, {"q_r": q})["q_r"], slopes.T @ (stiffness @ d)

    assert_close(*sampled(sample), 1e-8)


@by_name
def test_a_joint_without_spring_stores_nothing(motion):
    component = NoPotential(motion.group)
    x = states(component, KEYS[0])
    assert role(component) is Role.STORAGE
    assert component.energy(x) == 0
    assert_close(gradient(component, x)["q_r"], np.zeros(motion.group.dim))


def test_springs_and_masses_on_a_line():
    cases = [
        (Spring(jnp.asarray(3.0)), "q", lambda q: 3.0 * q),
        (Mass(jnp.asarray(4.0)), "p", lambda p: p / 4.0),
        (LineSpring(jnp.asarray(3.0), jnp.asarray(0.5)), "l", lambda length: 3.0 * (length - 0.5)),
    ]
    x = normal(KEYS[0], 1)
    for component, port, effort in cases:
        assert_close(gradient(component, {port: x})[port], effort(x))
    assert_close(Mass(jnp.asarray(4.0)).state_from_effort({"p": x})["p"], 4.0 * x)


def test_a_thermal_store_warms_up():
    store = ThermalStore(jnp.asarray(12.0), jnp.asarray(310.0))

    def sample(key):
        s = 5.0 * normal(key, 1)
        theta = gradient(store, {"s": s})["s"][0]
        heat_capacity = theta / jax.hessian(lambda s: store.energy({"s": s}))(s)[0, 0]
        return theta / (310.0 * jnp.exp(s[0] / 12.0)) - 1.0, heat_capacity - 12.0

    for difference in sampled(sample):
        assert_close(difference, 0.0)
    assert_close(gradient(store, {"s": jnp.zeros(1)})["s"], np.array([310.0]))
