"""What would overflow, never end, or play tricks on a terminal is refused in one line, at once."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
import yaml

from jmbs.cli import main
from jmbs.errors import ModelError
from jmbs.io import ConfigError, load, read_config

BALL = "{type: spherical, parent: ground, child: link1, "
LARGE = {
    "mass": ({"bodies.link1.mass": "1e308"}, "bodies/link1/mass"),
    "inertia": ({"bodies.link1.inertia": "[1e308, 1e308, 1e308]"}, "bodies/link1/inertia"),
    "negative inertia": ({"bodies.link1.inertia": "[1e308, 1e308, -1e308]"}, "bodies/link1/inertia"),
    "inertia of rows": (
        {"bodies.link1.inertia": "[[1e308, 1e308, 0], [1e308, 1e308, 0], [0, 0, 1]]"},
        "bodies/link1/inertia",
    ),
    "shape": ({"bodies.link2.shape.box": "[1e200, 1, 1]"}, "bodies/link2/shape/box"),
    "density": ({"bodies.link2.density": "1e308"}, "bodies/link2/density"),
    "points": (
        {"bodies.link1": "{distribution: {points: [[1e308, 0, 0], [-1e308, 0, 0], [0, 1, 0]], masses: [1, 1, 1]}}"},
        "bodies/link1/distribution/points",
    ),
    "stiffness": ({"joints.base.spring": "{stiffness: 1e308}"}, "joints/base/spring/stiffness"),
    "stiffness of rows": (
        {"joints.base": BALL + "spring: {stiffness: [[1e308, 0, 0], [0, 1e308, 0], [0, 0, 1]]}}"},
        "joints/base/spring/stiffness",
    ),
    "position": (
        {"joints.base.child_frame": "{position: [1e308, 0, 1e308]}"},
        "joints/base/child_frame/position",
    ),
    "gravity": ({"gravity": "[1e308, 0, 1e308]"}, "gravity"),
    "initial coordinate": ({"initial.joints.base.q": "1e308"}, "initial/joints/base/q"),
    "time": ({"simulation.t0": "-1e308", "simulation.t1": "1e308"}, "simulation/t0"),
}


@pytest.mark.parametrize(("changes", "path"), LARGE.values(), ids=LARGE.keys())
def test_numbers_that_overflow_are_refused(read_changed, changes, path):
    with pytest.raises(ConfigError) as refused:
        read_changed(changes)
    assert refused.value.path == path
    assert "none beyond 1e+38 in magnitude" in refused.value.wanted


COUNTS = {
    "many saved times": (
        {"simulation.t1": "1e12", "simulation.dt": "null", "simulation.save_every": "1e-3"},
        "simulation/save_every",
        "1e+15 saved times, 8e+06 GB for each number saved",
    ),
    "infinitely many": ({"simulation.save_every": "1e-320"}, "simulation/save_every", "inf saved times"),
    "many steps": ({"simulation.t1": "1e12"}, "simulation/dt", "1e+15 steps"),
    "times that are one": (
        {"simulation.t0": "1e17", "simulation.t1": "100000000000000100", "simulation.save_every": "1"},
        "simulation/save_every",
        "1 s",
    ),
    "most steps": ({"simulation.max_steps": "9" * 18}, "simulation/max_steps", "9" * 18),
    "digits of the most steps": ({"simulation.max_steps": "9" * 20}, "simulation/max_steps", "9" * 20),
    "digits of a seed": ({"seed": "9" * 20}, "seed", "9" * 20),
    "rows of unequal length": ({"initial.states": "{a: [[1, 2], [3]]}"}, "initial/states/a", "[[1, 2], [3]]"),
    "a name too long for a folder": ({"name": "x" * 300}, "name", "300 bytes"),
}


@pytest.mark.parametrize(("changes", "path", "found"), COUNTS.values(), ids=COUNTS.keys())
def test_counts_that_nothing_holds_are_refused(read_changed, changes, path, found):
    with pytest.raises(ConfigError) as refused:
        read_changed(changes)
    assert refused.value.path == path and found in str(refused.value.found)


TAGGED = ["!!int abc", "!!int ''", "!!int 1_0", "!!int 0x10", "!!int [1]", "!!float abc", "!!float ''", "!!float 1:30"]
TAGGED += ["!!bool yes", "!!bool {}", "!!null abc", "!!timestamp abc", "!!timestamp 2001-99-99", "!!binary a"]
TAGGED += ["!!set {a}", "!!omap [a: 1]", "!!merge x", "!mine 3", "!!python/name:os.system"]


@pytest.mark.parametrize("value", TAGGED)
def test_tags_want_values_that_are_spelled_so(tmp_path, value):
    file = tmp_path / "tagged.yaml"
    file.write_text(f"schema: jmbs/1\nseed: {value}\n")
    with pytest.raises(ConfigError, match="broken YAML at line 2, column 7"):
        read_config(file)
    with pytest.raises(ConfigError, match="seed: found .* from --set, wanted a YAML value"):
        read_config(Path(__file__).parents[2] / "configs" / "pendulum.yaml", [f"seed={value}"])


NEST = """
schema: jmbs/1
systems:
  outer:
    systems:
      inner: {type: resistor, parameters: {resistance: 2.0}}
    connections: {j: [inner.r], heat: [inner.s]}
    ports: {j: j, h: heat}
