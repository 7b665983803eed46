"""Fits with a known answer: how near they come, how many runs they take, and what they say of what is not seen."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("mujoco")

from experiments.fit_benchmarks.run import main

THEIRS = Path(__file__).parents[2] / "experiments" / "fit_benchmarks" / "theirs.json"


@pytest.mark.slow
def test_known_answers_are_found_in_fewer_runs_than_elsewhere(tmp_path):
    result = main(["--out", str(tmp_path), "--cases", "spring_mass", "arm"])
    theirs = json.loads(THEIRS.read_text(encoding="utf-8"))
    for name, case in result.items():
        full = next(fit for fit in case["fits"] if fit["horizon"] == "full")
        assert full["simulations"] < theirs[name]["runs"]
        for fit in case["fits"]:
            assert fit["status"] == "converged" and fit["largest_error"] < 1e-4


@pytest.mark.slow
def test_ridge_of_a_cart_is_named_and_goes_with_a_load(tmp_path):
    result = main(["--out", str(tmp_path), "--cases", "cart", "cart_loaded"])
    (alone,), (loaded,) = (result[name]["fits"] for name in ("cart", "cart_loaded"))
    assert alone["invisible"] == ["cart/mass and rail/friction/viscous in proportion"]
    rate, error = alone["derived"]["rate"]
    assert abs(rate - 1.7 / 2.3) < 4 * error
    assert not loaded["invisible"] and loaded["largest_error_in_standard_errors"] < 4
