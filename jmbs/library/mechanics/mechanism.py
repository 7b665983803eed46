"""The mechanism as a user builds it: named, validated parts, from which a system is made."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from jmbs.ephs import interface_of
from jmbs.errors import ModelError
from jmbs.library.mechanics import checks
from jmbs.library.mechanics.body_constraint_specification import BodyConstraintSpec, refers_to_body
from jmbs.library.mechanics.composition import ConnectionSpec
from jmbs.library.mechanics.constraint_specification import GEAR, ConstraintSpec
from jmbs.library.mechanics.constraint_types import CONSTRAINT_TYPES
from jmbs.library.mechanics.gear_specification import GearSpec
from jmbs.library.mechanics.relation_specification import RelationSpec, make_gear
from jmbs.library.mechanics.specification import (
    BodySpec,
    ConductionSpec,
    ForceSpec,
    JointSpec,
    LoadSpec,
    SimulationSpec,
    SpringDamperSpec,
    StoreSpec,
)
from jmbs.library.mechanics.validation import validate

if TYPE_CHECKING:
    from jmbs.ephs import System

STANDARD_GRAVITY = (0.0, 0.0, -9.80665)
ROOM_TEMPERATURE = 298.15
_BODY_STATE = ("position", "quaternion", "angular_velocity", "velocity")


class Mechanism:
    """A rigid multibody mechanism: bodies, joints, forces, thermal stores, and where it starts.

    **Arguments:**

    - `name`: of the mechanism, for messages and folders.
    - `gravity`: `(3,)` m/s^2, world axes.
    - `environment_temperature`: K; the reference at which exergy is zero.
    - `environment_pressure`: Pa; acts against volumes, and is that reference for them. None: nothing does.
    - `seed`: a whole number from which everything random derives.

    Each `add_...` raises `ModelError` at once for a wrong value. Names of bodies and stores may be used before they are
    added; `validate` (called by `system` and `compile`) refuses those that never were.

    Attributes: `bodies`, `joints`, `loads`, `elements`, `forces`, `constraints`, `body_constraints`, `gears`, `stores`
    (specifications by name, in the order added), `systems` (components by name), `connections`;
    `initial_joints[name]` with `q`, `v` and `initial_bodies[name]` with `position`, `quaternion`, `angular_velocity`
    (body axes), `velocity` (centre of mass, world axes), each an array or None; `simulation`; `config`, the merged
    config that it was read from, if any.
    """

    def __init__(
        self,
        name: str = "mechanism",
        gravity: Any = STANDARD_GRAVITY,
        environment_temperature: float = ROOM_TEMPERATURE,
        seed: int = 0,
        environment_pressure: float | None = None,
    ):
        self.name = checks.title("name", name)
        self.seed = checks.known_seed(seed)
        self.gravity = checks.vector("gravity", gravity, 3, "3 finite numbers, m/s^2")
        self.environment_temperature = checks.number(
            "environment/temperature", environment_temperature, positive=True, unit="K"
        )
        self.environment_pressure = environment_pressure
        if environment_pressure is not None:
            checked = checks.number("environment/pressure", environment_pressure, non_negative=True, unit="Pa")
            self.environment_pressure = checked
        self.bodies: dict[str, BodySpec] = {}
        self.joints: dict[str, JointSpec] = {}
        self.loads: dict[str, LoadSpec] = {}
        self.elements: dict[str, SpringDamperSpec] = {}
        self.forces: dict[str, ForceSpec] = {}
        self.constraints: dict[str, ConstraintSpec] = {}
        self.body_constraints: dict[str, BodyConstraintSpec] = {}
        self.gears: dict[str, GearSpec | RelationSpec] = {}
        self.stores: dict[str, StoreSpec] = {}
        self.conductions: dict[str, ConductionSpec] = {}
        self.systems: dict[str, Any] = {}
        self.connections: dict[str, ConnectionSpec] = {}
        self.initial_states: dict[str, Any] = {}
        self.initial_joints: dict[str, dict[str, Any]] = {}
        self.initial_bodies: dict[str, dict[str, np.ndarray | None]] = {}
        self.simulation = SimulationSpec()
        self.config: dict[str, Any] = {}

    def __repr__(self) -> str:
        return f"Mechanism({self.name!r}, bodies={list(self.bodies)}, joints={list(self.joints)})"

    def _add(self, section: str, parts: dict[str, Any], spec: Any) -> None:
        self._require_new(section, spec.name, self._sections())
        parts[spec.name] = spec

    def _sections(self) -> dict[str, Mapping[str, Any]]:
        return {
            "body": self.bodies,
            "joint": self.joints,
            "load": self.loads,
            "element": self.elements | self.forces | self.conductions,
            "constraint": self.constraints | self.body_constraints | self.gears,
            "store": self.stores,
            "system": self.systems,
        }

    def _require_new(self, section: str, name: str, sections: Mapping[str, Mapping[str, Any]]) -> None:
        for label, others in sections.items():
            if name in others:
                found = f"the name {name}, already that of a {label}"
                raise ModelError(f"{section}/{name}", found, "a name used only once")

    def add_body(
        self,
        name: str,
        mass: Any = None,
        inertia: Any = None,
        shape: Any = None,
        density: Any = None,
        group: str = "SE3",
        kind: str = "rigid",
        distribution: Any = None,
        potential: Any = None,
    ) -> None:
        """Adds a body; see `BodySpec`. `shape` and `density` (kg/m^3) may stand for a rigid body's mass and inertia.

        So may `distribution`, a `MassDistribution` or `{points: ..., masses: ...}`, for those of any kind of body: the
        body frame then sits at its centre of mass, with the axes of its points.
        """
        given = {"mass": mass, "inertia": inertia, "shape": shape, "density": density, "distribution": distribution}
        spec = BodySpec.make(name, group=group, kind=kind, potential=potential, **given)
        self._add("bodies", self.bodies, spec)

    def add_joint(
        self,
        name: str,
        type: Any,
        parent: str,
        child: str,
        parent_frame: Any = None,
        child_frame: Any = None,
        axis: Any = None,
        spring: Any = None,
        friction: Any = None,
        actuation: Any = None,
        armature: Any = None,
        motion: Any = None,
        **geometry: Any,
    ) -> None:
        """Adds a joint; see `JointSpec`. `type`: a name, or an object with `group` and `inclusion`.

        `axis` and `geometry`: the keys of its type that say where its motion is, such as `axis2`, `pitch` (m/rad),
        `motions`. `motion` prescribes where the joint is: numbers, a `TableSpec`, or a twice differentiable function of
        t (s).
        """
        geometry = {"axis": axis} | geometry
        frames, given = (parent_frame, child_frame), (spring, friction, actuation, armature, motion)
        self._add("joints", self.joints, JointSpec(name, type, parent, child, *frames, geometry, *given))

    def add_load(
        self, name: str, body: str, point: Any = None, force: Any = None, torque: Any = None, frame: str = "world"
    ) -> None:
        """Adds a force on a point of a body and a torque on the body; see `LoadSpec`."""
        given = {"point": point, "force": force, "torque": torque}
        given = {key: value for key, value in given.items() if value is not None}
        self._add("loads", self.loads, LoadSpec(name, body, frame=frame, **given))

    def add_spring_damper(
        self,
        name: str,
        a: str,
        b: str,
        point_a: Any = (0.0, 0.0, 0.0),
        point_b: Any = (0.0, 0.0, 0.0),
        stiffness: Any = 0.0,
        damping: Any = 0.0,
        length: Any = 0.0,
        heats: str = "environment",
    ) -> None:
        """Adds a spring and damper along the line between two points; see `SpringDamperSpec`."""
        spec = SpringDamperSpec(name, a, point_a, b, point_b, stiffness, damping, length, heats)
        self._add("elements", self.elements, spec)

    def add_force(self, name: str, body: str, wrench: Callable[..., Any]) -> None:
        """Adds a user's force `wrench(t, pose, velocity)` on a body; see `ForceSpec`."""
        self._add("elements", self.forces, ForceSpec(name, body, wrench))

    def add_constraint(self, name: str, type: Any, body: str | None = None, **values: Any) -> None:
        """Adds a constraint beyond joints: on the velocity of a body, `values` as their type names them,
        between joints, `type` gear, `values` as `GearSpec` or `RelationSpec` name them, or between `body` and `other`
        (a body or ground) by a law: `type` is then a module with `gap` or `rate`, see `BodyConstraint`.

        A surface in motion is a mapping with `point`, `velocity`, `angular_velocity`, and `normal` for a plane; one of
        another body has its name as `body`, and point and normal in its frame.

        ```python
        mechanism.add_constraint("edge", "no_slide", "skate", direction=[0, 1, 0])
        mechanism.add_constraint("table", "rolling", "ball", radius=0.1, plane={"angular_velocity": [0, 0, 2.0]})
        mechanism.add_constraint("deck", "rolling", "ball", radius=0.1, plane={"body": "cart", "point": [0, 0, 0.2]})
        mechanism.add_constraint("slot", Slot(0.3), "pin", other="wheel")
        mechanism.add_constraint("mesh", "gear", joint="output", driver="input", ratio=-0.5)
        mechanism.add_constraint("differential", "gear", joints={"pitch": 2.0, "left": -1.0, "right": -1.0})
        ```
        """
        path = f"constraints/{checks.name(f'constraints/{name}', name)}"
        if not isinstance(type, str):
            self._add("constraints", self.body_constraints, BodyConstraintSpec.of_law(name, type, body, values))
            return
        if refers_to_body(type, values):
            self._add("constraints", self.body_constraints, BodyConstraintSpec.on_surface(name, type, body, values))
            return
        if checks.choice(f"{path}/type", type, (*CONSTRAINT_TYPES, GEAR)) == GEAR:
            self._add("constraints", self.gears, make_gear(name, {"body": body} | values))
            return
        if body is None:
            raise ModelError(f"{path}/body", "nothing", "the name of a body")
        self._add("constraints", self.constraints, ConstraintSpec.make(name, type, body, values))

    def add_store(self, name: str, capacity: Any, temperature: Any = ROOM_TEMPERATURE) -> None:
        """Adds a thermal store; see `StoreSpec`."""
        self._add("stores", self.stores, StoreSpec(name, capacity, temperature))

    def add_conduction(self, name: str, a: str, b: str, conductance: Any) -> None:
        """Adds heat conduction between two thermal stores, or one and the environment; see `ConductionSpec`."""
        self._add("elements", self.conductions, ConductionSpec(name, a, b, conductance))

    def add_system(self, name: str, system: Any) -> None:
        """Adds any component or `jmbs.ephs` system beside the mechanical parts; `connect` joins its ports to others.

        Power ports that no connection names are closed, and can be driven through `inputs={"<name>/<port>": ...}`.
        """
        checks.name(f"systems/{name}", name)
        interface_of(system, f"systems/{name}")
        self._require_new("systems", name, self._sections())
        self.systems[name] = system

    def connect(self, name: str, ports: Any, flow: Any = None, effort: Any = None) -> None:
        """Joins ports `box.port` at a junction, exposed as the port `name` and driven if told so; see `ConnectionSpec`.

        ```python
        mechanism.connect("shaft", ["motor.shaft", "hinge.p_r"])
        mechanism.connect("supply", ["motor.supply"], flow=24.0)
        ```
        """
        spec = ConnectionSpec(name, ports, flow, effort)
        taken = {"connection": self.connections, "load": self.loads, "force": self.forces}
        self._require_new("connections", name, taken)
        self.connections[name] = spec

    def set_initial(self, joints: Any = None, bodies: Any = None, states: Any = None) -> None:
        """Gives part of the initial state; what was given before and is not given again stays.

        - `joints`: by joint name, `q` (coordinates; spherical: wxyz, free: position then wxyz; or a `jmbs.guess` of
          them) and `v` `(k,)`. Parts of added systems are named by path (`arm/elbow`), bodies too.
        - `bodies`: by body name, `position` (m), `quaternion` (wxyz), `angular_velocity` (rad/s, body axes),
          `velocity` (m/s, centre of mass, world axes).
        - `states`: of storages, by the path of the junction beside each (`motor/i`); velocities where one has momenta.
        """
        self.initial_states |= {key: checks.numbers(f"initial/states/{key}", x) for key, x in (states or {}).items()}
        for name, values in _initial_entries("initial/joints", joints, ("q", "v")):
            path = f"initial/joints/{name}"
            entry = self.initial_joints.get(name, {"q": None, "v": None}) | values
            if name in self.joints:
                entry = self.joints[name].initial_values(path, **entry)
            self.initial_joints[name] = entry
        for name, values in _initial_entries("initial/bodies", bodies, _BODY_STATE):
            path = f"initial/bodies/{name}"
            entry: dict[str, Any] = self.initial_bodies.get(name, dict.fromkeys(_BODY_STATE)) | values
            for key, value in values.items():
                check = checks.unit_quaternion if key == "quaternion" else _vector3
                entry[key] = check(f"{path}/{key}", value)
            self.initial_bodies[name] = entry

    def validate(self) -> None:
        """Checks what can only be seen of the whole: references by name, sizes of initial values, spans of tables.

        Raises `ModelError`.
        """
        validate(self)

    def system(self) -> System:
        """The exergetic port-Hamiltonian system of this mechanism. Raises `ModelError`."""
        # The assembly reads the mechanism's description, so importing it above would close a cycle.
        from jmbs.library.mechanics.assemble import build

        self.validate()
        return build(self)

    def compile(self, **kwargs: Any) -> Any:
        """The model that simulates: `jmbs.compile(self, **kwargs)`. Raises `ModelError`."""
        # The simulation lies above the library; only this convenience looks upwards.
        from jmbs.simulation import compile as compile_model

        self.validate()
        return compile_model(self, **kwargs)


def _vector3(path: str, value: Any) -> np.ndarray:
    return checks.vector(path, value, 3)


def _initial_entries(path: str, section: Any, keys: tuple[str, ...]) -> Iterable[tuple[str, dict[str, Any]]]:
    """Names, or paths of parts of added systems, with those of their values that are given; unknown keys refused."""
    if section is None:
        return
    if not isinstance(section, Mapping):
        raise ModelError(path, checks.show(section), "a mapping of names")
    for name, values in section.items():
        checks.part_path(f"{path}/{name}", name)
        if not isinstance(values, Mapping):
            raise ModelError(f"{path}/{name}", checks.show(values), f"a mapping with the keys {', '.join(keys)}")
        checks.require_keys(f"{path}/{name}", values, keys)
        yield name, {key: value for key, value in values.items() if value is not None}
