"""Which motion does a driven pendulum come to rest in? A sweep over its initial angles and speeds maps the basins.

x'' + 0.1 x' + sin x = cos t has one stable motion of the period of its drive for each number of turns that the pendulum
makes before it settles; where it starts decides which. The basins lie in each other at all scales: J. H. Hubbard, The
forced damped pendulum: chaos, complication and control, American Mathematical Monthly 106 (1999), 741-758.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import shutil
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from matplotlib.colors import BoundaryNorm, ListedColormap
from matplotlib.figure import Figure

import jmbs
import jmbs.sweeping
from jmbs.simulation import with_inputs

HERE = Path(__file__).parent
ANGLES, SPEEDS = (-np.pi, np.pi), (-4.0, 4.0)
PERIOD = 2 * np.pi
STEPS = 40  # of RK4 in a period of the drive
SETTLED = 1e-2  # rad, from the stable motion
SHOWN = 4  # turns to either side that have a colour of their own
COLOURS = (
    *("#08306b", "#2171b5", "#6baed6", "#c6dbef", "#f7f7f7"),
    *("#fdd0a2", "#fd8d3c", "#d94801", "#7f2704"),
)


def study(side: int, periods: int) -> dict[str, Any]:
    """The sweep over `side` by `side` initial states, in whole periods of the drive."""
    model = jmbs.compile(jmbs.load(HERE / "pendulum.yaml"))
    return {
        "name": "basins",
        "model": with_inputs(model, {"hinge/actuation": lambda t, view: jnp.cos(t)}),
        "design": "grid",
        "vary": {
            "initial/hinge/v[0]": {"linspace": [*SPEEDS, side]},
            "initial/hinge/q[0]": {"linspace": [*ANGLES, side]},
        },
        "keep": {"final": ["q", "v"]},
        "simulation": {"t1": periods * PERIOD, "dt": PERIOD / STEPS, "method": "rk4"},
    }


def turns_of(swept: xr.Dataset, side: int) -> tuple[np.ndarray, np.ndarray]:
    """Turns (side, side) that members make until they settle, rows by speed, and whether they have settled.

    All stable motions are one, but for whole turns: that of most members.
    """
    q = swept["final_q_hinge"].values[:, 0].reshape(side, side)
    v = swept["final_v_hinge"].values[:, 0].reshape(side, side)
    phase = np.angle(np.exp(1j * q))
    stable = np.median(phase), np.median(v)
    settled = (np.abs(np.angle(np.exp(1j * (q - stable[0])))) < SETTLED) & (np.abs(v - stable[1]) < SETTLED)
    return np.round((q - stable[0]) / PERIOD).astype(int), settled


def draw(turns: np.ndarray, settled: np.ndarray, target: Path) -> None:
    """The basins, a colour for each number of turns; black what has not settled."""
    figure = Figure(figsize=(6.4, 5.6), layout="constrained")
    axes = figure.subplots()
    limits = np.arange(-SHOWN - 0.5, SHOWN + 1)
    shown = np.ma.masked_array(np.clip(turns, -SHOWN, SHOWN), ~settled)
    colours = ListedColormap(COLOURS).with_extremes(bad="black")
    options = {"cmap": colours, "norm": BoundaryNorm(limits, len(COLOURS)), "interpolation": "nearest"}
    image = axes.imshow(shown, origin="lower", extent=(*ANGLES, *SPEEDS), aspect="auto", **options)
    bar = figure.colorbar(image, ax=axes, ticks=range(-SHOWN, SHOWN + 1))
    bar.set_label("turns until it settles (ends of the scale: so many or more)")
    axes.set(xlabel="angle at the start (rad, 0 hangs down)", ylabel="rate at the start")
    axes.set_title("Basins of x'' + 0.1 x' + sin x = cos t")
    figure.savefig(target, dpi=110)


def main(argv: list[str] | None = None) -> dict[str, Any]:
    """Runs the experiment, writes `result.json` and `figures/`, and returns what `result.json` holds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--out", type=Path, default=HERE, help="where result.json and figures/ go")
    parser.add_argument("--side", type=int, default=240, help="initial angles, and initial speeds")
    parser.add_argument("--periods", type=int, default=60, help="of the drive")
    options = parser.parse_args(argv)
    with contextlib.suppress(RuntimeError):  # of a program that has used JAX already
        jmbs.use_all_cores()
    jax.config.update("jax_enable_x64", True)
    figures, store = options.out / "figures", options.out / "basins.zarr"
    figures.mkdir(parents=True, exist_ok=True)
    started = time.perf_counter()
    swept = jmbs.sweep(study(options.side, options.periods), store, progress=told).load()
    seconds = time.perf_counter() - started
    shutil.rmtree(store)
    turns, settled = turns_of(swept, options.side)
    draw(turns, settled, figures / "basins.png")
    kinds, counts = np.unique(turns[settled], return_counts=True)
    result = {
        "members": int(settled.size),
        "periods": options.periods,
        "seconds": round(seconds, 1),
        "failed": int((swept["status"] != "successful").sum()),
        "settled": float(settled.mean()),
        "motions": len(kinds),
        "share_by_turns": {
            str(kind): round(float(count / settled.sum()), 4) for kind, count in zip(kinds, counts, strict=True)
        },
    }
    (options.out / "result.json").write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(result, indent=2))
    return result


def told(at: jmbs.sweeping.SweepProgress) -> None:
    """Prints how far the sweep is."""
    print(f"{at.done} of {at.members} members, {at.seconds:.0f} s", flush=True)


if __name__ == "__main__":
    main()
