"""Studies: what is read, what is refused, and what is found in the data, each with its file, row and column."""

from __future__ import annotations

import copy
import functools
import json
import random
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from documents import DOCS
from mutations import mutated_bytes, mutated_config

import jmbs
import jmbs.io.study
from jmbs.io import ConfigError, load_study
from jmbs.io.study_schema import StudySection
from jmbs.io.yaml_reader import parse_value
from jmbs.simulation import compile

ARM: dict[str, Any] = {
    "schema": "jmbs/1",
    "bodies": {
        "cart": {"mass": 2.0, "inertia": [0.1, 0.1, 0.1]},
        "arm": {"mass": 0.5, "inertia": [0.01, 0.02, 0.02]},
    },
    "joints": {
        "rail": {"type": "prismatic", "parent": "ground", "child": "cart", "axis": [1, 0, 0]},
        "elbow": {
            "type": "revolute",
            "parent": "cart",
            "child": "arm",
            "axis": [0, 1, 0],
            "child_frame": {"position": [0, 0, 0.2]},
            "friction": {"viscous": 0.1},
            "actuation": 0.0,
        },
    },
    "loads": {"push": {"body": "cart", "force": [0, 0, 0]}},
    "initial": {"joints": {"rail": {"q": [0.0]}, "elbow": {"q": [0.3]}}},
    "simulation": {"t1": 1.0},
}
STUDY: dict[str, Any] = {
    "schema": "jmbs-fit/1",
    "model": "arm.yaml",
    "parameters": {
        "cart/mass": {},
        "arm/inertia[1,1]": {"start": 4e-3, "bounds": [1e-4, 0.1], "transform": "log"},
        "elbow/friction/viscous": {"prior": {"mean": 0.1, "std": 0.5, "log": True}},
        "initial/elbow/q": {"per": "recording", "start": "measured"},
    },
    "ties": {"arm/mass": "0.25 * cart/mass"},
    "derived": {"rate": "elbow/friction/viscous / arm/inertia[1,1]"},
    "sensors": {
        "x": {"output": "rail/q", "noise": 1e-3, "bias": {"bounds": [-0.1, 0.1]}, "delay": {"bounds": [0, 0.05]}},
        "angle": {"output": "elbow/q"},
    },
    "recordings": {
        "first": {
            "file": "first.csv",
            "channels": {"x": {"column": "pos", "unit": "mm"}, "angle": "angle"},
            "inputs": {"elbow/actuation": {"column": "tau", "unit": "mN m"}},
        }
    },
}
TS = np.arange(101) * 0.01
SIGNALS = {
    "t": TS,
    "pos": 50 * np.sin(5 * TS),
    "angle": 0.3 * np.cos(6 * TS),
    "tau": 100 * np.sin(3 * TS),
}


@pytest.fixture(autouse=True)
def compiled_once(monkeypatch):
    """One model for all studies of equal mechanisms."""
    monkeypatch.setattr(jmbs.io.study, "compile", lambda mechanism: _compiled(json.dumps(mechanism.config), mechanism))


_MECHANISMS: dict[str, Any] = {}


def _compiled(key: str, mechanism: Any) -> jmbs.Model:
    _MECHANISMS.setdefault(key, mechanism)
    return _compile(key)


@functools.cache
def _compile(key: str) -> jmbs.Model:
    return compile(_MECHANISMS[key])


def write_csv(file: Path, columns: dict[str, Any]) -> None:
    """Columns as a CSV file; text stays as it is."""
    rows = zip(*columns.values(), strict=True)
    lines = [",".join(columns), *(",".join(v if isinstance(v, str) else f"{v:.9g}" for v in row) for row in rows)]
    file.write_text("\n".join(lines) + "\n")


