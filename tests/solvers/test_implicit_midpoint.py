"""The implicit midpoint rule keeps what it promises: quadratic invariants, and symmetry on groups."""

from __future__ import annotations

import functools

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from quick import quick_jit
from solvers.tumbling import DURATION, INERTIA, PoseAndMomentum, field, integrate, start

from jmbs.lie import SE3, SO3
from jmbs.solvers import LieTerm, MuntheKaas, base_method

TOLERANCE = 1e-13


def method():
    return base_method("implicit_midpoint", TOLERANCE)


def oscillator(dt: float, steps: int):
    """Positions and velocities after every tenth step, of `q'' = -4 q` from (1, 0.5), whose period is 3.1."""
    term = diffrax.ODETerm(lambda t, y, args: jnp.stack([y[1], -4.0 * y[0]]))
    solver = method()

    def ten_steps(y, _):
        one = lambda _, y: solver.step(term, 0.0, dt, y, None, None, False)[0]  # noqa: E731
        y = jax.lax.fori_loop(0, 10, one, y)
        return y, y

    return jax.jit(lambda y: jax.lax.scan(ten_steps, y, None, steps // 10)[1])(jnp.array([1.0, 0.5]))


@pytest.mark.parametrize("dt", (0.02, 0.7))
def test_energy_of_the_linear_oscillator_stays(dt: float):
    """To the stages' tolerance over 5000 steps, also where a step is a quarter of a period."""
    q, v = np.asarray(oscillator(dt, 5000)).T
    energy = 0.5 * v**2 + 2.0 * q**2
    np.testing.assert_allclose(energy, 0.5 * 0.5**2 + 2.0, rtol=5000 * TOLERANCE)
    assert np.ptp(q) > 2.0


@pytest.mark.parametrize("derivative", (jax.jacfwd, jax.jacrev))
def test_derivative_of_a_step_is_cayleys_map(derivative):
    """Of a linear system, by the state and through the stage's equation."""
    matrix, dt = jnp.array([[0.0, 1.0], [-4.0, -0.3]]), 0.3
    term, solver = diffrax.ODETerm(lambda t, y, args: matrix @ y), method()
    step = lambda y: solver.step(term, 0.0, dt, y, None, None, False)[0]  # noqa: E731
    half = np.asarray(matrix) * dt / 2
    cayley = np.linalg.solve(np.eye(2) - half, np.eye(2) + half)
    np.testing.assert_allclose(quick_jit(derivative(step))(jnp.array([1.0, 0.5])), cayley, rtol=0, atol=1e-12)


def test_second_derivatives_of_a_step_are_those_of_differences():
    """Of a pendulum."""
    term, solver = diffrax.ODETerm(lambda t, y, args: jnp.array([y[1], -jnp.sin(y[0])])), method()
    slopes = jax.jacrev(lambda y: solver.step(term, 0.0, 0.3, y, None, None, False)[0])
    slopes_of, y, h = quick_jit(slopes), jnp.array([1.0, 0.5]), 1e-4
    differences = np.stack([(slopes_of(y + d) - slopes_of(y - d)) / (2 * h) for d in h * np.eye(2)], axis=-1)
    np.testing.assert_allclose(quick_jit(jax.jacfwd(slopes))(y), differences, atol=1e-6)


@functools.cache
def one_step(group, name: str):
    """A jitted step `(t0, t1, y)` of the tumbling body."""
    solver, term, inertia = base_method(name, TOLERANCE), LieTerm(field(group)), jnp.array(INERTIA[group])
    wrapped = MuntheKaas(solver, PoseAndMomentum(group))
    return quick_jit(lambda t0, t1, y: wrapped.step(term, t0, t1, y, inertia, None, False)[0])


@pytest.mark.parametrize("group", (SO3, SE3), ids=lambda group: group.name)
def test_a_step_back_undoes_a_step(group):
    """Symmetry, at a step that turns the body by half a radian; Runge-Kutta's classical method has none."""
    y0, missed = start(group), {}
    for name in ("implicit_midpoint", "rk4"):
        step = one_step(group, name)
        y1 = step(0.0, 0.08, y0)
        back = step(0.08, 0.0, y1)
        assert np.linalg.norm(SO3.log(y0[0][:, :3].T @ y1[0][:, :3])) > 0.4
        missed[name] = max(float(jnp.max(jnp.abs(a - b))) for a, b in zip(y0, back, strict=True))
    assert missed["implicit_midpoint"] < 100 * TOLERANCE
    assert missed["rk4"] > 1e-6


def test_its_step_is_one_motion_at_the_velocity_of_its_middle():
    """`y1 = y0 exp(h u)` with the velocity `u` at `y0 exp(h u / 2)`: no tangent of the chart is left."""
    y0 = start(SE3)
    y1 = one_step(SE3, "implicit_midpoint")(0.0, 0.05, y0)
    step = jnp.concatenate([SE3.log(SE3.compose(SE3.inverse(y0[0]), y1[0])), y1[1] - y0[1]])
    middle = PoseAndMomentum(SE3).retract(y0, step / 2)
    wanted = 0.05 * field(SE3)(0.025, middle, jnp.array(INERTIA[SE3]))
    np.testing.assert_allclose(step, wanted, rtol=0, atol=100 * TOLERANCE)


def test_dense_output_is_as_accurate_as_its_steps():
    """Between steps it follows one motion at constant velocity, whose error is of the order of the method."""
    times = jnp.linspace(0.0, DURATION, 38)[1:-1]
    run = jax.jit(lambda dt: integrate(SE3, method(), dt=dt, saveat=diffrax.SaveAt(ts=times)).ys)
    coarse, fine, finest = (run(DURATION / n) for n in (256, 512, 2048))
    first, second = (
        max(float(jnp.max(jnp.abs(a - b))) for a, b in zip(y, finest, strict=True)) for y in (coarse, fine)
    )
    assert 3.0 < first / second < 6.0


def test_a_stage_that_is_not_solved_fails_the_step():
    term = LieTerm(lambda t, y, args: jnp.concatenate([jnp.zeros(6), 1e3 * jnp.exp(y[1])]))
    solver, y0 = MuntheKaas(method(), PoseAndMomentum(SE3)), (SE3.identity(jnp.float64), jnp.zeros(6))
    result = quick_jit(lambda y: solver.step(term, 0.0, 1.0, y, None, None, False)[-1])(y0)
    assert result != diffrax.RESULTS.successful
