"""Files with mistakes made by chance are read or refused in one line, and nothing else happens."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from mutations import mutated_config, mutated_xml

from jmbs.cli import main
from jmbs.simulation import Model

pytestmark = pytest.mark.slow

CONFIGS = sorted((Path(__file__).parents[2] / "configs").glob("*.yaml"))
MODELS = sorted(path for path in (Path(__file__).parent / "models").iterdir() if path.suffix in (".urdf", ".xml"))
CONFIGS_IN_ALL, MODELS_IN_ALL = 500, 100
LONGEST = 10.0
"""Seconds that a refusal may take."""
SAID_OF_IMPORTS = ("jmbs: note: ", "jmbs: NOT SIMULATED, THOUGH IT CHANGES THE MOTION: ")


@pytest.fixture(autouse=True)
def _only_read(monkeypatch):
    """`jmbs check` up to the compiled model's plan: to describe it would compile programs."""
    monkeypatch.setattr(Model, "describe", lambda self: "read")


def check(original: Path, number: int, mutate: Callable[[str, int], bytes], tmp_path: Path, capsys) -> int:
    """The status of `jmbs check` of a mutated file, after what holds for all of them was asked."""
    file = tmp_path / f"mutated-{number}{original.suffix}"
    file.write_bytes(mutate(original.read_text(encoding="utf-8"), number))
    start = time.monotonic()
    status = main(["check", str(file)])
    spent = time.monotonic() - start
    said = capsys.readouterr().err.splitlines()
    complaints = [line for line in said if not line.startswith(SAID_OF_IMPORTS)]
    assert status in (0, 1, 2), number
    assert all(line.isprintable() for line in said), (number, said)
    if status:
        assert len(complaints) == 1 and "--debug" not in complaints[0], (number, said)
        assert spent < LONGEST, (number, spent, said)
    else:
        assert not complaints, (number, said)
    return status


@pytest.mark.parametrize("config", CONFIGS, ids=lambda path: path.stem)
def test_mutated_configs(config, tmp_path, capsys):
    numbers = range(CONFIGS.index(config), CONFIGS_IN_ALL, len(CONFIGS))
    statuses = [check(config, number, mutated_config, tmp_path, capsys) for number in numbers]
    assert 2 in statuses


@pytest.mark.parametrize("model", MODELS, ids=lambda path: path.name)
def test_mutated_models(model, tmp_path, capsys):
    pytest.importorskip("mujoco" if model.suffix == ".xml" else "urdf_parser_py")
    numbers = range(MODELS.index(model), MODELS_IN_ALL, len(MODELS))
    statuses = [check(model, number, mutated_xml, tmp_path, capsys) for number in numbers]
    assert set(statuses) == {0, 2}