"""


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("systems.outr.type=a", "systems/outr/type: found no outr in systems .*; the nearest known is outer"),
        ("systems.outer.systems.inne.type=a", "no inne in systems/outer/systems .*; the nearest known is inner"),
        ("systems.outer.connections.heet=[]", "no heet in systems/outer/connections .*; the nearest known is heat"),
        ("systems.outer.ports.j=k", r"systems/outer/ports/j: found junction 'k', wanted one of \['heat', 'j'\]"),
    ],
)
def test_names_inside_of_systems_are_those_of_the_config(tmp_path, override, message):
    file = tmp_path / "nest.yaml"
    file.write_text(NEST)
    with pytest.raises(ModelError, match=message):
        read_config(file, [override])


def test_joints_of_a_relation_are_no_section_of_the_config(tmp_path):
    file = tmp_path / "relation.yaml"
    bodies = "\n".join(f"  b{i}: {{mass: 1.0, inertia: [1, 1, 1]}}" for i in range(3))
    joints = "\n".join(f"  j{i}: {{type: revolute, parent: ground, child: b{i}, axis: [0, 0, 1]}}" for i in range(3))
    relation = "constraints:\n  sum: {type: gear, joints: {j0: [1.0], j1: [1.0]}}\n"
    file.write_text(f"schema: jmbs/1\nbodies:\n{bodies}\njoints:\n{joints}\n{relation}")
    mechanism = read_config(file, ["constraints.sum.joints.j2=[3.0]"])
    assert set(mechanism.gears["sum"].joints) == {"j0", "j1", "j2"}


def test_tags_that_say_what_is_there_anyway_do_no_harm(read_changed, tmp_path):
    read_changed()
    file = tmp_path / "arm.yaml"
    file.write_text(file.read_text() + "seed: !!int 3\ngravity: !!seq [!!float 0, !!float 1.5e-3, 0]\nname: !!str 7\n")
    mechanism = read_config(file)
    assert (mechanism.seed, mechanism.name, mechanism.gravity.tolist()) == (3, "7", [0, 1.5e-3, 0])


def bomb(below: str, doubled: str) -> str:
    """A value that stands for 2^40 others; `doubled` says how one level holds the one before it twice."""
    levels = [f"x{i}: &x{i} {doubled.format(f'*x{i - 1}')}" for i in range(1, 41)]
    return "schema: jmbs/1\n" + below + ", ".join(["x0: &x0 {a: 1}", *levels]) + "}"


BOMBS = {
    "lists in a user's parameters": bomb("systems: {s: {type: inductor, parameters: {", "[{0}, {0}]") + "}}",
    "mappings in sections": bomb("bodies: {", "{{a: {0}, b: {0}}}"),
    "merges": bomb("bodies: {", "{{<<: [{0}, {0}]}}"),
}


@pytest.mark.parametrize("text", BOMBS.values(), ids=BOMBS.keys())
def test_aliases_that_stand_for_too_much_are_refused(tmp_path, text):
    file = tmp_path / "bomb.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError, match="values, counted with those that aliases stand for"):
        read_config(file)
    start = time.monotonic()
    with pytest.raises(ConfigError, match="values, counted"):
        read_config(Path(__file__).parents[2] / "configs" / "pendulum.yaml", ["bodies=" + text.split("\n", 1)[1]])
    assert time.monotonic() - start < 5


@pytest.mark.parametrize("override", ["bodies.link1={mass: 1, mass: 2}", "name=" + "[" * 200 + "]" * 200])
def test_overrides_are_read_as_files_are(read_changed, override):
    with pytest.raises(ConfigError, match="used twice|nested too deeply"):
        read_changed({}, (override,))


def strange(tmp_path: Path, kind: str, ending: str) -> Path:
    """A path with the ending that is no regular file, or cannot be one."""
    place = tmp_path / f"it{ending}"
    match kind:
        case "pipe":
            os.mkfifo(place)
        case "device":
            place.symlink_to("/dev/zero")
        case "folder":
            place.mkdir()
        case "dangling link":
            place.symlink_to("nowhere")
        case "loop of links":
            place.symlink_to(place)
        case "long name":
            place = tmp_path / ("x" * 300 + ending)
        case "name with NUL":
            place = tmp_path / f"a\0b{ending}"
    return place


KINDS = ["pipe", "device", "folder", "dangling link", "loop of links", "long name", "name with NUL"]
PENDULUM = str(Path(__file__).parents[2] / "configs" / "pendulum.yaml")


@pytest.mark.parametrize("ending", [".yaml", ".urdf", ".xml"])
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_file_is_not_read(tmp_path, capsys, kind, ending):
    start = time.monotonic()
    assert main(["check", str(strange(tmp_path, kind, ending))]) == 2
    assert time.monotonic() - start < 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "\0" not in error and "x" * 81 not in error


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_file_is_no_table(read_changed, tmp_path, kind):
    table = yaml.safe_dump({"table": str(strange(tmp_path, kind, ".csv")), "columns": ["a"]})
    with pytest.raises(ConfigError) as refused:
        read_changed({"joints.base.actuation": table})
    assert refused.value.path == "joints/base/actuation/table"


@pytest.mark.parametrize("command", ["draw", "testspeed", "import", "run", "cache"])
@pytest.mark.parametrize("kind", KINDS)
def test_where_no_file_can_be_none_is_written(tmp_path, capsys, monkeypatch, command, kind):
    """A link is replaced, not followed, where --force is given; here it is not."""
    monkeypatch.chdir(tmp_path)
    place = str(strange(tmp_path, kind, ""))
    before = sorted(os.listdir(tmp_path))
    model = str(Path(__file__).parent / "models" / "floating.urdf")
    arguments = {
        "cache": ["run", PENDULUM, "--cache", place],
        "import": ["import", model, "--out", place],
        "run": ["run", PENDULUM, "--set", "simulation.save_every=1e-320", "--out", place],
    }.get(command, [command, PENDULUM, "--out", place])
    if command == "cache" and kind == "folder":
        pytest.skip("a folder is what is wanted")
    assert main(arguments) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert sorted(os.listdir(tmp_path)) == before


TRICK = "\x1b[31m\x9b2J\u202e\u2028red"


def test_names_do_not_reach_the_terminal_raw(tmp_path, capsys):
    """Keys, values, names of files and of a model's parts: what does not print is escaped wherever it stands."""
    long = "y" * 500
    config = {"schema": "jmbs/1", "bodies": {TRICK: {"mass": TRICK}, long: {long: long}}}
    texts = {
        f"{TRICK}.yaml": yaml.safe_dump(config),
        "key.yaml": yaml.safe_dump(config | {TRICK + long: 1}),
        "name.yaml": yaml.safe_dump({"schema": "jmbs/1", "name": TRICK, "bodies": {}}),
        "tag.yaml": f'schema: jmbs/1\nseed: !!int "{TRICK[4:]}\\e[31m"',
        "part.yaml": yaml.safe_dump({"schema": "jmbs/1", "systems": {"a": {"systems": {TRICK: {"type": long}}}}}),
        "a.urdf": f"<robot name='a\x9b'><link name='a\x9b2J{long}'/><joint name='b\x9b' type='c\x9b'/></robot>",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
        assert main(["check", str(tmp_path / name)]) == 2
        error = capsys.readouterr().err.removesuffix("\n")
        assert error.isprintable(), error
        assert "y" * 81 not in error and len(error) < 1500


def test_notes_on_a_model_do_not_reach_the_terminal_raw(tmp_path, capsys):
    links = "<link name='base'/><link name='a\x9b2J'><inertial><mass value='1'/>"
    links += "<inertia ixx='1' iyy='1' izz='1' ixy='0' ixz='0' iyz='0'/></inertial></link><sensor name='s\x9b'/>"
    joint = "<joint name='b' type='continuous'><parent link='base'/><child link='a\x9b2J'/></joint>"
    file = tmp_path / "a.urdf"
    file.write_text(f"<robot name='a'>{links}{joint}</robot>", encoding="utf-8")
    out = tmp_path / "a.yaml"
    assert main(["import", str(file), "--out", str(out)]) == 0
    assert capsys.readouterr().out.replace("\n", "").isprintable()
    assert list(load(out).bodies) == ["a_2J"]


def test_a_message_quotes_eighty_characters():
    error = ModelError("a/" + "b" * 200, "c" * 200, "d" * 200)
    assert str(error) == f"a/{'b' * 77}...: found {'c' * 77}..., wanted {'d' * 77}..."
    assert error.found == "c" * 200
