"""Levenberg and Marquardt's method on small problems: bounds, directions that nothing shows, outliers, going on."""

import dataclasses

import numpy as np
import pytest

from jmbs.identification.bordered import Bordered, BorderedSquares, Part
from jmbs.identification.least_squares import Iterate, Limits, minimise

FREE = Limits(np.full(2, -np.inf), np.full(2, np.inf), tolerance=1e-12)


def rosenbrock(x):
    return np.array([10 * (x[1] - x[0] ** 2), 1 - x[0]]), np.array([[-20 * x[0], 10.0], [-1.0, 0.0]])


def ignored(_):
    return None


def test_curved_valley():
    found = minimise(rosenbrock, Iterate(np.array([-1.2, 1.0])), FREE, ignored)
    assert found.stopped == "converged"
    np.testing.assert_allclose(found.x, [1, 1], atol=1e-8)


def test_bound_that_is_active_and_one_that_is_not():
    limits = dataclasses.replace(FREE, upper=np.array([0.5, 10.0]))
    found = minimise(rosenbrock, Iterate(np.array([-1.2, 1.0])), limits, ignored)
    np.testing.assert_allclose(found.x, [0.5, 0.25], atol=1e-8)
    free = minimise(rosenbrock, Iterate(np.array([-1.2, 1.0])), FREE, ignored)
    wide = dataclasses.replace(FREE, lower=np.full(2, -50.0), upper=np.full(2, 50.0))
    np.testing.assert_array_equal(minimise(rosenbrock, Iterate(np.array([-1.2, 1.0])), wide, ignored).x, free.x)


def linear(A, optimum):
    return lambda x: (A @ (x - optimum), A)


def test_a_bound_on_one_of_two_that_are_coupled():
    """Clipping alone would go uphill and stop."""
    A = np.array([[10.0, -10.0], [0.1, 0.1]])
    limits = dataclasses.replace(FREE, upper=np.array([0.5, np.inf]))
    found = minimise(linear(A, np.array([2.0, 2.0])), Iterate(np.array([0.4, 0.4])), limits, ignored)
    rest = np.linalg.lstsq(A[:, 1:], A @ [2.0, 2.0] - 0.5 * A[:, 0], rcond=None)[0]
    np.testing.assert_allclose(found.x, [0.5, rest[0]], rtol=1e-6)
    inactive = dataclasses.replace(FREE, upper=np.array([2.5, np.inf]))
    found = minimise(linear(A, np.array([2.0, 2.0])), Iterate(np.array([-0.5, -0.5])), inactive, ignored)
    np.testing.assert_allclose(found.x, 2.0, rtol=1e-6)


def test_a_wall_is_no_optimum():
    def walled(x):
        residual = np.array([10 * (x[0] - 1), x[1] - 1])
        return (residual if x[0] <= 0.5 else residual * np.nan), np.diag([10.0, 1.0])

    assert minimise(walled, Iterate(np.zeros(2)), FREE, ignored).stopped in ("stuck", "limit")


def test_a_step_may_be_long_where_it_is_said():
    rows = np.eye(2)
    far = np.array([300.0, 1.0])
    held = minimise(linear(rows, far), Iterate(np.zeros(2)), FREE, ignored)
    free = minimise(
        linear(rows, far), Iterate(np.zeros(2)), dataclasses.replace(FREE, longest=np.array([np.inf, 3.0])), ignored
    )
    assert held.iterations > 90 and free.iterations < 12
    np.testing.assert_allclose(free.x, far, rtol=1e-9)


def test_nothing_unknown():
    found = minimise(lambda x: (np.ones(3), np.zeros((3, 0))), Iterate(np.zeros(0)), Limits(*np.zeros((2, 0))), ignored)
    assert found.stopped == "converged"


def test_what_nothing_shows_stays():
    rows = np.array([[1e3, 1e3], [2e3, 2e3 + 1e-9]])
    start = np.array([0.4, -0.1])
    found = minimise(lambda x: (rows @ x - rows @ np.array([1.0, 1.0]), rows), Iterate(start), FREE, ignored)
    assert found.x.sum() == pytest.approx(2.0, abs=1e-9)
    assert found.x[0] - found.x[1] == pytest.approx(start[0] - start[1], abs=1e-9)


@pytest.mark.parametrize("loss", ["huber", "cauchy"])
def test_outliers(loss):
    rng = np.random.default_rng(0)
    t = np.linspace(0, 1, 101)
    y = 2.0 - t + 0.01 * rng.normal(size=t.shape)
    y[::10] += 3.0
    J = np.stack([np.ones_like(t), t], axis=1) / 0.01
    limits = dataclasses.replace(FREE, loss=loss, most=300)
    robust = minimise(lambda x: (J @ x - y / 0.01, J), Iterate(np.zeros(2)), limits, ignored)
    squares = minimise(lambda x: (J @ x - y / 0.01, J), Iterate(np.zeros(2)), FREE, ignored)
    assert np.max(np.abs(robust.x - [2.0, -1.0])) < 0.02
    assert np.max(np.abs(squares.x - [2.0, -1.0])) > 0.1


