"""From a mechanism's description to its interconnection pattern: one box per body, joint, element and store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jmbs.ephs import Environment, System, exposed, pattern
from jmbs.library.mechanics.body_constraint import ENDS
from jmbs.library.mechanics.composition import ENVIRONMENT_BOX, connect, make_drive, thermal_port
from jmbs.library.mechanics.elements import PointLoad, ThermalStore, UserForce
from jmbs.library.mechanics.gear import gear_closure
from jmbs.library.mechanics.inertialess import turns_inertialess
from jmbs.library.mechanics.joint import Ground, joint_closure
from jmbs.library.mechanics.parts import (
    GROUPS,
    array,
    body_constraint_closures,
    body_constraint_system,
    body_system,
    constraint_system,
    element_system,
    gear_system,
    joint_system,
    surface_motion,
    velocity_box,
)
from jmbs.library.mechanics.prescribed_motion import MOTION, motion_closure, motion_drive
from jmbs.library.thermal import Conduction

if TYPE_CHECKING:
    from jmbs.library.mechanics.body_constraint_specification import BodyConstraintSpec
    from jmbs.library.mechanics.constraint_specification import ConstraintSpec
    from jmbs.library.mechanics.mechanism import Mechanism
    from jmbs.library.mechanics.specification import ConductionSpec, JointSpec

ACTUATION, PLANE = "actuation", "plane"
"""Last words of the outer ports of joints and of moving surfaces."""


def build(mechanism: Mechanism) -> System:
    """The mechanism as a system: boxes named as its parts, drives `<joint>/actuation` and `<load>`, joint closures.

    Only boxes and junctions that the mechanism needs are there: `ground` when something is fixed to it.
    """
    boxes: dict[str, Any] = {}
    wiring = _Wiring(mechanism)
    for name, body in mechanism.bodies.items():
        boxes[name] = body_system(mechanism, body)
        wiring.body(name)
    for name, store in mechanism.stores.items():
        boxes[name] = ThermalStore(array(store.capacity), array(store.temperature))
        wiring.connect(f"{name}.s", f"{name}.s")
    closures = []
    for name, spec in mechanism.joints.items():
        boxes[name] = joint_system(mechanism, spec)
        wiring.joint(spec)
        parent = None if spec.parent == "ground" else spec.parent
        closures.append(joint_closure(name, parent, spec.child))
        if spec.prescribed is not None:
            closures.append(motion_closure(name))
    for name, spec in mechanism.elements.items():
        boxes[name] = element_system(mechanism, spec)
        wiring.element(spec)
    for name, spec in mechanism.conductions.items():
        boxes[name] = Conduction(array(spec.conductance))
        wiring.conduction(spec)
    for name, spec in mechanism.constraints.items():
        boxes[name] = constraint_system(mechanism, spec)
        wiring.constraint(spec)
        closures.extend(spec.kind.closures(name, spec.body))
    for name, spec in mechanism.body_constraints.items():
        boxes[name] = body_constraint_system(mechanism, spec)
        wiring.body_constraint(spec)
        closures.extend(body_constraint_closures(spec))
    for name, spec in mechanism.gears.items():
        boxes[name] = gear_system(mechanism, spec)
        for port, joint in spec.ports.items():
            wiring.connect(f"{joint}.p_r", f"{name}.{port}")
        closures.append(gear_closure(name, *spec.ports.values()))
    drives = {**_actuations(mechanism), **_loads(mechanism), **_surfaces(mechanism), **_motions(mechanism)}
    for name, force in mechanism.forces.items():
        body = mechanism.bodies[force.body]
        velocity = f"{force.body}/{velocity_box(body)}"
        drives[name] = UserForce(force.wrench, force.body, GROUPS[body.group], velocity)
        wiring.outer[name] = f"{force.body}.p"
    for name, load in mechanism.loads.items():
        wiring.outer[name] = f"{load.body}.p"
    if wiring.uses_ground:
        boxes["ground"] = Ground()
    if wiring.uses_environment:
        boxes[ENVIRONMENT_BOX] = Environment()
    boxes |= wiring.systems
    drives |= wiring.connections(boxes)
    interfaces = {name: box.ports for name, box in boxes.items()}
    return System(pattern(interfaces, wiring.junctions, wiring.outer), boxes, drives, tuple(closures))


class _Wiring:
    """Junctions of the mechanism's pattern as they grow: one per momentum, pose and store."""

    def __init__(self, mechanism: Mechanism):
        self.mechanism = mechanism
        self.junctions: dict[str, list[str]] = {}
        self.outer: dict[str, str] = {}
        self.systems = dict(mechanism.systems)
        self.uses_ground = False
        self.uses_environment = False

    def connect(self, junction: str, port: str) -> None:
        self.junctions.setdefault(junction, []).append(port)

    def heat(self, store: str, port: str) -> None:
        """Joins a thermal port to a store's, which added systems are made to expose."""
        inner = thermal_port(self.systems, store)
        if inner is not None:
            box, _, rest = store.partition("/")
            if rest:
                self.systems[box], inner = exposed(self.systems[box], rest, inner)
            self.join(f"{box}.{inner}", port)
        else:
            self.connect(f"{store}.s", port)

    def join(self, there: str, port: str) -> None:
        """Joins a port to another one at the junction where that stands already, or at a new one called by it."""
        junction = next((name for name, ports in self.junctions.items() if there in ports), None)
        if junction is None:
            junction = there
            self.connect(junction, there)
        self.connect(junction, port)

    def body(self, name: str) -> None:
        self.connect(f"{name}.p", f"{name}.p")
        self.connect(f"{name}.q", f"{name}.q")

    def attach(self, body: str, power: str) -> None:
        """Joins a momentum port to a body's, or to the ground's."""
        if body == "ground" and not self.uses_ground:
            self.uses_ground = True
            self.connect("ground.p", "ground.p")
        self.connect(f"{body}.p", power)

    def joint(self, spec: JointSpec) -> None:
        for number, body in (("1", spec.parent), ("2", spec.child)):
            self.attach(body, f"{spec.name}.p{number}")
            if body != "ground" and self.mechanism.bodies[body].group == "SO3xR3":
                self.connect(f"{body}.q", f"{spec.name}.q{number}")
        self.connect(f"{spec.name}.p_r", f"{spec.name}.p_r")
        # Where a rotation without inertia moves the joint, only actuation that was looked at may act.
        if spec.actuation is not None or not turns_inertialess(self.mechanism, spec):
            self.outer[f"{spec.name}/{ACTUATION}"] = f"{spec.name}.p_r"
        if spec.prescribed is not None:
            self.connect(f"{spec.name}.p_m", f"{spec.name}.p_m")
            self.outer[f"{spec.name}/{MOTION}"] = f"{spec.name}.p_m"
        if spec.friction is not None and spec.friction.heats != "environment":
            self.heat(spec.friction.heats, f"{spec.name}.s")

    def element(self, spec) -> None:
        for end, body in (("a", spec.a), ("b", spec.b)):
            if body != "ground":
                self.attach(body, f"{spec.name}.p_{end}")
                self.connect(f"{body}.q", f"{spec.name}.q_{end}")
        if spec.heats != "environment":
            self.heat(spec.heats, f"{spec.name}.s")

    def conduction(self, spec: ConductionSpec) -> None:
        for number, store in (("1", spec.a), ("2", spec.b)):
            if store == ENVIRONMENT_BOX and not self.uses_environment:
                self.uses_environment = True
                self.connect(f"{ENVIRONMENT_BOX}.s", f"{ENVIRONMENT_BOX}.s")
            self.heat(store, f"{spec.name}.s{number}")

    def constraint(self, spec: ConstraintSpec) -> None:
        self.connect(f"{spec.body}.p", f"{spec.name}.p")
        self.connect(f"{spec.body}.q", f"{spec.name}.q")
        if spec.surface.moving:
            self.connect(f"{spec.name}.{PLANE}", f"{spec.name}.p_plane")
            self.outer[f"{spec.name}/{PLANE}"] = f"{spec.name}.{PLANE}"

    def body_constraint(self, spec: BodyConstraintSpec) -> None:
        for end, body in zip(ENDS, (spec.body, spec.other), strict=True):
            if body != "ground":
                self.connect(f"{body}.p", f"{spec.name}.p{end}")
                self.connect(f"{body}.q", f"{spec.name}.q{end}")

    def connections(self, boxes: dict[str, Any]) -> dict[str, Any]:
        """Joins ports as the mechanism's connections say, closes what is left open; returns the drives by port."""
        for box, ports in (("ground", Ground), (ENVIRONMENT_BOX, Environment)):
            named = any(p.startswith(f"{box}.") for c in self.mechanism.connections.values() for p in c.ports)
            if named and box not in boxes:
                boxes[box] = ports()
        interfaces = {name: box.ports for name, box in boxes.items()}
        drives = {}
        for connection in self.mechanism.connections.values():
            size = connect(connection, interfaces, self.junctions, self.outer)
            drive = connection.drive(size)
            if drive is not None:
                drives[connection.name] = drive
        joined = {port for ports in self.junctions.values() for port in ports}
        for name in self.mechanism.systems:
            for port, kind in interfaces[name].items():
                if f"{name}.{port}" not in joined:
                    self.connect(f"{name}.{port}", f"{name}.{port}")
                    if kind.power:
                        self.outer[f"{name}/{port}"] = f"{name}.{port}"
        return drives


