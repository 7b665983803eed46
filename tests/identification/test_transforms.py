"""Coordinates without limits, values that are physical."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jmbs.errors import ModelError
from jmbs.identification.transforms import (
    LinearTransform,
    LogTransform,
    PseudoInertiaTransform,
    RotationTransform,
    jacobian,
    symmetric,
)

BODY = np.array([2.0, 0.1, -0.2, 0.05, 0.03, 0.04, 0.05, 0.001, -0.002, 0.003])


def transforms():
    quaternion = np.array([0.1, 0.2, 0.3, 0.5, 0.5, -0.5, 0.5])
    return [
        LogTransform(jnp.array([0.3, 2.0])),
        LinearTransform(jnp.array([0.3, -2.0]), jnp.array([0.3, 2.0])),
        PseudoInertiaTransform(jnp.asarray(BODY)),
        RotationTransform(jnp.asarray(quaternion)),
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


def test_body_that_cannot_be_is_refused():
    flat = np.array([1.0, 0, 0, 0, 1.0, 1.0, 3.0, 0, 0, 0])
    with pytest.raises(ModelError, match="a physical inertia"):
        PseudoInertiaTransform(jnp.asarray(flat)).coordinates(flat)


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
