"""Every mistake in a config gives one line: the file, the path inside it, what was found and what was wanted."""

from __future__ import annotations

from pathlib import Path

import pytest

from jmbs.io import ConfigError, read_config


def composite(motions: str) -> str:
    return f"{{type: composite, parent: ground, child: link1, motions: {motions}}}"


# Changed value (dotted path: YAML text), path in the message, what was found, what was wanted.
BAD_VALUES = {
    "negative mass": ({"bodies.link1.mass": "-1.0"}, "bodies/link1/mass", "-1.0", "positive"),
    "mass zero": ({"bodies.link1.mass": "0"}, "bodies/link1/mass", "0", "positive"),
    "mass is a string": ({"bodies.link1.mass": "'2.0'"}, "bodies/link1/mass", "'2.0'", "number"),
    "mass is a truth value": ({"bodies.link1.mass": "true"}, "bodies/link1/mass", "True", "number"),
    "mass is not a number": ({"bodies.link1.mass": ".nan"}, "bodies/link1/mass", "nan", "finite"),
    "mass is infinite": ({"bodies.link1.mass": ".inf"}, "bodies/link1/mass", "inf", "finite"),
    "mass missing": ({"bodies.link1.mass": "null"}, "bodies/link1/mass", "nothing", "positive number"),
    "inertia missing": ({"bodies.link1.inertia": "null"}, "bodies/link1/inertia", "nothing", "3 principal"),
    "inertia of two": ({"bodies.link1.inertia": "[1, 2]"}, "bodies/link1/inertia", "[1, 2]", "3 principal"),
    "inertia asymmetric": (
        {"bodies.link1.inertia": "[[1, 0.1, 0], [0, 1, 0], [0, 0, 1]]"},
        "bodies/link1/inertia",
        "0.1",
        "symmetric",
    ),
    "inertia ragged": (
        {"bodies.link1.inertia": "[[1, 0], [0], [0, 1]]"},
        "bodies/link1/inertia",
        "[[1",
        "3 symmetric rows",
    ),
    "inertia indefinite": ({"bodies.link1.inertia": "[1, 1, -1]"}, "bodies/link1/inertia", "-1", "positive definite"),
    "inertia not of a body": ({"bodies.link1.inertia": "[1, 1, 3]"}, "bodies/link1/inertia", "3", "triangle"),
    "density and mass": ({"bodies.link2.mass": "1"}, "bodies/link2/density", "both", "mass and inertia"),
    "density without shape": ({"bodies.link2.shape": "null"}, "bodies/link2/shape", "nothing", "a shape"),
    "two shapes": ({"bodies.link2.shape.sphere": "1"}, "bodies/link2/shape", "box", "one of the keys"),
    "flat box": ({"bodies.link2.shape.box": "[1, 1, 0]"}, "bodies/link2/shape/box", "0", "positive"),
    "unknown group": ({"bodies.link1.group": "SE4"}, "bodies/link1/group", "SE4", "SO3xR3"),
    "particle with inertia": ({"bodies.link1.kind": "particle"}, "bodies/link1/inertia", "0.1", "no inertia"),
    "rod with inertia": ({"bodies.link1.kind": "rod"}, "bodies/link1/inertia", "0.1", "one principal moment zero"),
    "unknown kind": ({"bodies.link1.kind": "rigit"}, "bodies/link1/kind", "rigit", "nearest known is rigid"),
    "unknown key in body": ({"bodies.link1.mas": "1"}, "bodies/link1/mas", "unknown key", "nearest known is mass"),
    "unknown section": ({"bodeis": "{}"}, "bodeis", "unknown key", "nearest known is bodies"),
    "bodies is a list": ({"bodies": "[1]"}, "bodies", "[1]", "mapping"),
    "body is a number": ({"bodies.link1": "3"}, "bodies/link1", "3", "mapping"),
    "no bodies": (
        {"bodies": "{}", "joints": "{}", "loads": "{}", "elements": "{}", "stores": "{}", "initial": "{}"},
        "bodies",
        "none",
        "at least one body",
    ),
    "name with a blank": ({"bodies.a b": "{mass: 1, inertia: [1, 1, 1]}"}, "bodies/a b", "'a b'", "letters"),
    "reserved name": ({"bodies.ground": "{mass: 1, inertia: [1, 1, 1]}"}, "bodies/ground", "reserved", "other than"),
    "name of another part": ({"loads.base": "{body: link1}"}, "loads/base", "already that of a joint", "only once"),
    "unknown joint type": ({"joints.base.type": "revolut"}, "joints/base/type", "revolut", "nearest known is revolute"),
    "unknown parent": ({"joints.base.parent": "grond"}, "joints/base/parent", "grond", "nearest known is ground"),
    "unknown child": ({"joints.elbow.child": "link22"}, "joints/elbow/child", "link22", "nearest known is link2"),
    "child is ground": ({"joints.base.child": "ground"}, "joints/base/child", "ground", "a body"),
    "joint to itself": ({"joints.elbow.child": "link1"}, "joints/elbow/child", "link1", "other than the parent"),
    "joint without child": ({"joints.elbow.child": "null"}, "joints/elbow/child", "nothing", "a body"),
    "zero axis": ({"joints.base.axis": "[0, 0, 0]"}, "joints/base/axis", "[0", "not all zero"),
    "axis of two": ({"joints.base.axis": "[0, 1]"}, "joints/base/axis", "[0, 1]", "3 finite numbers"),
    "axis of a spherical joint": ({"joints.elbow.axis": "[0, 0, 1]"}, "joints/elbow/axis", "[0", "no axis"),
    "axis2 of a revolute joint": ({"joints.base.axis2": "[0, 0, 1]"}, "joints/base/axis2", "[0", "no axis2"),
    "universal without axis2": ({"joints.base.type": "universal"}, "joints/base/axis2", "nothing", "3 finite"),
    "universal, parallel axes": (
        {"joints.base.type": "universal", "joints.base.axis2": "[0, -2, 0]"},
        "joints/base/axis2",
        "-2",
        "not parallel",
    ),
    "motions of a revolute joint": (
        {"joints.base.motions": "[{type: revolute}]"},
        "joints/base/motions",
        "type",
        "no motions",
    ),
    "composite without motions": (
        {"joints.base": composite("null")},
        "joints/base/motions",
        "nothing",
        "1 to 6 motions",
    ),
    "composite with a ball": (
        {"joints.base": composite("[{type: spherical}]")},
        "joints/base/motions/0/type",
        "spherical",
        "revolute, prismatic",
    ),
    "composite, a travel with a position": (
        {"joints.base": composite("[{type: prismatic, position: [0, 0, 1]}]")},
        "joints/base/motions/0/position",
        "1",
        "no position",
    ),
    "composite, twice the same": (
        {"joints.base": composite("[{type: revolute}, {type: revolute}]")},
        "joints/base/motions",
        "2 motions of which 1",
        "independent",
    ),
    "pitch of a revolute joint": ({"joints.base.pitch": "0.1"}, "joints/base/pitch", "0.1", "no pitch"),
    "screw without pitch": ({"joints.base.type": "screw"}, "joints/base/pitch", "nothing", "m/rad"),
    "long quaternion": (
        {"joints.base.child_frame": "{quaternion: [1, 0.1, 0, 0]}"},
        "joints/base/child_frame/quaternion",
        "norm 1.0049876",
        "unit quaternion",
    ),
    "unknown key in frame": (
        {"joints.base.parent_frame": "{positon: [0, 0, 0]}"},
        "joints/base/parent_frame/positon",
        "unknown key",
        "nearest known is position",
    ),
    "spring on a fixed joint": (
        {"joints.elbow.type": "fixed", "joints.elbow.spring": "{stiffness: 1}"},
        "joints/elbow/spring",
        "fixed",
        "no spring",
    ),
    "spring without stiffness": ({"joints.base.spring": "{rest: 1}"}, "joints/base/spring/stiffness", "nothing", ""),
    "negative stiffness": ({"joints.base.spring": "{stiffness: -1}"}, "joints/base/spring/stiffness", "-1", "non-neg"),
    "indefinite stiffness": (
        {"joints.elbow.spring": "{stiffness: [[1, 2, 0], [2, 1, 0], [0, 0, 1]]}"},
        "joints/elbow/spring/stiffness",
        "2",
        "symmetric non-negative",
    ),
    "rest is no quaternion": (
        {"joints.elbow.spring": "{stiffness: 1, rest: [0, 0, 0]}"},
        "joints/elbow/spring/rest",
        "[0, 0, 0]",
        "unit quaternion",
    ),
    "static below coulomb": (
        {"joints.base.friction": "{coulomb: 2, static: 1}"},
        "joints/base/friction/static",
        "1",
        "at least coulomb",
    ),
    "regularisation zero": (
        {"joints.base.friction": "{coulomb: 2, regularisation_velocity: 0}"},
        "joints/base/friction/regularisation_velocity",
        "0",
        "positive",
    ),
    "unknown store": (
        {"joints.base.friction": "{viscous: 1, heats: baering}"},
        "joints/base/friction/heats",
        "baering",
        "nearest known is bearing",
    ),
    "actuation of two": ({"joints.base.actuation": "[1, 2]"}, "joints/base/actuation", "[1, 2]", "a number"),
    "parameters of a known type": ({"joints.base.parameters": "{a: 1}"}, "joints/base/parameters", "'a'", "no param"),
    "joint module missing": ({"joints.base.type": "no.such:Hinge"}, "joints/base/type", "No module", "importable"),
    "joint class missing": ({"joints.base.type": "math:Hinge"}, "joints/base/type", "no Hinge", "a name"),
    "joint type is a program": (
        {"joints.base.type": "os:system", "joints.base.parameters": "{command: 'false'}"},
        "joints/base/type",
        "os:system, a builtin_function_or_method, which was not called",
        "a class with group and inclusion",
    ),
    "joint type ends the process": ({"joints.base.type": "builtins:exit"}, "joints/base/type", "not called", "a class"),
    "system type ends the process": ({"systems.x": "{type: 'sys:exit'}"}, "systems/x/type", "not called", "ports"),
    "system type is a function of something else": (
        {"systems.x": "{type: 'json:dumps'}"},
        "systems/x/type",
        "not called",
        "declared to return a System",
    ),
    "force type is a program": (
        {"elements.wind": "{type: 'subprocess:run', body: link1}"},
        "elements/wind/type",
        "not called",
        "wrench(t, pose, velocity)",
    ),
    "joint class is no joint": (
        {"joints.base.type": "decimal:Decimal", "joints.base.axis": "null"},
        "joints/base/type",
        "Decimal",
        "group and inclusion",
    ),
    "joint class refuses": (
        {"joints.base.type": "jmbs.lie:Revolute", "joints.base.parameters": "{size: 1}"},
        "joints/base/parameters",
        "TypeError",
        "takes",
    ),
    "load on ground": ({"loads.push.body": "ground"}, "loads/push/body", "ground", "a body"),
    "load on nobody": ({"loads.push.body": "lnk1"}, "loads/push/body", "lnk1", "nearest known is link1"),
    "load frame": ({"loads.push.frame": "wrld"}, "loads/push/frame", "wrld", "nearest known is world"),
    "force is a number": ({"loads.push.force": "3"}, "loads/push/force", "3", "3 finite numbers"),
    "element type": ({"elements.wire.type": "sprng"}, "elements/wire/type", "sprng", "spring_damper"),
    "element between one body": ({"elements.wire.b": "ground"}, "elements/wire/b", "ground", "another body"),
    "element stiffness": ({"elements.wire.stiffness": "-1"}, "elements/wire/stiffness", "-1", "non-negative"),
    "element to nobody": ({"elements.wire.b": "link3"}, "elements/wire/b", "link3", "nearest known is link2"),
    "store capacity": ({"stores.bearing.capacity": "0"}, "stores/bearing/capacity", "0", "positive"),
    "store type": ({"stores.bearing.type": "thermic"}, "stores/bearing/type", "thermic", "thermal"),
    "initial of no joint": ({"initial.joints.bse": "{q: 1}"}, "initial/joints/bse", "bse", "nearest known is base"),
    "initial size": ({"initial.joints.base.q": "[1, 2]"}, "initial/joints/base/q", "[1", "1 finite number"),
    "initial key": ({"initial.joints.base.w": "1"}, "initial/joints/base/w", "unknown key", "q"),
    "initial quaternion": (
        {"initial.joints.elbow.q": "[1, 1, 0, 0]"},
        "initial/joints/elbow/q",
        "norm",
        "unit quaternion",
    ),
    "initial of no body": ({"initial.bodies.link3": "{}"}, "initial/bodies/link3", "link3", "name of a body"),
    "gravity": ({"gravity": "9.81"}, "gravity", "9.81", "3 finite numbers"),
    "temperature": ({"environment.temperature": "-5"}, "environment/temperature", "-5", "positive"),
    "seed": ({"seed": "1.5"}, "seed", "1.5", "whole number"),
    "name that leaves the folder": ({"name": "../x"}, "name", "'../x'", "without slashes"),
    "no end time": ({"simulation.t1": "null"}, "simulation/t1", "nothing", "end time"),
    "end before start": ({"simulation.t1": "-1"}, "simulation/t1", "-1", "after t0"),
    "save_every": ({"simulation.save_every": "0"}, "simulation/save_every", "0", "positive"),
    "step zero": ({"simulation.dt": "0"}, "simulation/dt", "0", "positive"),
    "step and tolerance": ({"simulation.tolerance": "{rtol: 1.0e-6}"}, "simulation", "both", "only one"),
    "adaptive rk4": ({"simulation.method": "rk4", "simulation.dt": "null"}, "simulation/dt", "nothing", "fixed step"),
    "method": ({"simulation.method": "tsit"}, "simulation/method", "tsit", "nearest known is tsit5"),
    "formulation": ({"simulation.formulation": "forest"}, "simulation/formulation", "forest", "tree, absolute"),
    "ggl": ({"simulation.constraints": "ggl"}, "simulation/constraints", "ggl", "ggl is not available"),
    "precision": ({"simulation.precision": "float16"}, "simulation/precision", "float16", "float32"),
    "max_steps": ({"simulation.max_steps": "0"}, "simulation/max_steps", "0", "positive whole"),
    "constraint without body": ({"constraints.edge": "{type: no_slide}"}, "constraints/edge/body", "nothing", "body"),
    "constraint without direction": (
        {"constraints.edge": "{type: no_slide, body: link1}"},
        "constraints/edge/direction",
        "nothing",
        "the direction",
    ),
    "plane that rises": (
        {"constraints.disk": "{type: rolling, body: link1, radius: 0.1, plane: {velocity: [0, 0, 1]}}"},
        "constraints/disk/plane/velocity",
        "1.0",
        "along the plane",
    ),
    "plane's table missing": (
        {
            "constraints.disk": "{type: rolling, body: link1, radius: 1, "
            "plane: {velocity: {table: no.csv, columns: [a]}}}"
        },
        "constraints/disk/plane/velocity/table",
        "no.csv",
        "",
    ),
    "system of no module": ({"systems.motor": "{type: a:B}"}, "systems/motor/type", "cannot be imported", "importable"),
    "system of no name": (
        {"systems.motor": "{type: dc_moter}"},
        "systems/motor/type",
        "dc_moter",
        "nearest known is dc_motor",
    ),
    "system without type": ({"systems.motor": "{}"}, "systems/motor", "neither type nor systems", "a type"),
    "system and pattern": (
        {"systems.motor": "{type: inductor, ports: [i]}"},
        "systems/motor/ports",
        "beside type",
        "either",
    ),
    "parameters that a system does not take": (
        {"systems.coil": "{type: inductor, parameters: {length: 1.0}}"},
        "systems/coil/parameters",
        "refuses",
        "takes",
    ),
    "a drive inside a pattern": (
        {
            "systems.coil": "{systems: {l: {type: inductor, parameters: {inductance: 1.0}}}, "
            "connections: {i: {ports: [l.i], flow: 1.0}}, ports: [i]}"
        },
        "systems/coil/connections/i",
        "a drive",
        "outermost",
    ),
    "connections is a list": ({"connections": "[a]"}, "connections", "[", "mapping of names"),
    "connection without ports": ({"connections.wire": "{flow: 1.0}"}, "connections/wire/ports", "nothing", "box.port"),
    "connection of no port": ({"connections.wire": "[base]"}, "connections/wire/ports", "base", "box.port"),
    "connection flow and effort": (
        {"connections.wire": "{ports: [base.p_r], flow: 1.0, effort: 1.0}"},
        "connections/wire",
        "both flow and effort",
        "one of them",
    ),
    "states is a list": ({"initial.states": "[1.0]"}, "initial/states", "[1.0]", "mapping of names"),
    "schema of the future": ({"schema": "jmbs/2"}, "schema", "jmbs/2", "jmbs/1"),
    "no schema": ({"schema": "null"}, "schema", "nothing", "jmbs/1"),
}


