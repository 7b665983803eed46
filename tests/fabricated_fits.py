"""Fits made by hand: smooth signals with noise on a small mechanism, for tests of what comes after the estimate."""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np

import jmbs
from jmbs.identification import ChannelFit, DerivedEstimate, Estimate, Finding, Fit, InvisibleDirection

CART = {
    "schema": "jmbs/1",
    "name": "cart",
    "gravity": [0.0, 0.0, -9.81],
    "bodies": {"cart": {"mass": 2.0, "inertia": [0.01, 0.02, 0.02]}},
    "joints": {
        "rail": {
            "type": "prismatic",
            "parent": "ground",
            "child": "cart",
            "axis": [1.0, 0.0, 0.0],
            "friction": {"viscous": 1.0},
        }
    },
    "initial": {"joints": {"rail": {"q": [0.0], "v": [1.0]}}},
    "simulation": {"t1": 0.5, "save_every": 0.1, "method": "rk4", "dt": 0.05},
}
FITTED = {"cart/mass": 2.3, "rail/friction/viscous": 1.7}
NAMES = (*FITTED, "sensors/x/bias")


@functools.cache
def cart_mechanism() -> jmbs.Mechanism:
    """A cart that coasts, as `CART` says it."""
    from jmbs.io.config import config_mechanism

    return config_mechanism(Path("cart.yaml"), {**CART})


@functools.cache
def cart_model() -> jmbs.Model:
    """The cart, compiled once."""
    return jmbs.compile(cart_mechanism())


def channel(n: int = 300, noise: float = 0.01, seed: int = 0, drift: float = 0.0) -> ChannelFit:
    """A decaying oscillation, measured with noise; `drift`: what the model lacks, in standard deviations."""
    ts = np.linspace(0.0, 3.0, n)
    predicted = np.exp(-0.5 * ts) * np.sin(4 * ts)
    lacking = drift * noise * np.sin(2 * ts)
    measured = predicted + noise * np.random.default_rng(seed).normal(size=n) + lacking
    return ChannelFit(ts, measured, predicted, np.full(n, noise))


def estimate(value: float, error: float | None, unit: str, kind: str = "model", **more) -> Estimate:
    """An estimate that started 50 % off; without an error it is not visible."""
    interval = None if error is None else (value - 2 * error, value + 2 * error)
    return Estimate(value, 0.5 * value, unit, kind, error is not None, error, interval, **more)


def made_fit(**changes) -> Fit:
    """A fit of the cart from two recordings, one held out; the ratio of its two parameters alone is visible."""
    parameters = {
        "cart/mass": estimate(2.3, None, "kg"),
        "rail/friction/viscous": estimate(1.7, None, "N m s/rad or N s/m", at_bound=True),
        "sensors/x/bias": estimate(0.01, 1e-3, "m", "sensor", relative_to_prior=0.1),
        "payload/mass": estimate(1.15, None, "kg", "tied"),
    }
    nan = np.nan
    values = {
        "name": "cart",
        "status": "converged",
        "message": "the cost changed by less than 1e-8",
        "parameters": parameters,
        "derived": {"rate": DerivedEstimate(0.739, "rail/friction/viscous / cart/mass", True, 4e-4, (0.738, 0.740))},
        "order": NAMES,
        "covariance": np.array([[nan, nan, nan], [nan, nan, nan], [nan, nan, 1e-6]]),
        "correlation": np.array([[nan, nan, nan], [nan, nan, nan], [nan, nan, 1.0]]),
        "scaling": np.array([2.0, 1.0, 1.0]),
        "singular_values": np.array([300.0, 20.0, 3e-9]),
        "invisible_directions": (
            InvisibleDirection(
                3e-9,
                {"cart/mass": 1.0, "rail/friction/viscous": 1.0},
                "cart/mass and rail/friction/viscous in proportion",
            ),
        ),
        "noise": {"x": {"given": 0.01, "estimated": 0.0101}, "v": {"given": None, "estimated": 0.02}},
        "samples": 600,
        "degrees": 597,
        "chi2_per_degree": 1.01,
        "channels": {"driven": {"x": channel(), "v": channel(noise=0.02, seed=1)}},
        "heldout": {"test": {"x": channel(n=150, seed=2)}},
        "evaluations": {"simulations": 40, "jacobians": 10, "iterations": 9},
        "seconds": {"total": 3.2, "compile": 2.0, "check": 1.1},
        "warnings": (
            Finding("invisible_direction", "warning", "only rail/friction/viscous / cart/mass is seen"),
            Finding("at_bound", "warning", "rail/friction/viscous ends at its bound"),
        ),
        "model": cart_model().with_parameters(FITTED),
        "models": {"driven": cart_model().with_parameters(FITTED)},
        "source": {"schema": "jmbs-fit/1", "name": "cart", "parameters": {"cart/mass": {}}},
    }
    return Fit(**{**values, **changes})
