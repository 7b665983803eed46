"""What URDF and MJCF files have in common: links in their own frames, joined by a tree of joints and by loop joints."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

GROUND = "ground"


@dataclasses.dataclass(frozen=True, eq=False)
class ModelLink:
    """A rigid part as the file gives it.

    `mass` kg, zero where the file gives none; `centre` `(3,)` m: of mass, in the link's frame; `inertia` `(3, 3)`
    kg m^2 about the centre, link axes; `path`: where it stands in the file, for messages.
    """

    name: str
    path: str
    mass: float = 0.0
    centre: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros(3))
    inertia: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros((3, 3)))


@dataclasses.dataclass(frozen=True, eq=False)
class ModelJoint:
    """A joint between links, or the ground and a link.

    `type` as in a config; `parent_frame`, `child_frame`: poses `(4, 4)` of the joint frame in the links' frames;
    `values`: `axis`, `axis2`, `spring`, `friction`, `armature` as `Mechanism.add_joint` takes them; `q`: initial
    coordinates, None for zero motion.
    """

    name: str
    type: str
    parent: str
    child: str
    parent_frame: np.ndarray = dataclasses.field(default_factory=lambda: np.eye(4))
    child_frame: np.ndarray = dataclasses.field(default_factory=lambda: np.eye(4))
    values: dict[str, Any] = dataclasses.field(default_factory=dict)
    q: np.ndarray | None = None


@dataclasses.dataclass(frozen=True)
class ModelGear:
    """`q_joint = ratio q_driver + offset`; both ends are a joint's name and which of its coordinates, from 0.

    One with an empty `name` gets it from the joint's.
    """

    name: str
    joint: tuple[str, int]
    driver: tuple[str, int]
    ratio: float = 1.0
    offset: float = 0.0

    def on(self, whole: str, places: dict[str, int]) -> ModelGear:
        """The same where joints have become part of the joint `whole`, `places` saying from which coordinate on."""
        ends = (self.joint, self.driver)
        joint, driver = ((whole, places[j] + i) if j in places else (j, i) for j, i in ends)
        return dataclasses.replace(self, joint=joint, driver=driver)


@dataclasses.dataclass(frozen=True)
class ModelRelation:
    """`sum coefficient q = offset` over `coefficients`, by a joint's name and which of its coordinates, from 0."""

    name: str
    coefficients: dict[tuple[str, int], float]
    offset: float = 0.0

    def on(self, whole: str, places: dict[str, int]) -> ModelRelation:
        """The same where joints have become part of the joint `whole`, `places` saying from which coordinate on."""
        moved = lambda j, i: (whole, places[j] + i) if j in places else (j, i)  # noqa: E731
        return dataclasses.replace(self, coefficients={moved(*end): c for end, c in self.coefficients.items()})


@dataclasses.dataclass(eq=False)
class ModelTree:
    """A model as its file gives it.

    `joints` form a tree that hangs from `ground`, one per link, parents before children; `loops` join links that the
    tree joins already; `gears` bind coordinates of two or more joints. `gravity` `(3,)` m/s^2, None where the file says
    nothing. `notes`: one line for everything that was read but is not simulated.
    """

    name: str
    links: dict[str, ModelLink] = dataclasses.field(default_factory=dict)
    joints: list[ModelJoint] = dataclasses.field(default_factory=list)
    loops: list[ModelJoint] = dataclasses.field(default_factory=list)
    gears: list[ModelGear | ModelRelation] = dataclasses.field(default_factory=list)
    gravity: np.ndarray | None = None
    notes: list[str] = dataclasses.field(default_factory=list)
