"""Outputs, unknowns and expressions by name: what is known is found, what is not is answered with the nearest."""

from __future__ import annotations

import numpy as np
import pytest
from gas_spring import gas_spring

import jmbs
from jmbs.errors import ModelError
from jmbs.identification import known_parameters, parse_expression, parse_output, parse_parameter
from jmbs.identification.output_names import known_outputs
from jmbs.identification.parameter_paths import entries_of_path


@pytest.fixture(scope="module")
def model() -> jmbs.Model:
    mechanism = jmbs.Mechanism("arm-1")
    for body in ("link-1", "link2", "hand"):
        mechanism.add_body(body, mass=1.0, inertia=[0.1, 0.1, 0.1])
    mechanism.add_joint("base", "revolute", "ground", "link-1", axis=[0, 1, 0], friction={"viscous": 0.1})
    mechanism.add_joint("ball", "spherical", "link-1", "link2")
    mechanism.add_joint("sleeve", "cylindrical", "link2", "hand", axis=[0, 0, 1])
    mechanism.set_initial(joints={"base": {"q": [0.1]}})
    return mechanism.compile()


def test_every_known_output_has_entries(model):
    sizes = {"base/q": 1, "ball/q": 4, "ball/v": 3, "ball/reaction": 6, "hand/accelerometer(0,0,0)": 3}
    for name in known_outputs(model):
        if name.startswith("states/"):
            continue
        size = sizes.get(name, 1)
        assert parse_output(model, f"{name}[{size - 1}]").index == (size - 1,)
    assert "link-1/point(0,0,0)/position" in known_outputs(model)


@pytest.mark.parametrize(
    ("output", "kind", "unit", "index"),
    [
        *(("base/q", "q", "rad", (0,)), ("sleeve/q[1]", "q", "m", (1,)), ("ball/v[2]", "v", "rad/s", (2,))),
        *(("base/actuation", "actuation", "N m", (0,)), ("sleeve/actuation[1]", "actuation", "N", (1,))),
        *(("hand/gyro[0]", "gyro", "rad/s", (0,)), ("base/reaction[4]", "reaction", "N", (4,))),
        ("hand/point( 0.1, -2e-1,.5)/position[2]", "point", "m", (2,)),
        ("hand/accelerometer(0.1,-0.2,0.5)[1]", "accelerometer", "m/s^2", (1,)),
    ],
)
def test_outputs_have_kind_and_unit(model, output, kind, unit, index):
    found = parse_output(model, output)
    assert (found.kind, found.unit, found.index) == (kind, unit, index)
    assert found.point == ((0.1, -0.2, 0.5) if "(" in output else (0.0, 0.0, 0.0))


@pytest.mark.parametrize(
    ("output", "message"),
    [
        *(("bass/q", "nearest known is base/q"), ("base/qq", "nearest known is base/q"), ("base", "a known output")),
        *(("ball/q", "an index"), ("ball/q[4]", "an index within"), ("base/q[0,0]", "an index within")),
        *(("hand/point(0,0)/position[0]", "a known output"), ("hand/point(0,0,0)[0]", "a known output")),
        *(("hand/point/position[0]", "a known output"), ("hand/accelerometer(0,0,0)/position[0]", "a known output")),
        *(("states/base/qq", "a known state"), ("ground/position[0]", "a known output"), ("", "a known output")),
    ],
)
def test_outputs_that_are_none(model, output, message):
    with pytest.raises(ModelError, match=f"sensors/x/output: .*{message}"):
        parse_output(model, output, "sensors/x/output")


def test_declared_outputs_have_the_indices_of_their_shapes():
    model = gas_spring().compile()
    found = [parse_output(model, f"chamber/{name}") for name in ("pressure", "both[0]", "both[1]")]
    assert [(one.kind, one.unit, one.index) for one in found] == [
        *(("declared", "Pa", ()), ("declared", "1", (0,)), ("declared", "1", (1,)))
    ]
    for output, message in (
        ("both", "an index, such as"),
        ("both[2]", "within shape"),
        ("pressure[0]", "within shape"),
    ):
        with pytest.raises(ModelError, match=f"sensors/x/output: .*{message}"):
            parse_output(model, f"chamber/{output}", "sensors/x/output")


