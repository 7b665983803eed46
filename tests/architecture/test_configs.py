"""The shipped configs say who they are, and those that rerun a reference case hold exactly its numbers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from source_tree import ROOT

CONFIGS = sorted((ROOT / "configs").glob("*.yaml"))

# Config: reference case. The pendulum of IFToMM is a point mass there and an equivalent body here, so it is not listed.
SAME_BODIES = {
    "joint_revolute_skew": "joint_revolute_skew",
    "joint_prismatic_incline": "joint_prismatic_incline",
    "joint_screw": "joint_screw",
    "joint_spherical_steady_top": "joint_spherical_steady_top",
    "free_rigid_body": "free_rigid_body_dzhanibekov",
    "heavy_top": "mt2013_heavy_top",
    "heavy_top_bca": "bca_heavy_top",
    "spherical_double_pendulum": "mt2013_spherical_double_pendulum",
    "sliding_rod": "lewis_sliding_rod",
    "knife_edge": "nh_knife_edge_incline",
    "rolling_disk": "nh_vertical_rolling_disk",
}


def read(path: Path) -> dict[str, Any]:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def as_matrix(inertia: list) -> np.ndarray:
    values = np.array(inertia, dtype=float)
    return values if values.ndim == 2 else np.diag(values)


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_config_is_named_after_its_file(path: Path):
    config = read(path)
    assert config["schema"] == "jmbs/1"
    assert config["name"] == path.stem


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_tolerances_are_numbers(path: Path):
    """YAML 1.1 reads `1e-8` as text; it wants `1.0e-8`."""
    assert all(isinstance(value, float) for value in read(path)["simulation"]["tolerance"].values())


@pytest.mark.parametrize("name", SAME_BODIES)
def test_reference_configs_hold_the_numbers_of_their_case(name: str, reference: Callable[[str], dict]):
    config, case = read(ROOT / "configs" / f"{name}.yaml"), reference(SAME_BODIES[name])
    assert config["gravity"] == case["gravity"]
    assert list(config["bodies"]) == [body["name"] for body in case["bodies"]]
    for body in case["bodies"]:
        assert config["bodies"][body["name"]]["mass"] == body["mass"]
        np.testing.assert_array_equal(as_matrix(config["bodies"][body["name"]]["inertia"]), body["inertia_com"])


@pytest.mark.parametrize("name", SAME_BODIES)
def test_reference_times_are_saved(name: str, reference: Callable[[str], dict]):
    simulation = read(ROOT / "configs" / f"{name}.yaml")["simulation"]
    times = np.array(reference(SAME_BODIES[name])["times"])
    multiples = times / simulation["save_every"]
    np.testing.assert_allclose(multiples, np.round(multiples), rtol=0, atol=1e-9)
    assert times[-1] == simulation["t1"]


def test_damped_oscillator_holds_the_numbers_of_its_case(reference: Callable[[str], dict]):
    config = read(ROOT / "configs" / "damped_oscillator.yaml")
    case = reference("joint_damped_oscillator_entropy")["cases"]["underdamped"]
    rail, start = config["joints"]["rail"], config["initial"]["joints"]["rail"]
    assert config["bodies"]["mass"]["mass"] == case["m"]
    assert (rail["spring"]["stiffness"], rail["friction"]["viscous"]) == (case["k"], case["d"])
    assert (start["q"], start["v"]) == ([case["q0"]], [case["v0"]])
    assert config["environment"]["temperature"] == case["theta0"]
    assert config["simulation"]["t1"] == case["times"][-1]
