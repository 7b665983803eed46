"""A network that stands in for a simulation: trained from the store of a sweep, tried on members that it has not seen.

From masses, friction and starting angles of a double pendulum it tells the state after a second and three numbers
about the motion, beside polynomials that are fitted to the same members.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import xarray as xr
from jaxtyping import Array, Float
from matplotlib.figure import Figure

import jmbs
import jmbs.sweeping
from jmbs.io import load_sweep
from jmbs.learning import SweepBatches

HERE = Path(__file__).parent
FRICTION = ("shoulder.friction.viscous", "elbow.friction.viscous")
INPUTS = ("link1.mass", "link2.mass", *FRICTION, "initial.shoulder.q[0]", "initial.elbow.q[0]")
OUTPUTS = {
    "final_q_shoulder": "shoulder's angle at the end (rad)",
    "final_q_elbow": "elbow's angle at the end (rad)",
    "final_v_shoulder": "shoulder's rate at the end (rad/s)",
    "final_v_elbow": "elbow's rate at the end (rad/s)",
    "turned": "range of the elbow's angle (rad)",
    "highest": "highest point of the second link (m)",
    "lost": "energy lost to friction (J)",
}
HELD_OUT = 0.25
"""Of the members, those with the largest numbers."""
SIZE, WIDTH, DEPTH, RATE = 256, 128, 4, 3e-3
"""Of a minibatch; of the network; the learning rate, which falls to zero along a cosine."""

Members = dict[str, np.ndarray]
"""Inputs and outputs by name, the members' axis in front."""


class Scaling(NamedTuple):
    """Mean and standard deviation of what goes in (6,) and what comes out (7,)."""

    x_mean: np.ndarray
    x_std: np.ndarray
    y_mean: np.ndarray
    y_std: np.ndarray

    def __call__(self, members: Members) -> tuple[Float[np.ndarray, "members 6"], Float[np.ndarray, "members 7"]]:
        """Both of these members, scaled, in single precision."""
        x, y = columns(members)
        return (
            ((x - self.x_mean) / self.x_std).astype(np.float32),
            ((y - self.y_mean) / self.y_std).astype(np.float32),
        )


def columns(members: Members) -> tuple[Float[np.ndarray, "members 6"], Float[np.ndarray, "members 7"]]:
    """What goes in, of friction the logarithm, and what comes out."""
    x = [np.log(members[name]) if name in FRICTION else members[name] for name in INPUTS]
    return np.stack(x, axis=-1), np.stack([np.reshape(members[name], len(x[0])) for name in OUTPUTS], axis=-1)


def scaling(members: Members) -> Scaling:
    """Of these members."""
    x, y = columns(members)
    return Scaling(x.mean(axis=0), x.std(axis=0), y.mean(axis=0), y.std(axis=0))


def trained(batches: SweepBatches, scaled: Scaling, epochs: int, key: Array) -> eqx.nn.MLP:
    """The network after so many epochs of minibatches, by Adam on the mean squared error of scaled outputs."""
    own, order = jax.random.split(key)
    network = eqx.nn.MLP(len(INPUTS), len(OUTPUTS), WIDTH, DEPTH, jax.nn.silu, dtype=jnp.float32, key=own)
    optimiser = optax.adam(optax.cosine_decay_schedule(RATE, epochs * len(batches)))

    @eqx.filter_jit
    @jax.numpy_dtype_promotion("standard")  # Adam raises a float to an integer power
    def step(network: eqx.nn.MLP, memory: Any, x: Any, y: Any) -> tuple[eqx.nn.MLP, Any, Array]:
        cost = lambda network: jnp.mean((jax.vmap(network)(x) - y) ** 2)  # noqa: E731
        value, slope = eqx.filter_value_and_grad(cost)(network)
        updates, memory = optimiser.update(slope, memory)
        return eqx.apply_updates(network, updates), memory, value

    memory, value = optimiser.init(eqx.filter(network, eqx.is_array)), jnp.nan
    for epoch in range(epochs):
        for batch in batches.epoch(jax.random.fold_in(order, epoch)):
            network, memory, value = step(network, memory, *scaled(batch))
        if (epoch + 1) % 20 == 0:
            print(f"epoch {epoch + 1} of {epochs}, cost of the last minibatch {float(value):.2e}", flush=True)
    return network


def polynomial(x: Float[np.ndarray, "members 6"], y: Float[np.ndarray, "members 7"], degree: int) -> Callable:
    """The polynomial of least squares, as a function of what goes in."""

    def terms(x: np.ndarray) -> np.ndarray:
        powers = [
            np.prod(x[:, list(which)], axis=1)
            for order in range(degree + 1)
            for which in itertools.combinations_with_replacement(range(x.shape[1]), order)
        ]
        return np.stack(powers, axis=1)

    weights = np.linalg.lstsq(terms(x.astype(float)), y.astype(float), rcond=None)[0]
    return lambda x: terms(x.astype(float)) @ weights


def seconds_of(function: Callable, x: np.ndarray) -> float:
    """Of the CPU that a call takes, the least of five."""
    jax.block_until_ready(function(x))
    spent = []
    for _ in range(5):
        started = time.process_time()
        jax.block_until_ready(function(x))
        spent.append(time.process_time() - started)
    return min(spent)


