"""`jmbs plot` as a user types it."""

from __future__ import annotations

import os
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest
from quick import quick_jit

import jmbs
from jmbs.cli import main

OSCILLATOR = Path(__file__).parents[2] / "configs" / "damped_oscillator.yaml"


@pytest.fixture(scope="module")
def batch() -> jmbs.Trajectory:
    """Of three members, the middle one of which cannot run."""
    model = jmbs.load(OSCILLATOR).compile()

    def run(mass: jax.Array) -> jmbs.Trajectory:
        changed = model.with_parameters({"mass/mass": mass})
        return jmbs.simulate(changed, t1=0.2, save_every=0.1, throw=False)

    return quick_jit(jax.vmap(run))(jnp.array([1.0, jnp.nan, 2.0]))


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_draws_beside_the_result_what_is_the_same_as_of_the_run(capsys):
    settings = ["--set", "simulation.t1=0.2", "--no-cache"]
    assert main(["run", str(OSCILLATOR), "--out", "run", *settings]) == 0
    pictures = {path: path.read_bytes() for path in Path("run/plots").glob("*.png")}
    assert pictures
    next(iter(pictures)).unlink()
    capsys.readouterr()
    assert main(["plot", "run"]) == 0
    assert {Path(line) for line in capsys.readouterr().out.splitlines()} == set(pictures)
    assert {path: path.read_bytes() for path in Path("run/plots").glob("*.png")} == pictures
    assert main(["plot", "run/result.nc", "--out", "again"]) == 0
    assert {path.name for path in Path("again").iterdir()} == {path.name for path in pictures}


def test_a_member_of_a_batch(batch, capsys):
    batch.to_xarray().to_netcdf("batch.nc")
    assert main(["plot", "batch.nc"]) == 2
    assert "--member: found none for a batch of 3 members, wanted one of 0 to 2" in capsys.readouterr().err
    assert main(["plot", "batch.nc", "--member", "2"]) == 0
    assert Path("plots-2/trajectories.png").is_file()


def test_pictures_of_a_folder_that_was_named_are_kept_unless_forced(batch, capsys):
    batch.to_xarray().to_netcdf("batch.nc")
    Path("mine").mkdir()
    picture = Path("mine/trajectories.png")
    picture.write_text("mine")
    assert main(["plot", "batch.nc", "--member", "0", "--out", "mine"]) == 2
    assert "mine: found a folder that holds pictures, wanted another one, or --force" in capsys.readouterr().err
    assert picture.read_text() == "mine"
    assert main(["plot", "batch.nc", "--member", "0", "--out", "mine", "--force"]) == 0
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_a_result_that_lacks_something(batch, capsys):
    batch.to_xarray().drop_vars("entropy_produced").to_netcdf("lacking.nc")
    assert main(["plot", "lacking.nc", "--member", "0"]) == 2
    assert "(No variable named 'entropy_produced'), wanted the folder of a run" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere"], "nowhere: found No such file or directory, wanted the folder of a run, or its result.nc"),
        (["empty"], "empty: found no result.nc in it"),
        (["text.nc"], "text.nc: found no NetCDF file"),
        (["pipe"], "pipe: found a pipe or a device"),
        (["n" * 300], "File name too long"),
        (["other.nc"], "other.nc/result_schema: found none, wanted jmbs-result/1"),
        (["batch.nc", "--member", "3"], "--member: found 3 for a batch of 3 members, wanted one of 0 to 2"),
        (["batch.nc", "--member", "0", "--out", "text.nc"], "text.nc: found no place for pictures"),
    ],
)
def test_wrong_input_is_one_line(batch, arguments, message, capsys):
    Path("empty").mkdir()
    Path("text.nc").write_text("no picture")
    os.mkfifo("pipe")
    dataset = batch.to_xarray()
    dataset.to_netcdf("batch.nc")
    dataset.drop_attrs().to_netcdf("other.nc")
    before = sorted(Path().rglob("*"))
    assert main(["plot", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == "" and message in err and err.count("\n") == 1
    assert sorted(Path().rglob("*")) == before