class Folder:
    """A folder with a study, its mechanism and one recording."""

    def __init__(self, path: Path):
        self.path, self.study = path, copy.deepcopy(STUDY)
        (path / "arm.yaml").write_text(yaml.safe_dump(ARM))
        write_csv(path / "first.csv", SIGNALS)

    def set(self, dotted: str, value: Any) -> None:
        """Changes the study at a path of keys parted by `>`."""
        *sections, last = dotted.split(">")
        place = self.study
        for key in sections:
            place = place.setdefault(key, {})
        place[last] = value

    def load(self, *overrides: str) -> jmbs.Study:
        (self.path / "study.yaml").write_text(yaml.safe_dump(self.study, sort_keys=False))
        return load_study(self.path / "study.yaml", overrides)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def test_reads_all_that_a_study_says(folder: Folder):
    study = folder.load()
    assert study.findings == ()
    assert study.name == "study" and study.estimator == jmbs.Estimator() and study.test_window == 0.2
    assert study.parameters["cart/mass"] == jmbs.Parameter()
    assert study.parameters["arm/inertia[1,1]"] == jmbs.Parameter(4e-3, (1e-4, 0.1), "log")
    assert study.parameters["elbow/friction/viscous"].prior == jmbs.Prior(0.1, 0.5, log=True)
    assert study.parameters["initial/elbow/q"] == jmbs.Parameter("measured", per="recording")
    x, angle = study.sensors["x"], study.sensors["angle"]
    assert (x.noise, x.gain, angle.noise, angle.delay) == (1e-3, 1.0, "estimate", 0.0)
    assert x.bias == jmbs.Parameter(0.0, (-0.1, 0.1)) and x.delay == jmbs.Parameter(0.0, (0.0, 0.05))
    (recording,) = study.data
    assert recording.name == "first" and recording.role == "train" and recording.model is None
    np.testing.assert_allclose(recording.ts, TS)
    np.testing.assert_allclose(recording.channels["x"].values, 0.05 * np.sin(5 * TS), atol=1e-9)
    np.testing.assert_allclose(recording.channels["angle"].values, SIGNALS["angle"], atol=1e-9)
    given = recording.inputs["elbow/actuation"]
    np.testing.assert_allclose(given.values, 0.1 * np.sin(3 * TS), atol=1e-9)
    assert given.hold == "linear" and study.source["sensors"]["angle"] == {"output": "elbow/q"}


def test_nothing_stands_for_the_defaults(folder: Folder):
    folder.set("parameters>cart/mass", None)
    folder.set("sensors>pos", {"output": "rail/q", "delay": None, "bias": None})
    folder.set("recordings>first>channels", {"pos": None, "angle": {}})
    study = folder.load()
    assert study.parameters["cart/mass"] == jmbs.Parameter()
    assert study.sensors["pos"].delay == 0.0 and set(study.data[0].channels) == {"pos", "angle"}


def test_the_study_of_the_documentation_is_one_and_all_codes_are_explained():
    page = (DOCS / "identification.md").read_text("utf-8")
    study = parse_value(Path("page"), re.findall(r"```yaml\n(schema.*?)```", page, re.DOTALL)[0], "")
    assert StudySection.model_validate({key: value for key, value in study.items() if key != "schema"})
    assert {code for _, code, *_ in FOUND.values()} <= set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE))


def test_overrides_change_single_values(folder: Folder):
    more = ("estimator.cross_validation=true", "parameters.cart/mass.start=3", "recordings.first.t=[0.2, 0.5]")
    study = folder.load("estimator.loss=huber", *more)
    assert study.estimator.loss == "huber" and study.estimator.cross_validation
    descent = ("estimator.method=gradient_descent", "estimator.optimiser.batch=4", "estimator.segments=20")
    assert folder.load(*descent).estimator == jmbs.Estimator(
        "gradient_descent", segments=20, optimiser=jmbs.Optimiser(batch=4)
    )
    descent = ("estimator.method=gradient_descent", "estimator.optimiser.name=lbfgs")
    assert folder.load(*descent).estimator == jmbs.Estimator("gradient_descent", optimiser=jmbs.Optimiser("lbfgs"))
    assert study.parameters["cart/mass"].start == 3
    assert study.data[0].ts[0] == pytest.approx(0.2) and study.data[0].ts[-1] == pytest.approx(0.5)
    with pytest.raises(ConfigError, match="no frist in recordings .*nearest known is first"):
        folder.load("recordings.frist.role=test")


def test_inputs_of_their_own_file_and_constants(folder: Folder):
    write_csv(
        folder.path / "drive.csv", {"s": [-1.0, 500.0, 2000.0], "a": [0.0, 1.0, 2.0], "b": [1, 1, 1], "c": [2, 2, 2]}
    )
    own = {"file": "drive.csv", "time": {"column": "s", "unit": "ms"}, "columns": ["a", "b", "c"], "unit": "N"}
    folder.set("recordings>first>inputs", {"push/force": own | {"hold": "zero"}, "elbow/actuation": 0.5})
    inputs = folder.load().data[0].inputs
    np.testing.assert_allclose(inputs["push/force"].times, [-0.001, 0.5, 2.0])
    assert inputs["push/force"].values.shape == (3, 3) and inputs["push/force"].hold == "zero"
    assert inputs["elbow/actuation"] == 0.5


