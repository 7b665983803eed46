"""Result files open anywhere, hold what was computed, are never half written and never overwritten unasked."""

from __future__ import annotations

import json
from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr
from io_result.synthetic import failed, pair_trajectory, without_audit

from jmbs.errors import ModelError
from jmbs.io.result import check_directory, default_directory, summarise, write_result


def test_round_trip(tmp_path):
    trajectory = pair_trajectory()
    write_result(trajectory, tmp_path / "run", wall_time=2.0, compile_time=1.0)
    with xr.open_dataset(tmp_path / "run" / "result.nc") as dataset:
        xr.testing.assert_identical(dataset.load(), trajectory.to_xarray())
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == ["result.nc", "summary.json"]


def test_batch_and_failed_runs_can_be_written(tmp_path):
    batch = jax.vmap(pair_trajectory)(jnp.array([0.1, 0.2]))
    write_result(batch, tmp_path / "batch")
    with xr.open_dataset(tmp_path / "batch" / "result.nc") as dataset:
        np.testing.assert_array_equal(dataset.kinetic, batch.kinetic)
        assert list(dataset.status.values) == ["Finished.", "Finished."]
    write_result(failed(pair_trajectory(), 3.0), tmp_path / "failed")
    with xr.open_dataset(tmp_path / "failed" / "result.nc") as dataset:
        assert dataset.attrs["status_name"] == "not_finite"
        assert dataset.attrs["failure_time"] == 3.0


def test_a_long_config_survives(tmp_path):
    # HDF5 keeps short attributes in a header of at most 64 KiB.
    trajectory = pair_trajectory()
    config = json.dumps({"description": "Ω" * 200_000}, ensure_ascii=False)
    longer = replace(trajectory, labels=replace(trajectory.labels, config_json=config))
    write_result(longer, tmp_path)
    with xr.open_dataset(tmp_path / "result.nc") as dataset:
        assert dataset.attrs["config"] == config


def test_an_earlier_result_is_kept_unless_forced(tmp_path):
    write_result(pair_trajectory(0.1), tmp_path)
    before = (tmp_path / "result.nc").read_bytes()
    with pytest.raises(ModelError, match="earlier result"):
        write_result(pair_trajectory(0.2), tmp_path)
    with pytest.raises(ModelError, match="earlier result"):
        check_directory(tmp_path)
    assert (tmp_path / "result.nc").read_bytes() == before
    check_directory(tmp_path, force=True)
    write_result(pair_trajectory(0.2), tmp_path, force=True)
    assert (tmp_path / "result.nc").read_bytes() != before


def test_a_failed_write_leaves_the_earlier_result_and_no_fragments(tmp_path, monkeypatch):
    write_result(pair_trajectory(0.1), tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    def full_disk(result, path):
        path.write_bytes(b"half")
        raise OSError("no space left")

    monkeypatch.setattr("jmbs.io.result.write_netcdf", full_disk)
    with pytest.raises(OSError, match="no space"):
        write_result(pair_trajectory(0.2), tmp_path, force=True)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_unusable_folders_are_refused_and_nothing_is_created(tmp_path):
    file = tmp_path / "file"
    file.write_text("x")
    for directory in (file, file / "below"):
        with pytest.raises(ModelError):
            check_directory(directory)
    check_directory(tmp_path / "new" / "deeper")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_default_directory_is_new(tmp_path):
    first = default_directory("pair", root=tmp_path)
    assert first.name.startswith("pair-") and first.parent == tmp_path
    first.mkdir()
    assert default_directory("pair", root=tmp_path) != first


def test_summary_measures(tmp_path):
    trajectory = pair_trajectory()
    summary = summarise(trajectory, wall_time=2.0, compile_time=1.0)
    assert summary["status"] == "successful" and summary["failure_time"] is None
    assert summary["simulated_time_s"] == 10.0
    assert summary["simulated_seconds_per_wall_second"] == 5.0
    assert summary["steps"] == 400
    for joint in ("rail", "axle"):
        found = summary["largest_constraint_residuals"][joint]
        assert found["position"] == float(jnp.max(trajectory.constraint_position[joint]))
        assert found["velocity"] == float(jnp.max(trajectory.constraint_velocity[joint]))
    # The factory's residual is 1e-9 of the initial energy, which is also the largest energy that moves about.
    assert summary["energy_drift"] == pytest.approx(1e-9, rel=0.01)
    assert summary["entropy_produced"] == float(trajectory.entropy_produced[-1])


def test_summary_does_not_depend_on_where_potential_energy_is_zero():
    trajectory = pair_trajectory()
    lifted = eqx.tree_at(lambda one: one.potential, trajectory, trajectory.potential + 1e6)
    drift = summarise(trajectory)["energy_drift"]
    assert summarise(lifted)["energy_drift"] == pytest.approx(drift, rel=1e-6)


def test_summary_of_a_failed_run_counts_what_was_reached(tmp_path):
    trajectory = failed(pair_trajectory(), 3.0)
    summary = write_result(trajectory, tmp_path, wall_time=1.0)
    assert summary["status"] == "not_finite" and summary["failure_time"] == 3.0
    assert summary["simulated_time_s"] == pytest.approx(3.0)
    reached = trajectory.ts <= 3.0
    assert summary["dissipated"] == float(trajectory.dissipated[reached][-1])
    written = json.loads((tmp_path / "summary.json").read_text())
    assert written["failure_time"] == 3.0 and "infinite or NaN" in written["message"]


def test_summary_of_a_run_that_failed_at_once_is_valid_json(tmp_path):
    trajectory = failed(pair_trajectory(), -1.0)
    write_result(trajectory, tmp_path)
    text = (tmp_path / "summary.json").read_text()
    assert "NaN" not in json.dumps(json.loads(text)["largest_constraint_residuals"])
    assert json.loads(text)["energy_drift"] is None


def test_summary_without_audit():
    summary = summarise(without_audit(pair_trajectory()))
    assert summary["energy_drift"] is None and summary["largest_constraint_residuals"] is None


def test_summary_of_a_batch_names_its_failures():
    batch = jax.tree.map(lambda *leaves: jnp.stack(leaves), pair_trajectory(), failed(pair_trajectory(), 4.0))
    summary = summarise(batch, wall_time=1.0)
    assert summary["members"] == 2
    assert summary["failed_members"] == [{"member": 1, "status": "not_finite", "failure_time": 4.0}]
    assert summary["simulated_time_s"] == pytest.approx(14.0)
    assert summary["steps"] == 800