def check_message(error: ConfigError, file: Path, path: str, found: str, wanted: str) -> None:
    """One line: `FILE: path: found X, wanted Y`, `found` in X and `wanted` in Y."""
    message = str(error)
    assert "\n" not in message
    assert message.startswith(f"{file}: {path}: found " if path else f"{file}: found "), message
    said_found, said_wanted = message.split(": found ", 1)[1].split(", wanted ", 1)
    assert found in said_found, message
    assert wanted in said_wanted, message
    assert error.path == path


@pytest.mark.parametrize(("changes", "path", "found", "wanted"), BAD_VALUES.values(), ids=BAD_VALUES.keys())
def test_a_wrong_value_is_named(read_changed, tmp_path, changes, path, found, wanted):
    with pytest.raises(ConfigError) as refused:
        read_changed(changes)
    check_message(refused.value, tmp_path / "arm.yaml", path, found, wanted)


BAD_FILES = {
    "empty": (b"", "", "empty", "schema"),
    "only a comment": (b"# nothing\n", "", "empty", "schema"),
    "binary": (b"\x89HDF\x00\x01", "", "not UTF-8", "YAML"),
    "latin-1": ("name: Kötter".encode("latin-1"), "", "not UTF-8", "UTF-8"),
    "a list": (b"- 1\n- 2\n", "", "[1, 2]", "mapping"),
    "a word": (b"hello", "", "hello", "mapping"),
    "an open bracket": (b"schema: jmbs/1\nbodies: [1, 2\n", "", "line 3, column 1", "valid YAML"),
    "a tab": (b"schema: jmbs/1\nbodies:\n\tlink1: {}\n", "", "line 3, column 1", "valid YAML"),
    "a python object": (b"schema: !!python/object:os.system {}\n", "", "line 1", "valid YAML"),
    "two documents": (b"schema: jmbs/1\n---\nschema: jmbs/1\n", "", "line 2", "valid YAML"),
    "a control character": (b"schema: jmbs/1\x01\n", "", "broken YAML", "valid YAML"),
    "a body twice": (
        b"schema: jmbs/1\nbodies:\n  a: {}\n  a: {}\n",
        "bodies/a",
        "used twice, in lines 3 and 4",
        "once",
    ),
    "a number as key": (b"schema: jmbs/1\nbodies: {1: {}}\n", "bodies", "the key '1'", "a word"),
    "an alias of itself": (b"schema: jmbs/1\nbodies: &a [*a]\n", "bodies/0", "alias", "ends"),
    "too deep": (b"schema: " + b"[" * 5000 + b"]" * 5000, "", "too deeply", "levels"),
}


