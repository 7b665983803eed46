"""The experiment on redundant coordinates runs from its script, at a tiny size, and writes what it promises."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import pytest

EXPERIMENT = Path(__file__).parents[2] / "experiments" / "redundant_coordinates"


@pytest.mark.slow
def test_both_roads_agree(tmp_path):
    main = runpy.run_path(str(EXPERIMENT / "run.py"))["main"]
    result = main(["--out", str(tmp_path), "--length", "0.02"])
    assert json.loads((tmp_path / "result.json").read_text(encoding="utf-8")) == result
    for name in ("robot", "gyroscope", "slider_crank", "mixed_slider_crank"):
        assert max(result[name]["largest_difference"].values()) < 1e-8
    assert result["gimbal_lock"]["status_in_euler_angles"] == "singular_coordinates"
    assert [len(row["warnings"]) for row in result["hitch_at_90_degrees"].values()] == [0, 1]
    drawn = sorted(path.name for path in (tmp_path / "figures").glob("*.png"))
    assert drawn == sorted(path.name for path in (EXPERIMENT / "figures").glob("*.png"))
    page = (EXPERIMENT / "README.md").read_text(encoding="utf-8")
    assert all(f"figures/{name}" in page for name in drawn)
