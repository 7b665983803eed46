"""Identify a friction coefficient, a mass and a stiffness of a slider-crank from noisy samples of one joint angle."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float
from matplotlib.figure import Figure

import jmbs

HERE = Path(__file__).parent
MEASURED = "bearing"
PARAMETERS = ("bearing/friction/viscous", "slider/mass", "guide/spring/stiffness")
UNITS = ("N m s/rad", "kg", "N/m")
START_FACTORS = (2.5, 0.5, 1.6)
"""The first guess, as multiples of the truth."""
SIGMA = 0.01  # rad, standard deviation of the noise
SEED = 0
LEARNING_RATE = 0.1  # of the logarithms, so about ten percent of a parameter in each of the first steps
DIFFERENCE = 1e-5  # of the logarithms, for central differences


class Problem(NamedTuple):
    """What is measured, and the functions of the logarithms of the parameters that the fit needs."""

    times: np.ndarray
    data: Float[Array, " times"]
    clean: Float[Array, " times"]
    truth: Float[Array, " p"]
    loss_and_gradient: Callable[[Array], tuple[tuple[Array, Array], Array]]
    sensitivity: Callable[[Array], Array]


def build(t1: float) -> Problem:
    """The measurements, made with a quarter of the fit's step, and the loss `mean((angle - data)^2) / SIGMA^2`."""
    model = jmbs.compile(jmbs.load(HERE / "config.yaml"))
    known = model.parameters()
    truth = jnp.stack([jnp.log(known[path]["value"].reshape(())) for path in PARAMETERS])
    step = model.settings.dt

    def angle(logs: Float[Array, " p"], dt: float = step) -> Float[Array, " times"]:
        values = {path: jnp.exp(log) for path, log in zip(PARAMETERS, logs, strict=True)}
        solution = jmbs.simulate(model.with_parameters(values), t1=t1, dt=dt, audit=False, throw=False)
        return solution.q[MEASURED][:, 0]

    clean = jax.jit(lambda logs: angle(logs, step / 4))(truth)
    data = clean + SIGMA * jax.random.normal(jax.random.key(SEED), clean.shape, clean.dtype)

    def loss(logs):
        seen = angle(logs)
        return jnp.mean(((seen - data) / SIGMA) ** 2), seen

    times = np.linspace(0.0, t1, clean.size)
    gradient = jax.jit(jax.value_and_grad(loss, has_aux=True))
    return Problem(times, data, clean, truth, gradient, jax.jit(jax.jacfwd(angle)))


def check_gradient(problem: Problem, logs: Array) -> dict[str, Any]:
    """Reverse mode against central differences; also how much longer compiling takes than running."""
    started = time.perf_counter()
    (_, _), gradient = jax.block_until_ready(problem.loss_and_gradient(logs))
    compiled = time.perf_counter()
    jax.block_until_ready(problem.loss_and_gradient(logs))
    ran = time.perf_counter()
    differences = []
    for i in range(len(PARAMETERS)):
        up, down = (float(problem.loss_and_gradient(logs.at[i].add(s * DIFFERENCE))[0][0]) for s in (1.0, -1.0))
        differences.append((up - down) / (2 * DIFFERENCE))
    reverse = np.asarray(gradient)
    error = np.max(np.abs(reverse - differences)) / np.max(np.abs(reverse))
    print(f"gradient by reverse mode        {reverse}")
    print(f"gradient by central differences {np.asarray(differences)}   largest relative difference {error:.1e}")
    return {
        "reverse": reverse.tolist(),
        "central_differences": differences,
        "relative_difference": float(error),
        "compile_over_run": round((compiled - started) / (ran - compiled)),
    }


def uncertainty(problem: Problem, logs: Array) -> dict[str, np.ndarray]:
    """Gauss-Newton covariance of the logarithms, `SIGMA^2 (J^T J)^-1`, with `J` the sensitivity of the angle."""
    J = np.asarray(problem.sensitivity(logs)) / SIGMA
    covariance = np.linalg.inv(J.T @ J)
    error = np.sqrt(np.diag(covariance))
    return {
        "covariance": covariance,
        "standard_error": error,
        "correlation": covariance / np.outer(error, error),
        "singular_values": np.linalg.svd(J, compute_uv=False),
    }