def test_every_known_parameter_is_found_with_its_shape(model):
    values = model.parameters()
    for path in known_parameters(model):
        found = parse_parameter([model], path)
        if path in values:
            assert found.shape == values[path]["shape"]
        assert len(entries_of_path(found)) == (6 if path.endswith("/inertia") else int(np.prod(found.shape)))
    assert parse_parameter([model], "initial/ball/v").shape == (3,)


@pytest.mark.parametrize(
    ("one", "other", "share"),
    [
        *(("hand/inertia[0,1]", "hand/inertia[1,0]", True), ("hand/inertia[0,1]", "hand/inertia[1,1]", False)),
        *(("hand/inertia", "hand/inertia[1,1]", True), ("hand/inertial", "hand/inertia[1,1]", True)),
        *(("hand/inertial", "hand/mass", True), ("hand/inertial", "hand/com[2]", True)),
        *(("hand/com", "hand/mass", False), ("hand/inertial", "link2/mass", False)),
        ("initial/ball/q", "initial/ball/q[3]", True),
    ],
)
def test_unknowns_that_share_a_number(model, one, other, share):
    first, second = (entries_of_path(parse_parameter([model], path)) for path in (one, other))
    assert bool(first & second) == share


@pytest.mark.parametrize(
    ("path", "message"),
    [
        *(("hand/mas", "nearest known is hand/mass"), ("hand/coms", "nearest known is hand/com")),
        *(("hand/mass[0]", "no index"), ("hand/inertia[1]", "within shape"), ("initial/base/p", "initial/base/")),
    ],
)
def test_unknowns_that_are_none(model, path, message):
    with pytest.raises(ModelError, match=message):
        parse_parameter([model], path)


VALUES = {"link-1/mass": 2.0, "link2/mass": 3.0, "link2/mass-2": 5.0, "inertia": np.eye(3)}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *(("0.5 * link-1/mass", 1.0), ("link-1/mass / link2/mass", 2 / 3), ("link-1/mass/2", 1.0)),
        *(("link2/mass-2", 5.0), ("link2/mass - 2", 1.0), ("-link2/mass**2", -9.0), ("1e1*(link2/mass+1)", 40.0)),
        *(("sqrt(link2/mass**2) + log(exp(1.5))", 4.5), ("2\n* link2/mass", 6.0), ("+.5", 0.5)),
    ],
)
def test_expressions_have_their_values(text, value):
    expression = parse_expression("ties/x", text, VALUES)
    assert float(expression(VALUES)) == pytest.approx(value, rel=1e-15)
    assert set(expression.names) <= set(VALUES)


def test_expressions_name_entries():
    expression = parse_expression("", "inertia[1, 1] / inertia[0,0] + inertia[1,1]", VALUES)
    assert expression.names == ("inertia[1,1]", "inertia[0,0]")
    assert expression({"inertia[1,1]": 3.0, "inertia[0,0]": 2.0}) == 4.5


@pytest.mark.parametrize(
    ("text", "message"),
    [
        *(("link2/mas", "nearest known is link2/mass"), ("link2/mass/link-1/mass", "one path")),
        *(("__import__('os')", "no __import__"), ("exp", "wanted an expression"), ("exp(1, 2)", "an expression")),
        *(("link2/mass.real", "no real"), ("[1, 2]", "an expression"), ("1 if 1 else 2", "no if|an expr")),
        *(("'a'", "no a|an expression"), ("1 < 2", "an expression"), ("_0", "no _0"), ("(" * 1000, "an expression")),
        *(("", "an expression"), ("1" * 3000, "3000 characters"), ("True", "no True")),
    ],
)
def test_expressions_that_are_none(text, message):
    with pytest.raises(ModelError, match=f"ties/x: .*(?:{message})"):
        parse_expression("ties/x", text, VALUES)
