"""Pictures of a fit: what they draw is what the fit says, whatever its names and however many its channels."""

from __future__ import annotations

import dataclasses
import io

import numpy as np
import pytest
from fabricated_fits import channel, estimate, made_fit
from matplotlib.figure import Figure

from jmbs.errors import ModelError
from jmbs.identification import Fit
from jmbs.visualise import (
    correlation_figure,
    intervals_figure,
    residuals_figure,
    singular_values_figure,
    trajectories_figure,
)
from jmbs.visualise.fit_plots import MOST_PANELS, MOST_POINTS

EACH = (trajectories_figure, residuals_figure, correlation_figure, intervals_figure, singular_values_figure)


@pytest.fixture(scope="module")
def fit() -> Fit:
    return made_fit()


def drawn(figure: Figure) -> bytes:
    stream = io.BytesIO()
    figure.savefig(stream, format="png", dpi=40)
    return stream.getvalue()


def titles(figure: Figure) -> list[str]:
    return [ax.get_title() for ax in figure.axes]


def test_data_and_model_of_every_channel(fit: Fit):
    figure = trajectories_figure(fit)
    assert titles(figure) == ["driven / x", "driven / v", "test / x (held out)"]
    measured, predicted = figure.axes[1].lines
    np.testing.assert_array_equal(measured.get_ydata(), fit.channels["driven"]["v"].measured)
    np.testing.assert_array_equal(predicted.get_ydata(), fit.channels["driven"]["v"].predicted)


def test_axes_tell_units(fit: Fit):
    with_units = dataclasses.replace(fit, heldout={}, channels={"one": {"x": channel(noise=1e-3)}})
    one = dataclasses.replace(with_units.channels["one"]["x"], unit="m/s^2")
    with_units = dataclasses.replace(with_units, channels={"one": {"x": one}})
    assert trajectories_figure(with_units).axes[0].get_ylabel() == "m/s^2"
    assert [ax.get_ylabel() for ax in residuals_figure(with_units).axes] == ["residual (m/s^2)", ""]


def test_recordings_are_chosen_by_name(fit: Fit):
    assert titles(fit.plot_trajectories(["test"])) == ["test / x (held out)"]
    assert titles(fit.plot_residuals("test"))[0] == "test / x (held out)"
    with pytest.raises(ModelError, match="tset.*driven, test"):
        fit.plot_trajectories(["tset"])


def test_residuals_beside_their_band_and_autocorrelation(fit: Fit):
    figure = residuals_figure(fit, ["driven"])
    left, right = figure.axes[:2]
    np.testing.assert_array_equal(left.lines[0].get_ydata(), fit.channels["driven"]["x"].residual)
    (band,) = left.collections
    assert band.get_paths()[0].get_extents().ymax == pytest.approx(1.96 * 0.01)
    (lags,) = right.collections
    assert len(lags.get_segments()) == 40
    assert right.get_title() == "autocorrelation"


def test_what_is_not_visible_is_hatched_and_red(fit: Fit):
    assert "not visible" in titles(correlation_figure(fit))[0]
    legend = intervals_figure(fit).legends[0]
    assert [text.get_text() for text in legend.get_texts()][-1] == "estimate that the data do not show"
    lines = singular_values_figure(fit).axes[0].lines
    assert [line.get_label() for line in lines] == ["visible", "invisible"]
    np.testing.assert_allclose(lines[1].get_ydata(), [3e-9])


def test_all_visible_says_nothing_of_the_invisible():
    one = {"cart/mass": estimate(2.0, 0.1, "kg")}
    fit = made_fit(parameters=one, order=("cart/mass",), correlation=np.eye(1), invisible_directions=())
    assert "not visible" not in titles(correlation_figure(fit))[0]
    assert [text.get_text() for text in intervals_figure(fit).legends[0].get_texts()] == [
        "start",
        "estimate and 95 % interval",
    ]


HARD = {
    "unusual": {
        "channels": {
            "$\\frac{1$ \x1b[31m": {"<b>_^": channel(n=30)},
            "r": {"few": channel(n=3), "none": channel(n=0), "large": channel(n=30, noise=1e300)},
        },
        "heldout": {},
        "parameters": {
            "zero": estimate(0.0, 0.1, "m"),
            "$^$": estimate(1e-9, 3.0, "m"),
            "nan": estimate(np.nan, None, "m"),
            "infinite": estimate(np.inf, None, "m"),
        },
        "singular_values": np.zeros(3),
    },
    "nothing": {
        **{"channels": {}, "heldout": {}, "parameters": {}, "order": (), "invisible_directions": ()},
        **{"correlation": np.zeros((0, 0)), "singular_values": np.zeros(0)},
    },
}


@pytest.mark.parametrize("name", HARD)
def test_hard_cases_are_drawn(name: str):
    fit = made_fit(**HARD[name])
    for figure_of in EACH:
        assert drawn(figure_of(fit)).startswith(b"\x89PNG")


def test_many_channels_and_samples_stay_readable():
    many = made_fit(channels={f"r{i}": {"x": channel(n=30)} for i in range(MOST_PANELS + 5)}, heldout={})
    figure = trajectories_figure(many)
    assert len(figure.axes) == MOST_PANELS and "5 more channels" in figure.get_suptitle()
    long = made_fit(channels={"r": {"x": channel(n=3 * MOST_POINTS)}})
    assert len(trajectories_figure(long).axes[0].lines[0].get_ydata()) == MOST_POINTS


def test_starts_far_away_do_not_hide_intervals():
    fit = made_fit(parameters={"a": estimate(1.0, 0.01, "kg"), "b": estimate(1e-6, 1e-9, "kg")})
    far = {path: type(one)(**{**vars(one), "start": 1.0}) for path, one in fit.parameters.items()}
    ax = intervals_figure(made_fit(parameters=far)).axes[0]
    low, high = ax.get_xlim()
    assert high - low < 5 and any("start" in text.get_text() for text in ax.texts)


def test_an_unknown_near_zero_leaves_others_their_room():
    ax = intervals_figure(made_fit(parameters={"a": estimate(1.0, 0.01, "m"), "b": estimate(1e-6, 1e-3, "m")})).axes[0]
    low, high = ax.get_xlim()
    assert -2 < low and high < 2