def fit(problem: Problem, logs: Array, iterations: int) -> tuple[np.ndarray, np.ndarray]:
    """Adam on the logarithms with a cosine schedule: parameters (iterations + 1, p) and losses (iterations + 1,)."""
    optimiser = optax.adam(optax.cosine_decay_schedule(LEARNING_RATE, iterations))
    memory = optimiser.init(logs)
    path, losses = [], []
    for i in range(iterations + 1):
        (loss, _), gradient = problem.loss_and_gradient(logs)
        path.append(np.asarray(logs))
        losses.append(float(loss))
        if i % max(1, iterations // 10) == 0 or i == iterations:
            values = "  ".join(f"{v:.5g}" for v in np.exp(path[-1]))
            print(f"iteration {i:4d}   loss {losses[-1]:10.4f}   parameters {values}", flush=True)
        updates, memory = optimiser.update(gradient, memory, logs)
        logs = optax.apply_updates(logs, updates)
    return np.array(path), np.array(losses)


def report(problem: Problem, path: np.ndarray, losses: np.ndarray) -> dict[str, Any]:
    """Estimates beside truths with standard errors, and how far the fit is from its minimum in standard errors."""
    final = jnp.asarray(path[-1])
    spread = uncertainty(problem, final)
    (_, _), gradient = problem.loss_and_gradient(final)
    newton_step = spread["covariance"] @ np.asarray(gradient) * problem.data.size / 2
    rows = {}
    print(f"{'parameter':<26} {'true':>9} {'start':>9} {'estimate':>10} {'std error':>10} {'off by':>12}")
    for i, (name, unit) in enumerate(zip(PARAMETERS, UNITS, strict=True)):
        true, start, estimate = (float(np.exp(logs[i])) for logs in (problem.truth, path[0], path[-1]))
        error = estimate * float(spread["standard_error"][i])
        off = (estimate - true) / error
        print(f"{name:<26} {true:9.4g} {start:9.4g} {estimate:10.5g} {error:10.2g} {off:+8.2f} std   ({unit})")
        numbers = {"true": true, "start": start, "estimate": estimate, "standard_error": error}
        rows[name] = {key: float(f"{value:.6g}") for key, value in numbers.items()}
        rows[name] |= {"unit": unit, "off_in_standard_errors": round(off, 3)}
    singular = spread["singular_values"]
    return {
        "samples": problem.data.size,
        "sigma": SIGMA,
        "seed": SEED,
        "iterations": len(losses) - 1,
        "loss_start": float(losses[0]),
        "loss_end": float(losses[-1]),
        "parameters": rows,
        "correlation": spread["correlation"].round(4).tolist(),
        "sensitivity_condition": float(singular[0] / singular[-1]),
        "newton_step_left_in_standard_errors": float(np.max(np.abs(newton_step) / spread["standard_error"])),
    }


def draw_fit(problem: Problem, path: np.ndarray, target: Path) -> None:
    """Measured, first, fitted and true angle; below, the residuals of the fit."""
    start, end = (np.asarray(problem.loss_and_gradient(jnp.asarray(logs))[0][1]) for logs in (path[0], path[-1]))
    figure = Figure(figsize=(8, 5.4), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    above.plot(problem.times, start, color="tab:orange", label="first guess")
    above.plot(problem.times, np.asarray(problem.clean), color="black", lw=1, label="truth")
    above.plot(problem.times, end, color="tab:blue", ls=(0, (4, 3)), lw=2.2, label="fit")
    above.plot(problem.times, np.asarray(problem.data), ".", color="tab:red", ms=5, label=f"data, sigma {SIGMA:g} rad")
    above.set_ylabel("crank angle (rad)")
    above.legend(ncols=4, loc="lower center", bbox_to_anchor=(0.5, 1.0), frameon=False)
    below.axhspan(-1, 1, color="0.9")
    below.axhline(0, color="0.5", lw=0.8)
    below.plot(problem.times, (np.asarray(problem.data) - end) / SIGMA, ".", color="tab:red", ms=5)
    below.set(xlabel="time (s)", ylabel="(data - fit) / sigma", xlim=(problem.times[0], problem.times[-1]))
    figure.savefig(target, dpi=110)


def draw_convergence(problem: Problem, path: np.ndarray, losses: np.ndarray, target: Path) -> None:
    """Parameters as multiples of the truth, and the loss, over the iterations."""
    figure = Figure(figsize=(8, 5.4), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True)
    ratios = np.exp(path - np.asarray(problem.truth))
    for name, ratio in zip(PARAMETERS, ratios.T, strict=True):
        above.plot(ratio, label=name)
    above.axhline(1, color="0.5", lw=0.8)
    above.set_ylabel("parameter / truth")
    above.legend(ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1.0), frameon=False)
    below.semilogy(losses, color="black", label="loss")
    below.axhline(1, color="tab:red", lw=1, ls="--", label="what noise alone gives")
    below.set(xlabel="iteration", ylabel="mean squared residual / sigma²", xlim=(0, len(losses) - 1))
    below.legend(frameon=False)
    figure.savefig(target, dpi=110)


def main(argv: list[str] | None = None) -> dict[str, Any]:
    """Runs the experiment, writes `result.json` and `figures/`, and returns what `result.json` holds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=HERE, help="where result.json and figures/ go")
    parser.add_argument("--iterations", type=int, default=200, help="steps of the optimiser")
    parser.add_argument("--t1", type=float, default=2.0, help="length of the measurement, s")
    options = parser.parse_args(argv)
    jax.config.update("jax_enable_x64", True)

    problem = build(options.t1)
    start = problem.truth + jnp.log(jnp.asarray(START_FACTORS, problem.truth.dtype))
    singular = uncertainty(problem, start)["singular_values"]
    print(f"identifiable? singular values of the scaled sensitivity at the first guess: {singular}")
    gradient_check = check_gradient(problem, start)
    path, losses = fit(problem, start, options.iterations)
    result = report(problem, path, losses) | {"gradient_check": gradient_check}

    figures = options.out / "figures"
    figures.mkdir(parents=True, exist_ok=True)
    draw_fit(problem, path, figures / "fit.png")
    draw_convergence(problem, path, losses, figures / "convergence.png")
    (options.out / "result.json").write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    return result


if __name__ == "__main__":
    main()
