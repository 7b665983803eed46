"""Names of a mechanism's parameters, as configs spell them, and where their values live among the components."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

if TYPE_CHECKING:
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
    table = [Parameter("gravity", "m/s^2", tuple((f"{name}/pe", "gravity") for name in mechanism.bodies))]
    for name in mechanism.bodies:
        table.append(Parameter(f"{name}/mass", "kg", ((f"{name}/ke", "mass"), (f"{name}/pe", "mass"))))
        table.append(Parameter(f"{name}/inertia", "kg m^2", ((f"{name}/ke", "inertia"),)))
    for spec in mechanism.joints.values():
        table.extend(_joint_parameters(spec))
    for name in mechanism.elements:
        table.append(Parameter(f"{name}/stiffness", "N/m", ((f"{name}/pe", "stiffness"),)))
        table.append(Parameter(f"{name}/length", "m", ((f"{name}/pe", "length"),)))
        table.append(Parameter(f"{name}/damping", "N s/m", ((f"{name}/mf", "viscous"),)))
        for end in "ab":
            table.append(Parameter(f"{name}/point_{end}", "m", ((f"{name}/line", f"point_{end}"),)))
    for name in mechanism.stores:
        table.append(Parameter(f"{name}/capacity", "J/K", ((name, "capacity"),)))
        table.append(Parameter(f"{name}/temperature", "K", ((name, "temperature"),)))
    for name, load in mechanism.loads.items():
        table.append(Parameter(f"{name}/point", "m", ((name, "point"),), drive=True))
        for key, unit in (("force", "N"), ("torque", "N m")):
            if not hasattr(getattr(load, key), "times"):
                table.append(Parameter(f"{name}/{key}", unit, ((name, f"{key}.value"),), drive=True))
    return tuple(table)


def _joint_parameters(spec: JointSpec) -> list[Parameter]:
    name = spec.name
    rows = []
    for side, box in (("parent_frame", "o1"), ("child_frame", "o2")):
        rows.append(Parameter(f"{name}/{side}/position", "m", ((f"{name}/{box}", "position"),)))
        rows.append(Parameter(f"{name}/{side}/quaternion", "1", ((f"{name}/{box}", "quaternion"),)))
    for key, unit in (("axis", "1"), ("axis2", "1"), ("pitch", "m/rad")):
        if getattr(spec, key) is not None:
            rows.append(Parameter(f"{name}/{key}", unit, ((f"{name}/hc", f"motion.{key}"),)))
    if spec.dimension == 0:
        return rows
    if spec.spring is not None:
        rows.append(Parameter(f"{name}/spring/stiffness", "N m/rad or N/m", ((f"{name}/pe", "stiffness"),)))
        rows.append(Parameter(f"{name}/spring/rest", "rad or m", ((f"{name}/pe", "rest"),)))
    rows.append(Parameter(f"{name}/friction/viscous", "N m s/rad or N s/m", ((f"{name}/mf", "viscous"),)))
    if spec.friction is not None and spec.friction.static.any():
        for key, unit in DRY_FRICTION.items():
            rows.append(Parameter(f"{name}/friction/{key}", unit, ((f"{name}/mf", key),)))
    if spec.actuation is not None and not hasattr(spec.actuation, "times"):
        rows.append(Parameter(f"{name}/actuation", "N m or N", ((f"{name}/actuation", "value"),), drive=True))
    return rows
