"""Munthe-Kaas keeps the order of its base method where rotations do not commute."""

from __future__ import annotations

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from solvers.tumbling import DURATION, MOMENTUM, error, exact, integrate, slope

from jmbs.lie import SE3, SO3
from jmbs.solvers import METHODS, base_method

ORDER = {
    "euler": 1,
    "heun": 2,
    "midpoint": 2,
    "ralston": 2,
    "bosh3": 3,
    "rk4": 4,
    "tsit5": 5,
    "dopri5": 5,
    "dopri8": 8,
    "implicit_euler": 1,
    "implicit_midpoint": 2,
    "kvaerno3": 3,
    "kvaerno4": 4,
    "kvaerno5": 5,
}
# Steps per second on the straight part: below the sizes where higher terms still show, above rounding.
LOW, MIDDLE, HIGH, HIGHEST = (1024, 1448, 2048, 2896), (256, 362, 512, 724), (96, 128, 192, 256), (24, 28, 32, 40, 48)
COUNTS = dict.fromkeys(ORDER, HIGH) | {name: LOW for name, order in ORDER.items() if order == 1}
COUNTS |= {name: MIDDLE for name, order in ORDER.items() if order in (2, 3)} | {"dopri8": HIGHEST}
SHORTFALL = 0.15


def compiled(group, method: str, **options):
    """`dt` to the states and the number of steps, by a method of jmbs."""
    solver = base_method(method, 1e-13)

    def run(dt):
        solution = integrate(group, solver, dt=dt, **options)
        return solution.ys, solution.stats["num_steps"]

    return jax.jit(run)


def record(request, observed: float, order: int, errors: list[float]) -> None:
    """Keeps what was observed for `pytest --junitxml=FILE`."""
    value = f"{observed:.2f} (order {order}), errors {errors[0]:.1e} to {errors[-1]:.1e}"
    request.node.user_properties.append(("slope", value))


def test_every_method_is_here():
    assert set(ORDER) == set(METHODS)


@pytest.mark.parametrize(
    ("group", "method"),
    [(SE3, m) for m in ORDER if m not in ("implicit_euler", "kvaerno3", "kvaerno4", "kvaerno5")]
    + [(SO3, "kvaerno5")]
    + [pytest.param(SO3, m, marks=pytest.mark.slow) for m in ("rk4", "tsit5", "kvaerno3", "kvaerno4")]
    + [pytest.param(SE3, m, marks=pytest.mark.slow) for m in ("implicit_euler", "kvaerno5")],
    ids=lambda value: getattr(value, "name", value),
)
def test_observed_order(group, method: str, request):
    run, errors = compiled(group, method), []
    for count in COUNTS[method]:
        y, steps = run(DURATION / count)
        assert steps == count
        errors.append(error(y, exact(group)))
    observed = slope([DURATION / count for count in COUNTS[method]], errors)
    record(request, observed, ORDER[method], errors)
    assert observed >= ORDER[method] - SHORTFALL


def test_the_motion_does_not_commute():
    """Turning by the mean angular velocity misses the attitude altogether, so the orders above mean something."""
    R, _ = exact(SO3)
    ts = np.linspace(0.0, DURATION, 51)[1:]
    mean = np.mean(exact(SO3, tuple(ts))[1], axis=0) / np.array([1.0, 2.0, 3.0])
    assert np.linalg.norm(np.asarray(SO3.exp(jnp.asarray(mean * DURATION))) - R[-1]) > 0.5
    assert np.linalg.norm(MOMENTUM[SO3]) * DURATION > 2 * np.pi


@pytest.mark.parametrize(("method", "order"), [("rk4", 4), ("tsit5", 4), ("dopri8", 6)])
def test_dense_output_has_the_order_of_its_interpolation(method: str, order: int, request):
    """As in the base method's own, which for Dopri8 is 6 on entries of matrices too."""
    times = tuple(np.linspace(0.0, DURATION, 38)[1:-1])  # between steps
    run, errors = compiled(SE3, method, saveat=diffrax.SaveAt(ts=jnp.array(times))), []
    counts = (24, 28, 32, 40) if method == "dopri8" else (64, 96, 128, 192)
    for count in counts:
        y, _ = run(DURATION / count)
        errors.append(error(y, exact(SE3, times)))
    observed = slope([DURATION / count for count in counts], errors)
    record(request, observed, order, errors)
    assert observed >= order - SHORTFALL


def test_dense_output_stays_on_the_group():
    times = jnp.linspace(0.0, DURATION, 23)
    (q, _), _ = compiled(SE3, "tsit5", saveat=diffrax.SaveAt(ts=times))(0.09)
    R = np.asarray(q[:, :, :3])
    np.testing.assert_allclose(np.swapaxes(R, 1, 2) @ R, np.broadcast_to(np.eye(3), R.shape), rtol=0, atol=2e-15)


@pytest.mark.parametrize("method", ("tsit5", "dopri8", pytest.param("kvaerno5", marks=pytest.mark.slow)))
def test_error_follows_the_tolerance(method: str, request):
    """Tightening the tolerance tenfold tightens the result about tenfold, at a few more steps."""
    tolerances = 10.0 ** -np.arange(4, 11)

    @jax.jit
    def run(tolerance):
        controller = diffrax.PIDController(rtol=tolerance, atol=tolerance)
        solution = integrate(SE3, base_method(method, 1e-13), controller, jnp.asarray(0.01))
        return solution.ys, solution.stats["num_steps"]

    errors, steps = [], []
    size = np.linalg.norm(MOMENTUM[SE3])
    for tolerance in tolerances:
        y, count = run(tolerance)
        errors.append(error(y, exact(SE3)))
        steps.append(int(count))
    gain = slope(tolerances, errors)
    kept = f"exponent {gain:.2f}, errors {errors[0]:.1e} to {errors[-1]:.1e}, steps {steps[0]} to {steps[-1]}"
    request.node.user_properties.append(("tolerance", kept))
    assert 0.8 <= gain <= 1.3
    assert all(e <= 100 * size * tolerance for e, tolerance in zip(errors, tolerances, strict=True))
    assert all(a <= b for a, b in zip(steps, steps[1:], strict=False))
