"""Standard errors of correlated residuals: that they cover, what they are of noise, and what must not matter."""

from __future__ import annotations

import types

import numpy as np
import pytest
import scipy.signal

from jmbs.identification.robust import long_run_variance, robust_covariance

N = 500


def coloured(rng: np.random.Generator, correlation: float, n: int = N) -> np.ndarray:
    """First-order noise of variance one."""
    innovations = np.sqrt(1 - correlation**2) * rng.normal(size=n + 300)
    return scipy.signal.lfilter([1.0], [1.0, -correlation], innovations)[300:]


def linear_model(n: int = N) -> np.ndarray:
    """The Jacobian (n, 4) of a decaying oscillation with an offset."""
    ts = np.linspace(0.0, 3.0, n)
    decay = np.exp(-0.5 * ts)
    return np.stack([decay * np.sin(4 * ts), ts * decay * np.cos(4 * ts), decay * np.cos(12 * ts), np.ones(n)], 1)


def problem(*weights: np.ndarray):
    """What stands for a problem whose training recordings have these weights (c, n)."""
    experiments = [
        types.SimpleNamespace(member=types.SimpleNamespace(weights=w), samples=lambda w=w: int(np.sum(w > 0)))
        for w in weights
    ]
    return types.SimpleNamespace(training=experiments)


def robust(of, residual: np.ndarray, jacobian: np.ndarray) -> np.ndarray:
    _, values, directions = np.linalg.svd(jacobian, full_matrices=False)
    return robust_covariance(of, residual, jacobian, directions, values)


def test_they_cover_where_plain_ones_do_not():
    """95 % intervals of a linear model with noise of correlation 0.8: the plain ones hold half of the time."""
    rng, jacobian = np.random.default_rng(0), linear_model()
    inverse = np.linalg.inv(jacobian.T @ jacobian)
    plain, held = np.zeros(4), np.zeros(4)
    repeats = 300
    for _ in range(repeats):
        noise = coloured(rng, 0.8)
        estimate = inverse @ jacobian.T @ noise
        residual = noise - jacobian @ estimate
        plain += np.abs(estimate) < 1.96 * np.sqrt(np.diag(inverse))
        held += np.abs(estimate) < 1.96 * np.sqrt(np.diag(robust(problem(np.ones((1, N))), residual, jacobian)))
    assert np.all(plain / repeats < 0.7)
    assert np.all(held / repeats > 0.87) and np.all(held / repeats < 0.99)


@pytest.mark.parametrize("correlation", [-0.6, 0.0, 0.5, 0.9])
def test_the_variance_of_a_sum_is_that_of_the_law(correlation: float):
    """Of first-order noise the sum of n has the variance n (1 + c) / (1 - c)."""
    rng = np.random.default_rng(1)
    found = [long_run_variance([coloured(rng, correlation, 4000)[:, None]])[0, 0] / 4000 for _ in range(40)]
    assert np.mean(found) == pytest.approx((1 + correlation) / (1 - correlation), rel=0.15)


def test_of_noise_they_are_those_of_the_jacobian():
    rng, jacobian = np.random.default_rng(2), linear_model(4000)
    found = robust(problem(np.ones((1, 4000))), rng.normal(size=4000), jacobian)
    plain = np.linalg.inv(jacobian.T @ jacobian)
    np.testing.assert_allclose(np.sqrt(np.diag(found)), np.sqrt(np.diag(plain)), rtol=0.25)


def test_units_missing_rows_and_the_order_of_recordings_do_not_matter():
    rng = np.random.default_rng(3)
    first, second = linear_model(400), linear_model(300) * [1.0, 2.0, 0.5, 1.0]
    noise = [coloured(rng, 0.6, 400), coloured(rng, 0.6, 300)]
    one = robust(problem(np.ones((1, 400)), np.ones((1, 300))), np.concatenate(noise), np.concatenate([first, second]))
    other = robust(
        problem(np.ones((1, 300)), np.ones((1, 400))), np.concatenate(noise[::-1]), np.concatenate([second, first])
    )
    np.testing.assert_allclose(other, one, rtol=1e-9)
    scale = np.array([1e3, 1.0, 1e-2, 7.0])
    scaled = robust(
        problem(np.ones((1, 400)), np.ones((1, 300))),
        np.concatenate(noise),
        np.concatenate([first, second]) * scale,
    )
    np.testing.assert_allclose(scaled * np.outer(scale, scale), one, rtol=1e-6)
    # Rows without samples, as where a recording is shorter than its program.
    weights = np.concatenate([np.ones(400), np.zeros(50)])[None]
    padded = np.concatenate([first, np.zeros((50, 4)), second])
    residual = np.concatenate([noise[0], np.zeros(50), noise[1]])
    np.testing.assert_allclose(robust(problem(weights, np.ones((1, 300))), residual, padded), one, rtol=1e-9)


def test_channels_that_err_together_count_once():
    """Two channels with the same residuals say no more than one; plain errors would be smaller by the root of two."""
    rng, jacobian = np.random.default_rng(4), linear_model()
    noise = coloured(rng, 0.5)
    once = robust(problem(np.ones((1, N))), noise, jacobian)
    twice = robust(problem(np.ones((2, N))), np.tile(noise, 2), np.tile(jacobian, (2, 1)))
    np.testing.assert_allclose(np.sqrt(np.diag(twice)), np.sqrt(np.diag(once)), rtol=0.01)


def test_priors_are_taken_at_their_word():
    jacobian, weights = np.eye(2)[:, :2], np.ones((1, 1))
    found = robust(problem(weights), np.array([3.0, 50.0]), np.array([[1.0, 0.0], [0.0, 4.0]]) @ jacobian)
    assert found[1, 1] == pytest.approx(1 / 16)
