"""The exergy picture: layers that add up to what was supplied, small ones grouped, nothing where nothing is lost."""

from __future__ import annotations

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr
from io_result.synthetic import by_name, failed, pair_trajectory
from matplotlib.image import imread

from jmbs.io.result import write_result
from jmbs.visualise.exergy import DESTROYED_COLOURS, exergy_figure
from jmbs.visualise.plots import plot_trajectory


def lossy_trajectory(parts=(1.0,), count=101):
    """A damped oscillator whose loss several joints share; half of it is warmth that a store still holds."""
    pair = pair_trajectory(count=count)
    lost = pair.dissipated
    destroyed = by_name({f"joint{i}/mf": 0.5 * part * lost for i, part in enumerate(parts)})
    stored = by_name({"rail/pe": pair.potential, "slider/ke": pair.kinetic, "oil": 7.0 + 0.5 * lost * sum(parts)})
    supplied = sum(parts) * lost - lost
    labels = replace(
        pair.labels, storage_kinds=(("oil", "thermal"), ("rail/pe", "potential"), ("slider/ke", "kinetic"))
    )
    return replace(pair, destroyed=destroyed, stored=stored, supplied=supplied, labels=labels)


def layers(figure):
    """Height of every layer over time, by legend entry: of its part above zero and of that below."""
    found: dict[str, list[np.ndarray]] = {}
    name = ""
    for patch in figure.axes[0].collections:
        label = str(patch.get_label())
        name = name if label.startswith("_") else label.partition(":")[0]
        found.setdefault(name, []).append(patch.get_paths()[0].vertices)
    return found


def height(vertices, times):
    """Upper minus lower edge at the saved times; a polygon runs along one edge and back along the other."""
    return np.array([np.ptp(vertices[np.isclose(vertices[:, 0], t), 1]) for t in times])


def test_layers_add_up_to_what_was_supplied():
    trajectory = lossy_trajectory((1.0, 0.5))
    figure = exergy_figure(trajectory.to_xarray())
    times = np.asarray(trajectory.ts)
    found = layers(figure)
    assert list(found) == [
        "destroyed, joint0",
        "destroyed, joint1",
        "stored, kinetic",
        "stored, potential",
        "stored, thermal",
    ]
    total = sum(height(up, times) - height(down, times) for up, down in found.values())
    np.testing.assert_allclose(total, trajectory.supplied, atol=1e-12)
    (supplied,) = [line for line in figure.axes[0].lines if str(line.get_label()).startswith("supplied")]
    np.testing.assert_allclose(supplied.get_ydata(), trajectory.supplied)
    np.testing.assert_allclose(
        height(found["destroyed, joint1"][0], times), trajectory.destroyed["joint1/mf"], atol=1e-12
    )


def test_small_and_many_contributors_are_grouped():
    few = layers(exergy_figure(lossy_trajectory((1.0, 1e-3, 1e-4)).to_xarray()))
    assert "other" in few and "destroyed, joint1" not in few
    many = layers(exergy_figure(lossy_trajectory((0.3,) * 12).to_xarray()))
    assert sum(name.startswith("destroyed") for name in many) == len(DESTROYED_COLOURS)
    assert "other" in many


@pytest.mark.parametrize(
    "make",
    [lossy_trajectory, pytest.param(lambda: failed(lossy_trajectory(), 6.0), marks=pytest.mark.slow)],
    ids=["whole", "failed"],
)
def test_the_picture_is_drawn_from_a_result_file_too(make, tmp_path):
    write_result(make(), tmp_path)
    direct = plot_trajectory(make(), tmp_path / "direct")
    with xr.open_dataset(tmp_path / "result.nc") as dataset:
        again = plot_trajectory(dataset, tmp_path / "again")
    assert direct[-1].name == again[-1].name == "exergy.png"
    np.testing.assert_array_equal(imread(direct[-1]), imread(again[-1]))
    pixels = imread(direct[-1])[..., :3]
    assert np.mean(np.any(pixels < 0.99, axis=-1)) > 0.05


def test_nothing_lost_nothing_drawn():
    assert exergy_figure(pair_trajectory().to_xarray()) is None
    still = lossy_trajectory()
    still = replace(still, destroyed=by_name({name: jnp.zeros_like(still.ts) for name in still.destroyed}))
    assert exergy_figure(still.to_xarray()) is None
    assert exergy_figure(failed(lossy_trajectory(), -1.0).to_xarray()) is None
