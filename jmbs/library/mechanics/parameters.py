"""Names of a mechanism's parameters, as configs spell them, and where their values live among the components."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import numpy as np

from jmbs.library.mechanics.body import Gravity, KineticEnergy
from jmbs.library.mechanics.checks import is_law
from jmbs.library.mechanics.declared import declared
from jmbs.library.mechanics.elements import LINE_MOMENTUM, LineOfAction, LineSpring, ThermalStore
from jmbs.library.mechanics.friction import Friction, TemperatureDependentFriction, ViscousFriction
from jmbs.library.mechanics.gear import Gear
from jmbs.library.mechanics.joint import HolonomicConstraint, JointPotential, Offset
from jmbs.library.mechanics.joint_relation import JointRelation
from jmbs.library.mechanics.joint_types import JOINT_TYPES, GeometryParameter
from jmbs.library.mechanics.reduced_body import ReducedKineticEnergy
from jmbs.library.mechanics.relation_specification import RelationSpec
from jmbs.library.mechanics.rotor import RotorInertia
from jmbs.library.mechanics.rules import Rule
from jmbs.library.thermal import Conduction
from jmbs.lie import SE3, SO3, AbstractGroup

if TYPE_CHECKING:
    from jmbs.library.mechanics.body_constraint_specification import BodyConstraintSpec
    from jmbs.library.mechanics.constraint_specification import ConstraintSpec
    from jmbs.library.mechanics.mechanism import Mechanism
    from jmbs.library.mechanics.specification import JointSpec


@dataclasses.dataclass(frozen=True)
class NamedParameter:
    """A named parameter.

    **Arguments:**

    - `path`: its name (`link1/mass`).
    - `unit`: SI unit of its entries.
    - `places`: `(component path, field)` of every copy; a dotted field reaches into a field.
    - `drive`: whether the places are drives (by outer port) and not components.
    - `rules`: what its value must be, none for those of users' components.
    """

    path: str
    unit: str
    places: tuple[tuple[str, str], ...]
    drive: bool = False
    rules: tuple[Rule, ...] = ()


def parameter_table(mechanism: Mechanism) -> tuple[NamedParameter, ...]:
    """All parameters of a mechanism's components and drives, in the order of the config."""
    table: list[NamedParameter] = []
    if mechanism.bodies:
        places = tuple((f"{name}/pe", "gravity") for name in mechanism.bodies)
        table.append(_of_class("gravity", Gravity, *places))
    for name, body in mechanism.bodies.items():
        places = ((f"{name}/ke", "mass"), (f"{name}/pe", "mass"))
        table.append(_of_class(f"{name}/mass", KineticEnergy, *places))
        # The axis of a rod is static, so its inertia is one number.
        if body.kind == "rigid":
            table.append(_of_class(f"{name}/inertia", KineticEnergy, (f"{name}/ke", "inertia")))
        elif body.kind == "rod":
            table.append(_of_class(f"{name}/moment", ReducedKineticEnergy, (f"{name}/ke", "moment")))
        table.extend(_of_module(f"{name}/potential", body.potential, f"{name}/pe", "law"))
    for spec in mechanism.joints.values():
        table.extend(_joint_parameters(spec))
    for name, element in mechanism.elements.items():
        if is_law(element.stiffness):
            table.extend(_of_module(f"{name}/stiffness", element.stiffness, f"{name}/pe", "law"))
        else:
            for key in ("stiffness", "length"):
                table.append(_of_class(f"{name}/{key}", LineSpring, (f"{name}/pe", key)))
        table.append(_damping_parameter(f"{name}/damping", (f"{name}/mf", "viscous")))
        for end in "ab":
            table.append(_of_class(f"{name}/point_{end}", LineOfAction, (f"{name}/line", f"point_{end}")))
    for name in mechanism.conductions:
        table.append(_of_class(f"{name}/conductance", Conduction, (name, "conductance")))
    for spec in mechanism.constraints.values():
        table.extend(_constraint_parameters(spec))
    for spec in mechanism.body_constraints.values():
        table.extend(_body_constraint_parameters(spec))
    for name, gear in mechanism.gears.items():
        component, first = (JointRelation, "coefficients") if isinstance(gear, RelationSpec) else (Gear, "ratio")
        for key in (first, "offset"):
            table.append(_of_class(f"{name}/{key}", component, (name, key)))
    for name in mechanism.stores:
        for key in ("capacity", "temperature"):
            table.append(_of_class(f"{name}/{key}", ThermalStore, (name, key)))
    for name, load in mechanism.loads.items():
        table.append(_parameter(f"{name}/point", "m", (name, "point"), "numbers", drive=True))
        for key, unit in (("force", "N"), ("torque", "N m")):
            if not hasattr(getattr(load, key), "times"):
                table.append(_parameter(f"{name}/{key}", unit, (name, f"{key}.value"), "numbers", drive=True))
    return tuple(table)