def test_noise_of_each_sample_and_of_each_recording(folder: Folder):
    write_csv(folder.path / "first.csv", SIGNALS | {"sigma": np.full(101, 2.0)})
    folder.set("recordings>first>channels>x>noise", {"column": "sigma", "unit": "mm"})
    folder.set("recordings>first>channels>angle", {"column": "angle", "noise": 0.02})
    channels = folder.load().data[0].channels
    np.testing.assert_allclose(channels["x"].noise, np.full(101, 2e-3))
    assert channels["angle"].noise == 0.02


def test_a_recording_may_have_a_model_of_its_own(folder: Folder):
    heavy = copy.deepcopy(ARM)
    heavy["bodies"]["payload"] = {"mass": 1.0, "inertia": [0.1, 0.1, 0.1]}
    heavy["joints"]["bolt"] = {"type": "fixed", "parent": "cart", "child": "payload"}
    (folder.path / "heavy.yaml").write_text(yaml.safe_dump(heavy))
    second = copy.deepcopy(folder.study["recordings"]["first"])
    folder.set("recordings>second", second | {"model": "heavy.yaml", "set": {"payload/mass": 3.0}, "role": "test"})
    folder.set("parameters>payload/inertia[0,0]", {})
    study = folder.load()
    assert study.data[0].model is None and "payload/mass" in study.data[1].model.parameters()
    assert study.data[1].set == {"payload/mass": 3.0} and study.data[1].role == "test"
    folder.set("recordings>second>set", {"payload/mas": 3.0})
    with pytest.raises(ConfigError, match="recordings/second/set/payload/mas: .*nearest known is payload/mass"):
        folder.load()


def test_ties_come_in_an_order_in_which_each_follows(folder: Folder):
    folder.set("ties", {"arm/mass": "2 * rail/friction/viscous", "rail/friction/viscous": "exp(cart/mass)"})
    assert list(folder.load().ties) == ["rail/friction/viscous", "arm/mass"]


