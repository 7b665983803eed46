"""Rules of parameters: known values are refused as in a config, and the predicates for traced ones say the same."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from quick import quick_jit

import jmbs
from jmbs.errors import ModelError
from jmbs.identification import parse_parameter
from jmbs.library.mechanics import Rule

RNG = np.random.default_rng(3)


def turned(values) -> np.ndarray:
    """A symmetric matrix with these eigenvalues."""
    axes, _ = np.linalg.qr(RNG.normal(size=(len(values),) * 2))
    matrix = axes @ np.diag(values) @ axes.T
    return (matrix + matrix.T) / 2


def unsymmetric(matrix: np.ndarray) -> np.ndarray:
    return matrix + np.eye(len(matrix), k=1)


SINGLE = [-1.0, -1e-12, 0.0, 1e-12, 2.0]
SEVERAL = [[1.0, 2.0], [0.0, 1.0], [1.0, -1e-9], [0.0, 0.0], [1.0, -1e-3]]
VECTORS = [[0.0, 0.0, 0.0], [0.0, 0.0, 1e-30], [1.0, 2.0, 2.0]]
QUATERNIONS = [[1.0, 0, 0, 0], [0.6, 0, 0.8, 0], [0.6, 0, 0.8, 1e-5], [2.0, 0, 0, 0], [0.0] * 4, [1 + 5e-7, 0, 0, 0]]
INERTIAS = [
    *(turned(m) for m in ([1.0, 2, 3], [1.0, 2, 3.001], [1.0, 1, 1e-6], [1.0, 1, 1e-12], [1.0, 1, 2 + 1e-7])),
    *(turned(m) for m in ([1.0, 1, -1e-6], [-1.0, -1, -1], [0.0, 0, 0], [5.0, 3, 2], [1e-9, 2e-9, 2.5e-9])),
    unsymmetric(turned([1.0, 2, 2.5])),
]
MATRICES = [
    *(turned(m) for m in ([1.0, 2, 3], [0.0, 0, 1], [0.0, 0, 0], [1.0, 0, -1e-4], [1.0, 1, 1, 1, 1, -1e-6])),
    *(turned(m) for m in ([0.0, 1, 1, 2, 0, 3], [-1.0, -1, -1])),
    unsymmetric(np.eye(3)),
]
CASES = {
    "positive number": [(x,) for x in SINGLE],
    "non-negative number": [(x,) for x in SINGLE],
    "positive numbers": [(x,) for x in SEVERAL],
    "non-negative numbers": [(x,) for x in SEVERAL],
    "damping": [(x,) for x in SEVERAL + MATRICES],
    "stiffness": [(x,) for x in SEVERAL + MATRICES],
    "armature": [(x,) for x in SEVERAL],
    "inertia": [(x,) for x in INERTIAS],
    "bounds": [(x,) for x in (-1.0, 0.0, 1.5, 2.0, 2.1)] + [(x,) for x in SEVERAL],
    "direction": [(x,) for x in VECTORS],
    "directions": [([x, [0.0, 1.0, 0.0]],) for x in VECTORS],
    "unit quaternion": [(x,) for x in QUATERNIONS],
    "pose": [([1.0, 2.0, 3.0, *x],) for x in QUATERNIONS],
    "at least coulomb": [([1.0, 2.0], [1.0, x]) for x in (0.0, 2.0, 2.1)],
    "not parallel": [
        ([0.0, 0.0, 2.0], x) for x in ([0.0, 0, 1], [0.0, 0, -3], [1e-8, 0, 1], [1e-3, 0, 1], [3.0, 0, 0])
    ],
    "independent motions": [
        ([[0.0, 0, 2], x, [1.0, 0, 0]], np.zeros((3, 3)))
        for x in ([0.0, 0, 1], [0.0, 0, -1], [0.0, 1, 0], [0.0, 1, 1], [1.0, 0, 0])
    ],
    "within the plane": [(x, [0.0, 0.0, 2.0]) for x in ([1.0, 0, 0], [1.0, 0, 1e-9], [0.0, 0, 1], [1.0, 0, 1e-3])],
}
DETAILS = {
    "independent motions": ((True, True, True),),
    "within the plane": ("velocity",),
    "bounds": (0.0, 2.0),
    "armature": ((1,),),
}


def refused(rule: Rule, value, others) -> bool:
    try:
        rule.refuse("here", "1", value, others)
    except ModelError as error:
        assert error.path.startswith("here")
        return True
    return False


@pytest.mark.parametrize("kind", CASES)
def test_a_known_value_is_refused_where_a_traced_one_is_not_allowed(kind):
    rule = Rule(kind, detail=DETAILS.get(kind, ()))
    holds, verdicts = quick_jit(rule.holds), []
    for given in CASES[kind]:
        value, *others = (np.asarray(x) if np.ndim(x) else x for x in given)
        arrays = [jnp.asarray(x) for x in given]
        verdicts.append((not refused(rule, value, others), bool(holds(arrays[0], arrays[1:]))))
    known, traced = zip(*verdicts, strict=True)
    assert known == traced and set(known) == {True, False}


def test_a_plane_turns_about_its_normal_only():
    rule = Rule("within the plane", detail=("angular_velocity",))
    for rate, allowed in (([0.0, 0, 3], True), ([1e-3, 0, 1], False)):
        value, normal = np.array(rate), np.array([0.0, 0, 2])
        assert refused(rule, value, [normal]) != allowed
        assert bool(rule.holds(jnp.asarray(value), [jnp.asarray(normal)])) == allowed


def everything() -> jmbs.Mechanism:
    """A part of every kind that has parameters."""
    m = jmbs.Mechanism("everything")
    for name in "abcde":
        m.add_body(name, mass=1.0, inertia=[0.1, 0.2, 0.25])
    m.add_body("rod", mass=1.0, inertia=[0.1, 0.1, 0.0], kind="rod")
    m.add_store("oil", 10.0)
    dry = {"viscous": 0.1, "coulomb": 0.2, "static": 0.3, "temperature_coefficient": 0.01, "heats": "oil"}
    m.add_joint("hinge", "revolute", "ground", "a", spring={"stiffness": 1.0}, friction=dry, actuation=0.0)
    m.add_joint("cross", "universal", "a", "b", axis=[0, 0, 1], axis2=[1, 0, 0], armature=[0, 0.1])
    m.add_joint("ball", "spherical", "ground", "c", spring={"stiffness": 1.0}, friction={"viscous": 0.1})
    motions = [{"type": "revolute", "axis": axis} for axis in ([0, 0, 1], [0, 1, 0], [1, 0, 0])]
    m.add_joint("gimbals", "composite", "ground", "d", motions=motions)
    m.add_joint("any", "free", "ground", "e", spring={"stiffness": 1.0})
    m.add_spring_damper("tendon", "ground", "b", point_b=[0, 0, 1.0], stiffness=1.0, length=1.0)
    m.add_conduction("leak", "oil", "environment", 1.0)
    m.add_load("push", "a", force=[0, 0, 1])
    m.add_constraint("edge", "no_slide", "c", direction=[0, 1, 0])
    m.add_constraint("disk", "rolling", "b", radius=0.3, axis=[0, 1, 0], plane={"velocity": [1.0, 0, 0]})
    m.add_constraint("upright", "perpendicular", "d", direction=[1, 0, 0])
    m.add_constraint("mesh", "gear", joint="cross", driver="hinge", ratio=2.0)
    m.set_initial(joints={"ball": {"q": [1.0, 0, 0, 0]}}, bodies={"a": {"quaternion": [1.0, 0, 0, 0]}})
    return m


@pytest.fixture(scope="module")
def model() -> jmbs.Model:
    return jmbs.compile(everything())


def test_every_parameter_has_rules(model):
    """Its own value meets them, NaN does not, and traced values have a verdict."""
    values = {path: entry["value"] for path, entry in model.parameters().items()}
    assert model.with_parameters(values).allowed is None
    assert jax.eval_shape(lambda values: model.with_parameters(values).allowed, values).dtype == bool
    for path, value in values.items():
        with pytest.raises(ModelError) as error:
            model.with_parameters({path: np.full(np.shape(value), np.nan)})
        assert error.value.path.startswith(path)


def body(**values):
    return lambda x: jmbs.Mechanism().add_body("b", **({"mass": 1.0, "inertia": [1.0, 1.0, 1.0]} | {values["key"]: x}))


def part(key, *inside, **others):
    """A joint with a value at a key, or inside of the mapping there."""

    def added(x):
        for name in reversed(inside):
            x = {**others, name: x}
        given = {"type": "revolute", key: x} if inside else {"type": "revolute", **others, key: x}
        jmbs.Mechanism().add_joint("j", parent="ground", child="b", **given)

    return added


def element(key):
    return lambda x: jmbs.Mechanism().add_spring_damper("e", "ground", "b", **{key: x})


REFUSED = {
    "gravity": ([np.inf, 0.0, 0.0], lambda x: jmbs.Mechanism(gravity=x)),
    "environment/temperature": (0.0, lambda x: jmbs.Mechanism(environment_temperature=x)),
    "a/mass": (0.0, body(key="mass")),
    "b/mass": (-1.0, body(key="mass")),
    "a/inertia": (np.diag([1.0, 1.0, 2.5]), body(key="inertia")),
    "b/inertia": (-np.eye(3), body(key="inertia")),
    "c/inertia": (np.eye(3) + np.eye(3, k=1), body(key="inertia")),
    "hinge/axis": ([0.0, 0.0, 0.0], part("axis")),
    "cross/axis2": ([0.0, 0.0, 2.0], part("axis2", type="universal")),
    "hinge/parent_frame/position": ([0.0, np.nan, 0.0], part("parent_frame", "position")),
    "hinge/child_frame/quaternion": ([1.0, 1.0, 0.0, 0.0], part("child_frame", "quaternion")),
    "hinge/spring/stiffness": ([-1.0], part("spring", "stiffness")),
    "hinge/friction/viscous": ([-1.0], part("friction", "viscous")),
    "hinge/friction/coulomb": ([-1.0], part("friction", "coulomb")),
    "hinge/friction/static": ([0.1], part("friction", "static", coulomb=[0.2])),
    "hinge/friction/stribeck_velocity": ([0.0], part("friction", "stribeck_velocity")),
    "hinge/friction/reference_temperature": (0.0, part("friction", "reference_temperature")),
    "tendon/stiffness": (-1.0, element("stiffness")),
    "tendon/damping": (-1.0, element("damping")),
    "tendon/length": (-1.0, element("length")),
    "leak/conductance": (-1.0, lambda x: jmbs.Mechanism().add_conduction("c", "a", "b", x)),
    "oil/capacity": (0.0, lambda x: jmbs.Mechanism().add_store("s", x)),
    "oil/temperature": (-1.0, lambda x: jmbs.Mechanism().add_store("s", 1.0, x)),
    "disk/radius": (0.0, lambda x: jmbs.Mechanism().add_constraint("c", "rolling", "b", radius=x)),
    "disk/plane/velocity": (
        [0.0, 0.0, 1.0],
        lambda x: jmbs.Mechanism().add_constraint("c", "rolling", "b", radius=1.0, plane={"velocity": x}),
    ),
    "edge/direction": ([0.0] * 3, lambda x: jmbs.Mechanism().add_constraint("c", "no_slide", "b", direction=x)),
    "mesh/ratio": (
        np.inf,
        lambda x: jmbs.Mechanism().add_constraint("c", "gear", joint="a", driver="b", ratio=x),
    ),
    "initial/a/quaternion": ([2.0, 0, 0, 0], lambda x: jmbs.Mechanism().set_initial(bodies={"b": {"quaternion": x}})),
}


@pytest.mark.parametrize("path", REFUSED)
def test_what_a_config_refuses_is_refused_in_its_words(model, path):
    value, added = REFUSED[path]
    with pytest.raises(ModelError) as of_config:
        added(value)
    with pytest.raises(ModelError) as error:
        model.with_parameters({path: value})
    assert error.value.path == path
    number = lambda found: found.strip("[]") if len(np.ravel(value)) == 1 else found  # noqa: E731
    assert number(error.value.found) == number(of_config.value.found)
    assert error.value.wanted == of_config.value.wanted


@pytest.mark.parametrize(
    ("values", "path"),
    [
        ({"hinge/friction/coulomb": 0.4}, "hinge/friction/static"),
        ({"cross/axis": [1.0, 0, 0]}, "cross/axis2"),
        ({"disk/plane/normal": [1.0, 0, 0]}, "disk/plane/velocity"),
        ({"gimbals/motions/axis": [[1.0, 0, 0], [2.0, 0, 0], [0, 0, 1.0]]}, "gimbals/motions/axis"),
        ({"gimbals/motions/axis": [[1.0, 0, 0], [0, 0, 0], [0, 0, 1.0]]}, "gimbals/motions/axis/1"),
        ({"initial/ball/q": [1.0, 1.0, 0, 0]}, "initial/ball/q"),
        ({"any/spring/rest": [0.0] * 7}, "any/spring/rest"),
        ({"ball/spring/stiffness": -np.eye(3)}, "ball/spring/stiffness"),
        ({"rod/moment": 0.0}, "rod/moment"),
    ],
)
def test_values_are_looked_at_together(model, values, path):
    with pytest.raises(ModelError) as error:
        model.with_parameters(values)
    assert error.value.path == path


def test_values_that_are_allowed_together_are_taken(model):
    model.with_parameters({"hinge/friction/coulomb": 0.4, "hinge/friction/static": 0.5})
    model.with_parameters({"disk/plane/velocity": [0.0, 0, 1], "disk/plane/normal": [1.0, 0, 0]})


@pytest.mark.parametrize(
    ("path", "value", "unit"),
    [
        ("arm/link/mass", -0.7, "kg"),
        ("arm/link/mass", 0.0, "kg"),
        ("arm/link/ke/inertia", -np.eye(3), "kg m^2"),
        ("arm/hinge/mf/viscous", -0.1, "N m s/rad or N s/m"),
        ("arm/hinge/pe/stiffness", -1.0, "N m/rad or N/m"),
        ("arm/hinge/o1/quaternion", [2.0, 0, 0, 0], "1"),
        ("arm/hinge/pe/rest", np.nan, "rad or m"),
        ("arm/hinge/hc/motion/axis", [0.0, 0.0, 0.0], "1"),
        ("arm/hinge/ri/armature", -0.1, "kg m^2 or kg"),
        ("arm/hinge/mf/static", 0.1, "N m or N"),
        ("arm/cross/hc/motion/axis2", [2.0, 0.0, 0.0], "1"),
        ("arm/tendon/pe/length", -1.0, "m"),
        ("arm/roll/radius", 0.0, "m"),
        ("arm/roll/plane/normal", [0.0, 0.0, 0.0], "1"),
        ("arm/edge/direction", [0.0, 0.0, 0.0], "1"),
        ("arm/mesh/ratio", np.inf, "rad or m per rad or m"),
        ("arm/sum/coefficients", [0.0, 0.0], "1, rad/m or m/rad"),
    ],
)
def test_parts_of_systems_have_the_same_rules(nested, path, value, unit):
    assert nested.parameters()[path]["unit"] == unit
    with pytest.raises(ModelError, match=path):
        nested.with_parameters({path: value})


def test_a_body_of_a_system_has_one_mass(nested):
    """What moves it and what pulls it down."""
    assert {path for path in nested.parameters() if path.startswith("arm/link/")} == {
        "arm/link/mass", "arm/link/ke/inertia", "arm/link/pe/gravity"
    }  # fmt: skip
    heavy = jax.tree.leaves(nested.with_parameters({"arm/link/mass": 7.0}).dae.components)
    assert sum(int(np.sum(np.asarray(leaf) == 7.0)) for leaf in heavy) == 2


def whole(name: str) -> jmbs.Mechanism:
    """A part of every kind, also what rolls and slides on another body, dampers, and rotors of some coordinates."""
    m, even = jmbs.Mechanism(name), [0.1, 0.1, 0.1]
    for body in "abcdefghijkl":
        m.add_body(body, 1.0, even)
    m.add_body("dot", 0.5, kind="particle")
    m.add_store("oil", 10.0)
    dry = {"viscous": 0.1, "coulomb": 0.2, "static": 0.3}
    spring = lambda *stiffness: {"spring": {"stiffness": list(stiffness)}}  # noqa: E731
    m.add_joint("hinge", "revolute", "ground", "a", axis=[0, 1.0, 0], friction=dry, armature=0.01, **spring(2.0))
    axes = {"axis": [1.0, 0, 0], "axis2": [0, 1.0, 0]}
    m.add_joint("cross", "universal", "a", "b", **axes, armature=[0.0, 0.1], **spring(1.0, 1.0))
    m.add_joint("ball", "spherical", "b", "c", **spring(1.0, 1.0, 1.0))
    m.add_joint("bush", "free", "ground", "d", **spring(*[1.0] * 6))
    m.add_joint("plate", "planar", "ground", "e", friction=dry, **spring(1.0, 1.0, 1.0))
    m.add_joint("screw", "screw", "ground", "f", pitch=0.1)
    m.add_joint("tube", "cylindrical", "ground", "g", **spring(1.0, 1.0))
    motions = [{"type": kind, "axis": [0, 0, 1.0]} for kind in ("revolute", "prismatic")]
    m.add_joint("both", "composite", "ground", "h", motions=motions, **spring(1.0, 1.0))
    m.add_joint("rail", "prismatic", "ground", "i", friction={**dry, "temperature_coefficient": 0.01, "heats": "oil"})
    m.add_constraint("contact", "rolling", "j", radius=0.3, axis=[0, 0, 1.0], plane={"angular_velocity": [0, 0, 2.0]})
    m.add_constraint("climb", "rolling", "k", radius=0.3, plane={"body": "a", "point": [0, 0, 0.2]})
    m.add_constraint("edge", "no_slide", "l", direction=[0, 1.0, 0], relative_to={"velocity": [1.0, 0, 0]})
    m.add_constraint("blade", "no_slide", "l", direction=[0, 1.0, 0], relative_to={"body": "a"})
    m.add_constraint("upright", "perpendicular", "l", direction=[0, 1.0, 0])
    m.add_constraint("mesh", "gear", joint="cross", driver="hinge", ratio=2.0)
    m.add_constraint("sum", "gear", joints={"cross": [0.0, 1.0], "hinge": 1.0})
    m.add_spring_damper("tendon", "ground", "l", stiffness=30.0, length=0.7, damping=0.2)
    m.add_conduction("cooling", "oil", "environment", 0.3)
    return m


def test_all_numbers_of_systems_have_the_same_units_and_rules():
    """Place by place; one number for several places but gravity, which each body of a system has for itself."""
    outer = jmbs.Mechanism("outer")
    outer.add_system("arm", whole("arm").system())

    def at_places(model):
        rows = [row for row in model.table if not row.drive]
        kinds = lambda row: tuple((rule.kind, rule.detail) for rule in row.rules)  # noqa: E731
        count = lambda row: 1 if row.path.endswith("gravity") else len(row.places)  # noqa: E731
        return {
            (path.removeprefix("arm/"), field): (row.unit, kinds(row), count(row))
            for row in rows
            for path, field in row.places
        }

    found, wanted = at_places(jmbs.compile(outer)), at_places(jmbs.compile(whole("arm")))
    assert len(found) > 100
    assert found == wanted


def test_what_rolls_in_a_system_has_one_radius(nested):
    """Its contact and its slip had one each, and a ball of two radii moved on without a word."""
    rolling = {path for path in nested.parameters() if path.startswith("arm/roll/")}
    assert rolling == {"arm/roll/radius", "arm/roll/plane/point", "arm/roll/plane/normal"}
    changed = jax.tree.leaves(nested.with_parameters({"arm/roll/radius": 7.0}).dae.components)
    assert sum(int(np.sum(np.asarray(leaf) == 7.0)) for leaf in changed) == 2


def test_how_particles_are_built_is_no_parameter(nested):
    assert {path for path in nested.parameters() if path.startswith("arm/dot/")} == {
        "arm/dot/mass",
        "arm/dot/pe/gravity",
    }


def test_points_of_bodies_of_systems_are_not_known_to_fits(nested):
    with pytest.raises(ModelError, match="arm/link/com: found a body inside of a system"):
        parse_parameter([nested], "arm/link/com")
    with pytest.raises(ModelError) as error:
        parse_parameter([nested], "arm/link/co")
    assert "com" not in error.value.wanted


@pytest.fixture(scope="module")
def nested() -> jmbs.Model:
    arm, outer = jmbs.Mechanism("arm"), jmbs.Mechanism("outer")
    arm.add_body("link", 1.0, [0.1, 0.1, 0.1])
    own = {"spring": {"stiffness": 2.0}, "friction": {"viscous": 0.1, "coulomb": 0.2, "static": 0.3}, "armature": 0.01}
    arm.add_joint("hinge", "revolute", "ground", "link", child_frame=[0.0, 0.0, 0.4], axis=[0.0, 1.0, 0.0], **own)
    for name in ("tip", "ball", "knife"):
        arm.add_body(name, 1.0, [0.1, 0.1, 0.1])
    arm.add_body("dot", 0.5, kind="particle")
    arm.add_joint("cross", "universal", "link", "tip", axis=[1.0, 0.0, 0.0], axis2=[0.0, 1.0, 0.0])
    arm.add_constraint("roll", "rolling", "ball", radius=0.3)
    arm.add_constraint("edge", "no_slide", "knife", direction=[0.0, 1.0, 0.0])
    arm.add_constraint("mesh", "gear", joint="cross", driver="hinge", ratio=2.0)
    arm.add_constraint("sum", "gear", joints={"cross": [0.0, 1.0], "hinge": 1.0})
    arm.add_spring_damper("tendon", "ground", "link", stiffness=30.0, length=0.7)
    outer.add_system("arm", arm.system())
    return jmbs.compile(outer)
