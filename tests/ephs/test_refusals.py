"""Every wrong interconnection is refused when it is built, with the path, what was found and what was wanted."""

from __future__ import annotations

import jax.numpy as jnp
from ephs.toys import Coil, Ideal, Leak, Tank, Watcher, refuse, refuse_system, system

from jmbs.ephs import (
    Environment,
    Junction,
    Pattern,
    flatten,
    validate,
)
from jmbs.library.mechanics.body import KineticEnergy, rigid_body
from jmbs.library.mechanics.elements import ThermalStore
from jmbs.library.mechanics.friction import viscous_friction
from jmbs.library.mechanics.joint import Ground, NoPotential, Offset, joint, relative_momentum
from jmbs.lie import Revolute, SO3xR3

# -- the pattern's syntax ---------------------------------------------------------------------------------------------


def test_unequal_quantities_at_a_junction():
    boxes = {"tank": Tank(), "coil": Coil()}
    build = lambda: system(boxes, {"here": "tank.x coil.y"})  # noqa: E731
    refuse(build, "junctions/here", "(R1, charge) at tank.x and (R1, flux) at coil.y", "equal quantities")


def test_unequal_quantity_of_an_outer_port():
    tank, coil = Tank(), Coil()
    junction = Junction("here", (("tank", "x"),), ("y",))
    build = lambda: Pattern({"tank": tank.ports}, coil.ports, (junction,))  # noqa: E731
    refuse(build, "junctions/here", "(R1, flux) at outer y", "equal quantities")


def test_poses_of_different_groups_need_an_offset_between_them():
    inertia = jnp.eye(3)
    boxes = {"one": rigid_body(1.0, inertia, jnp.zeros(3)), "two": rigid_body(1.0, inertia, jnp.zeros(3), SO3xR3)}
    junctions = {"q": "one.q two.q", "p1": "one.p", "p2": "two.p"}
    refuse(lambda: system(boxes, junctions), "junctions/q", "(SE3, pose) at one.q and (SO3xR3, pose)", "offset")


def test_momenta_of_different_groups_do_not_meet():
    boxes = {"one": KineticEnergy(1.0, jnp.eye(3)), "two": KineticEnergy(1.0, jnp.eye(3), SO3xR3)}
    refuse(lambda: system(boxes, {"p": "one.p two.p"}), "junctions/p", "momentum_SO3xR3", "equal quantities")


def test_an_inner_port_without_a_junction():
    refuse(lambda: system({"ideal": Ideal()}, {"x": "ideal.x"}), "ideal/y", "without a junction", "one junction")


def test_an_outer_port_without_a_junction():
    tank = Tank()
    build = lambda: Pattern({"tank": tank.ports}, tank.ports, (Junction("x", (("tank", "x"),)),))  # noqa: E731
    refuse(build, "outer/x", "without a junction", "one junction")


def test_a_port_at_two_junctions():
    build = lambda: system({"tank": Tank()}, {"one": "tank.x", "two": "tank.x"})  # noqa: E731
    refuse(build, "tank/x", "2 junctions", "one junction")


def test_a_port_twice_at_one_junction():
    refuse(lambda: system({"tank": Tank()}, {"one": "tank.x tank.x"}), "tank/x", "2 junctions", "one junction")


def test_a_junction_name_used_twice():
    interface = Tank().ports
    junctions = (Junction("here", (("one", "x"),)), Junction("here", (("two", "x"),)))
    refuse(lambda: Pattern({"one": interface, "two": interface}, {}, junctions), "junctions/here", "twice", "unique")


def test_an_unknown_box():
    refuse(lambda: system({"tank": Tank()}, {"x": "tank.x tnak.x"}), "junctions/x", "'tnak'", "['tank']")


def test_an_unknown_port():
    refuse(lambda: system({"tank": Tank()}, {"x": "tank.charge"}), "junctions/x", "tank.charge", "['x']")


