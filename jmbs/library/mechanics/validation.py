"""Checks of a mechanism as a whole: references by name, sizes of initial values, spans of tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jmbs.errors import ModelError
from jmbs.library.mechanics import checks
from jmbs.library.mechanics.composition import thermal_port
from jmbs.library.mechanics.inertialess import refuse_inertialess, turns_inertialess
from jmbs.library.mechanics.parts import motion_of
from jmbs.library.mechanics.prescribed_motion import require_motion
from jmbs.library.mechanics.relation_specification import RelationSpec
from jmbs.library.mechanics.specification import SimulationSpec, TableSpec
from jmbs.lie import Rn

if TYPE_CHECKING:
    from jmbs.library.mechanics.gear_specification import GearSpec
    from jmbs.library.mechanics.mechanism import Mechanism
    from jmbs.library.mechanics.specification import JointSpec


def validate(mechanism: Mechanism) -> None:
    """Refuses a mechanism whose parts do not fit together. Raises `ModelError`."""
    if not mechanism.bodies and not mechanism.systems and not mechanism.stores:
        raise ModelError("bodies", "none", "at least one body, store or system")
    for joint in mechanism.joints.values():
        _require_body(mechanism, f"joints/{joint.name}/parent", joint.parent, ground=True)
        _require_body(mechanism, f"joints/{joint.name}/child", joint.child)
        if joint.prescribed is not None:
            _require_drivable(mechanism, joint)
        if joint.friction is not None:
            _require_store(mechanism, f"joints/{joint.name}/friction/heats", joint.friction.heats)
    for load in mechanism.loads.values():
        _require_body(mechanism, f"loads/{load.name}/body", load.body)
    for element in mechanism.elements.values():
        _require_body(mechanism, f"elements/{element.name}/a", element.a, ground=True)
        _require_body(mechanism, f"elements/{element.name}/b", element.b, ground=True)
        _require_store(mechanism, f"elements/{element.name}/heats", element.heats)
    for conduction in mechanism.conductions.values():
        _require_store(mechanism, f"elements/{conduction.name}/a", conduction.a)
        _require_store(mechanism, f"elements/{conduction.name}/b", conduction.b)
    for force in mechanism.forces.values():
        _require_body(mechanism, f"elements/{force.name}/body", force.body)
    for constraint in mechanism.constraints.values():
        _require_body(mechanism, f"constraints/{constraint.name}/body", constraint.body)
    for constraint in mechanism.body_constraints.values():
        path = f"constraints/{constraint.name}"
        _require_body(mechanism, f"{path}/body", constraint.body)
        _require_body(mechanism, f"{path}/{constraint.other_key}", constraint.other, ground=True)
    for gear in mechanism.gears.values():
        _require_coordinates(mechanism, f"constraints/{gear.name}", gear)
    _validate_initial(mechanism)
    _validate_simulation(mechanism)
    refuse_inertialess(mechanism)


def _validate_initial(mechanism: Mechanism) -> None:
    """Of the mechanism's own parts; those of added systems are known when it is compiled."""
    within = lambda name: name.partition("/")[0] in mechanism.systems  # noqa: E731
    for name in mechanism.initial_bodies:
        if not within(name):
            _require_body(mechanism, f"initial/bodies/{name}", name)
    for name, values in mechanism.initial_joints.items():
        path = f"initial/joints/{name}"
        if within(name):
            continue
        if name not in mechanism.joints:
            raise ModelError(path, f"no joint {name}", f"the name of a joint{checks.nearest(name, mechanism.joints)}")
        mechanism.initial_joints[name] = mechanism.joints[name].initial_values(path, **values)


