"""The report is one page that loads nothing, runs nothing, and says everything that the fit does."""

from __future__ import annotations

import html.parser
from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest
from fabricated_fits import channel, made_fit
from io_result.synthetic import failed, pair_trajectory

from jmbs.identification import Finding, InvisibleDirection, judged
from jmbs.visualise import energy_account, fit_page, fit_report

VOID = {"meta", "img", "br"}
TITLES = (
    *("Parameters", "Identifiability", "Data and fit", "Residuals", "Held-out recordings", "Correlation"),
    *("Energy account", "Effort and versions", "The study"),
)


class Reader(html.parser.HTMLParser):
    """Reads a page: its tags, which must close in order, its text, and what it would fetch."""

    def __init__(self, page: str):
        super().__init__()
        self.open, self.tags, self.text, self.sources, self.titles = [], [], "", [], []
        self.feed(page)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.sources += [value for key, value in attrs if key in ("src", "href", "srcset", "data", "action")]
        assert not [key for key, _ in attrs if key.startswith("on")]
        if tag == "img":
            assert dict(attrs)["alt"]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] == "h2":
            self.titles.append(data)
        if self.open and self.open[-1] != "style":
            self.text += data


@pytest.fixture
def undrawn(monkeypatch):
    """Pictures take most of the time, and these tests look at words."""
    for module in (fit_report, energy_account):
        monkeypatch.setattr(module, "picture", lambda figure, meaning: "")


@pytest.fixture(scope="module")
def page() -> str:
    fit = made_fit(channels={"driven": {"x": channel(drift=2.0)}})
    return fit_page(judged(fit), pair_trajectory(0.5, count=29))


def test_it_says_everything(page: str):
    reader = Reader(page)
    assert reader.titles == list(TITLES)
    for words in (
        *("cart/mass", "rail/friction/viscous", "sensors/x/bias", "payload/mass", "2.3", "1.15", "0.008 ... 0.012"),
        *("the data do not show it", "at its bound", "tied", "rail/friction/viscous / cart/mass", "0.739"),
        *(
            "cart/mass and rail/friction/viscous in proportion",
            "cart/mass +1",
            "chi-squared per degree of freedom 1.01",
        ),
        *("only rail/friction/viscous / cart/mass is seen", "residuals are not white", "driven/x", "test/x"),
        *("first-law residual", "dissipated", "supplied", "Entropy produced", "jmbs-fit/1", "JAX", "40", "device"),
    ):
        assert words in reader.text, words


def test_it_loads_and_runs_nothing(page: str):
    reader = Reader(page)
    assert not {"script", "link", "iframe", "object", "form", "base"} & set(reader.tags)
    assert all(source.startswith(("data:image/png;base64,", "#")) for source in reader.sources)
    assert "default-src 'none'" in page.replace("&#x27;", "'") and "url(" not in page and "@import" not in page
    assert reader.tags.count("img") == 8
    assert "width=device-width" in page and "@media print" in page


def test_words_of_users_stay_words(undrawn):
    evil = '<script>alert("1")</script>\x1b[31m'
    fit = made_fit(
        name=evil,
        message=evil,
        channels={evil: {evil: channel(n=30)}},
        heldout={},
        warnings=(Finding("misfit", "warning", evil),),
        invisible_directions=(InvisibleDirection(0.0, {evil: 1.0}, evil),),
        source={"name": evil, evil: [evil, np.float64(1.0)]},
    )
    reader = Reader(fit_page(fit))
    assert "script" not in reader.tags and "\x1b" not in reader.text
    assert reader.text.count('alert("1")') >= 8


def test_what_is_not_there_is_said(undrawn):
    fit = made_fit(heldout={}, invisible_directions=(), warnings=(), source={}, derived={})
    text = Reader(fit_page(fit)).text
    for words in ("No warnings", "No recording was held out", "show every unknown", "was not run", "given in Python"):
        assert words in text


def test_a_run_that_failed_is_told(undrawn):
    _, text = energy_account.account_section(failed(pair_trajectory(0.5, count=29), 6.0))
    assert "The run did not reach its end" in text and "dissipated" in text
    nothing = replace(pair_trajectory(0.5, count=29), total=jnp.full(31, jnp.nan))
    assert "failed at its start" in energy_account.account_section(nothing)[1]


def test_the_account_is_that_of_the_run(undrawn):
    run = pair_trajectory(0.5, count=29)
    _, text = energy_account.account_section(run)
    for value in (run.dissipated[-1], run.total[-1] - run.total[0]):
        assert f"<td>{float(value):.6g}</td>" in text
