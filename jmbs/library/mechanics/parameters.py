"""Names of a mechanism's parameters, as configs spell them, and where their values live among the components."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from jmbs.library.mechanics.constraint_specification import ConstraintSpec
    from jmbs.library.mechanics.mechanism import Mechanism
    from jmbs.library.mechanics.specification import JointSpec


DRY_FRICTION = {
    "coulomb": "N m or N",
    "static": "N m or N",
    "stribeck_velocity": "rad/s or m/s",
    "regularisation_velocity": "rad/s or m/s",
}
"""Parameters of dry friction, there only where a joint has some: its class is chosen when the system is built."""


@dataclasses.dataclass(frozen=True)
class Parameter:
    """A named parameter.

    **Arguments:**

    - `path`: its name (`link1/mass`).
    - `unit`: SI unit of its entries.
    - `places`: `(component path, field)` of every copy; a dotted field reaches into a field.
    - `drive`: whether the places are drives (by outer port) and not components.
    """

    path: str
    unit: str
    places: tuple[tuple[str, str], ...]
    drive: bool = False


def parameter_table(mechanism: Mechanism) -> tuple[Parameter, ...]:
    """All parameters of a mechanism's components and drives, in the order of the config."""
    table: list[Parameter] = []
    if mechanism.bodies:
        table.append(Parameter("gravity", "m/s^2", tuple((f"{name}/pe", "gravity") for name in mechanism.bodies)))
    for name, body in mechanism.bodies.items():
        table.append(Parameter(f"{name}/mass", "kg", ((f"{name}/ke", "mass"), (f"{name}/pe", "mass"))))
        # The axis of a rod is static, so its inertia is one number.
        inertia = {"rigid": "inertia", "rod": "moment"}.get(body.kind)
        if inertia is not None:
            table.append(Parameter(f"{name}/{inertia}", "kg m^2", ((f"{name}/ke", inertia),)))
    for spec in mechanism.joints.values():
        table.extend(_joint_parameters(spec))
    for name in mechanism.elements:
        table.append(Parameter(f"{name}/stiffness", "N/m", ((f"{name}/pe", "stiffness"),)))
        table.append(Parameter(f"{name}/length", "m", ((f"{name}/pe", "length"),)))
        table.append(Parameter(f"{name}/damping", "N s/m", ((f"{name}/mf", "viscous"),)))
        for end in "ab":
            table.append(Parameter(f"{name}/point_{end}", "m", ((f"{name}/line", f"point_{end}"),)))
    for name in mechanism.conductions:
        table.append(Parameter(f"{name}/conductance", "W/K", ((name, "conductance"),)))
    for spec in mechanism.constraints.values():
        table.extend(_constraint_parameters(spec))
    for name in mechanism.gears:
        table.append(Parameter(f"{name}/ratio", "rad or m per rad or m", ((name, "ratio"),)))
        table.append(Parameter(f"{name}/offset", "rad or m", ((name, "offset"),)))
    for name in mechanism.stores:
        table.append(Parameter(f"{name}/capacity", "J/K", ((name, "capacity"),)))
        table.append(Parameter(f"{name}/temperature", "K", ((name, "temperature"),)))
    for name, load in mechanism.loads.items():
        table.append(Parameter(f"{name}/point", "m", ((name, "point"),), drive=True))
        for key, unit in (("force", "N"), ("torque", "N m")):
            if not hasattr(getattr(load, key), "times"):
                table.append(Parameter(f"{name}/{key}", unit, ((name, f"{key}.value"),), drive=True))
    return tuple(table)


def _friction_parameters(spec: JointSpec) -> list[Parameter]:
    path, box = f"{spec.name}/friction", f"{spec.name}/mf"
    warms = spec.friction is not None and spec.friction.temperature_coefficient != 0
    field = "friction." if warms else ""
    rows = [Parameter(f"{path}/viscous", "N m s/rad or N s/m", ((box, f"{field}viscous"),))]
    if spec.friction is not None and spec.friction.static.any():
        rows += [Parameter(f"{path}/{key}", unit, ((box, f"{field}{key}"),)) for key, unit in DRY_FRICTION.items()]
    if warms:
        rows.append(Parameter(f"{path}/temperature_coefficient", "1/K", ((box, "temperature_coefficient"),)))
        rows.append(Parameter(f"{path}/reference_temperature", "K", ((box, "reference_temperature"),)))
    return rows


def _constraint_parameters(spec: ConstraintSpec) -> list[Parameter]:
    """Geometry, and constant velocities of moving surfaces."""
    name = spec.name
    everywhere = lambda field: tuple((path, field) for path in spec.components)  # noqa: E731
    rows = []
    match spec.type:
        case "rolling":
            fields = {"radius": "m", "axis": "1", "plane/point": "m", "plane/normal": "1"}
            absent = () if spec.axis is not None else ("axis",)
            places = {key: f"roller.{key.removeprefix('plane/')}" for key in fields if key not in absent}
            rows = [Parameter(f"{name}/{key}", fields[key], everywhere(field)) for key, field in places.items()]
        case "no_slide":
            fields = {"point": "m", "direction": "1"}
            rows = [Parameter(f"{name}/{key}", unit, everywhere(key)) for key, unit in fields.items()]
        case "perpendicular":
            rows = [Parameter(f"{name}/{key}", "1", everywhere(key)) for key in ("direction", "normal")]
    for key, unit in (("velocity", "m/s"), ("angular_velocity", "rad/s")):
        if isinstance(getattr(spec.surface, key), np.ndarray):
            place = (f"{name}/plane", f"{key}.value")
            rows.append(Parameter(f"{name}/{spec.surface_key}/{key}", unit, (place,), drive=True))
    return rows


def _joint_parameters(spec: JointSpec) -> list[Parameter]:
    name = spec.name
    rows = []
    for side, box in (("parent_frame", "o1"), ("child_frame", "o2")):
        rows.append(Parameter(f"{name}/{side}/position", "m", ((f"{name}/{box}", "position"),)))
        rows.append(Parameter(f"{name}/{side}/quaternion", "1", ((f"{name}/{box}", "quaternion"),)))
    for key, unit in (("axis", "1"), ("axis2", "1"), ("pitch", "m/rad")):
        if getattr(spec, key) is not None:
            rows.append(Parameter(f"{name}/{key}", unit, ((f"{name}/hc", f"motion.{key}"),)))
    if spec.motions is not None:
        for key, field, unit in (("axis", "axes", "1"), ("position", "positions", "m")):
            rows.append(Parameter(f"{name}/motions/{key}", unit, ((f"{name}/hc", f"motion.{field}"),)))
    if spec.dimension == 0:
        return rows
    if spec.spring is not None:
        rows.append(Parameter(f"{name}/spring/stiffness", "N m/rad or N/m", ((f"{name}/pe", "stiffness"),)))
        rows.append(Parameter(f"{name}/spring/rest", "rad or m", ((f"{name}/pe", "rest"),)))
    rows.extend(_friction_parameters(spec))
    if spec.actuation is not None and not hasattr(spec.actuation, "times"):
        rows.append(Parameter(f"{name}/actuation", "N m or N", ((f"{name}/actuation", "value"),), drive=True))
    return rows