def array_fields(module: Any) -> Iterator[str]:
    """Dotted names of the arrays and floats of a module, at any depth (`layers.0.weight`)."""
    for keys, leaf in jax.tree_util.tree_flatten_with_path(module)[0]:
        names = [getattr(key, "name", getattr(key, "idx", getattr(key, "key", None))) for key in keys]
        if (isinstance(leaf, float) or eqx.is_inexact_array(leaf)) and all(name is not None for name in names):
            yield ".".join(map(str, names))


def _of_module(path: str, module: Any, component: str, field: str) -> list[NamedParameter]:
    """The arrays of a user's module that stands in a field of a component, with units and rules that it declares."""
    rows = (
        _declared_parameter(f"{path}/{name.replace('.', '/')}", module, name, (component, f"{field}.{name}"))
        for name in array_fields(module)
    )
    return [row for row in rows if row is not None]


def component_parameter(path: str, component: Any, field: str) -> NamedParameter | None:
    """The parameter that a dotted `field` of a component at a path is, with its unit and its rules; None if it is none.

    What a mechanism says of its joints' motions, springs and rotors, and of its dampers, is said of those in systems
    too.
    """
    name, place = f"{path}/{field.replace('.', '/')}", (path, field)
    if isinstance(component, HolonomicConstraint):
        geometry = _geometry_of(component.motion)
        by_field = {f"motion.{parameter.field}": parameter for parameter in geometry}
        if field in by_field:
            paths = {parameter.field: f"{path}/motion/{parameter.field}" for parameter in geometry}
            return _motion_parameter(by_field[field], component.motion, paths, path)
    if isinstance(component, RotorInertia):
        return _armature_parameter(name, place, component.coordinates)
    if isinstance(component, JointPotential) and field == "rest":
        return _rest_parameter(name, place, component.group)
    if isinstance(component, ViscousFriction) and component.momentum == LINE_MOMENTUM:
        return _damping_parameter(name, place)
    return _declared_parameter(name, component, field, place)


def _declared_parameter(path: str, module: Any, field: str, place: tuple[str, str]) -> NamedParameter | None:
    """The same of any module, as it declares it, if it is one."""
    unit, rules = declared(module, field)
    return None if rules is None else NamedParameter(path, unit, (place,), rules=_beside(path, rules))


def _beside(path: str, rules: tuple[Rule, ...]) -> tuple[Rule, ...]:
    """Rules of the parameter at a path that look at fields beside it, by the paths of these."""
    base = path.rpartition("/")[0]
    return tuple(dataclasses.replace(r, others=tuple(f"{base}/{name}" for name in r.others)) for r in rules)


def _of_class(path: str, component: type, *places: tuple[str, str]) -> NamedParameter:
    """The parameter that fields of components are, with what the class declares of the last name of the first place."""
    unit, rules = declared(component, places[0][1].rpartition(".")[2])
    assert rules is not None
    return NamedParameter(path, unit, places, rules=_beside(path, rules))


def _rules(*kinds: str) -> tuple[Rule, ...]:
    return tuple(Rule(kind) for kind in kinds)


def _parameter(
    path: str, unit: str, place: tuple[str, str], kind: str, *more: Rule, drive: bool = False
) -> NamedParameter:
    """A parameter of one place: the kind of its own rule, and those that look at others too."""
    return NamedParameter(path, unit, (place,), drive, (Rule(kind), *more))


def _friction_parameters(spec: JointSpec) -> list[NamedParameter]:
    path, box = f"{spec.name}/friction", f"{spec.name}/mf"
    if spec.friction is not None and spec.friction.law is not None:
        return _of_module(path, spec.friction.law, box, "law")
    warms = spec.friction is not None and spec.friction.temperature_coefficient != 0
    field = "friction." if warms else ""
    rows = [_of_class(f"{path}/viscous", ViscousFriction, (box, f"{field}viscous"))]
    # Which class it is was chosen when the system was built: there is dry friction only where a joint has some.
    if spec.friction is not None and spec.friction.static.any():
        for key in ("coulomb", "static", "stribeck_velocity", "regularisation_velocity"):
            rows.append(_of_class(f"{path}/{key}", Friction, (box, f"{field}{key}")))
    for key in ("temperature_coefficient", "reference_temperature") if warms else ():
        rows.append(_of_class(f"{path}/{key}", TemperatureDependentFriction, (box, key)))
    return rows


def _constraint_parameters(spec: ConstraintSpec) -> list[NamedParameter]:
    """Geometry, and constant velocities of moving surfaces."""
    name, rows, plane = spec.name, [], spec.surface.normal is not None
    for own in spec.kind.parameters:
        if spec.values.get(own.path, spec.surface) is not None:
            places = tuple((path, own.field) for path in spec.components)
            rows.append(NamedParameter(f"{name}/{own.path}", own.unit, places, rules=_rules(own.rule)))
    for key, unit in (("velocity", "m/s"), ("angular_velocity", "rad/s")):
        if isinstance(getattr(spec.surface, key), np.ndarray):
            within = (Rule("within the plane", (f"{name}/plane/normal",), (key,)),) if plane else ()
            place, path = (f"{name}/plane", f"{key}.value"), f"{name}/{spec.surface_key}/{key}"
            rows.append(_parameter(path, unit, place, "numbers", *within, drive=True))
    return rows


