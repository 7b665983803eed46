"""Studies of sweeps: what is read from files, and what is refused in one line with file and path."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import yaml
from swept_oscillators import CONFIG, STUDY

import jmbs
from jmbs.io import ConfigError, load_sweep, sweep_of

GRID = {"design": "grid", "members": None, "vary": {"mass/mass": {"values": [1.0, 2.0]}}}


def written(folder, changes: dict[str, Any]) -> str:
    """The file of the study with values changed at their paths; None takes one away."""
    study = copy.deepcopy({"schema": "jmbs-sweep/1", **STUDY, "model": CONFIG})
    for path, value in changes.items():
        place: Any = study
        *above, last = path.split(".")
        for key in above:
            place = place.setdefault(key, {})
        place.pop(last, None)
        if value is not None:
            place[last] = value
    file = folder / "study.yaml"
    file.write_text(yaml.safe_dump(study))
    return str(file)


@pytest.mark.parametrize(
    "changes, path, wanted",
    [
        ({"schema": "jmbs-fit/1"}, "schema", "jmbs-sweep/1"),
        ({"vary": None}, "vary", "a mapping of paths"),
        ({"vary": {}}, "vary", "paths of what varies"),
        ({"keep": None}, "keep", "what to keep"),
        ({"keep": {}}, "keep", "final, series or reduce"),
        ({"vray": {}}, "vray", "the nearest known is vary"),
        ({"design": "sobl"}, "design", "sobol"),
        ({"members": None}, "members", "how many"),
        ({"members": 0}, "members", "positive"),
        ({"chunk": 0}, "chunk", "auto"),
        ({"seed": -1}, "seed", "non-negative"),
        ({**GRID, "members": 4}, "members", "none: the grid has 2"),
        ({**GRID, "vary": {"mass/mass": {"uniform": [1, 2]}}}, "vary/mass/mass", "values, linspace, geomspace"),
        ({"vary": {"mass/mas": {"uniform": [1, 2]}}}, "vary/mass/mas", "the nearest known is mass/mass"),
        ({"vary": {"mass/mass": {"unifrom": [1, 2]}}}, "vary/mass/mass/unifrom", "uniform"),
        ({"vary": {"gravity[3]": {"uniform": [1, 2]}}}, "vary/gravity[3]", "within shape (3,)"),
        ({"vary": {"gravity": {"uniform": [[1, 1], [2, 2]]}}}, "vary/gravity/uniform/0", "shape (3,)"),
        ({"vary": {"inputs/rial/actuation": {"uniform": [1, 2]}}}, "vary/inputs/rial/actuation", "rail/actuation"),
        (
            {"vary": {"gravity": {"uniform": [1, 2]}, "gravity[0]": {"uniform": [1, 2]}}},
            "vary/gravity[0]",
            "one of the two",
        ),
        ({"vary": {"file": "samples.csv"}}, "design", "file"),
        ({"design": "file"}, "vary", "a table with one column per path"),
        ({"design": "file", "members": None, "vary": {"file": "none.csv"}}, "vary/file", "a file of recorded data"),
        ({"keep.final": ["totl"]}, "keep/final", "the nearest known is total"),
        ({"keep.final": ["position/mas"]}, "keep/final", "the nearest known is position/mass"),
        ({"keep.reduce.drift.by": "maximum"}, "keep/reduce/drift/by", "max"),
        ({"keep.reduce.furthest.axis": "w"}, "keep/reduce/furthest/axis", "one of x, y, z"),
        ({"keep.reduce.drift.axis": "x"}, "keep/reduce/drift/axis", "none: it has no axis"),
        ({"keep.reduce.drift.of": None}, "keep/reduce/drift/of", "the name of a result"),
        ({"keep.reduce.q_rail": {"of": "total", "by": "max"}}, "keep/reduce/q_rail", "a name of its own"),
        ({"keep.reduce.status": {"of": "total", "by": "max"}}, "keep/reduce/status", "a name of its own"),
        ({"keep.reduce.a/b": {"of": "total", "by": "max"}}, "keep/reduce/a/b", "a name of letters"),
        ({"keep.series.every": -1}, "keep/series/every", "a positive time"),
        ({"keep.series.every": 0.15}, "keep/series/every", "a multiple of simulation.save_every"),
        ({"simulation.method": "rk5"}, "simulation/method", "rk4"),
        ({"simulation.tolerance": {"rtol": 1e-6}}, "simulation/dt", "not both"),
        ({"design": "latin_hypercube", "members": 10**9}, "members", "random and sobol"),
        ({"model": "nowhere.yaml"}, "", "a YAML config"),
    ],
)
def test_mistakes_are_refused_in_one_line(tmp_path, changes, path, wanted):
    with pytest.raises(ConfigError) as refused:
        load_sweep(written(tmp_path, changes))
    message = str(refused.value)
    assert refused.value.path == path
    assert wanted in message and "\n" not in message
    assert str(tmp_path) in message or CONFIG in message


def test_members_come_from_a_table(tmp_path):
    (tmp_path / "samples.csv").write_text("mass/mass,initial/rail/q[0]\n1.0,0.1\n2.0,-0.2\n3.0,0.0\n")
    study = load_sweep(written(tmp_path, {"design": "file", "members": None, "vary": {"file": "samples.csv"}}))
    assert study.members == 3
    np.testing.assert_array_equal(jmbs.design(study)["initial/rail/q[0]"], [0.1, -0.2, 0.0])
    np.testing.assert_array_equal(jmbs.design(study, 1)["mass/mass"], [2.0, 3.0])


@pytest.mark.parametrize(
    "table, found",
    [
        ("mass/mass\n1.0\nheavy\n", "heavy"),
        ("mass/mass\n1.0\nnan\n", "nan"),
        ("mass/mass\n1.0\n1e39\n", "1e\\+39 in row 2"),
        ("mass/mass\n", "no rows"),
        ("mass/mas\n1.0\n", "mass/mas"),
        ("gravity\n1.0\n", "gravity"),
    ],
)
def test_tables_that_say_no_members_are_refused(tmp_path, table, found):
    (tmp_path / "samples.csv").write_text(table)
    with pytest.raises(ConfigError, match=found):
        load_sweep(written(tmp_path, {"design": "file", "members": None, "vary": {"file": "samples.csv"}}))


def test_series_end_with_the_run_whether_reductions_look_between_or_not():
    series = {"names": ["q"], "every": 0.3}
    for keep in ({"series": series}, {"series": series, "reduce": {"furthest": {"of": "q/rail", "by": "max"}}}):
        times, rows = sweep_of({**STUDY, "model": CONFIG, "keep": keep}).times()
        np.testing.assert_allclose(times[rows], [0.0, 0.3, 0.6, 0.9, 1.0])


def test_settings_replace_those_of_the_model():
    """The config has tolerances and dopri8; what is not replaced stays, what followed from it follows anew."""
    study = sweep_of({**STUDY, "model": CONFIG, "simulation": {"t1": 2.0}})
    assert (study.model.settings.method, study.model.settings.rtol) == ("dopri8", 1e-10)
    assert (study.model.settings.t1, study.model.settings.save_every) == (2.0, 0.05)
    study = sweep_of({**STUDY, "model": CONFIG})
    assert (study.model.settings.method, study.model.settings.dt, study.model.settings.rtol) == ("rk4", 0.01, None)


def test_overrides_reach_paths_with_slashes(tmp_path):
    study = load_sweep(written(tmp_path, {}), ["members=3", "vary.mass/mass.uniform=[5, 6]", "simulation.t1=0.5"])
    assert study.members == 3 and study.model.settings.t1 == 0.5
    assert (jmbs.design(study)["mass/mass"] > 5).all()


def test_an_object_may_stand_for_the_model():
    model = jmbs.compile(jmbs.load(CONFIG))
    for given in (model, jmbs.load(CONFIG)):
        assert sweep_of({**STUDY, "model": given}).model.settings.method == "rk4"
    with pytest.raises(jmbs.ModelError, match="simulation/precision"):
        sweep_of({**STUDY, "model": model, "simulation": {"precision": "float32"}})
    for wrong in (3, None):
        with pytest.raises(jmbs.ModelError):
            jmbs.sweep(wrong)


def test_inputs_vary_too():
    vary = {"inputs/rail/actuation": {"uniform": [-1.0, 1.0]}}
    study = sweep_of({**STUDY, "model": CONFIG, "vary": vary})
    assert jmbs.design(study)["inputs/rail/actuation"].shape == (10,)
