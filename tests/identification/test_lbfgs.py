"""Descent with curvature from gradients: valleys, bounds, and what is not finite."""

from __future__ import annotations

import numpy as np
import pytest

from jmbs.identification.lbfgs import PAIRS, Descent, stepped

FREE = np.full(8, np.inf)


def descended(evaluate, start, lower=-FREE, upper=FREE, most=2000):
    """Where it ends, how often it evaluated, and the costs on the way."""
    at, count, costs = Descent.at(start), 0, []
    for _ in range(most):
        after, taken = stepped(evaluate, at, lower, upper)
        count += taken
        costs.append(after.cost)
        if np.array_equal(after.z, at.z):
            return at, count, costs
        at = after
    return at, count, costs


def rosenbrock(z):
    a, b = z[:-1], z[1:]
    slope = np.zeros_like(z)
    slope[:-1] = -400 * a * (b - a * a) - 2 * (1 - a)
    slope[1:] += 200 * (b - a * a)
    return float(np.sum(100 * (b - a * a) ** 2 + (1 - a) ** 2)), slope


def test_it_follows_a_bent_valley_and_never_climbs():
    at, count, costs = descended(rosenbrock, np.full(8, -0.5))
    np.testing.assert_allclose(at.z, 1.0, atol=1e-6)
    assert count < 300 and np.all(np.diff(costs) <= 0) and len(at.steps) == len(at.changes) == PAIRS


def test_a_long_valley_takes_few_evaluations():
    """Curvatures a million apart, across which steps along gradients would take millions."""
    at, count, _ = descended(bowl(np.logspace(0, 6, 8)), np.ones(8), most=100)
    np.testing.assert_allclose(at.z, 0.0, atol=1e-6)
    assert count < 150


def bowl(curvature, bottom=0.0):
    return lambda z: (0.5 * float(curvature @ (z - bottom) ** 2), curvature * (z - bottom))


def test_curvature_that_leads_nowhere_is_forgotten():
    evaluate, step = bowl(np.logspace(0, 6, 8)), np.full((1, 8), 1e-3)
    misled = Descent(np.ones(8), *evaluate(np.ones(8)), step, 1e-30 * step)  # its first step is of 1e36
    after, _ = stepped(evaluate, misled, -FREE, FREE)
    assert after.cost < misled.cost and len(after.steps) == 1


@pytest.mark.parametrize("bound", [0.0, 3.0])
def test_bounds_hold_exactly_and_count_only_where_they_are_reached(bound):
    lower, bottom = np.full(8, -np.inf), np.linspace(-1.0, 1.0, 8)
    lower[:4] = bound
    curvature = np.logspace(0, 3, 8)
    at, _, _ = descended(bowl(curvature, bottom), np.full(8, 4.0), lower)
    assert np.all(at.z[:4] == bound)
    np.testing.assert_allclose(at.z[4:], bottom[4:], atol=1e-8)


def test_it_stays_where_costs_are_finite():
    """Beyond a wall there is nothing; a start beyond it is left as it is."""

    def walled(z):
        cost, slope = float(np.sum((z - 2.0) ** 2)), 2 * (z - 2.0)
        return (cost, slope) if np.all(z < 1.0) else (np.nan, np.full_like(z, np.nan))

    at, _, costs = descended(walled, np.zeros(8))
    assert np.all(np.isfinite(costs)) and costs[-1] < costs[0] and np.all(at.z < 1.0)
    stuck, count, _ = descended(walled, np.full(8, 1.5))
    assert np.all(stuck.z == 1.5) and count == 1