@pytest.mark.parametrize(("content", "path", "found", "wanted"), BAD_FILES.values(), ids=BAD_FILES.keys())
def test_a_broken_file_is_named(tmp_path, content, path, found, wanted):
    file = tmp_path / "broken.yaml"
    file.write_bytes(content)
    with pytest.raises(ConfigError) as refused:
        read_config(file)
    check_message(refused.value, file, path, found, wanted)


def test_an_absent_file_and_a_folder_are_named(tmp_path):
    with pytest.raises(ConfigError) as refused:
        read_config(tmp_path / "absent.yaml")
    check_message(refused.value, tmp_path / "absent.yaml", "", "no such file", "config")
    with pytest.raises(ConfigError) as refused:
        read_config(tmp_path)
    check_message(refused.value, tmp_path, "", "a folder", "config")


BAD_OVERRIDES = {
    "unknown body": ("bodies.lnk1.mass=3", "bodies/lnk1/mass", "no lnk1", "nearest known is link1"),
    "unknown key": ("simulation.ddt=1e-4", "simulation/ddt", "unknown key", "nearest known is dt"),
    "unknown section": ("sumulation.dt=1e-4", "sumulation", "unknown key", "nearest known is simulation"),
    "below a number": ("seed.a=1", "seed/a", "0 at seed", "mapping"),
    "no value": ("bodies.link1.mass", "--set", "'bodies.link1.mass'", "name.name=value"),
    "no path": ("=3", "--set", "'=3'", "name.name=value"),
    "no YAML": ("bodies.link1.mass=[1", "bodies/link1/mass", "'[1'", "a YAML value"),
    "index": ("bodies.link1.inertia.3=1", "bodies/link1/inertia/3", "3", "below 3"),
    "wrong value": ("bodies.link1.mass=heavy", "bodies/link1/mass", "'heavy'", "number"),
}


