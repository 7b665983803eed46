"""The study of configuration spaces runs from its script, small, and shows what its page says."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import numpy as np
import pytest

EXPERIMENT = Path(__file__).parents[2] / "experiments" / "configuration_space"


@pytest.fixture
def beside(monkeypatch):
    """The script's own modules can be imported, as when it is started from the command line."""
    monkeypatch.syspath_prepend(str(EXPERIMENT))


@pytest.mark.slow
def test_quick_run(beside, tmp_path):
    result = runpy.run_path(str(EXPERIMENT / "run.py"))["main"](["--quick", "--out", str(tmp_path)])
    assert json.loads((tmp_path / "result.json").read_text(encoding="utf-8")) == result
    drawn = {path.name for path in (tmp_path / "figures").glob("*.png")}
    assert drawn and drawn <= {path.name for path in (EXPERIMENT / "figures").glob("*.png")}

    top = result["systems"]["heavy_top"]
    by_run = {(row["groups"], row["method"], row["dt"]): row for row in top["runs"]}
    assert len(by_run) == 8
    # The joint to the ground is exact on SE(3) whatever the method, and of the method's order on SO(3)xR3.
    assert top["largest_ground_gap_on_SE3_m"] < 1e-11
    for method, order in (("rk4", 4), ("implicit_midpoint", 2)):
        coarse, fine = (by_run["SO3xR3", method, dt]["gap_m"]["pivot"] for dt in result["step_sizes"])
        assert abs(np.log(coarse / fine) / np.log(2.5) - order) < 0.2
    # Energy: alike for the explicit method; the midpoint rule keeps it on SE(3), where it is a quadratic invariant.
    assert all(0.2 < ratio < 5 for ratio in top["energy_drift_SO3xR3_over_SE3"]["rk4"])
    assert all(by_run["SE3", "implicit_midpoint", dt]["energy_drift_J"] < 1e-8 for dt in result["step_sizes"])


def test_the_page_shows_the_pictures():
    page = (EXPERIMENT / "README.md").read_text(encoding="utf-8")
    for figure in (EXPERIMENT / "figures").glob("*.png"):
        assert f"figures/{figure.name}" in page


def test_the_shipped_result_bears_the_claims():
    """Ground joints exact on SE(3) by every method; energy of explicit methods within a factor of ten of each other."""
    result = json.loads((EXPERIMENT / "result.json").read_text(encoding="utf-8"))
    ground = [system["largest_ground_gap_on_SE3_m"] for system in result["systems"].values()]
    assert max(gap for gap in ground if gap is not None) < 1e-11
