"""`jmbs draw` as a user types it."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from jmbs.cli import main

OSCILLATOR = str(Path(__file__).parents[2] / "configs" / "damped_oscillator.yaml")


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def boxes(path: Path) -> int:
    return sum(element.attrib.get("class", "").startswith("box ") for element in ET.parse(path).getroot().iter())


def test_draws_into_the_current_folder(tmp_path, capsys):
    assert main(["draw", OSCILLATOR]) == 0
    assert capsys.readouterr().out == "damped_oscillator.svg\n"
    assert boxes(tmp_path / "damped_oscillator.svg") == 3  # the rail, the mass, the ground


def test_depth_and_flat_show_what_is_inside(tmp_path):
    assert main(["draw", OSCILLATOR, "--depth", "2", "--out", "opened.svg"]) == 0
    assert main(["draw", OSCILLATOR, "--flat", "--out", "flat.svg"]) == 0
    assert boxes(tmp_path / "opened.svg") == 3 + 7 + 4
    assert boxes(tmp_path / "flat.svg") == 1 + 7 + 4


def test_set_changes_the_config(tmp_path):
    assert main(["draw", OSCILLATOR, "--set", "name=other"]) == 0
    assert ">other</text>" in (tmp_path / "other.svg").read_text(encoding="utf-8")


def test_an_existing_file_is_kept_unless_forced(tmp_path, capsys):
    picture = tmp_path / "picture.svg"
    picture.write_text("mine")
    assert main(["draw", OSCILLATOR, "--out", "picture.svg"]) == 2
    assert "--force" in capsys.readouterr().err and picture.read_text() == "mine"
    assert main(["draw", OSCILLATOR, "--out", "picture.svg", "--force"]) == 0
    assert boxes(picture) == 3


@pytest.mark.parametrize(
    "wrong",
    [
        ["--depth", "0"],
        ["--depth", "2", "--flat"],
        ["--out", "."],
        ["--out", "no/such/folder.svg"],
        ["--out", "picture.png"],
        ["--set", "bodies.mass.mass=-1"],
        ["--set", "joints.rail.child=nothing"],
    ],
)
def test_wrong_input_is_one_line_and_writes_nothing(wrong, tmp_path, capsys):
    assert main(["draw", OSCILLATOR, *wrong]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("jmbs: ") and err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
