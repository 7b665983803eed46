"""The validated description of a joint with its spring, friction, actuation and rotor."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from jmbs.errors import ModelError
from jmbs.library.mechanics import checks
from jmbs.library.mechanics.joint_types import JOINT_KEYS, JOINT_TYPES, Geometry, Whole
from jmbs.library.mechanics.values import Frame, TableSpec, constant_or_table

JOINT_DIMENSIONS: dict[str, int | None] = {kind.name: kind.dimension for kind in JOINT_TYPES.values()}
"""Number of joint velocities of each type; a composite joint has as many as it has motions."""


@dataclasses.dataclass(frozen=True, eq=False)
class SpringSpec:
    """A spring on the joint's motion; in a `JointSpec` of k velocities it holds

    - `stiffness`: `(k,)`, or `(k, k)` for planar, spherical and free joints (N m/rad, N/m; `v` order);
    - `rest`: `(k,)` coordinates (planar: x, y, angle); spherical: `(4,)` wxyz; free: `(7,)` position then wxyz.
    """

    stiffness: Any = None
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


def _spring(path: str, given: Any, whole: Whole | None, size: int, motion: Any) -> SpringSpec:
    """The spring with its values broadcast to the joint's `size` velocities."""
    spring: SpringSpec = checks.record(path, given, SpringSpec)
    if spring.stiffness is None:
        raise ModelError(f"{path}/stiffness", "nothing", "the spring's stiffness")
    rest, rest_path = spring.rest, f"{path}/rest"
    if whole is not None:
        stiffness = checks.non_negative_matrix(f"{path}/stiffness", spring.stiffness, size)
        return SpringSpec(stiffness, whole.check(rest_path, whole.rest if rest is None else rest))
    stiffness = checks.per_coordinate_non_negative(f"{path}/stiffness", spring.stiffness, size)
    coordinates = _coordinate_size(motion, size)
    if coordinates == size:
        return SpringSpec(stiffness, checks.per_coordinate(rest_path, 0.0 if rest is None else rest, size))
    # Only the user's group knows its coordinates; None stands for its identity.
    return SpringSpec(stiffness, None if rest is None else checks.vector(rest_path, rest, coordinates))


def _coordinate_size(motion: Any, default: int) -> int:
    """How many coordinates `q` of a user's joint has, as its group says."""
    size = getattr(getattr(motion, "group", None), "coordinate_size", None)
    return size if isinstance(size, int) else default


def _friction(path: str, friction: FrictionSpec, whole: Whole | None, size: int) -> FrictionSpec:
    """The friction with its values broadcast to the joint's `size` velocities, or to its dry parts."""
    if friction.law is not None:
        return _friction_by_law(path, friction, size)
    parts = size if whole is None else len(whole.dry)
    viscous = checks.non_negative_matrix(f"{path}/viscous", friction.viscous, size)
    if whole is None and (size == 1 or np.ndim(friction.viscous) < 2):
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

    `type` is one of `JOINT_TYPES`, or given as an object with `group` and `inclusion`, kept as `motion`, whose class
    name `type` then is. `geometry`: where its motion is, by the keys of its type: `axis` (by default z) and `axis2`
    `(3,)`, made of unit length, in the joint frame; `pitch` m/rad; `motions` of a composite joint, nearest to the
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
    geometry: Geometry = dataclasses.field(default_factory=dict)
    spring: SpringSpec | None = None
    friction: FrictionSpec | None = None
    actuation: np.ndarray | TableSpec | None = None
    armature: Any = None
    prescribed: Any = None
    motion: Any = dataclasses.field(default=None, init=False)
    dimension: int = dataclasses.field(default=0, init=False)

    def __post_init__(self) -> None:
        path = f"joints/{checks.name(f'joints/{self.name}', self.name)}"
        type_path = f"{path}/type"
        if isinstance(self.type, str):
            kind, motion = checks.choice(type_path, self.type, JOINT_TYPES), None
        else:
            kind, motion = type(self.type).__name__, self.type
        values: dict[str, Any] = {"type": kind, "motion": motion} | self._bodies_and_frames(path)
        values["geometry"] = geometry = self._geometry(path, "" if motion is not None else kind)
        if motion is not None:
            size, whole = _motion_dimension(type_path, motion), None
        else:
            known, whole = JOINT_TYPES[kind].dimension, JOINT_TYPES[kind].whole
            size = known if known is not None else JOINT_TYPES[kind].motion(geometry, np.asarray).group.dim
        values |= {"dimension": size} | self._elements(path, whole, size, motion)
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
        """The checked geometry; `kind` is empty for a user's joint, which takes parameters instead."""
        keys = {key.name: key for key in (JOINT_TYPES[kind].keys if kind else ())}
        given = {key: value for key, value in self.geometry.items() if value is not None}
        checks.require_keys(path, given, tuple(JOINT_KEYS))
        for key, value in given.items():
            if key not in keys:
                found = f"no {key}: a {kind or 'user-defined'} joint has none"
                raise ModelError(f"{path}/{key}", checks.show(value), found)
        values: dict[str, Any] = {}
        for name, key in keys.items():
            values[name] = key.check(f"{path}/{name}", given.get(name, key.default), values)
        return values

    def _elements(self, path: str, whole: Whole | None, size: int, motion: Any) -> dict[str, Any]:
        """Spring, friction, actuation and rotor, all acting on the joint velocity."""
        if size == 0:
            for key in ("spring", "friction", "actuation", "armature", "prescribed"):
                if getattr(self, key) is not None:
                    key = "motion" if key == "prescribed" else key
                    raise ModelError(f"{path}/{key}", "one on a fixed joint", f"no {key}: a fixed joint does not move")
            return {}
        law = self.spring if checks.is_law(self.spring) else None
        spring = None if law is not None else self.spring
        friction = FrictionSpec(law=self.friction) if checks.is_friction_law(self.friction) else self.friction
        friction = checks.record(f"{path}/friction", friction, FrictionSpec)
        actuation_path = f"{path}/actuation"
        return {
            "spring": law if spring is None else _spring(f"{path}/spring", spring, whole, size, motion),
            "friction": None if friction is None else _friction(f"{path}/friction", friction, whole, size),
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
        k, whole = self.dimension, None if self.motion is not None else JOINT_TYPES[self.type].whole
        if q is not None:
            q = check_coordinates(f"{path}/q", q, whole, _coordinate_size(self.motion, k), self.type)
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


def check_coordinates(path: str, q: Any, whole: Whole | None, size: int, label: str) -> Any:
    """Joint coordinates: as `whole` wants them, else `size` numbers; or a `Guess` of such.

    A guess may be written `{guess: ...}`. `label`: the type for messages. Raises `ModelError`.
    """
    if isinstance(q, Mapping) and set(q) == {"guess"}:
        q = Guess(q["guess"])
    if isinstance(q, Guess):
        return Guess(check_coordinates(f"{path}/guess", q.value, whole, size, label))
    return check_velocities(path, q, size, label) if whole is None else whole.check(path, q)


def check_velocities(path: str, value: Any, size: int, label: str) -> np.ndarray:
    """`size` numbers, a single one as it is. Raises `ModelError`."""
    value = [value] if size == 1 and checks.is_number(value) else value
    return checks.vector(path, value, size, f"{size} finite number{'' if size == 1 else 's'} ({label} joint)")