def test_an_unknown_outer_port():
    junction = Junction("x", (("tank", "x"),), ("out",))
    refuse(lambda: Pattern({"tank": Tank().ports}, {}, (junction,)), "junctions/x", "'out'", "outer ports")


def test_a_port_that_is_not_written_box_dot_port():
    for word in ("tank", "tank.", ".x"):
        refuse(lambda word=word: system({"tank": Tank()}, {"x": word}), "junctions/x", repr(word), "box.port")


def test_an_outer_port_at_an_unknown_junction():
    refuse(lambda: system({"tank": Tank()}, {"x": "tank.x"}, ["y"]), "outer/y", "'y'", "['x']")


def test_an_outer_port_of_an_empty_junction():
    build = lambda: system({"tank": Tank()}, {"x": "tank.x", "none": ""}, ["none"])  # noqa: E731
    refuse(build, "outer/none", "without inner ports", "inner port")


def test_a_junction_without_ports():
    build = lambda: flatten(system({"tank": Tank()}, {"x": "tank.x", "none": ""}))  # noqa: E731
    refuse(build, "junctions/none", "without ports", "at least one port")


def test_a_state_port_without_storage():
    watch = Watcher()
    built = system(
        {"watch": watch, "coil": Coil(), "coil2": Coil()},
        {"a": "watch.a coil.y", "b": "watch.b coil2.y", "x": "watch.x"},
    )
    refuse_system(built, "junctions/x", "state port watch.x without a storage", "storage")


def test_two_storages_at_one_junction():
    built = system({"one": Tank(), "two": Tank()}, {"x": "one.x two.x"})
    refuse_system(built, "junctions/x", "one.x and two.x", "one storage or environment at most")


def test_two_storages_that_meet_through_nesting():
    inner = system({"tank": Tank()}, {"x": "tank.x"}, ["x"])
    boxes = {"inside": inner, "tank": Tank()}
    built = system(boxes, {"x": "inside.x tank.x"})
    refuse_system(built, "junctions/x", "inside/tank.x and tank.x", "one storage")


def test_a_storage_and_an_environment_at_one_junction():
    store = ThermalStore(jnp.asarray(1.0), jnp.asarray(300.0))
    boxes = {"env": Environment(), "leak": Leak(), "store": store, "tank": Tank()}
    built = system(boxes, {"s": "env.s leak.s store.s", "x": "tank.x leak.x"})
    refuse_system(built, "junctions/s", "env.s and store.s", "one storage or environment at most")


def test_two_environments_at_one_junction():
    boxes = {"one": Environment(), "two": Environment(), "leak": Leak(), "tank": Tank()}
    built = system(boxes, {"s": "one.s two.s leak.s", "x": "tank.x leak.x"})
    refuse_system(built, "junctions/s", "one.s and two.s", "one storage or environment at most")


def test_a_thermal_port_without_store_or_environment():
    built = system({"tank": Tank(), "leak": Leak()}, {"x": "tank.x leak.x", "s": "leak.s"})
    refuse_system(built, "junctions/s", "leak.s", "one of them")


def test_a_thermal_port_of_a_joint_left_open():
    motion = Revolute(jnp.array([0.0, 0.0, 1.0]))
    offset = Offset(jnp.zeros(3), jnp.array([1.0, 0.0, 0.0, 0.0]))
    potential = NoPotential(motion.group)
    hinge = joint(motion, offset, offset, potential, viscous_friction([0.1], relative_momentum(motion.group)), False)
    boxes = {"ground": Ground(), "body": rigid_body(1.0, jnp.eye(3), jnp.zeros(3)), "hinge": hinge}
    junctions = {"g": "ground.p hinge.p1", "p": "body.p hinge.p2", "q": "body.q", "r": "hinge.p_r", "s": "hinge.s"}
    refuse(lambda: validate(flatten(system(boxes, junctions))), "junctions/s", "hinge/mf.s", "one of them")
