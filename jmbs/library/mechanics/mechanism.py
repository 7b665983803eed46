"""The mechanism as a user builds it: named, validated parts, from which a system is made."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from jmbs.errors import ModelError
from jmbs.library.mechanics import checks
from jmbs.library.mechanics.specification import (
    BodySpec,
    ForceSpec,
    JointSpec,
    LoadSpec,
    SimulationSpec,
    SpringDamperSpec,
    StoreSpec,
    TableSpec,
)

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
    - `seed`: a whole number from which everything random derives.

    Each `add_...` raises `ModelError` at once for a wrong value. Names of bodies and stores may be used before they are
    added; `validate` (called by `system` and `compile`) refuses those that never were.

    Attributes: `bodies`, `joints`, `loads`, `elements`, `forces`, `stores` (specifications by name, in the order
    added); `initial_joints[name]` with `q`, `v` and `initial_bodies[name]` with `position`, `quaternion`,
    `angular_velocity` (body axes), `velocity` (centre of mass, world axes), each an array or None; `simulation`;
    `config`, the merged config that it was read from, if any.
    """

    def __init__(
        self,
        name: str = "mechanism",
        gravity: Any = STANDARD_GRAVITY,
        environment_temperature: float = ROOM_TEMPERATURE,
        seed: int = 0,
    ):
        # The name becomes part of a folder's name, so it must not lead elsewhere.
        if not isinstance(name, str) or not name.isprintable() or not name.strip(" .") or set(name) & set("/\\"):
            raise ModelError("name", checks.show(name), "a non-empty printable name without slashes")
        if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
            raise ModelError("seed", checks.show(seed), "a non-negative whole number")
        self.name = name
        self.seed = int(seed)
        self.gravity = checks.vector("gravity", gravity, 3, "3 finite numbers, m/s^2")
        self.environment_temperature = checks.number(
            "environment/temperature", environment_temperature, positive=True, unit="K"
        )
        self.bodies: dict[str, BodySpec] = {}
        self.joints: dict[str, JointSpec] = {}
        self.loads: dict[str, LoadSpec] = {}
        self.elements: dict[str, SpringDamperSpec] = {}
        self.forces: dict[str, ForceSpec] = {}
        self.stores: dict[str, StoreSpec] = {}
        self.initial_joints: dict[str, dict[str, np.ndarray | None]] = {}
        self.initial_bodies: dict[str, dict[str, np.ndarray | None]] = {}
        self.simulation = SimulationSpec()
        self.config: dict[str, Any] = {}

    def __repr__(self) -> str:
        return f"Mechanism({self.name!r}, bodies={list(self.bodies)}, joints={list(self.joints)})"

    def _add(self, section: str, parts: dict[str, Any], spec: Any) -> None:
        sections = {
            "body": self.bodies,
            "joint": self.joints,
            "load": self.loads,
            "element": self.elements | self.forces,
            "store": self.stores,
        }
        for label, others in sections.items():
            if spec.name in others:
                found = f"the name {spec.name}, already that of a {label}"
                raise ModelError(f"{section}/{spec.name}", found, "a name used only once")
        parts[spec.name] = spec

    def add_body(
        self,
        name: str,
        mass: Any = None,
        inertia: Any = None,
        shape: Any = None,
        density: Any = None,
        group: str = "SE3",
        kind: str = "rigid",
    ) -> None:
        """Adds a rigid body; see `BodySpec`. `shape` and `density` (kg/m^3) may stand for mass and inertia."""
        spec = BodySpec.make(name, mass=mass, inertia=inertia, shape=shape, density=density, group=group, kind=kind)
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
        axis2: Any = None,
        pitch: Any = None,
        spring: Any = None,
        friction: Any = None,
        actuation: Any = None,
    ) -> None:
        """Adds a joint; see `JointSpec`. `type`: a name, or an object with `group` and `inclusion`."""
        spec = JointSpec(
            name, type, parent, child, parent_frame, child_frame, axis, axis2, pitch, spring, friction, actuation
        )
        self._add("joints", self.joints, spec)

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

    def add_store(self, name: str, capacity: Any, temperature: Any = ROOM_TEMPERATURE) -> None:
        """Adds a thermal store; see `StoreSpec`."""
        self._add("stores", self.stores, StoreSpec(name, capacity, temperature))

    def set_initial(self, joints: Any = None, bodies: Any = None) -> None:
        """Gives part of the initial state; what was given before and is not given again stays.

        - `joints`: by joint name, `q` (coordinates; spherical: wxyz, free: position then wxyz) and `v` `(k,)`.
        - `bodies`: by body name, `position` (m), `quaternion` (wxyz), `angular_velocity` (rad/s, body axes),
          `velocity` (m/s, centre of mass, world axes).
        """
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
        if not self.bodies:
            raise ModelError("bodies", "none", "at least one body")
        for joint in self.joints.values():
            self._require_body(f"joints/{joint.name}/parent", joint.parent, ground=True)
            self._require_body(f"joints/{joint.name}/child", joint.child)
            if joint.friction is not None:
                self._require_store(f"joints/{joint.name}/friction/heats", joint.friction.heats)
        for load in self.loads.values():
            self._require_body(f"loads/{load.name}/body", load.body)
        for element in self.elements.values():
            self._require_body(f"elements/{element.name}/a", element.a, ground=True)
            self._require_body(f"elements/{element.name}/b", element.b, ground=True)
            self._require_store(f"elements/{element.name}/heats", element.heats)
        for force in self.forces.values():
            self._require_body(f"elements/{force.name}/body", force.body)
        self._validate_initial()
        self._validate_simulation()

    def _validate_initial(self) -> None:
        for name in self.initial_bodies:
            self._require_body(f"initial/bodies/{name}", name)
        for name, values in self.initial_joints.items():
            path = f"initial/joints/{name}"
            if name not in self.joints:
                raise ModelError(path, f"no joint {name}", f"the name of a joint{checks.nearest(name, self.joints)}")
            self.initial_joints[name] = self.joints[name].initial_values(path, **values)

    def _validate_simulation(self) -> None:
        if not isinstance(self.simulation, SimulationSpec):
            raise ModelError("simulation", checks.show(self.simulation), "a SimulationSpec")
        t0, t1 = self.simulation.t0, self.simulation.t1
        drives = {f"joints/{joint.name}/actuation": joint.actuation for joint in self.joints.values()}
        for load in self.loads.values():
            drives |= {f"loads/{load.name}/force": load.force, f"loads/{load.name}/torque": load.torque}
        for path, drive in drives.items():
            if isinstance(drive, TableSpec) and t1 is not None:
                drive.require_span(path, t0, t1)

    def _require_body(self, path: str, name: str, *, ground: bool = False) -> None:
        if name not in self.bodies and not (ground and name == "ground"):
            known = [*self.bodies, "ground"] if ground else list(self.bodies)
            wanted = f"the name of a body{' or ground' if ground else ''}{checks.nearest(name, known)}"
            raise ModelError(path, checks.show(name), wanted)

    def _require_store(self, path: str, name: str) -> None:
        known = ["environment", *self.stores]
        if name not in known:
            wanted = f"environment or the name of a store{checks.nearest(name, known)}"
            raise ModelError(path, checks.show(name), wanted)

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


def _initial_entries(path: str, section: Any, keys: Iterable[str]) -> Iterable[tuple[str, dict[str, Any]]]:
    """Names with those of their values that are given; unknown keys refused."""
    keys = tuple(keys)
    if section is None:
        return
    if not isinstance(section, Mapping):
        raise ModelError(path, checks.show(section), "a mapping of names")
    for name, values in section.items():
        checks.reference(f"{path}/{name}", name)
        if not isinstance(values, Mapping):
            raise ModelError(f"{path}/{name}", checks.show(values), f"a mapping with the keys {', '.join(keys)}")
        for key in values:
            if key not in keys:
                raise ModelError(f"{path}/{name}/{key}", "an unknown key", f"a known one{checks.nearest(key, keys)}")
        yield name, {key: value for key, value in values.items() if value is not None}