def _validate_simulation(mechanism: Mechanism) -> None:
    if not isinstance(mechanism.simulation, SimulationSpec):
        raise ModelError("simulation", checks.show(mechanism.simulation), "a SimulationSpec")
    t0, t1 = mechanism.simulation.t0, mechanism.simulation.t1
    for name, _ in mechanism.simulation.until:
        if name.partition("/")[0] not in mechanism.systems:  # those are known when it is compiled
            _require_one_coordinate(mechanism, f"simulation/until/{name}", name)
    drives = {f"joints/{joint.name}/actuation": joint.actuation for joint in mechanism.joints.values()}
    drives |= {f"joints/{joint.name}/motion": joint.prescribed for joint in mechanism.joints.values()}
    for load in mechanism.loads.values():
        drives |= {f"loads/{load.name}/force": load.force, f"loads/{load.name}/torque": load.torque}
    for constraint in mechanism.constraints.values():
        drives |= constraint.surface.rates(f"constraints/{constraint.name}/{constraint.surface_key}")
    for name, connection in mechanism.connections.items():
        drives |= {f"connections/{name}/flow": connection.flow, f"connections/{name}/effort": connection.effort}
    for path, drive in drives.items():
        if isinstance(drive, TableSpec) and t1 is not None:
            drive.require_span(path, t0, t1)


def _require_body(mechanism: Mechanism, path: str, name: str, *, ground: bool = False) -> None:
    if name not in mechanism.bodies and not (ground and name == "ground"):
        known = [*mechanism.bodies, "ground"] if ground else list(mechanism.bodies)
        wanted = f"the name of a body{' or ground' if ground else ''}{checks.nearest(name, known)}"
        raise ModelError(path, checks.show(name), wanted)


def _require_one_coordinate(mechanism: Mechanism, path: str, joint: str) -> None:
    if joint not in mechanism.joints:
        wanted = f"the name of a joint{checks.nearest(joint, mechanism.joints)}"
        raise ModelError(path, f"no joint {joint}", wanted)
    dimension = mechanism.joints[joint].dimension
    if dimension != 1:
        raise ModelError(path, f"a joint of {dimension} coordinates", "one of one coordinate")


def _require_coordinates(mechanism: Mechanism, path: str, gear: GearSpec | RelationSpec) -> None:
    """Refuses a gear of joints without the coordinates that it binds."""
    if isinstance(gear, RelationSpec):
        for joint, coefficients in gear.joints.items():
            own = f"{path}/joints/{joint}"
            k = _turns_or_travels(mechanism, own, joint)
            if len(coefficients) != k:
                found = checks.show(coefficients if len(coefficients) > 1 else coefficients[0])
                raise ModelError(own, found, f"{k} number{'s' * (k > 1)}, one for each coordinate of {joint}")
        return
    for key, joint, coordinate in gear.ends:
        k = _turns_or_travels(mechanism, f"{path}/{key}", joint)
        if coordinate >= k:
            place = "driver_coordinate" if key == "driver" else "coordinate"
            raise ModelError(f"{path}/{place}", str(coordinate), f"a coordinate of {joint}, below {k}")


def _turns_or_travels(mechanism: Mechanism, path: str, joint: str) -> int:
    """How many coordinates a joint has that a gear binds. Raises `ModelError` for one that is no turn or travel."""
    if joint not in mechanism.joints:
        wanted = f"the name of a joint{checks.nearest(joint, mechanism.joints)}"
        raise ModelError(path, checks.show(joint), wanted)
    spec = mechanism.joints[joint]
    if not isinstance(motion_of(spec).group, Rn) or spec.dimension == 0:
        raise ModelError(path, f"{joint}, a {spec.type} joint", "a joint whose coordinates are turns or travels")
    if turns_inertialess(mechanism, spec):
        raise ModelError(path, f"{joint}, which a rotation without inertia moves", "another joint")
    return spec.dimension


def _require_drivable(mechanism: Mechanism, spec: JointSpec) -> None:
    """Refuses a prescribed motion of coordinates that are no turns or travels, or that is no function for them."""
    path = f"joints/{spec.name}/motion"
    if not isinstance(motion_of(spec).group, Rn):
        raise ModelError(path, f"one of a {spec.type} joint", "a joint whose coordinates are turns or travels")
    if turns_inertialess(mechanism, spec):
        found = "one of a coordinate that a rotation without inertia moves"
        raise ModelError(path, found, "no motion on that coordinate")
    if callable(spec.prescribed):
        require_motion(path, spec.prescribed, spec.dimension)


def _require_store(mechanism: Mechanism, path: str, name: str) -> None:
    known = ["environment", *mechanism.stores]
    if name not in known and thermal_port(mechanism.systems, name) is None:
        wanted = f"environment or the name of a store{checks.nearest(name, known)}"
        raise ModelError(path, checks.show(name), wanted)
