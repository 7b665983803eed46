"""Coordinates without limits, values that are physical."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jmbs.errors import ModelError
from jmbs.identification.least_squares import Iterate, Limits, minimise
from jmbs.identification.transforms import (
    InertiaTransform,
    LinearTransform,
    LogTransform,
    PseudoInertiaTransform,
    RotationTransform,
    inertia_bounds,
    jacobian,
    symmetric,
)
from jmbs.library.mechanics.rules import _is_inertia

BODY = np.array([2.0, 0.1, -0.2, 0.05, 0.03, 0.04, 0.05, 0.001, -0.002, 0.003])


def transforms():
    quaternion = np.array([0.1, 0.2, 0.3, 0.5, 0.5, -0.5, 0.5])
    return [
        LogTransform(jnp.array([0.3, 2.0])),
        LinearTransform(jnp.array([0.3, -2.0]), jnp.array([0.3, 2.0])),
        PseudoInertiaTransform(jnp.asarray(BODY)),
        RotationTransform(jnp.asarray(quaternion)),
        InertiaTransform(jnp.asarray(symmetric(BODY[4:]).ravel()), 0.2),
    ]


@pytest.mark.parametrize("transform", transforms(), ids=lambda t: type(t).__name__)
def test_start_and_back(transform):
    start = np.asarray(transform.start)
    first = transform.coordinates(start)
    np.testing.assert_allclose(transform.values(jnp.asarray(first)), start, atol=1e-14)
    other = first + 0.3 * np.random.default_rng(0).normal(size=first.shape)
    np.testing.assert_allclose(
        transform.coordinates(np.asarray(transform.values(jnp.asarray(other)))), other, atol=1e-12
    )


def test_every_coordinate_is_a_body():
    transform = PseudoInertiaTransform(jnp.asarray(BODY))
    rng = np.random.default_rng(1)
    values = jax.vmap(transform.values)(jnp.asarray(rng.normal(scale=1.5, size=(200, 10))))
    for row in np.asarray(values):
        moments = np.linalg.eigvalsh(symmetric(row[4:]))
        assert row[0] > 0
        assert moments[0] > 0
        assert moments[2] <= moments[0] + moments[1] + 1e-12 * moments[2]

    inertia = transforms()[4]
    for row in np.asarray(jax.vmap(inertia.values)(jnp.asarray(rng.normal(scale=1.5, size=(200, 6))))):
        moments = np.linalg.eigvalsh(row.reshape(3, 3))
        assert moments[0] > 0 and moments[2] <= moments[0] + moments[1] + 1e-12 * moments[2]


@pytest.mark.parametrize("wanted", [[np.nan, 0.015, np.nan], [0.01, 0.01, 0.0], [0.01, 0.05, 0.02]])
def test_the_way_to_an_inertia_meets_no_wall(wanted):
    """Where others that nothing shows must give way, where the best is a rod, and where it is no body at all."""
    start = np.diag([0.005, 0.05, 0.047]).ravel()
    transform = InertiaTransform(jnp.asarray(start), float(np.sqrt(0.05)))
    seen = np.isfinite(wanted)
    look = jax.jit(lambda x: (transform.values(x), jax.jacfwd(transform.values)(x)))
    allow = jax.jit(_is_inertia)

    def evaluate(x):
        values, slopes = (np.asarray(array).reshape(3, 3, -1) for array in look(jnp.asarray(x)))
        rows = 1e4 * slopes[np.diag_indices(3)][seen]
        allowed = 1.0 if allow(jnp.asarray(values[..., 0])) else np.nan
        return allowed * 1e4 * (np.diag(values[..., 0]) - wanted)[seen], rows

    lower, upper = inertia_bounds(transform)
    found = minimise(evaluate, Iterate(transform.coordinates(start)), Limits(lower, upper), lambda _: None)
    assert found.stopped == "converged"
    reached = np.diag(np.asarray(transform.values(jnp.asarray(found.x))).reshape(3, 3))
    best = np.array(wanted) if wanted[2] != 0.02 else np.array([0.01, 0.05, 0.02]) + np.array([1, -1, 1]) * 0.02 / 3
    np.testing.assert_allclose(reached[seen], best[seen], atol=1e-6)


def test_body_that_cannot_be_is_refused():
    flat = np.array([1.0, 0, 0, 0, 1.0, 1.0, 3.0, 0, 0, 0])
    with pytest.raises(ModelError, match="a physical inertia"):
        PseudoInertiaTransform(jnp.asarray(flat)).coordinates(flat)

    with pytest.raises(ModelError, match="a physical inertia"):
        InertiaTransform(jnp.zeros(9), 1.0).coordinates(np.diag([1.0, 1.0, 3.0]).ravel())


def test_rotation_is_a_unit_quaternion():
    transform = transforms()[3]
    values = np.asarray(transform.values(jnp.array([0.0, 0, 0, 2.0, -1.0, 0.5])))
    assert np.linalg.norm(values[3:]) == pytest.approx(1, abs=1e-14)


def test_derivative():
    transform = PseudoInertiaTransform(jnp.asarray(BODY))
    first = transform.coordinates(BODY)
    step = 1e-6 * np.eye(10)
    differences = [np.asarray(transform.values(first + d)) - np.asarray(transform.values(first - d)) for d in step]
    np.testing.assert_allclose(jacobian(transform, first), np.stack(differences, axis=1) / 2e-6, atol=1e-8)
