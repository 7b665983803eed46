"""Pictures of a check and of a profile: what they draw is what was found."""

from __future__ import annotations

import dataclasses
import io

import numpy as np
import pytest
from fabricated_fits import channel, made_fit
from matplotlib.figure import Figure

from jmbs.identification import Check, InvisibleDirection, Profile, Sensitivities
from jmbs.visualise import check_figures, fit_page, profile_figure, write_check_figures

TS = np.linspace(0.0, 3.0, 30)
CHANGES = {"cart/mass": np.sin(TS), "rail/friction/viscous": 3 * TS}
CHECK = Check(
    (),
    np.array([30.0, 2.0, 1e-9]),
    (InvisibleDirection(1e-9, {"a": 1.0}, "a alone"),),
    channels={"driven": {"x": channel(), "v": channel(seed=1)}, "test": {"x": channel(n=0)}},
    sensitivities={"driven": {"x": Sensitivities(TS, CHANGES), "v": Sensitivities(TS, {"cart/mass": TS})}},
)
VALUES = np.linspace(1.7, 2.6, 7)
PROFILE = Profile(
    *("cart/mass", "kg", 2.0, 0.2, VALUES, ((VALUES - 2.0) / 0.2) ** 2, np.arange(7) < 6, 3.84, (None, 2.39)),
    {"cart/mass": VALUES},
    12,
)


def drawn(figure: Figure) -> bytes:
    stream = io.BytesIO()
    figure.savefig(stream, format="png", dpi=40)
    return stream.getvalue()


def test_pictures_of_a_check():
    found = check_figures(CHECK)
    assert list(found) == ["check_data.png", "check_sensitivities.png", "check_singular_values.png"]
    data, sensitivities, singular = found.values()
    assert [ax.get_title() for ax in data.axes] == ["driven / x", "driven / v", "test / x"]
    measured, predicted = data.axes[1].lines
    np.testing.assert_array_equal(measured.get_ydata(), channel(seed=1).measured)
    np.testing.assert_array_equal(predicted.get_ydata(), channel(seed=1).predicted)
    lines = sensitivities.axes[0].lines
    np.testing.assert_allclose(np.asarray(lines[0].get_ydata(), float), TS / 3)
    labels = [text.get_text() for text in sensitivities.legends[0].get_texts()]
    assert labels == ["rail/friction/viscous: 0.09", "cart/mass: 0.03"]
    assert [line.get_label() for line in singular.axes[0].lines] == ["visible", "invisible"]
    assert all(drawn(figure).startswith(b"\x89PNG") for figure in found.values())
    assert check_figures(Check(())) == {}


def test_a_model_that_leaves_the_data_does_not_hide_them():
    away = channel()
    away = dataclasses.replace(away, predicted=1e9 * away.ts)
    figure = check_figures(Check((), channels={"r": {"x": away}}))["check_data.png"]
    assert figure.axes[0].get_ylim()[1] < 20
    broken = dataclasses.replace(away, predicted=np.full(away.ts.size, np.nan))
    assert drawn(check_figures(Check((), channels={"r": {"x": broken}}))["check_data.png"])


def test_pictures_of_an_earlier_check_are_replaced(tmp_path):
    (tmp_path / "check_data.png").write_bytes(b"old")
    assert write_check_figures(Check((), np.array([1.0])), tmp_path) == [tmp_path / "check_singular_values.png"]
    assert [path.name for path in tmp_path.iterdir()] == ["check_singular_values.png"]


def test_picture_of_a_profile():
    figure = profile_figure(PROFILE)
    parabola, profile, failed = figure.axes[0].lines[:3]
    np.testing.assert_array_equal(profile.get_ydata(), PROFILE.increase)
    assert np.max(parabola.get_ydata()) == pytest.approx(9.0) and np.array_equal(failed.get_xdata(), VALUES[-1:])
    assert drawn(figure).startswith(b"\x89PNG")
    assert PROFILE.summary().startswith(
        "profile of cart/mass: 95 % by likelihood beyond the profile ... 2.39 kg; 1 of 7"
    )
    below = dataclasses.replace(PROFILE, increase=PROFILE.increase - 1)
    assert "had not found the minimum" in below.summary()


def test_a_report_shows_profiles_where_asked(monkeypatch):
    monkeypatch.setattr("jmbs.visualise.fit_report.picture", lambda figure, meaning: meaning)
    assert "Profile of cart/mass" in fit_page(made_fit(), profiles=[PROFILE])
    assert "Profile" not in fit_page(made_fit())