def _body_constraint_parameters(spec: BodyConstraintSpec) -> list[NamedParameter]:
    """Arrays of a user's law; the geometry of rollers and points, as for surfaces that are no body's."""
    name, places = spec.name, tuple(spec.boxes.values())
    if spec.by_law:
        return _of_module(name, spec.laws[""][0], name, "law")
    law, rows = next(iter(spec.laws.values()))[0], []
    for field in array_fields(law):
        key, (unit, rules) = field.removeprefix("roller."), declared(law, field)
        shown = f"plane/{key}" if field != key and key in ("point", "normal") else key
        rows.append(
            NamedParameter(f"{name}/{shown}", unit, tuple((p, f"law.{field}") for p in places), rules=rules or ())
        )
    return rows


def _joint_parameters(spec: JointSpec) -> list[NamedParameter]:
    name = spec.name
    rows = []
    for side, box in (("parent_frame", "o1"), ("child_frame", "o2")):
        for key in ("position", "quaternion"):
            rows.append(_of_class(f"{name}/{side}/{key}", Offset, (f"{name}/{box}", key)))
    if spec.motion is None:
        kind = JOINT_TYPES[spec.type]
        motion, geometry = kind.motion(spec.geometry, np.asarray), kind.parameters
        paths = {own.field: f"{name}/{own.path}" for own in geometry}
    else:
        motion, geometry = spec.motion, _geometry_of(spec.motion)
        paths = {own.field: f"{name}/{own.field}" for own in geometry}
    rows.extend(_motion_parameter(own, motion, paths, f"{name}/hc") for own in geometry)
    if not geometry:
        rows.extend(_of_module(name, motion, f"{name}/hc", "motion"))
    if spec.dimension == 0:
        return rows
    if is_law(spec.spring):
        rows.extend(_of_module(f"{name}/spring", spec.spring, f"{name}/pe", "law"))
    elif spec.spring is not None:
        rows.append(_of_class(f"{name}/spring/stiffness", JointPotential, (f"{name}/pe", "stiffness")))
        rows.append(_rest_parameter(f"{name}/spring/rest", (f"{name}/pe", "rest"), motion.group))
    rows.extend(_friction_parameters(spec))
    if spec.armature is not None:
        rows.append(_armature_parameter(f"{name}/armature", (f"{name}/ri", "armature"), spec.with_rotor))
    if spec.actuation is not None and not hasattr(spec.actuation, "times"):
        place = (f"{name}/actuation", "value")
        rows.append(_parameter(f"{name}/actuation", "N m or N", place, "numbers", drive=True))
    if callable(spec.prescribed):
        path = f"{name}/motion"
        for own in array_fields(spec.prescribed):
            place = (path, f"position.{own}")
            rows.append(NamedParameter(f"{path}/{own.replace('.', '/')}", "1", (place,), drive=True))
    elif isinstance(spec.prescribed, np.ndarray):
        place = (f"{name}/motion", "position.value")
        rows.append(_parameter(f"{name}/motion", "rad or m", place, "numbers", drive=True))
    return rows


def _geometry_of(motion: Any) -> tuple[GeometryParameter, ...]:
    """The parameters of a motion that a type of joint makes; none of users' motions."""
    kind = JOINT_TYPES.get(motion.name) if type(motion).__module__.startswith("jmbs.lie.") else None
    return () if kind is None else kind.parameters


def _motion_parameter(own: GeometryParameter, motion: Any, paths: Mapping[str, str], constraint: str) -> NamedParameter:
    """A parameter of a joint's motion; `paths` of its parameters by field."""
    beside = tuple(paths[field] for field in own.beside)
    more = () if own.other_rule is None else (Rule(own.other_rule, beside, own.detail(motion)),)
    return _parameter(paths[own.field], own.unit, (constraint, f"motion.{own.field}"), own.rule, *more)


def _armature_parameter(path: str, place: tuple[str, str], with_rotor: tuple[int, ...]) -> NamedParameter:
    return NamedParameter(path, "kg m^2 or kg", (place,), rules=(Rule("armature", detail=(with_rotor,)),))


def _rest_parameter(path: str, place: tuple[str, str], group: AbstractGroup) -> NamedParameter:
    """Where a joint spring is at rest, coordinates of the joint's group."""
    kind = {SO3.name: "unit quaternion", SE3.name: "pose"}.get(group.name, "numbers")
    return _parameter(path, "rad or m", place, kind)


def _damping_parameter(path: str, place: tuple[str, str]) -> NamedParameter:
    """Of a damper between points."""
    return _parameter(path, "N s/m", place, "non-negative number")


CONFIGURATION_RULES = {name: kind.whole.rule if kind.whole else "numbers" for name, kind in JOINT_TYPES.items()}
"""Of a joint's coordinates, by its type."""
