"""The validated description of a joint with its spring, friction, actuation and rotor."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from jmbs.errors import ModelError
from jmbs.library.mechanics import checks
from jmbs.library.mechanics.values import Frame, TableSpec, constant_or_table

# Number of joint velocities of each type; a composite joint has as many as it has motions.
JOINT_DIMENSIONS: dict[str, int | None] = {
    "fixed": 0,
    "revolute": 1,
    "prismatic": 1,
    "screw": 1,
    "cylindrical": 2,
    "planar": 3,
    "spherical": 3,
    "universal": 2,
    "free": 6,
    "composite": None,
}
# Types whose spring energy is quadratic in the logarithm of the whole motion, with the numbers of one rest motion.
_REST_OF_GROUP = {"planar": [0.0] * 3, "spherical": [1.0, 0, 0, 0], "free": [0.0, 0, 0, 1, 0, 0, 0]}
# How many magnitudes dry friction acts on: spherical the angular one, planar and free (translational, angular).
_DRY_PARTS = {"spherical": 1, "planar": 2, "free": 2}
_WITHOUT_AXIS = ("fixed", "spherical", "free", "composite")
_MOST_MOTIONS = 6


@dataclasses.dataclass(frozen=True, eq=False)
class SpringSpec:
    """A spring on the joint's motion; in a `JointSpec` of k velocities it holds

    - `stiffness`: `(k,)`, or `(k, k)` for planar, spherical and free joints (N m/rad, N/m; `v` order);
    - `rest`: `(k,)` coordinates (planar: x, y, angle); spherical: `(4,)` wxyz; free: `(7,)` position then wxyz.
    """

    stiffness: Any
    rest: Any = None


@dataclasses.dataclass(frozen=True, eq=False)
class FrictionSpec:
    """Friction on the joint's velocity; in a `JointSpec` of k velocities it holds

    - `viscous`: `(k,)`, or `(k, k)` for planar, spherical and free joints or where a matrix was given;
    - `coulomb`, `static` (N m or N) and `stribeck_velocity`, `regularisation_velocity` (rad/s or m/s): `(k,)`;
      spherical: `(1,)`; planar and free: `(2,)`, translational then angular;
    - `heats`: `environment` or the name of a thermal store;
    - `temperature_coefficient` 1/K, `reference_temperature` K: the whole friction is scaled by
      `exp(-temperature_coefficient (theta - reference_temperature))`, `theta` the temperature of what it heats;
    - `law`: a module with `damping(v)` in place of all numbers, see `LawFriction`; None without.
    """

    viscous: Any = 0.0
    coulomb: Any = 0.0
    static: Any = None
    stribeck_velocity: Any = 0.1
    regularisation_velocity: Any = 1e-3
    heats: str = "environment"
    temperature_coefficient: Any = 0.0
    reference_temperature: Any = 298.15
    law: Any = None


@dataclasses.dataclass(frozen=True, eq=False)
class MotionSpec:
    """One of the motions of a composite joint: `type`, revolute or prismatic, about or along `axis` `(3,)`.

    In the joint frame at zero motion; `position` `(3,)` m: a point on the axis of a turn, None for a travel.
    """

    type: Any = None
    axis: Any = (0.0, 0.0, 1.0)
    position: Any = None


def _motions(path: str, given: Any) -> tuple[MotionSpec, ...]:
    """The motions of a composite joint, first to last, checked; together they must be independent."""
    if not isinstance(given, list | tuple) or not 1 <= len(given) <= _MOST_MOTIONS:
        raise ModelError(path, checks.show(given), f"a list of 1 to {_MOST_MOTIONS} motions with type, axis, position")
    motions = []
    for i, entry in enumerate(given):
        here, motion = f"{path}/{i}", _record(f"{path}/{i}", entry, MotionSpec)
        if motion is None:
            raise ModelError(here, "nothing", "a motion with type, axis, position")
        kind = checks.choice(f"{here}/type", motion.type, ("revolute", "prismatic"))
        if kind == "prismatic" and motion.position is not None:
            raise ModelError(f"{here}/position", checks.show(motion.position), "no position: a travel has none")
        position = motion.position
        if kind == "revolute":
            position = checks.vector(f"{here}/position", np.zeros(3) if position is None else position, 3)
        motions.append(MotionSpec(kind, checks.direction(f"{here}/axis", motion.axis), position))
    axes, positions = [motion.axis for motion in motions], [motion.position for motion in motions]
    require_independent(path, axes, positions, [motion.type == "revolute" for motion in motions])
    return tuple(motions)


def require_independent(path: str, axes: Any, positions: Any, turning: Sequence[bool]) -> None:
    """Refuses motions in a row that depend on each other; `turning`: whether each is a turn. Raises `ModelError`."""
    rank = np.linalg.matrix_rank(_twists(axes, positions, turning))
    if rank < len(turning):
        raise ModelError(path, f"{len(turning)} motions of which {rank} are independent", "independent motions")


def _twists(axes: Any, positions: Any, turning: Sequence[bool]) -> np.ndarray:
    """The motions' twists `(6, k)` at coordinates where nothing is aligned by chance."""
    from scipy.linalg import expm  # here, because most mechanisms do without

    hat = lambda v: np.cross(np.eye(3), v)  # noqa: E731
    columns, before = [], np.eye(6)
    for i, (axis, position, turns) in enumerate(zip(axes, positions, turning, strict=True)):
        along = np.asarray(axis) / np.linalg.norm(axis)
        w = along if turns else np.zeros(3)
        v = np.cross(position, w) if turns else along
        columns.append(before @ np.concatenate([w, v]))
        bracket = np.block([[hat(w), np.zeros((3, 3))], [hat(v), hat(w)]])
        before = before @ expm((0.7 + 0.4 * i) * bracket)
    return np.stack(columns, axis=1)


