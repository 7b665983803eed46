"""The shape of a config, `schema: jmbs/1`: which keys there are and what kind of value each takes."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Tag, create_model, model_validator

from jmbs.io.schema_values import (
    NamedParts,
    Number,
    NumberListOrGuess,
    NumberListOrMatrix,
    NumberOrList,
    Quaternion,
    Section,
    Seed,
    Vector2,
    Vector3,
    Whole,
    Word,
    Words,
)
from jmbs.library.mechanics import CONSTRAINT_KEYS, JOINT_KEYS

SCHEMA = "jmbs/1"


class Table(Section):
    """`{table: drive.csv, time: t, columns: [tau]}`: a function of time from a CSV file beside the config."""

    table: Word
    columns: Words
    time: Word = "t"


def _source_tag(value: Any) -> str:
    return "<table>" if isinstance(value, dict | Table) else "<constant>"


# The tags stand in pydantic's error locations; the angle brackets let the reader of errors take them out again.
VectorSource = Annotated[
    Annotated[Table, Tag("<table>")] | Annotated[Vector3, Tag("<constant>")], Discriminator(_source_tag)
]
CoordinateSource = Annotated[
    Annotated[Table, Tag("<table>")] | Annotated[NumberOrList, Tag("<constant>")], Discriminator(_source_tag)
]


class EnvironmentSection(Section):
    """The isothermal reference, at a pressure or at none."""

    temperature: Number = 298.15
    pressure: Number | None = None


class FrameSection(Section):
    """A joint frame in a body's frame."""

    position: Vector3 | None = None
    quaternion: Quaternion | None = None


class ShapeSection(Section):
    """One solid."""

    box: Vector3 | None = None
    sphere: NumberOrList | None = None
    cylinder: Vector2 | None = None
    capsule: Vector2 | None = None


class DistributionSection(Section):
    """Masses in points."""

    points: NumberListOrMatrix
    masses: NumberOrList


class LawSection(Section):
    """An energy or friction by a user's law, `type: package.module:Name`."""

    type: Word
    parameters: dict[str, Any] | None = None


class BodySection(Section):
    """A rigid body."""

    mass: Number | None = None
    inertia: NumberListOrMatrix | None = None
    shape: ShapeSection | None = None
    density: Number | None = None
    distribution: DistributionSection | None = None
    group: Word = "SE3"
    kind: Word = "rigid"
    potential: LawSection | None = None


class SpringSection(Section):
    """A spring on a joint's motion."""

    stiffness: NumberListOrMatrix
    rest: NumberOrList | None = None


def _law_tag(value: Any) -> str:
    return "<law>" if isinstance(value, LawSection) or (isinstance(value, dict) and "type" in value) else "<constant>"


JointSpring = Annotated[
    Annotated[LawSection, Tag("<law>")] | Annotated[SpringSection, Tag("<constant>")], Discriminator(_law_tag)
]
Stiffness = Annotated[
    Annotated[LawSection, Tag("<law>")] | Annotated[Number, Tag("<constant>")], Discriminator(_law_tag)
]


class FrictionLawSection(LawSection):
    """Friction by a user's law, and what it heats."""

    heats: Word = "environment"


class FrictionSection(Section):
    """Friction on a joint's velocity."""

    viscous: NumberListOrMatrix | None = None
    coulomb: NumberOrList | None = None
    static: NumberOrList | None = None
    stribeck_velocity: NumberOrList | None = None
    regularisation_velocity: NumberOrList | None = None
    heats: Word | None = None
    temperature_coefficient: Number | None = None
    reference_temperature: Number | None = None


JointFriction = Annotated[
    Annotated[FrictionLawSection, Tag("<law>")] | Annotated[FrictionSection, Tag("<constant>")],
    Discriminator(_law_tag),
]


class MotionSection(Section):
    """A motion of a composite joint."""

    type: Word
    axis: Vector3 | None = None
    position: Vector3 | None = None


class _JointSection(Section):
    """A joint; `parameters` only for a user's joint, `type: package.module:Name`."""

    type: Word
    parent: Word
    child: Word
    parent_frame: FrameSection | None = None
    child_frame: FrameSection | None = None
    spring: JointSpring | None = None
    friction: JointFriction | None = None
    actuation: CoordinateSource | None = None
    armature: NumberOrList | None = None
    motion: DriveSource | None = None
    parameters: dict[str, Any] | None = None


class SurfaceSection(Section):
    """A surface that may move; `normal` of a plane only."""

    body: Word | None = None
    point: Vector3 | None = None
    normal: Vector3 | None = None
    velocity: DriveSource | None = None
    angular_velocity: DriveSource | None = None


_FORMS: dict[str, Any] = {
    "vector": Vector3,
    "number": Number,
    "word": Word,
    "surface": SurfaceSection,
    "motions": list[MotionSection],
}


def _with_keys(name: str, base: type[Section], keys: Mapping[str, Any]) -> Any:
    """The section with the keys that types declare."""
    own: dict[str, Any] = {key: (_FORMS[declared.form] | None, None) for key, declared in keys.items()}
    return create_model(name, __base__=base, **own)


JointSection = _with_keys("JointSection", _JointSection, JOINT_KEYS)
"""A joint with the keys of all types that say where its motion is."""


class LoadSection(Section):
    """A force on a point of a body and a torque on the body."""

    body: Word
    point: Vector3 | None = None
    force: VectorSource | None = None
    torque: VectorSource | None = None
    frame: Word = "world"


class SpringDamperSection(Section):
    """A spring and damper between two points."""

    type: Literal["spring_damper"]
    a: Word
    point_a: Vector3 = [0.0, 0.0, 0.0]
    b: Word
    point_b: Vector3 = [0.0, 0.0, 0.0]
    stiffness: Stiffness = 0.0
    damping: Number = 0.0
    length: Number = 0.0
    heats: Word = "environment"