# Place in the study, what stands there, and what the message says.
REFUSED = {
    "unknown key": ("sensor", {}, "sensor: found an unknown key.*nearest known is sensors"),
    "unknown key of a parameter": ("parameters>cart/mass", {"strat": 1}, "cart/mass/strat.*nearest known is start"),
    "another schema": ("schema", "jmbs/1", "schema: found 'jmbs/1', wanted jmbs-fit/1"),
    "no model": ("model", None, "model: found nothing, wanted a config"),
    "no such model": ("model", "leg.yaml", "leg.yaml: found no such file"),
    "no sensors": ("sensors", {}, "sensors: found none"),
    "negative seed": ("seed", -1, "seed: found -1, wanted a non-negative whole number"),
    "unknown parameter": ("parameters>cart/mas", {}, "parameters/cart/mas: .*nearest known is cart/mass"),
    "index beyond": ("parameters>arm/inertia[1,3]", {}, r"\[1, 3\], wanted one within shape \(3, 3\)"),
    "same entry": ("parameters>arm/inertia[1, 1]", {}, "same number, wanted one of the two|holds the same number"),
    "entry and ten numbers": ("parameters>arm/inertial", {}, "arm/inertia.*holds the same number"),
    "a body's ten numbers": ("parameters>hand/inertial", {}, "nearest known is (arm|cart)/inerti"),
    "unknown transform": ("parameters>cart/mass", {"transform": "lin"}, "cart/mass/transform: found 'lin'"),
    "wrong transform": ("parameters>cart/mass", {"transform": "pseudo_inertia"}, "transform: .*body/inertial"),
    "measured mass": ("parameters>cart/mass", {"start": "measured"}, "only initial values are measured"),
    "start outside of bounds": ("parameters>cart/mass", {"start": 3, "bounds": [1, 2]}, "start: found 3, wanted"),
    "bounds in reverse": ("parameters>cart/mass", {"bounds": [2, 1]}, "bounds: .*lower bound below"),
    "start of a wrong shape": ("parameters>gravity", {"start": [1, 2]}, r"start: found shape \(2,\), wanted"),
    "start that is nowhere": ("parameters>initial/rail/v", {}, "initial/rail/v/start: found nothing, here or in"),
    "negative deviation": ("parameters>cart/mass", {"prior": {"mean": 1, "std": -1}}, "prior/std.*positive"),
    "unknown output": ("sensors>x>output", "rial/q", "sensors/x/output: found 'rial/q'.*nearest known is rail/q"),
    "output without index": ("sensors>x>output", "arm/position", "an index, such as .0., into shape"),
    "noise of zero": ("sensors>x>noise", 0, "sensors/x/noise: found 0, wanted a positive standard deviation"),
    "delay start": ("sensors>x>delay", {"start": 1, "bounds": [0, 0.1]}, "sensors/x/delay/start: found 1"),
    "unit of a sensor": ("sensors>x>unit", "deg", "sensors/x/unit: found 'deg', wanted a unit of m"),
    "unknown unit": ("recordings>first>channels>x>unit", "mn", "channels/x/unit: found 'mn'.*a known unit"),
    "unit of a channel": ("recordings>first>channels>angle", {"unit": "mm"}, "angle/unit: .*a unit of rad"),
    "unknown channel": ("recordings>first>channels>y", "pos", "no sensor y.*known: x, angle"),
    "unknown role": ("recordings>first>role", "tset", "recordings/first/role: found 'tset', wanted train or test"),
    "only tests": ("recordings>first>role", "test", "none of role train"),
    "no such file": ("recordings>first>file", "no.csv", "recordings/first/file: found no such file"),
    "nothing within t": ("recordings>first>t", [5, 6], "0 samples in .*within t"),
    "unknown input": ("recordings>first>inputs", {"elbw/actuation": 1}, "nearest known is elbow/actuation"),
    "unit of an input": ("recordings>first>inputs>elbow/actuation>unit", "N", "unit: found 'N', wanted a unit of N m"),
    "input of a wrong size": ("recordings>first>inputs", {"push/force": {"column": "tau"}}, "push/force: .*shape"),
    "input without column": ("recordings>first>inputs", {"push/force": {}}, "neither column nor columns"),
    "unknown name in a tie": ("ties", {"arm/mass": "2 * crat/mass"}, "ties/arm/mass: .*nearest known is cart/mass"),
    "free and tied": ("ties", {"cart/mass": "2"}, "ties/cart/mass: found cart/mass too"),
    "circle of ties": ("ties", {"arm/mass": "arm/com[0]", "arm/com[0]": "arm/mass"}, "ties: found a circle"),
    "no expression": ("derived", {"r": "cart/mass +"}, "derived/r: found 'cart/mass \\+', wanted an expression"),
    "function that is not known": ("derived", {"r": "sin(cart/mass)"}, "derived/r: found no sin"),
    "optimiser of another method": (
        "estimator",
        {"optimiser": {}},
        "estimator/optimiser: found one with method shooting",
    ),
    "unknown optimiser": (
        *("estimator", {"method": "gradient_descent", "optimiser": {"name": "newton"}}),
        "estimator/optimiser/name: found 'newton'",
    ),
    "starts": ("estimator", {"starts": 0}, "estimator/starts: found 0, wanted a whole number, 1 or more"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refuses_with_one_line(folder: Folder, case: str):
    place, value, message = REFUSED[case]
    folder.set(place, value)
    with pytest.raises(ConfigError, match=message) as error:
        folder.load()
    assert "\n" not in str(error.value) and ".yaml" in str(error.value)


def _changed(name: str, row: int, value: Any) -> dict[str, Any]:
    column = list(SIGNALS[name])
    column[row - 1] = value
    return {name: column}


# Changed columns of the recording; code, severity, channel and rows of what is found, and what the message says.
FOUND = {
    "empty cell": (_changed("pos", 7, ""), "not_a_number", "error", "x", (7,), "empty cell in column pos of first.csv"),
    "text": (_changed("angle", 9, "ERR"), "not_a_number", "error", "angle", (9,), "'ERR' in column angle"),
    "infinite": (_changed("angle", 2, "inf"), "not_a_number", "error", "angle", (2,), "inf in column angle"),
    "nan of a time": (_changed("t", 3, "nan"), "not_a_number", "error", None, (3,), "column t of first.csv, row 3"),
    "nan of an input": (_changed("tau", 4, "nan"), "not_a_number", "error", "elbow/actuation", (4,), "column tau"),
    "duplicate": (_changed("t", 5, 0.03), "duplicate_time", "error", None, (5,), "row 5 "),
    "backwards": (_changed("t", 50, 0.475), "time_backwards", "error", None, (50,), "0.475 s after 0.48 s"),
    "jump": (
        {"t": TS + np.where(TS > 0.5, 0.2, 0)},
        *("time_jump", "warning", None, (52,)),
        "a step of 0.21 s before row 52",
    ),
    "constant": ({"angle": np.full(101, 0.3)}, "constant_channel", "warning", "angle", (), "0.3 in all of 101 samples"),
    "too early": ({"t": TS - 0.2}, "before_start", "error", None, (), "from -0.2 s on"),
    "late input": ({"t": TS + 0.2}, "input_too_short", "error", "elbow/actuation", (), "from 0.2 s to 1.2 s"),
}


@pytest.mark.parametrize("case", FOUND)
def test_finds_what_is_wrong_with_data(folder: Folder, case: str):
    columns, code, severity, channel, rows, message = FOUND[case]
    write_csv(folder.path / "first.csv", SIGNALS | columns)
    study = folder.load()
    (found,) = [finding for finding in study.findings if finding.code == code]
    assert (found.severity, found.channel, found.rows, found.recording) == (severity, channel, rows, "first")
    assert message in found.message
    assert {finding.code for finding in study.findings} == {code}
    assert (np.diff(study.data[0].ts) > 0).all()


def test_missing_samples_are_dropped_where_the_study_says_so(folder: Folder):
    write_csv(folder.path / "first.csv", SIGNALS | _changed("pos", 7, "") | _changed("tau", 9, "nan"))
    folder.set("recordings>first>missing", "drop")
    study = folder.load()
    assert [(f.code, f.severity, f.rows) for f in study.findings] == [
        ("not_a_number", "warning", (7,)),
        ("not_a_number", "warning", (9,)),
    ]
    channels, given = study.data[0].channels, study.data[0].inputs["elbow/actuation"]
    assert np.flatnonzero(np.isnan(channels["x"].values)).tolist() == [6]
    assert np.isfinite(channels["angle"].values).all() and len(given.times) == 100


def test_all_that_is_wrong_is_found_at_once(folder: Folder):
    columns = SIGNALS | _changed("pos", 7, "") | _changed("t", 20, 0.0) | {"angle": np.zeros(101)}
    del columns["tau"]
    write_csv(folder.path / "first.csv", columns)
    codes = {finding.code: finding for finding in folder.load().findings}
    assert set(codes) == {"not_a_number", "time_backwards", "constant_channel", "missing_column"}
    assert "no column tau in first.csv, wanted one of t, pos, angle" in codes["missing_column"].message


def test_what_lies_outside_of_t_is_not_looked_at(folder: Folder):
    write_csv(folder.path / "first.csv", SIGNALS | _changed("pos", 90, "") | _changed("t", 95, 0.93))
    folder.set("recordings>first>t", [0.0, 0.8])
    study = folder.load()
    assert study.findings == () and study.data[0].ts[-1] == pytest.approx(0.8)


def test_a_missing_column_leaves_its_channel_out(folder: Folder):
    folder.set("recordings>first>channels>x", {"column": "poss"})
    study = folder.load()
    assert list(study.data[0].channels) == ["angle"]
    assert [f.code for f in study.findings] == ["missing_column"] and "nearest is pos" in study.findings[0].message
    folder.set("recordings>first>time", "tt")
    assert folder.load().data == ()


SIZES = ("some", "all")


def _read_or_refuse(folder: Folder, number: int) -> bool:
    """Whether a study that may be broken was read; all else than one line of refusal fails."""
    try:
        study = load_study(folder.path / "study.yaml")
    except ConfigError as error:
        assert str(error).isprintable() and len(str(error)) < 2500, number
        return False
    assert all(finding.message.isprintable() for finding in study.findings), number
    for recording in study.data:
        assert (np.diff(recording.ts) > 0).all(), number
    return True


@pytest.mark.parametrize("numbers", [range(30), pytest.param(range(30, 600), marks=pytest.mark.slow)], ids=SIZES)
def test_mistakes_by_chance_are_read_or_refused(folder: Folder, numbers: range):
    text = yaml.safe_dump(folder.study, sort_keys=False)
    read = []
    for number in numbers:
        (folder.path / "study.yaml").write_bytes(mutated_config(text, number))
        read.append(_read_or_refuse(folder, number))
    assert True in read and False in read


@pytest.mark.parametrize("numbers", [range(20), pytest.param(range(20, 300), marks=pytest.mark.slow)], ids=SIZES)
def test_broken_recordings_are_read_or_refused(folder: Folder, numbers: range):
    content = (folder.path / "first.csv").read_bytes()
    (folder.path / "study.yaml").write_text(yaml.safe_dump(folder.study))
    for number in numbers:
        (folder.path / "first.csv").write_bytes(mutated_bytes(content, random.Random(number)))
        _read_or_refuse(folder, number)