def _record(path: str, value: Any, cls: type) -> Any:
    """An instance of the record `cls` from itself or a mapping, with unknown or missing keys refused."""
    if value is None or isinstance(value, cls):
        return value
    fields = {field.name: field for field in dataclasses.fields(cls)}
    if not isinstance(value, Mapping):
        raise ModelError(path, checks.show(value), f"a mapping with the keys {', '.join(fields)}")
    checks.require_keys(path, value, tuple(fields))
    if cls is SpringSpec and value.get("stiffness") is None:
        raise ModelError(f"{path}/stiffness", "nothing", "the spring's stiffness")
    return cls(**{key: entry for key, entry in value.items() if entry is not None})


def _spring(path: str, spring: SpringSpec, kind: str, size: int, motion: Any) -> SpringSpec:
    """The spring with its values broadcast to the joint's `size` velocities."""
    if kind in _REST_OF_GROUP:
        stiffness = checks.non_negative_matrix(f"{path}/stiffness", spring.stiffness, size)
    else:
        stiffness = checks.per_coordinate_non_negative(f"{path}/stiffness", spring.stiffness, size)
    rest_path = f"{path}/rest"
    default = _REST_OF_GROUP.get(kind, 0.0)
    rest = default if spring.rest is None else spring.rest
    match kind:
        case "spherical":
            rest = checks.unit_quaternion(rest_path, rest)
        case "free":
            rest = pose_coordinates(rest_path, rest)
        case "planar":
            rest = checks.vector(rest_path, rest, 3, "3 numbers: x, y, angle")
        case _ if _coordinate_size(motion, size) != size:
            # Only the user's group knows its coordinates; None stands for its identity.
            coordinates = _coordinate_size(motion, size)
            rest = None if spring.rest is None else checks.vector(rest_path, rest, coordinates)
        case _:
            rest = checks.per_coordinate(rest_path, rest, size)
    return SpringSpec(stiffness, rest)


def _coordinate_size(motion: Any, default: int) -> int:
    """How many coordinates `q` of a user's joint has, as its group says."""
    size = getattr(getattr(motion, "group", None), "coordinate_size", None)
    return size if isinstance(size, int) else default


