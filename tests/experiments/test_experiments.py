"""The experiments run from their scripts, at tiny sizes, and write what they promise."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

EXPERIMENTS = Path(__file__).parents[2] / "experiments"


def run(name: str, out: Path, *arguments: str) -> dict[str, Any]:
    """Runs an experiment's `main` in this process; what it returns is what it wrote."""
    main = runpy.run_path(str(EXPERIMENTS / name / "run.py"))["main"]
    result = main(["--out", str(out), *arguments])
    assert json.loads((out / "result.json").read_text(encoding="utf-8")) == result
    return result


def assert_figures(name: str, out: Path) -> None:
    """The figures that the experiment's page shows are drawn, and lie in the repository, small."""
    page = (EXPERIMENTS / name / "README.md").read_text(encoding="utf-8")
    drawn = sorted(path.name for path in (out / "figures").glob("*.png"))
    assert drawn == sorted(path.name for path in (EXPERIMENTS / name / "figures").glob("*.png"))
    for figure in drawn:
        assert f"figures/{figure}" in page
        assert (out / "figures" / figure).stat().st_size > 1000


def test_committed_pictures_are_small():
    pictures = [path for path in EXPERIMENTS.glob("*/figures/**/*.png") if path.stat().st_size > 150_000]
    large = EXPERIMENTS / "configuration_space" / "figures"
    assert sorted(pictures) == [large / "step_sizes.png", large / "work_precision.png"]
    assert all(path.stat().st_size < 250_000 for path in pictures)


@pytest.mark.slow
def test_identification_descends_along_an_exact_gradient(tmp_path):
    with jax.numpy_dtype_promotion("standard"):  # optax's Adam raises a float to an integer power
        result = run("identify_slider_crank", tmp_path, "--iterations", "25", "--t1", "0.6")
    assert_figures("identify_slider_crank", tmp_path)
    assert result["loss_end"] < 0.5 * result["loss_start"]
    assert result["gradient_check"]["relative_difference"] < 1e-6
    assert len(result["parameters"]) == 3
    assert all(0 < row["standard_error"] < np.inf for row in result["parameters"].values())
    assert result["sensitivity_condition"] < 100


@pytest.mark.slow
def test_a_driven_pendulum_settles_in_many_motions(tmp_path):
    result = run("pendulum_basins", tmp_path, "--side", "12", "--periods", "40")
    assert_figures("pendulum_basins", tmp_path)
    assert result["failed"] == 0 and result["members"] == 144
    assert result["settled"] > 0.5 and result["motions"] > 3
    assert not list(tmp_path.glob("*.zarr"))


@pytest.mark.slow
def test_a_network_stands_in_for_a_simulation(tmp_path):
    result = run("surrogate", tmp_path, "--members", "2048", "--epochs", "150")
    assert_figures("surrogate", tmp_path)
    assert result["members"] == {"trained": 1536, "held_out": 512, "failed": 0}
    assert result["error_of_spread"]["network"] < 0.5 * result["error_of_spread"]["linear"]
    assert not list(tmp_path.glob("*.zarr"))
    shipped = json.loads((EXPERIMENTS / "surrogate" / "result.json").read_text(encoding="utf-8"))
    assert shipped["error_of_spread"]["network"] < 0.1 * shipped["error_of_spread"]["cubic"]


@pytest.mark.slow
def test_a_batch_member_fails_alone(tmp_path):
    result = run("parameter_batch", tmp_path, "--members", "8", "--steps", "50", "--t1", "0.05")
    assert_figures("parameter_batch", tmp_path)
    assert result["successful"] == 8
    assert 0 < result["largest_energy_drift"] < 1e-5
    assert result["largest_joint_gap"] < 1e-10
    isolation = result["isolation"]
    found = [row["status"] for row in isolation["absurd_members"]]
    assert found == ["invalid_parameters", "invalid_parameters", "not_finite"]
    assert isolation["others_same_status"]
    assert isolation["others_largest_difference"] == 0.0


@pytest.mark.slow
def test_a_designed_torque_tells_more_than_chirps(tmp_path):
    more = ("--starts", "1", "--iterations", "20", "--frequencies", "1", "2", "--repeats", "2")
    result = run("excitation_design", tmp_path, *more)
    assert_figures("excitation_design", tmp_path)
    assert min(result["worst_over_designed"].values()) > 1.5
    assert all(lower <= least < most <= upper for lower, upper, least, most in result["limits"].values())
    errors = [row["rms_relative_error"] for row in result["fits"]["designed"].values()]
    assert max(errors) < 4 * max(result["designed"].values())


@pytest.mark.slow
def test_payload_and_friction_of_an_arm(tmp_path):
    result = run(
        "arm_payload", tmp_path, "--recordings", "2", "--samples", "150", "--repeats", "1", "--small", "2", "150"
    )
    assert_figures("arm_payload", tmp_path)
    assert result["status"] == "converged" and not result["invisible"] and len(result["parameters"]) == 24
    assert max(abs(row["z"]) for row in result["parameters"].values()) < 4.5
    assert max(result["heldout_rms_over_noise"].values()) < 1.5
    shipped = json.loads((EXPERIMENTS / "arm_payload" / "result.json").read_text(encoding="utf-8"))
    assert np.mean(list(shipped["coverage"]["coverage"].values())) >= 0.9


def test_a_small_batch_is_refused(capsys):
    with pytest.raises(SystemExit):
        runpy.run_path(str(EXPERIMENTS / "parameter_batch" / "run.py"))["main"](["--members", "3"])
    assert "--members" in capsys.readouterr().err


@pytest.mark.slow
def test_friction_laws_are_found(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(EXPERIMENTS / "friction_discovery"))
    result = run("friction_discovery", tmp_path, "--t1", "2", "--hidden", "4", "--iterations", "30")
    assert_figures("friction_discovery", tmp_path)
    assert min(result["heldout_ratio"].values()) > 5
    for name in ("viscous", "network"):
        assert result[name]["first_law_residual"] < 1e-6 * result[name]["dissipated"]
        assert result[name]["least_entropy_in_a_sample"] >= 0


@pytest.mark.slow
def test_two_poles_are_swung_up(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(EXPERIMENTS / "cart_two_poles"))
    result = run("cart_two_poles", tmp_path, "--seeds", "1", "--members", "8")
    assert_figures("cart_two_poles", tmp_path)
    assert result["solved"] == 1


@pytest.mark.slow
def test_recordings_become_parameters(tmp_path):
    result = run("fit_recordings", tmp_path, "double_pendulum")["double_pendulum"]
    assert result["status"] == "converged"
    assert max(abs(row["off_by_standard_errors"]) for row in result["parameters"].values()) < 4
    shipped = json.loads((EXPERIMENTS / "fit_recordings" / "result.json").read_text(encoding="utf-8"))
    found = [row for case in shipped.values() for row in case["parameters"].values()]
    assert len(found) == 10 and all(abs(row["off_by_standard_errors"]) < 4 for row in found)
