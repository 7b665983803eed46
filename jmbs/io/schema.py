"""The shape of a config, `schema: jmbs/1`: which keys there are and what kind of value each takes."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Tag

from jmbs.io.schema_values import (
    NamedParts,
    Number,
    NumberListOrMatrix,
    NumberOrList,
    Quaternion,
    Section,
    Vector2,
    Vector3,
    Whole,
    Word,
    Words,
)

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
    """The isothermal reference."""

    temperature: Number = 298.15


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


class BodySection(Section):
    """A rigid body."""

    mass: Number | None = None
    inertia: NumberListOrMatrix | None = None
    shape: ShapeSection | None = None
    density: Number | None = None
    group: Word = "SE3"
    kind: Word = "rigid"


class SpringSection(Section):
    """A spring on a joint's motion."""

    stiffness: NumberListOrMatrix
    rest: NumberOrList | None = None


class FrictionSection(Section):
    """Friction on a joint's velocity."""

    viscous: NumberListOrMatrix | None = None
    coulomb: NumberOrList | None = None
    static: NumberOrList | None = None
    stribeck_velocity: NumberOrList | None = None
    regularisation_velocity: NumberOrList | None = None
    heats: Word | None = None


class JointSection(Section):
    """A joint; `parameters` only for a user's joint, `type: package.module:Name`."""

    type: Word
    parent: Word
    child: Word
    parent_frame: FrameSection | None = None
    child_frame: FrameSection | None = None
    axis: Vector3 | None = None
    axis2: Vector3 | None = None
    pitch: Number | None = None
    spring: SpringSection | None = None
    friction: FrictionSection | None = None
    actuation: CoordinateSource | None = None
    parameters: dict[str, Any] | None = None


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
    stiffness: Number = 0.0
    damping: Number = 0.0
    length: Number = 0.0
    heats: Word = "environment"


class UserForceSection(Section):
    """A user's force, `type: package.module:Name`, on a body."""

    type: Word
    body: Word
    parameters: dict[str, Any] | None = None


def _element_tag(value: Any) -> str:
    kind = value.get("type") if isinstance(value, dict) else getattr(value, "type", None)
    return "<user>" if isinstance(kind, str) and ":" in kind else "<spring_damper>"


ElementSection = Annotated[
    Annotated[SpringDamperSection, Tag("<spring_damper>")] | Annotated[UserForceSection, Tag("<user>")],
    Discriminator(_element_tag),
]


class StoreSection(Section):
    """A thermal store."""

    type: Literal["thermal"]
    capacity: Number
    temperature: Number = 298.15


class InitialJointSection(Section):
    """Part of a joint's initial state."""

    q: NumberOrList | None = None
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


class ToleranceSection(Section):
    """Tolerances of the step-size control."""

    rtol: Number | None = None
    atol: Number | None = None


class SimulationSection(Section):
    """Time span and method."""

    t1: Number
    t0: Number = 0.0
    save_every: Number | None = None
    formulation: Word = "absolute"
    method: Word = "tsit5"
    dt: Number | None = None
    tolerance: ToleranceSection | None = None
    constraints: Word = "project"
    precision: Word = "float64"
    max_steps: Whole | None = None


class ConfigSection(Section):
    """A whole config, `schema` taken off."""

    name: Word | None = None
    seed: Whole = 0
    gravity: Vector3 | None = None
    environment: EnvironmentSection = EnvironmentSection()
    bodies: Annotated[dict[str, BodySection], NamedParts] = {}
    joints: Annotated[dict[str, JointSection], NamedParts] = {}
    loads: Annotated[dict[str, LoadSection], NamedParts] = {}
    elements: Annotated[dict[str, ElementSection], NamedParts] = {}
    constraints: Any = None
    stores: Annotated[dict[str, StoreSection], NamedParts] = {}
    initial: InitialSection = InitialSection()
    simulation: SimulationSection | None = None
    systems: Any = None
    connections: Any = None