class ConductionSection(Section):
    """Heat conduction between thermal stores, or one and the environment."""

    type: Literal["conduction"]
    a: Word
    b: Word
    conductance: Number


class UserForceSection(Section):
    """A user's force, `type: package.module:Name`, on a body."""

    type: Word
    body: Word
    parameters: dict[str, Any] | None = None


def _element_tag(value: Any) -> str:
    kind = value.get("type") if isinstance(value, dict) else getattr(value, "type", None)
    if isinstance(kind, str) and ":" in kind:
        return "<user>"
    # A slip goes to the section that was meant, whose message then names the type.
    close = difflib.get_close_matches(str(kind), ["spring_damper", "conduction"], n=1)
    return f"<{close[0]}>" if close else "<spring_damper>"


ElementSection = Annotated[
    Annotated[SpringDamperSection, Tag("<spring_damper>")]
    | Annotated[ConductionSection, Tag("<conduction>")]
    | Annotated[UserForceSection, Tag("<user>")],
    Discriminator(_element_tag),
]


class StoreSection(Section):
    """A thermal store."""

    type: Literal["thermal"]
    capacity: Number
    temperature: Number = 298.15


class UserFunction(Section):
    """A function of time, `type: package.module:Name`, whose objects are called with `t`."""

    type: Word
    parameters: dict[str, Any] | None = None


def _drive_tag(value: Any) -> str:
    if isinstance(value, dict):
        return "<function>" if "type" in value else "<table>"
    return "<function>" if isinstance(value, UserFunction) else _source_tag(value)


DriveSource = Annotated[
    Annotated[Table, Tag("<table>")]
    | Annotated[UserFunction, Tag("<function>")]
    | Annotated[NumberOrList, Tag("<constant>")],
    Discriminator(_drive_tag),
]


class _ConstraintSection(Section):
    """A constraint on bodies, or a gear between joints; the type says which keys it takes.

    `parameters` only for a user's law, `type: package.module:Name`.
    """

    type: Word
    body: Word | None = None
    other: Word | None = None
    parameters: dict[str, Any] | None = None
    joint: Word | None = None
    driver: Word | None = None
    ratio: Number | None = None
    offset: Number | None = None
    coordinate: Whole | None = None
    driver_coordinate: Whole | None = None
    joints: Annotated[dict[str, NumberOrList], NamedParts] | None = None


ConstraintSection = _with_keys("ConstraintSection", _ConstraintSection, CONSTRAINT_KEYS)
"""A constraint, with the keys of all types on one body."""


class ConnectionSection(Section):
    """Ports that meet at a junction, and what drives it; a plain list stands for `{ports: [...]}`."""

    ports: Words
    flow: DriveSource | None = None
    effort: DriveSource | None = None

    @model_validator(mode="before")
    @classmethod
    def from_list(cls, value: Any) -> Any:
        """A mapping from a plain list of ports."""
        return {"ports": value} if isinstance(value, list | str) else value


class SystemSection(Section):
    """A component or system by type, or a pattern of `systems` joined by `connections` with outer `ports`."""

    type: Word | None = None
    parameters: dict[str, Any] | None = None
    systems: Annotated[dict[str, SystemSection], NamedParts] = {}
    connections: Annotated[dict[str, ConnectionSection], NamedParts] = {}
    ports: dict[str, str] | Words | None = None


class InitialJointSection(Section):
    """Part of a joint's initial state."""

    q: NumberListOrGuess | None = None
    v: NumberOrList | None = None


class InitialBodySection(Section):
    """Part of a body's initial state."""

    position: Vector3 | None = None
    quaternion: Quaternion | None = None
    angular_velocity: Vector3 | None = None
    velocity: Vector3 | None = None


class InitialSection(Section):
    """What is given of the initial state."""

    joints: Annotated[dict[str, InitialJointSection], NamedParts] = {}
    bodies: Annotated[dict[str, InitialBodySection], NamedParts] = {}
    states: Annotated[dict[str, NumberListOrMatrix], NamedParts] = {}


class ToleranceSection(Section):
    """Tolerances of the step-size control."""

    rtol: Number | None = None
    atol: Number | None = None


class SimulationSection(Section):
    """Time span and method."""

    t1: Number
    t0: Number = 0.0
    save_every: Number | None = None
    formulation: Word | None = None
    cut_joints: list[Word] = []
    method: Word = "tsit5"
    dt: Number | None = None
    tolerance: ToleranceSection | None = None
    constraints: Word = "project"
    precision: Word = "float64"
    max_steps: Whole | None = None
    until: Annotated[dict[str, Number], NamedParts] = {}


class ConfigSection(Section):
    """A whole config, `schema` taken off."""

    name: Word | None = None
    seed: Seed = 0
    gravity: Vector3 | None = None
    environment: EnvironmentSection = EnvironmentSection()
    bodies: Annotated[dict[str, BodySection], NamedParts] = {}
    joints: Annotated[dict[str, JointSection], NamedParts] = {}  # pyright: ignore[reportInvalidTypeForm]
    loads: Annotated[dict[str, LoadSection], NamedParts] = {}
    elements: Annotated[dict[str, ElementSection], NamedParts] = {}
    constraints: Annotated[dict[str, ConstraintSection], NamedParts] = {}  # pyright: ignore[reportInvalidTypeForm]
    stores: Annotated[dict[str, StoreSection], NamedParts] = {}
    initial: InitialSection = InitialSection()
    simulation: SimulationSection | None = None
    systems: Annotated[dict[str, SystemSection], NamedParts] = {}
    connections: Annotated[dict[str, ConnectionSection], NamedParts] = {}