@pytest.mark.parametrize("loss", ["huber", "cauchy"])
def test_beliefs_stay_squares(loss):
    """Samples that one prior contradicts by far: where the loss of the samples and the square of the belief balance."""
    rows = np.ones((21, 1))
    wanted = np.append(np.random.default_rng(1).normal(size=20), -30.0)
    limits = dataclasses.replace(FREE, lower=FREE.lower[:1], upper=FREE.upper[:1], loss=loss, samples=20, most=300)
    found = minimise(lambda x: (rows @ x - wanted, rows), Iterate(np.zeros(1)), limits, ignored)

    def cost(x):
        squares = (x - wanted[:20]) ** 2
        huber = np.where(squares <= 1, squares, 2 * np.sqrt(squares) - 1)
        return np.sum(huber if loss == "huber" else np.log1p(squares)) + (x - wanted[20]) ** 2

    assert found.cost == pytest.approx(0.5 * cost(found.x[0]), rel=1e-12)
    assert all(cost(found.x[0]) < cost(found.x[0] + step) for step in (-1e-3, 1e-3))


def test_goes_on_to_the_same_bits():
    iterates = []
    whole = minimise(rosenbrock, Iterate(np.array([-1.2, 1.0])), FREE, iterates.append)
    for middle in iterates[1:-1:3]:
        again = minimise(rosenbrock, middle, FREE, ignored)
        np.testing.assert_array_equal(again.x, whole.x)
        assert again.iterations == whole.iterations


def test_values_that_are_not_finite_are_walked_around():
    def walled(x):
        residual, jacobian = rosenbrock(x)
        return (residual if x[0] < 1.5 else residual * np.nan), jacobian

    found = minimise(walled, Iterate(np.array([1.4, -1.0])), FREE, ignored)
    np.testing.assert_allclose(found.x, [1, 1], atol=1e-8)
    assert minimise(walled, Iterate(np.array([2.0, 1.0])), FREE, ignored).stopped == "stuck"


@pytest.fixture
def bordered():
    """Three parts, one of which knows two of the shared unknowns only, and rows of shared ones alone."""
    rng = np.random.default_rng(4)
    parts = [
        Part(np.array(places), rng.normal(size=(m, len(places))), rng.normal(size=(m, k)))
        for places, m, k in (((0, 1, 2), 9, 4), ((0, 2), 7, 3), ((2, 1, 0), 5, 6))
    ]
    jacobian = Bordered(parts, 3).with_rows(rng.normal(size=(2, 3)))
    return rng.normal(size=len(jacobian.dense())), jacobian


@pytest.mark.parametrize("damping", [1e-3, 1.0, 1e3])
def test_own_unknowns_are_eliminated_part_by_part(bordered, damping):
    residual, jacobian = bordered
    dense = jacobian.dense()
    n = dense.shape[1]
    squares = BorderedSquares(residual, jacobian)
    rows, reduced, back = squares.reduced(damping)
    stacked = np.concatenate([rows, np.sqrt(damping) * np.eye(3)])
    shared = np.linalg.lstsq(stacked, -np.concatenate([reduced, np.zeros(3)]))[0]
    step = squares.whole(shared, back)
    np.testing.assert_allclose(step, -np.linalg.solve(dense.T @ dense + damping * np.eye(n), dense.T @ residual))
    lower = 0.5 * (residual @ residual - np.sum((residual + dense @ step) ** 2))
    assert squares.gain(step) == pytest.approx(lower)


def test_a_bordered_jacobian_gives_the_answer_of_the_whole_one(bordered):
    """With a bound that is active, and curvature."""
    residual, jacobian = bordered
    dense, n = jacobian.dense(), jacobian.dense().shape[1]
    limits = Limits(np.concatenate([[-0.2], np.full(n - 1, -np.inf)]), np.full(n, np.inf), tolerance=1e-12)

    def whole(x):
        moved = dense @ x
        return residual + moved + 0.1 * np.sin(moved), (1 + 0.1 * np.cos(moved))[:, None] * dense

    def parted(x):
        values, slopes = whole(x)
        parts, row, own = [], 0, 3
        for part in jacobian.parts:
            m, k = part.own.shape
            parts.append(Part(part.places, slopes[row : row + m, part.places], slopes[row : row + m, own : own + k]))
            row, own = row + m, own + k
        return values, Bordered(parts, 3)

    start = np.concatenate([[-0.1], np.zeros(n - 1)])
    one, other = (minimise(evaluate, Iterate(start), limits, ignored) for evaluate in (whole, parted))
    assert one.stopped == other.stopped == "converged" and one.x[0] == other.x[0] == -0.2
    np.testing.assert_allclose(other.x, one.x, atol=1e-7)
    assert other.cost == pytest.approx(one.cost, rel=1e-10)
