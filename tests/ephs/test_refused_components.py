"""Fillings of boxes, drives and components that break a law are refused when the model is built."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
import pytest
from ephs.toys import Coil, Ideal, Leak, Resistor, Tank, Watcher, refuse, refuse_system, system

import jmbs
from jmbs.ephs import (
    ConstantEffort,
    ConstantFlow,
    Environment,
    Role,
    System,
    flatten,
    pattern,
    power_port,
    role,
    state_port,
    validate,
)
from jmbs.errors import ModelError
from jmbs.lie import Rn


def test_a_lawful_user_component_is_accepted():
    boxes = {"tank": Tank(), "leak": Leak(), "env": Environment(), "ideal": Ideal(), "coil": Coil()}
    built = system(boxes, {"x": "tank.x leak.x ideal.x", "s": "leak.s env.s", "y": "ideal.y coil.y"})
    validate(flatten(built))
    assert {name: role(box) for name, box in boxes.items()} == {
        "tank": Role.STORAGE,
        "leak": Role.IRREVERSIBLE,
        "env": Role.ENVIRONMENT,
        "ideal": Role.REVERSIBLE,
        "coil": Role.STORAGE,
    }


# -- fillings ---------------------------------------------------------------------------------------------------------


def test_an_empty_box():
    wiring = pattern({"tank": Tank().ports}, {"x": "tank.x"})
    refuse(lambda: System(wiring, {}), "tank", "an empty box", "a component or a system")


def test_a_filling_for_no_box():
    wiring = pattern({"tank": Tank().ports}, {"x": "tank.x"})
    refuse(lambda: System(wiring, {"tank": Tank(), "tonk": Tank()}), "tonk", "no box", "['tank']")


def test_a_filling_of_another_interface():
    wiring = pattern({"tank": Tank().ports}, {"x": "tank.x"})
    refuse(lambda: System(wiring, {"tank": Coil()}), "tank", "(R1, flux)", "(R1, charge)")


def test_a_state_port_does_not_fill_a_power_port():
    wiring = pattern({"tank": {"x": state_port(Rn(1), "charge")}}, {"x": "tank.x"})
    refuse(lambda: System(wiring, {"tank": Tank()}), "tank", "power port", "state port")


class Rogue(Tank):
    """Two roles at once."""

    def onsager(self, x, e):
        del x, e
        return jnp.eye(1)


class Idle(eqx.Module):
    """No role."""

    @property
    def ports(self):
        return Tank().ports


@pytest.mark.parametrize("component, found", [(Rogue(), "['energy', 'onsager']"), (Idle(), "[]"), (3.0, "float")])
def test_a_component_without_exactly_one_role(component, found):
    wiring = pattern({"tank": Tank().ports}, {"x": "tank.x"})
    refuse(lambda: System(wiring, {"tank": component}), "tank", found, "one of energy, structure, ratio, onsager")


def test_a_component_name_used_twice_after_flattening():
    inner = system({"b": Tank()}, {"x": "b.x"}, ["x"])
    outer = {"a": inner, "a/b": Tank()}
    wiring = pattern({name: box.ports for name, box in outer.items()}, {"one": ["a.x"], "two": ["a/b.x"]})
    with pytest.raises(ModelError) as caught:
        flatten(System(wiring, outer))
    assert "a/b" in str(caught.value)


@pytest.mark.parametrize(
    "add", ["body", "joint", "load", "spring_damper", "store", "force"], ids=lambda kind: f"link as {kind}"
)
def test_a_name_used_twice_in_a_mechanism(add):
    mechanism = jmbs.Mechanism()
    mechanism.add_body("link", mass=1.0, inertia=[1.0, 1.0, 1.0])
    arguments = {
        "body": {"mass": 1.0, "inertia": [1.0, 1.0, 1.0]},
        "joint": {"type": "spherical", "parent": "ground", "child": "link"},
        "load": {"body": "link"},
        "spring_damper": {"a": "ground", "b": "link"},
        "store": {"capacity": 1.0},
        "force": {"body": "link", "wrench": lambda t, pose, velocity: jnp.zeros(6)},
    }
    section = {"body": "bodies", "joint": "joints", "load": "loads", "store": "stores"}.get(add, "elements")
    build = lambda: getattr(mechanism, f"add_{add}")("link", **arguments[add])  # noqa: E731
    refuse(build, f"{section}/link", "already that of a body", "only once")


def test_two_driven_ports_of_one_path():
    drives = {"x": ConstantEffort(jnp.ones(1))}
    inner = system({"tank": Tank()}, {"x": "tank.x"}, ["x"], drives)
    wiring = pattern({"inside": inner.ports}, {"x": "inside.x"}, {"inside/x": "x"})
    outer = System(wiring, {"inside": inner}, {"inside/x": ConstantEffort(jnp.ones(1))})
    refuse(lambda: flatten(outer), "drives/inside/x", "two driven ports", "a path used once")


def test_a_drive_of_no_outer_port():
    build = lambda: system({"tank": Tank()}, {"x": "tank.x"}, (), {"x": ConstantEffort(jnp.ones(1))})  # noqa: E731
    refuse(build, "drives/x", "no such outer port", "[]")


@pytest.mark.parametrize("drive", [ConstantEffort(jnp.ones(1)), ConstantFlow(jnp.ones(1))])
def test_a_drive_of_a_state_port(drive):
    with pytest.raises(ModelError, match="power") as caught:
        system({"tank": Tank()}, {"x": "tank.x"}, {"watched?": "x"}, {"watched": drive})
    assert caught.value.path == "drives/watched"


def test_something_that_is_no_drive():
    built = system({"tank": Tank()}, {"x": "tank.x"}, ["x"], {"x": 3.0})
    refuse(lambda: jmbs.compile(built), "drives/x", "float", "a drive with a method flow or effort")


def test_two_prescribed_efforts_at_one_junction():
    drive = ConstantEffort(jnp.ones(1))
    outer = {"one": "x", "two": "x"}
    built = system({"tank": Tank()}, {"x": "tank.x"}, outer, {"one": drive, "two": drive})
    refuse(lambda: jmbs.compile(built), "junctions/x", "two prescribed efforts", "one at most")


# -- laws of components -----------------------------------------------------------------------------------------------


def with_watcher(J, C=None):
    boxes = {"watch": Watcher(J, C), "coil": Coil(), "coil2": Coil(), "tank": Tank()}
    return system(boxes, {"a": "watch.a coil.y", "b": "watch.b coil2.y", "x": "watch.x tank.x"})


def with_resistor(matrix, thermal=True):
    boxes = {"tank": Tank(), "leak": Resistor(matrix, thermal), "end": Environment() if thermal else Tank()}
    return system(boxes, {"x": "tank.x leak.x", "s": "leak.s end.s" if thermal else "leak.s end.x"})


SKEW = jnp.array([[0.0, 1.0], [-1.0, 0.0]])


@pytest.mark.parametrize("J", [jnp.eye(2), jnp.array([[0.0, 1.0], [-1.001, 0.0]]), jnp.array([[0.0, 1.0], [1.0, 0.0]])])
def test_a_dirac_structure_that_is_not_skew(J):
    refuse_system(with_watcher(J), "watch", "not skew-symmetric", "J = -J^T")


@pytest.mark.parametrize("J", [jnp.zeros((3, 3)), jnp.zeros((2, 3)), jnp.zeros(2)])
def test_a_dirac_structure_of_another_shape(J):
    refuse_system(with_watcher(J), "watch", f"J of shape {J.shape}", "(2, 2), the stacked power ports")


@pytest.mark.parametrize("C", [jnp.zeros((1, 3)), jnp.zeros(2), jnp.zeros((1, 1))])
def test_constraint_rows_of_another_shape(C):
    refuse_system(with_watcher(SKEW, C), "watch", f"C of shape {C.shape}", "a row per constraint over the stacked")


def test_a_structure_that_is_no_number():
    for built, path in [
        (with_watcher(jnp.nan * SKEW), "watch"),
        (with_watcher(SKEW, jnp.full((1, 2), jnp.nan)), "watch"),
        (with_resistor(lambda e: jnp.nan * lawful(e)), "leak"),
    ]:
        with pytest.raises(ModelError) as caught:
            jmbs.compile(built)
        assert caught.value.path == path


class Gear(eqx.Module):
    """A transformer whose ratio is given."""

    matrix: object
    output: str = eqx.field(static=True, default="b")

    @property
    def ports(self):
        return {"a": power_port(Rn(1), "flux"), "b": power_port(Rn(1), "flux")}

    def ratio(self, x):
        del x
        return self.matrix


def test_a_transformer_ratio_of_another_shape():
    boxes = {"gear": Gear(jnp.zeros((2, 1))), "coil": Coil(), "coil2": Coil()}
    built = system(boxes, {"a": "gear.a coil.y", "b": "gear.b coil2.y"})
    refuse_system(built, "gear", "shape (2, 1)", "(1, 1)")


def test_a_transformer_with_an_unknown_output():
    boxes = {"gear": Gear(jnp.ones((1, 1)), "c"), "coil": Coil(), "coil2": Coil()}
    built = system(boxes, {"a": "gear.a coil.y", "b": "gear.b coil2.y"})
    refuse_system(built, "gear", "'c'", "power port")


def lawful(e):
    v, theta = e["x"][0], e.temperature("s")
    return jnp.array([[theta, -v], [-v, v * v / theta]])


def test_a_lawful_onsager_matrix_is_accepted():
    validate(flatten(with_resistor(lawful)))


@pytest.mark.parametrize(
    "matrix, thermal, found, wanted",
    [
        (lambda e: lawful(e) + jnp.array([[0.0, 50.0], [0.0, 0.0]]), True, "not symmetric", "reciprocity"),
        (lambda e: -lawful(e), True, "negative eigenvalue", "second law"),
        (lambda e: jnp.diag(jnp.diag(lawful(e))), True, "does not conserve energy", "= 0"),
        (lambda e: jnp.zeros((3, 3)), True, "M of shape (3, 3)", "(2, 2)"),
        (lambda e: jnp.eye(2), False, "without a thermal port", "entropy port"),
    ],
    ids=["not symmetric", "negative", "not energy conserving", "shape", "not thermal"],
)
def test_an_unlawful_onsager_matrix(matrix, thermal, found, wanted):
    refuse_system(with_resistor(matrix, thermal), "leak", found, wanted)


def test_the_initial_state_of_no_storage():
    built = system({"tank": Tank()}, {"x": "tank.x"})
    refuse(lambda: jmbs.compile(built, initial={"y": [1.0]}), "initial/y", "no such state", "x")


def test_an_unlawful_component_deep_inside_is_named_by_its_path():
    inner = system(
        {"leak": Resistor(lambda e: -lawful(e)), "env": Environment()}, {"x": "leak.x", "s": "leak.s env.s"}, ["x"]
    )
    built = system({"inside": inner, "tank": Tank()}, {"x": "inside.x tank.x"})
    refuse_system(built, "inside/leak", "negative eigenvalue", "second law")


def test_something_that_is_no_system():
    refuse(lambda: jmbs.compile(Tank()), "system", "Tank", "System")
