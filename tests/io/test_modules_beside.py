"""A config's types may come from Python modules beside it, and each config sees its own."""

from __future__ import annotations

import sys
from pathlib import Path

import jax
import pytest
import yaml

from jmbs.cli import main
from jmbs.io import ConfigError, read_config

FORCE = """
class {name}:
    size = {size}
    def wrench(self, t, pose, velocity):
        return self.size * velocity
"""


@pytest.fixture(autouse=True)
def _same_modules():
    """What a test imports goes again, and nothing else may stay changed."""
    path, modules = list(sys.path), dict(sys.modules)
    yield
    assert sys.path == path
    for name in set(sys.modules) - set(modules):
        del sys.modules[name]
    sys.modules.update(modules)


def write(folder: Path, name: str, base: dict, type_name: str, files: dict[str, str]) -> Path:
    """A config with a user's force in a folder, and the files beside it."""
    folder.mkdir(exist_ok=True)
    for file, text in files.items():
        (folder / file).parent.mkdir(exist_ok=True)
        (folder / file).write_text(text)
    config = base | {"elements": {"wind": {"type": type_name, "body": "link1"}}}
    (folder / name).write_text(yaml.safe_dump(config))
    return folder / name


def force_of(config: Path):
    """The user's object of the config's force."""
    return read_config(config).forces["wind"].wrench.__self__


def test_each_config_finds_its_own_modules(tmp_path, base):
    configs = [
        write(
            tmp_path / name,
            "arm.yaml",
            base,
            "forces_beside:Wind",
            {"forces_beside.py": f"from helper_beside import SIZE\n{FORCE.format(name='Wind', size='SIZE')}"}
            | {"helper_beside.py": f"SIZE = {size}\n"},
        )
        for name, size in (("a", 1.0), ("b", 2.0))
    ]
    forces = [force_of(config) for config in (*configs, *configs)]
    assert [force.size for force in forces] == [1.0, 2.0, 1.0, 2.0]
    # Reading a config again gives the same class, by which programs are shared.
    assert type(forces[0]) is type(forces[2]) is not type(forces[1])


def test_packages_relative_imports_and_relative_paths(tmp_path, base, monkeypatch):
    files = {"pack_beside/__init__.py": "", "pack_beside/size.py": "SIZE = 3.0\n"}
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "yaml.md").write_text("no module")
    files["pack_beside/winds.py"] = f"import yaml\nfrom .size import SIZE\n{FORCE.format(name='Wind', size='SIZE')}"
    write(tmp_path / "c", "arm.yaml", base, "pack_beside.winds:Wind", files)
    monkeypatch.chdir(tmp_path)
    assert force_of(Path("c/arm.yaml")).size == 3.0
    monkeypatch.chdir(tmp_path / "c")
    assert force_of(Path("arm.yaml")).size == 3.0


def test_folders_of_modules_without_init_are_packages_too(tmp_path, base):
    for size in (1, 2):
        files = {"bare_beside/winds.py": FORCE.format(name="Wind", size=size)}
        config = write(tmp_path / f"d{size}", "arm.yaml", base, "bare_beside.winds:Wind", files)
        assert force_of(config).size == size


def test_systems_and_drives_are_found_too(tmp_path, base):
    text = "class Ramp:\n    def __call__(self, t):\n        return t\n"
    write(tmp_path, "arm.yaml", base, "forces_beside:Wind", {"forces_beside.py": FORCE.format(name="Wind", size=1)})
    (tmp_path / "drives_beside.py").write_text(text + "from jmbs.library.electric import Inductor as Coil\n")
    coil = {"type": "drives_beside:Coil", "parameters": {"inductance": 1.0}}
    systems = {"one": coil, "two": {"systems": {"coil": coil}, "connections": {"i": ["coil.phi"]}, "ports": ["i"]}}
    drive = {"ports": ["one.phi"], "flow": {"type": "drives_beside:Ramp"}}
    (tmp_path / "arm.yaml").write_text(yaml.safe_dump(base | {"systems": systems, "connections": {"source": drive}}))
    mechanism = read_config(tmp_path / "arm.yaml")
    assert mechanism.connections["source"].flow(2.0) == 2.0 and set(mechanism.systems) == {"one", "two"}


def test_a_module_that_was_imported_from_there_is_the_same(tmp_path, base, monkeypatch):
    """A script beside the config that imports its own modules shares them with the config."""
    files = {"mine_beside.py": FORCE.format(name="Wind", size=1)}
    config = write(tmp_path, "arm.yaml", base, "mine_beside:Wind", files)
    with monkeypatch.context() as script:
        script.syspath_prepend(str(tmp_path))
        import mine_beside  # pyright: ignore[reportMissingImports]
    assert type(force_of(config)) is mine_beside.Wind


def test_what_others_have_imported_stays_theirs(tmp_path, base):
    """A module of that name from elsewhere is not the config's, and is there again afterwards."""
    other = type(sys)("taken_beside")
    sys.modules["taken_beside"] = other
    files = {"taken_beside.py": FORCE.format(name="Wind", size=4)}
    assert force_of(write(tmp_path, "arm.yaml", base, "taken_beside:Wind", files)).size == 4
    assert sys.modules["taken_beside"] is other


@pytest.mark.parametrize("name", ["json", "jmbs"])
def test_the_standard_library_and_jmbs_are_not_replaced(tmp_path, base, name):
    config = write(tmp_path, "arm.yaml", base, f"{name}:Wind", {f"{name}.py": FORCE.format(name="Wind", size=1)})
    with pytest.raises(ConfigError, match=f"{name} has no Wind"):
        read_config(config)


@pytest.mark.parametrize("text", ["1 / 0", "import no_such_module", "def", "raise SystemExit(0)", "x = '\\x1b'; x()"])
def test_modules_that_fail_are_named_and_tried_again(tmp_path, base, text):
    config = write(tmp_path, "arm.yaml", base, "failing_beside:Wind", {"failing_beside.py": text})
    with pytest.raises(ConfigError, match="elements/wind/type: found failing_beside:Wind, whose module cannot be"):
        read_config(config)
    (tmp_path / "failing_beside.py").write_text(FORCE.format(name="Wind", size=12345))
    assert force_of(config).size == 12345


SIZE_OF_ARRAYS = """
from pathlib import Path
import jax.numpy as jnp

class Wind:
    def __init__(self):
        self.size = jnp.asarray(1.3)
        (Path(__file__).parent / "dtype").write_text(str(self.size.dtype))
    def wrench(self, t, pose, velocity):
        return self.size * velocity
"""


@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_commands_make_their_arrays_in_float64(tmp_path, base, capsys, precision):
    """Rounded to float32 when they are read, numbers would stay so in a run in float64."""
    base = base | {"simulation": {**base["simulation"], "precision": precision}}
    config = write(tmp_path, "arm.yaml", base, "sized_beside:Wind", {"sized_beside.py": SIZE_OF_ARRAYS})
    try:
        jax.config.update("jax_enable_x64", False)
        assert main(["check", str(config)]) == 0, capsys.readouterr()
        assert jax.config.values["jax_enable_x64"] == (precision == "float64")
    finally:
        jax.config.update("jax_enable_x64", True)
    assert (tmp_path / "dtype").read_text() == "float64"
