"""The second law and the formula of friction, and that it is smooth at rest."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from library.random_states import THETA0, assert_close, normal, sampled, uniform
from quick import quick_jit

from jmbs.ephs import Efforts, Quantity, Role, role
from jmbs.library.mechanics.friction import Friction, viscous_friction
from jmbs.lie import (
    Rn,
)

PARTS = {"coulomb": 2.0, "static": 3.5, "stribeck_velocity": 0.4, "regularisation_velocity": 0.05}


def friction(viscous, groups, space):
    dry = {name: jnp.full(len(groups), value) for name, value in PARTS.items()}
    return Friction(jnp.asarray(viscous), **dry, momentum=Quantity(space, "momentum"), groups=groups)


MATRIX = jnp.array([[0.5, 0.1, 0.0], [0.1, 0.4, -0.2], [0.0, -0.2, 0.3]])
IRREVERSIBLE = {
    "one": friction([0.7], ((0,),), Rn(1)),
    "two apart": friction([0.7, 0.0], ((0,), (1,)), Rn(2)),
    "three together": friction([0.7, 0.2, 0.1], ((0, 1, 2),), Rn(3)),
    "matrix": friction(MATRIX, ((0, 1), (2,)), Rn(3)),
    "viscous": viscous_friction([0.7, 0.2], Quantity(Rn(2), "momentum")),
    "viscous matrix": viscous_friction(MATRIX, Quantity(Rn(3), "momentum")),
    "none": viscous_friction([0.0], Quantity(Rn(1), "momentum")),
}


def force(component, u, theta):
    """Flows `(mu, heat port)` at a velocity and an absolute temperature."""
    e = Efforts({"p_r": u, "s": jnp.reshape(theta - THETA0, (1,))}, jnp.asarray(THETA0))
    M = component.onsager({}, e)
    flows = M @ jnp.concatenate([u, e["s"]]) / THETA0
    return flows[:-1], flows[-1], M


@pytest.mark.parametrize("name", IRREVERSIBLE)
def test_an_onsager_structure_obeys_both_laws(name):
    component = IRREVERSIBLE[name]
    assert role(component) is Role.IRREVERSIBLE
    k = component.momentum.space.dim

    def sample(key):
        u, theta = 0.5 * normal(key, k), THETA0 + 80.0 * uniform(key) - 20.0
        mu, heat_flow, M = force(component, u, theta)
        conserved = M @ jnp.concatenate([u, theta[None]])
        return M - M.T, jnp.linalg.eigvalsh(M), conserved, mu @ u + theta * heat_flow, -heat_flow, mu @ u / theta

    asymmetry, eigenvalues, conserved, power, entropy, wanted = sampled(sample)
    assert_close(asymmetry, 0.0, 1e-13)
    assert np.all(eigenvalues >= -1e-12 * (1 + eigenvalues.max()))
    assert_close(conserved, 0.0, 1e-10)
    assert_close(power, 0.0)
    assert_close(entropy, wanted)
    assert np.all(entropy >= 0)


def config_formula(u, viscous, coulomb, static, stribeck_velocity, regularisation_velocity):
    level = coulomb + (static - coulomb) * np.exp(-((u / stribeck_velocity) ** 2))
    return viscous * u + np.tanh(u / regularisation_velocity) * level


def test_friction_is_the_formula_of_the_config():
    u = jnp.concatenate([jnp.array([0.0]), *(s * jnp.logspace(-9, 2, 60) for s in (1, -1))])
    component = IRREVERSIBLE["one"]
    mu = jax.jit(jax.vmap(lambda u: force(component, u[None], jnp.asarray(300.0))[0][0]))(u)
    np.testing.assert_allclose(mu, config_formula(np.asarray(u), 0.7, **PARTS), rtol=1e-13, atol=0)


def test_dry_friction_of_a_group_opposes_its_velocity():
    component = IRREVERSIBLE["three together"]

    def sample(key):
        u = 0.3 * normal(key, 3)
        return u, force(component, u, jnp.asarray(300.0))[0]

    u, mu = sampled(sample)
    size = np.linalg.norm(u, axis=1, keepdims=True)
    wanted = config_formula(size, 0.0, **PARTS) * u / size + np.array([0.7, 0.2, 0.1]) * u
    np.testing.assert_allclose(mu, wanted, rtol=1e-12)


@pytest.mark.parametrize("name", ["one", "three together", "matrix", "viscous matrix"])
def test_friction_at_rest_has_finite_derivatives(name):
    component = IRREVERSIBLE[name]
    k = component.momentum.space.dim
    mu = lambda u: force(component, u, jnp.asarray(300.0))[0]  # noqa: E731
    zero = jnp.zeros(k)
    slope, curvature = quick_jit(lambda u: (jax.jacrev(mu)(u), jax.jacfwd(jax.jacrev(mu))(u)))(zero)
    assert_close(mu(zero), np.zeros(k))
    # An odd function: symmetric slope, no curvature.
    assert_close(slope, slope.T)
    assert_close(curvature, np.zeros((k, k, k)))
    dry = PARTS["static"] / PARTS["regularisation_velocity"] if isinstance(component, Friction) else 0.0
    viscous = component.viscous if component.viscous.ndim == 2 else jnp.diag(component.viscous)
    assert_close(slope, viscous + dry * jnp.eye(k))