def _actuations(mechanism: Mechanism) -> dict[str, Any]:
    drives = {}
    for name, spec in mechanism.joints.items():
        if spec.actuation is not None:
            port = f"{name}/{ACTUATION}"
            drives[port] = make_drive(f"joints/{port}", "flow", spec.actuation, spec.dimension)
    return drives


def _motions(mechanism: Mechanism) -> dict[str, Any]:
    return {
        f"{name}/{MOTION}": motion_drive(spec.prescribed, spec.dimension)
        for name, spec in mechanism.joints.items()
        if spec.prescribed is not None
    }


def _loads(mechanism: Mechanism) -> dict[str, Any]:
    return {
        name: PointLoad(
            array(load.point),
            make_drive(f"loads/{name}/force", "flow", load.force, 3),
            make_drive(f"loads/{name}/torque", "flow", load.torque, 3),
            load.body,
            load.frame,
            GROUPS[mechanism.bodies[load.body].group],
        )
        for name, load in mechanism.loads.items()
    }


def _surfaces(mechanism: Mechanism) -> dict[str, Any]:
    return {
        f"{name}/{PLANE}": surface_motion(f"constraints/{name}/{spec.surface_key}", spec.surface)
        for name, spec in mechanism.constraints.items()
        if spec.surface.moving
    }