@pytest.mark.parametrize(("override", "path", "found", "wanted"), BAD_OVERRIDES.values(), ids=BAD_OVERRIDES.keys())
def test_a_wrong_override_is_named(read_changed, tmp_path, override, path, found, wanted):
    with pytest.raises(ConfigError) as refused:
        read_changed({"seed": "0"}, (override,))
    check_message(refused.value, tmp_path / "arm.yaml", path, found, wanted)


GOOD_TABLE = "t, tau\n0, 1\n2, 3\n"
BAD_TABLES = {
    "absent": (None, "{table: d.csv, columns: [tau]}", "table", "no such file", "CSV"),
    "no column": (GOOD_TABLE, "{table: d.csv, columns: [tua]}", "columns", "no column tua", "nearest known is tau"),
    "no time": (GOOD_TABLE, "{table: d.csv, columns: [tau], time: s}", "time", "no column s", "one column"),
    "too many columns": (GOOD_TABLE, "{table: d.csv, columns: [tau, t]}", "", "2 columns", "1 column"),
    "no columns": (GOOD_TABLE, "{table: d.csv}", "columns", "nothing", "names of the table's columns"),
    "unknown key": (GOOD_TABLE, "{table: d.csv, column: tau}", "column", "unknown key", "nearest known is columns"),
    "word": ("t,tau\n0,1\n2,x\n", "{table: d.csv, columns: [tau]}", "table", "'x' in column tau, line 3", "number"),
    "nan": ("t,tau\n0,1\n2,nan\n", "{table: d.csv, columns: [tau]}", "table", "'nan' in column tau, line 3", "finite"),
    "underscore": ("t,tau\n0,1\n2,1_0\n", "{table: d.csv, columns: [tau]}", "table", "'1_0' in column tau", "number"),
    "twice": ("t,tau,tau\n0,1,1\n2,3,3\n", "{table: d.csv, columns: [tau]}", "columns", "two columns tau", "differ"),
    "short row": ("t,tau\n0,1\n2\n", "{table: d.csv, columns: [tau]}", "table", "1 entries in line 3", "2"),
    "backward": ("t,tau\n0,1\n0,1\n", "{table: d.csv, columns: [tau]}", "table", "line 3", "increasing"),
    "one row": ("t,tau\n0,1\n", "{table: d.csv, columns: [tau]}", "table", "1 rows", "at least 2"),
    "empty": ("", "{table: d.csv, columns: [tau]}", "table", "an empty file", "header"),
    "too short": ("t,tau\n0,1\n0.9,1\n", "{table: d.csv, columns: [tau]}", "", "0 to 0.9 s", "covers"),
    "too late": ("t,tau\n0.1,1\n3,1\n", "{table: d.csv, columns: [tau]}", "", "0.1 to 3 s", "covers"),
}


@pytest.mark.parametrize(("table", "value", "below", "found", "wanted"), BAD_TABLES.values(), ids=BAD_TABLES.keys())
def test_a_wrong_table_is_named(read_changed, tmp_path, table, value, below, found, wanted):
    if table is not None:
        (tmp_path / "d.csv").write_text(table)
    with pytest.raises(ConfigError) as refused:
        read_changed({"joints.base.actuation": value})
    path = "joints/base/actuation" + (f"/{below}" if below else "")
    check_message(refused.value, tmp_path / "arm.yaml", path, found, wanted)


def test_other_errors_are_counted(read_changed):
    with pytest.raises(ConfigError, match="and 2 more errors") as refused:
        read_changed({"bodies.link1.mass": "x", "bodies.link2.density": "y", "simulation.t1": "z"})
    assert refused.value.others == 2