def _friction(path: str, friction: FrictionSpec, kind: str, size: int) -> FrictionSpec:
    """The friction with its values broadcast to the joint's `size` velocities, or to its dry parts."""
    if friction.law is not None:
        return _friction_by_law(path, friction, size)
    parts = _DRY_PARTS.get(kind, size)
    viscous = checks.non_negative_matrix(f"{path}/viscous", friction.viscous, size)
    if kind not in _DRY_PARTS and (size == 1 or np.ndim(friction.viscous) < 2):
        viscous = checks.freeze(np.diag(viscous))
    coulomb = checks.per_coordinate_non_negative(f"{path}/coulomb", friction.coulomb, parts)
    static = coulomb
    if friction.static is not None:
        static = checks.per_coordinate_non_negative(f"{path}/static", friction.static, parts)
        require_static(f"{path}/static", friction.static, friction.coulomb)
    velocities = {
        key: checks.per_coordinate_non_negative(f"{path}/{key}", getattr(friction, key), parts, positive=True)
        for key in ("stribeck_velocity", "regularisation_velocity")
    }
    heats = checks.part_path(f"{path}/heats", friction.heats)
    coefficient = checks.number(f"{path}/temperature_coefficient", friction.temperature_coefficient, unit="1/K")
    reference = checks.number(f"{path}/reference_temperature", friction.reference_temperature, positive=True, unit="K")
    return FrictionSpec(
        viscous,
        coulomb,
        static,
        heats=heats,
        temperature_coefficient=coefficient,
        reference_temperature=reference,
        **velocities,
    )


def _friction_by_law(path: str, friction: FrictionSpec, size: int) -> FrictionSpec:
    """The friction by a law that gives the damping of the joint's `size` velocities."""
    wanted = f"a module whose damping(v) of {size} velocities has the shape ({size},) or ({size}, {size})"
    if not checks.is_friction_law(friction.law):
        raise ModelError(f"{path}/law", checks.show(friction.law), wanted)
    kept = FrictionSpec(law=friction.law, heats=checks.part_path(f"{path}/heats", friction.heats))
    for field in dataclasses.fields(friction):
        value, usual = getattr(friction, field.name), getattr(kept, field.name)
        if value is not usual and not np.array_equal(value, usual):
            raise ModelError(f"{path}/{field.name}", checks.show(value), "none beside a law")
    shape = checks.shape_made(path, friction.law.damping, (size,))
    if shape not in ((size,), (size, size)):
        raise ModelError(path, f"a damping of shape {shape}", wanted)
    return kept


def _armature(path: str, armature: Any, size: int) -> np.ndarray | None:
    """One inertia per coordinate, None where all of them are zero."""
    found = checks.per_coordinate_non_negative(path, armature, size)
    return found if np.any(found) else None


def require_rotors(path: str, armature: Any, with_rotor: Sequence[int]) -> None:
    """Refuses inertias that add or remove a rotor: which there are is decided when a model is built. `ModelError`."""
    values = checks.per_coordinate_non_negative(path, armature, np.size(armature))
    if not np.array_equal(np.flatnonzero(values), with_rotor):
        alone = len(values) == len(with_rotor)
        which = "" if alone else f" for the coordinates {', '.join(map(str, with_rotor))}, zero for others"
        raise ModelError(path, checks.show(armature), f"positive numbers{which}: which rotors there are is fixed")


def require_static(path: str, static: Any, coulomb: Any) -> None:
    """Refuses static friction below Coulomb's. Raises `ModelError`."""
    if np.any(np.asarray(static) < np.asarray(coulomb)):
        raise ModelError(path, checks.show(static), f"at least coulomb, {checks.show(coulomb)}")


def require_apart(path: str, axis2: Any, axis: Any) -> None:
    """Refuses a universal joint's second axis that is parallel to the first. Raises `ModelError`."""
    first, second = (checks.direction(path, value) for value in (axis, axis2))
    if np.linalg.norm(np.cross(first, second)) < checks.UNIT_TOLERANCE:
        raise ModelError(path, checks.show(axis2), "a direction not parallel to axis")


def pose_coordinates(path: str, value: Any) -> np.ndarray:
    """Position (m), then a unit quaternion wxyz, `(7,)`. Raises `ModelError`."""
    pose = checks.vector(path, value, 7, "a pose, 7 numbers: position then wxyz")
    return checks.freeze(np.concatenate([pose[:3], checks.unit_quaternion(path, pose[3:])]))


