"""Diagrams show the system as it is, checked as a graph against the paper's figures; what has no meaning is refused."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree as ET

import equinox as eqx
import jax.numpy as jnp
import pytest

import jmbs
from jmbs.ephs import Environment, Interface, System, pattern, power_port
from jmbs.errors import ModelError
from jmbs.library.oscillator import damped_oscillator, oscillator
from jmbs.lie import Rn
from jmbs.visualise.diagram.drawing import compose
from jmbs.visualise.diagram.graph import Diagram, flat_diagram, nested_diagram
from jmbs.visualise.diagram.label import shared_name

make = SimpleNamespace(**runpy.run_path(str(Path(__file__).parents[2] / "docs" / "figures" / "make.py")))


def ports_of(diagram: Diagram) -> dict[str, set[str]]:
    """Junctions with their ports `box.port`; outer ports have no box."""
    return {
        dot.name: {f"{port.box}.{port.name}" for port in dot.inner} | {f".{port.name}" for port in dot.outer}
        for dot in diagram.dots
    }


def kinds_of(diagram: Diagram) -> dict[str, str]:
    return {box.name: box.kind.value for box in diagram.boxes}


def state_ports(diagram: Diagram) -> set[str]:
    return {f"{port.box}.{port.name}" for dot in diagram.dots for port in dot.inner if not port.power}


# Lohmayer, Capobianco and Leyendecker (2024), figure 4: figure 2 put into b1 and b2, figure 3 into j of figure 1.
BODY = {"pe": "storage", "pkc": "reversible", "ke": "storage", "lp": "reversible"}
JOINT = {
    **{"hc": "reversible", "o1": "reversible", "o2": "reversible", "pe": "storage", "pkc": "reversible"},
    **{"mf": "irreversible", "env": "environment"},
}
FIGURE_4 = {
    "b1/q": "b1/pe.q b1/pkc.q",
    "b1/p": "b1/pkc.p b1/ke.p b1/lp.p j/o1.p_1",
    "b2/q": "b2/pe.q b2/pkc.q",
    "b2/p": "b2/pkc.p b2/ke.p b2/lp.p j/o2.p_2",
    "j/p_j1": "j/o1.p_j1 j/hc.p_j1",
    "j/p_j2": "j/o2.p_j2 j/hc.p_j2",
    "j/q_r": "j/pe.q_r j/pkc.q_r j/hc.q_r",
    "p_r": "j/pkc.p_r j/mf.p_r j/hc.p_r",
    "j/s": "j/mf.s j/env.s",
}
# The paper's offsets are two components, ours is one class, so its ports have one name in both places.
OUR_NAMES = {"j/o1.p_1": "j/o1.p", "j/o2.p_2": "j/o2.p", "j/o1.p_j1": "j/o1.pj", "j/o2.p_j2": "j/o2.pj"}
# The paper's system is isolated; ours lets the bodies be pushed and the joint be driven.
OUR_OUTER_PORTS = {"b1/p": ".p1", "b2/p": ".p2", "p_r": ".p_r"}


@pytest.fixture(scope="module")
def two_bodies() -> System:
    return make.two_body_system(make.body(), make.body(), make.hinge())


def test_flattened_two_bodies_are_those_of_figure_4(two_bodies):
    diagram = flat_diagram(two_bodies)
    bodies = {f"{body}/{box}": kind for body in ("b1", "b2") for box, kind in BODY.items()}
    assert kinds_of(diagram) == bodies | {f"j/{box}": kind for box, kind in JOINT.items()}
    expected = {name: {OUR_NAMES.get(port, port) for port in ports.split()} for name, ports in FIGURE_4.items()}
    for name, port in OUR_OUTER_PORTS.items():
        expected[name].add(port)
    assert ports_of(diagram) == expected
    assert state_ports(diagram) == {"j/hc.q_r"}


def test_the_figures_1_to_3_and_their_nesting(two_bodies):
    closed, opened = nested_diagram(two_bodies, 1), nested_diagram(two_bodies, 2)
    assert kinds_of(closed) == {"b1": "composite", "b2": "composite", "j": "composite"}
    # Figure 1 has p1 and p2 only; ours shows the bodies' poses, for joints that need them, and the actuation port.
    added = {"q1": {"b1.q"}, "q2": {"b2.q"}, "p_r": {"j.p_r", ".p_r"}}
    assert ports_of(closed) == {"p1": {"b1.p", "j.p1", ".p1"}, "p2": {"b2.p", "j.p2", ".p2"}} | added
    assert all(box.inside is None for box in closed.boxes)
    inside = {box.name: box.inside for box in opened.boxes}
    assert inside["b1"] == inside["b2"] == nested_diagram(make.body(), 1)
    assert inside["j"] == nested_diagram(make.hinge(), 1)
    assert kinds_of(inside["b1"]) == BODY and kinds_of(inside["j"]) == JOINT
    assert state_ports(inside["j"]) == {"hc.q_r"}


def test_the_oscillators_are_those_of_figures_5_to_7():
    spring_and_mass = ports_of(nested_diagram(oscillator(1.0, 1.0), 1))
    assert spring_and_mass == {"q": {"pe.q", "pkc.q"}, "p": {"pkc.p", "ke.p", ".p"}}
    damped = damped_oscillator(1.0, 1.0, 0.1)
    assert ports_of(nested_diagram(damped, 1)) == {"p": {"osc.p", "mf.p_r"}, "s": {"mf.s", "env.s"}}
    figure_7 = {"osc/q": {"osc/pe.q", "osc/pkc.q"}, "osc/p": {"osc/pkc.p", "osc/ke.p", "mf.p_r"}}
    assert ports_of(flat_diagram(damped)) == figure_7 | {"s": {"mf.s", "env.s"}}


def test_names_are_written_once_where_ports_share_them(two_bodies):
    written = {dot.name: shared_name(dot) for dot in flat_diagram(two_bodies).dots}
    assert written["b1/p"] == "p" and written["p_r"] == "p_r" and written["j/q_r"] == "q_r"
    assert written["j/p_j1"] is None  # pj and p_j1: each stands beside its line


class Spring(eqx.Module):
    @property
    def ports(self) -> Interface:
        return {"x": power_port(Rn(1), "displacement")}

    def energy(self, x):
        return 0.5 * jnp.sum(x["x"] ** 2)


def single(box, junctions, outer=()) -> System:
    return System(pattern({"b": box.ports}, junctions, outer), {"b": box})


def test_names_are_escaped():
    odd = 'a <b> & "c"'
    system = System(pattern({odd: Spring().ports}, {"x": [f"{odd}.x"]}), {odd: Spring()})
    texts = [
        element.text
        for element in ET.fromstring(jmbs.draw(system, name="<&>").svg).iter("{http://www.w3.org/2000/svg}text")
    ]
    assert odd in texts and "<&>" in texts


def test_parts_that_hang_together_in_no_way_and_deeper_than_deep():
    wrapped = System(pattern({"one": {}, "two": {}}, {}), {"one": single(Spring(), {"x": "b.x"}), "two": Lonely()})
    placed = compose(nested_diagram(wrapped, 9)).placed
    assert placed.boxes["one"].gap(placed.boxes["two"]) > 5.0


class Lonely(eqx.Module):
    @property
    def ports(self) -> Interface:
        return {}

    def energy(self, x):
        return jnp.zeros(())


def two_springs_at_one_junction() -> System:
    boxes = {"a": Spring(), "b": Spring()}
    return System(pattern({name: box.ports for name, box in boxes.items()}, {"x": "a.x b.x"}), boxes)


@pytest.mark.parametrize(
    ("system", "options", "where"),
    [
        (lambda: oscillator(1.0, 1.0), {"depth": 0}, "depth"),
        (lambda: oscillator(1.0, 1.0), {"depth": 1.5}, "depth"),
        (lambda: oscillator(1.0, 1.0), {"depth": 2, "flat": True}, "depth"),
        (lambda: "oscillator", {}, "system"),
        (lambda: System(pattern({}, {}), {}), {}, "no boxes"),
        (jmbs.Mechanism, {}, "bodies"),
        (two_springs_at_one_junction, {}, "a.x and b.x"),
    ],
)
def test_what_cannot_be_drawn_is_refused(system, options, where):
    with pytest.raises(ModelError, match=re.escape(where)):
        jmbs.draw(system(), **options)


def test_open_systems_may_lack_what_others_bring():
    """The thermal port of a joint with neither store nor environment is refused when nothing can be connected to it."""
    friction = make.viscous_friction([0.1], damped_oscillator(1.0, 1.0, 0.1).boxes["mf"].momentum)
    jmbs.draw(single(friction, {"p": "b.p_r", "s": "b.s"}, ["p", "s"]))
    with pytest.raises(ModelError, match="neither store nor environment"):
        jmbs.draw(single(friction, {"p": "b.p_r", "s": "b.s"}, ["p"]))
    jmbs.draw(single(Environment(), {"s": "b.s"}))