def draw(simulated: np.ndarray, predicted: dict[str, np.ndarray], errors: dict[str, dict], target: Path) -> None:
    """Predicted over simulated values of four outputs, by the network and by the linear regression."""
    figure = Figure(figsize=(9.0, 7.6), layout="constrained")
    shown = ["final_q_shoulder", "final_v_elbow", "turned", "lost"]
    for axes, name in zip(figure.subplots(2, 2).ravel(), shown, strict=True):
        column = list(OUTPUTS).index(name)
        for road, colour in (("linear", "0.65"), ("network", "tab:blue")):
            label = f"{road}, error {100 * errors[road][name]['error_of_spread']:.2g} % of the spread"
            values = predicted[road][:2000, column]
            axes.plot(simulated[:2000, column], values, ".", ms=2, color=colour, label=label)
        ends = simulated[:, column].min(), simulated[:, column].max()
        axes.plot(ends, ends, color="k", lw=0.7)
        axes.set(title=OUTPUTS[name], xlabel="simulated", ylabel="predicted")
        axes.legend(markerscale=6, fontsize=8, loc="upper left")
    figure.savefig(target, dpi=80)


def main(argv: list[str] | None = None) -> dict[str, Any]:
    """Runs the experiment, writes `result.json` and `figures/`, and returns what `result.json` holds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--out", type=Path, default=HERE, help="where result.json and figures/ go")
    parser.add_argument("--members", type=int, help="of the sweep, in place of the study's; a power of two")
    parser.add_argument("--epochs", type=int, default=200, help="of the training")
    options = parser.parse_args(argv)
    with contextlib.suppress(RuntimeError):  # of a program that has used JAX already
        jmbs.use_all_cores()
    jax.config.update("jax_enable_x64", True)
    (options.out / "figures").mkdir(parents=True, exist_ok=True)
    store = options.out / "pendulums.zarr"
    study = load_sweep(HERE / "pendulums.yaml", [f"members={options.members}"] if options.members else [])
    started = time.process_time()
    try:
        swept = jmbs.sweep(study, store, progress=show)
        seconds = {"sweep": time.process_time() - started}
        result = learned(swept, store, options.epochs, options.out / "figures", seconds)
    finally:
        shutil.rmtree(store, ignore_errors=True)
    (options.out / "result.json").write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(result, indent=2))
    return result


def learned(swept: xr.Dataset, store: Path, epochs: int, figures: Path, seconds: dict[str, float]) -> dict[str, Any]:
    """Trains on the members with small numbers, tries on those with large ones, and draws."""
    count = swept.sizes["member"]
    first = round((1 - HELD_OUT) * count)
    values = {name: swept[name].values for name in (*INPUTS, *OUTPUTS)}
    train, test = ({name: x[part] for name, x in values.items()} for part in (slice(first), slice(first, None)))
    failed = int((swept["status"] != "successful").sum())
    scaled = scaling(train)
    batches = SweepBatches(store, [*INPUTS, *OUTPUTS], SIZE, held=10, members=range(first))
    started = time.process_time()
    network = trained(batches, scaled, epochs, jax.random.key(0))
    seconds["training"] = time.process_time() - started
    roads: dict[str, Callable] = {
        "linear": polynomial(*scaled(train), 1),
        "cubic": polynomial(*scaled(train), 3),
        "network": eqx.filter_jit(eqx.filter_vmap(network)),
    }
    (x, y), (x_train, y_train) = scaled(test), scaled(train)
    seconds["network_per_member"] = seconds_of(roads["network"], x) / len(x)
    off = {road: np.asarray(function(x), float) - y for road, function in roads.items()}
    errors = {road: {name: error(off[road][:, i], scaled.y_std[i]) for i, name in enumerate(OUTPUTS)} for road in roads}
    shown = {road: (off[road] + y) * scaled.y_std + scaled.y_mean for road in ("linear", "network")}
    draw(y * scaled.y_std + scaled.y_mean, shown, errors, figures / "predicted.png")
    return {
        "members": {"trained": first, "held_out": count - first, "failed": failed},
        "epochs": epochs,
        "cpu_seconds": {name: float(f"{value:.3g}") for name, value in seconds.items()},
        "error_of_spread_in_training": rms(np.asarray(roads["network"](x_train), float) - y_train),
        "error_of_spread": {road: rms(values) for road, values in off.items()},
        "by_output": errors,
    }


def rms(values: np.ndarray) -> float:
    """Root of the mean square."""
    return float(np.sqrt(np.mean(values**2)))


def error(off: Float[np.ndarray, " members"], spread: float) -> dict[str, float]:
    """Root of the mean squared error, relative to the spread and in the output's unit, and what 99 of 100 are below."""
    worse = float(np.quantile(np.abs(off), 0.99))
    return {"error_of_spread": rms(off), "error": rms(off) * float(spread), "error_of_99_in_100": worse * float(spread)}


def show(at: jmbs.sweeping.SweepProgress) -> None:
    """Prints how far the sweep is."""
    print(f"{at.done} of {at.members} members, {at.seconds:.0f} s", flush=True)


if __name__ == "__main__":
    main()