def _motion_dimension(path: str, motion: Any) -> int:
    """The number of joint velocities of a user's joint, from its configuration group."""
    for attribute in ("group", "inclusion"):
        if isinstance(motion, type) or not hasattr(motion, attribute):
            known = f"one of {', '.join(JOINT_DIMENSIONS)}, or a joint object with the attributes group and inclusion"
            raise ModelError(path, checks.show(motion), known)
    size = getattr(motion.group, "dim", None)
    if not isinstance(size, int):
        raise ModelError(path, f"the group {checks.show(motion.group)} without dim", "a group of jmbs.lie")
    return size


@dataclasses.dataclass(frozen=True, eq=False)
class JointSpec:
    """A joint between the body `parent` (or ground) and the body `child`.

    `type` is one of `JOINT_DIMENSIONS`, or given as an object with `group` and `inclusion`, kept as `motion`, whose
    class name `type` then is. `axis` and `axis2` `(3,)` are of unit length, in the joint frame, None where they have
    no meaning; the default axis is z. `pitch` m/rad, screw only. `motions`: those of a composite joint, nearest to the
    parent first. `actuation`: `(k,)` or a table of k columns, acting on the joint velocity. `armature`: `(k,)` kg m^2
    or kg, inertia of rotors that turn with the joint, zero where there is none, None where there is none at all.
    `prescribed`: the motion that the coordinates have, called `motion` in configs: `(k,)`, a table of k columns, or a
    function of time.

    Raises `ModelError` with paths below `joints/<name>`.
    """

    name: str
    type: Any
    parent: str
    child: str
    parent_frame: Frame = dataclasses.field(default_factory=Frame)
    child_frame: Frame = dataclasses.field(default_factory=Frame)
    axis: np.ndarray | None = None
    axis2: np.ndarray | None = None
    pitch: float | None = None
    spring: SpringSpec | None = None
    friction: FrictionSpec | None = None
    actuation: np.ndarray | TableSpec | None = None
    motions: Any = None
    armature: Any = None
    prescribed: Any = None
    motion: Any = dataclasses.field(default=None, init=False)
    dimension: int = dataclasses.field(default=0, init=False)

    def __post_init__(self) -> None:
        path = f"joints/{checks.name(f'joints/{self.name}', self.name)}"
        type_path = f"{path}/type"
        if isinstance(self.type, str):
            kind, motion = checks.choice(type_path, self.type, JOINT_DIMENSIONS), None
            size = JOINT_DIMENSIONS[kind]
        else:
            kind, motion = type(self.type).__name__, self.type
            size = _motion_dimension(type_path, motion)
        values: dict[str, Any] = {"type": kind, "motion": motion} | self._bodies_and_frames(path)
        values |= self._geometry(path, "" if motion is not None else kind)
        size = values["dimension"] = len(values["motions"]) if size is None else size
        values |= self._elements(path, "" if motion is not None else kind, size, motion)
        for key, value in values.items():
            object.__setattr__(self, key, value)

    def _bodies_and_frames(self, path: str) -> dict[str, Any]:
        parent = checks.reference(f"{path}/parent", self.parent)
        child = checks.reference(f"{path}/child", self.child)
        if child == "ground":
            raise ModelError(f"{path}/child", "ground", "a body (ground can only be the parent)")
        if parent == child:
            raise ModelError(f"{path}/child", child, f"a body other than the parent {parent}")
        frames = {key: Frame.make(f"{path}/{key}", getattr(self, key)) for key in ("parent_frame", "child_frame")}
        return {"parent": parent, "child": child, **frames}

    def _geometry(self, path: str, kind: str) -> dict[str, Any]:
        """Axes and pitch; `kind` is empty for a user's joint, which takes parameters instead."""
        label = kind or "user-defined"
        has_axis = kind != "" and kind not in _WITHOUT_AXIS
        own = {"axis2": "universal", "pitch": "screw", "motions": "composite"}
        for key, allowed in {"axis": has_axis, **{key: kind == of for key, of in own.items()}}.items():
            value = getattr(self, key)
            if value is not None and not allowed:
                raise ModelError(f"{path}/{key}", checks.show(value), f"no {key}: a {label} joint has none")
        values: dict[str, Any] = {}
        if has_axis:
            values["axis"] = checks.direction(f"{path}/axis", [0, 0, 1] if self.axis is None else self.axis)
        if kind == "composite":
            values["motions"] = _motions(f"{path}/motions", self.motions)
        if kind == "screw":
            values["pitch"] = checks.number(f"{path}/pitch", self.pitch, unit="m/rad")
        if kind == "universal":
            values["axis2"] = checks.direction(f"{path}/axis2", self.axis2)
            require_apart(f"{path}/axis2", self.axis2, values["axis"])
        return values

    def _elements(self, path: str, kind: str, size: int, motion: Any) -> dict[str, Any]:
        """Spring, friction, actuation and rotor, all acting on the joint velocity."""
        if size == 0:
            for key in ("spring", "friction", "actuation", "armature", "prescribed"):
                if getattr(self, key) is not None:
                    key = "motion" if key == "prescribed" else key
                    raise ModelError(f"{path}/{key}", "one on a fixed joint", f"no {key}: a fixed joint does not move")
            return {}
        law = self.spring if checks.is_law(self.spring) else None
        spring = None if law is not None else _record(f"{path}/spring", self.spring, SpringSpec)
        friction = FrictionSpec(law=self.friction) if checks.is_friction_law(self.friction) else self.friction
        friction = _record(f"{path}/friction", friction, FrictionSpec)
        actuation_path = f"{path}/actuation"
        return {
            "spring": law if spring is None else _spring(f"{path}/spring", spring, kind, size, motion),
            "friction": None if friction is None else _friction(f"{path}/friction", friction, kind, size),
            "actuation": None
            if self.actuation is None
            else constant_or_table(actuation_path, self.actuation, size, broadcast=True),
            "armature": None if self.armature is None else _armature(f"{path}/armature", self.armature, size),
            "prescribed": self.prescribed
            if self.prescribed is None or callable(self.prescribed)
            else constant_or_table(f"{path}/motion", self.prescribed, size, broadcast=True),
        }

    @property
    def with_rotor(self) -> tuple[int, ...]:
        """The coordinates that have a rotor, by number."""
        return () if self.armature is None else tuple(np.flatnonzero(self.armature).tolist())

    def initial_values(self, path: str, q: Any, v: Any) -> dict[str, Any]:
        """Checked initial `q`, an array or a `Guess` of one, and `v` `(k,)`; see `check_coordinates`."""
        kind, k = ("", self.dimension) if self.motion is not None else (self.type, self.dimension)
        size = _coordinate_size(self.motion, k) if self.motion is not None else k
        if q is not None:
            q = check_coordinates(f"{path}/q", q, kind, size, self.type)
        return {"q": q, "v": None if v is None else check_velocities(f"{path}/v", v, k, self.type)}


