"""Plots exist, show something, and can be drawn again from a result file."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import matplotlib
import numpy as np
import pytest
import xarray as xr
from io_result.synthetic import chain_trajectory, failed, pair_trajectory, without_audit
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.image import imread

from jmbs.errors import ModelError
from jmbs.io.result import write_result
from jmbs.visualise.plots import (
    MOST_LINES,
    account_figure,
    constraint_figure,
    motion_figure,
    of_one_run,
    plot_trajectory,
)

NAMES = ["trajectories.png", "energies.png", "constraints.png"]


def ink(path) -> float:
    """The part of the picture that is not background."""
    pixels = imread(path)[..., :3]
    return float(np.mean(np.any(pixels < 0.99, axis=-1)))


def in_single_precision(trajectory):
    return jax.tree.map(lambda x: x.astype(jnp.float32) if jnp.issubdtype(x.dtype, jnp.floating) else x, trajectory)


@pytest.mark.parametrize(
    "make",
    [
        pair_trajectory,
        lambda: failed(pair_trajectory(), 6.0),
        lambda: chain_trajectory(20),
        lambda: in_single_precision(pair_trajectory()),
    ],
)
def test_three_pictures_with_content(make, tmp_path):
    drawn = plot_trajectory(make(), tmp_path / "plots")
    assert [path.name for path in drawn] == NAMES
    for path in drawn:
        assert ink(path) > 0.01


@pytest.mark.parametrize("draw", [motion_figure, account_figure, constraint_figure])
def test_nothing_reaches_beyond_the_picture(draw):
    """Labels, titles and legends of twenty bodies."""
    figure = draw(chain_trajectory(20, count=5).to_xarray())
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    box, (width, height) = figure.get_tightbbox(canvas.get_renderer()), figure.get_size_inches()
    assert 0 <= box.x0 < box.x1 <= width and 0 <= box.y0 < box.y1 <= height


def test_a_result_file_draws_the_same_pictures(tmp_path):
    trajectory = pair_trajectory(count=41)
    write_result(trajectory, tmp_path)
    direct = plot_trajectory(trajectory, tmp_path / "direct")
    with xr.open_dataset(tmp_path / "result.nc") as dataset:
        again = plot_trajectory(dataset, tmp_path / "again")
    for one, other in zip(direct, again, strict=True):
        np.testing.assert_array_equal(imread(one), imread(other))


def test_what_is_not_there_is_not_drawn_and_stale_pictures_go(tmp_path):
    plot_trajectory(pair_trajectory(count=11), tmp_path)
    drawn = plot_trajectory(without_audit(pair_trajectory(count=11)), tmp_path)
    assert [path.name for path in drawn] == ["trajectories.png"] == [path.name for path in tmp_path.iterdir()]


def test_curves_end_where_the_run_failed():
    figure = motion_figure(failed(pair_trajectory(), 6.0).to_xarray())
    (curve, *_) = figure.axes[0].lines
    times = np.asarray(curve.get_xdata())[np.isfinite(np.asarray(curve.get_ydata()))]
    assert times.max() == pytest.approx(6.0)


def test_zero_residuals_are_said_to_be_zero():
    figure = constraint_figure(pair_trajectory().to_xarray())
    assert [text.get_text() for text in figure.axes[0].texts] == ["exactly zero: axle"]
    assert len(figure.axes[1].texts) == 0  # no joint is exact in velocity


def test_a_value_alone_between_zeros_is_marked():
    trajectory = pair_trajectory(count=11)
    spike = np.zeros(11)
    spike[[3, 4, 8]] = 1e-3
    figure = constraint_figure(
        replace(trajectory, constraint_position=trajectory.constraint_position.replace("rail", spike)).to_xarray()
    )
    curve = next(line for line in figure.axes[0].lines if line.get_label() == "rail")
    assert curve.get_markevery() == [8] and curve.get_marker() == "o"


def test_all_residuals_zero_still_draws(tmp_path):
    trajectory = pair_trajectory(count=11)
    zero = replace(trajectory, constraint_position=trajectory.constraint_position.replace("rail", 0.0))
    assert len(plot_trajectory(zero, tmp_path)) == 3


def test_a_run_that_failed_at_once_still_draws(tmp_path):
    assert len(plot_trajectory(failed(pair_trajectory(count=11), -1.0), tmp_path)) == 3


def test_rounding_errors_do_not_look_like_motion():
    trajectory = pair_trajectory()
    noise = 1e-17 * jnp.sin(50 * trajectory.ts)
    position = trajectory.position.replace("slider", trajectory.position["slider"].at[:, 1].set(noise))
    position = position.replace("rotor", position["rotor"].at[:, 1].set(0.0))
    low, high = motion_figure(replace(trajectory, position=position).to_xarray()).axes[1].get_ylim()
    assert high - low > 1e-7


def test_too_many_bodies_are_limited_and_counted():
    figure = motion_figure(chain_trajectory(MOST_LINES + 5, count=5).to_xarray())
    assert len(figure.axes[0].lines) == MOST_LINES
    (legend,) = figure.subfigs[0].legends
    assert legend.get_title().get_text() == "5 more not drawn"


def test_a_member_of_a_batch_has_times_of_its_own():
    """Members that saved at different times share an index in place of times."""
    short, long = pair_trajectory(), pair_trajectory()
    both = jax.tree.map(lambda a, b: jnp.stack([a, b]), short, replace(long, ts=2 * long.ts))
    both = both.to_xarray()
    assert "member_time" in both.coords
    for member, end in ((0, 1.0), (1, 2.0)):
        figure = motion_figure(of_one_run(both.isel(member=member)))
        assert figure.axes[0].lines[0].get_xdata()[-1] == pytest.approx(end * float(short.ts[-1]))


def test_batches_are_refused(tmp_path):
    batch = jax.vmap(lambda amplitude: pair_trajectory(amplitude, count=11))(jnp.array([0.1, 0.2]))
    with pytest.raises(ModelError, match="member"):
        plot_trajectory(batch, tmp_path)
    assert len(plot_trajectory(batch.to_xarray().isel(member=0), tmp_path)) == 3


def test_drawing_leaves_global_state_alone(tmp_path):
    before = dict(matplotlib.rcParams)
    plot_trajectory(pair_trajectory(count=11), tmp_path)
    assert dict(matplotlib.rcParams) == before
