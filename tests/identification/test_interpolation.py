"""Between knots: sixth order, exact rates of polynomials, derivatives by the times."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jmbs.identification.interpolation import at_times, rate


def test_polynomials_of_fifth_degree_are_exact():
    coefficients = np.array([0.3, -1.0, 2.0, 0.5, -0.7, 0.2])
    knots, times = 0.5 + 0.1 * np.arange(20), np.linspace(0.5, 2.4, 57)
    values = jnp.asarray(np.polyval(coefficients, knots))
    np.testing.assert_allclose(
        at_times(0.5, 0.1, values, jnp.asarray(times)), np.polyval(coefficients, times), atol=1e-10
    )
    np.testing.assert_allclose(rate(0.1, values), np.polyval(np.polyder(coefficients), knots), atol=1e-9)


def test_order():
    times = jnp.linspace(0.1, 1.9, 301)
    errors = []
    for step in (0.04, 0.02):
        values = jnp.sin(7 * step * np.arange(int(2 / step) + 1))
        errors.append(float(jnp.max(jnp.abs(at_times(0.0, step, values, times) - jnp.sin(7 * times)))))
    assert np.log2(errors[0] / errors[1]) > 5.5


def test_derivative_by_a_delay_and_first_value_before_the_start():
    values = jnp.cos(jnp.asarray(np.arange(30) * 0.1))
    times = jnp.array([0.05, 0.35, 1.0])
    slope = jax.jvp(lambda delay: at_times(0.0, 0.1, values, times - delay), (0.02,), (1.0,))[1]
    np.testing.assert_allclose(slope, jnp.sin(times - 0.02), atol=1e-5)
    assert at_times(0.0, 0.1, values, jnp.array([-1.0]))[0] == pytest.approx(1.0)


def test_rate_of_vectors():
    t = jnp.asarray(np.arange(40) * 0.05)
    values = jnp.stack([jnp.sin(t), t**2], axis=1)
    np.testing.assert_allclose(rate(0.05, values), jnp.stack([jnp.cos(t), 2 * t], axis=1), atol=1e-7)