@dataclasses.dataclass(frozen=True, eq=False)
class Guess:
    """An initial value that chooses where assembly starts, and gives way; see `jmbs.guess`."""

    value: Any


def guess(value: Any) -> Guess:
    """Joint coordinates from which assembly starts: they choose the branch and give way where loops demand it.

    ```python
    mechanism.set_initial(joints={"crank": {"q": [1.0]}, "rocker": {"q": jmbs.guess([-2.2])}})
    ```
    """
    return Guess(value)


def check_coordinates(path: str, q: Any, kind: str, size: int, label: str) -> Any:
    """Joint coordinates: `size` numbers, for `kind` spherical wxyz, for free position then wxyz; or a `Guess` of such.

    A guess may be written `{guess: ...}`. `label`: the type for messages. Raises `ModelError`.
    """
    if isinstance(q, Mapping) and set(q) == {"guess"}:
        q = Guess(q["guess"])
    if isinstance(q, Guess):
        return Guess(check_coordinates(f"{path}/guess", q.value, kind, size, label))
    if kind == "spherical":
        return checks.unit_quaternion(path, q)
    if kind == "free":
        return pose_coordinates(path, q)
    return check_velocities(path, q, size, label)


def check_velocities(path: str, value: Any, size: int, label: str) -> np.ndarray:
    """`size` numbers, a single one as it is. Raises `ModelError`."""
    value = [value] if size == 1 and checks.is_number(value) else value
    return checks.vector(path, value, size, f"{size} finite number{'' if size == 1 else 's'} ({label} joint)")
