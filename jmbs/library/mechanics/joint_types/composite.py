"""Turns and travels in a row, up to six of them, about and along axes where nothing moves."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from jmbs.errors import ModelError
from jmbs.library.mechanics import checks
from jmbs.library.mechanics.joint_types.joint_type import Geometry, GeometryParameter, JointType, Key
from jmbs.lie import Composite, independence

_MOST_MOTIONS = 6
SMALLEST_VOLUME = 1e-12
"""Square of the volume that directions of motions span, below which they count as dependent."""


@dataclasses.dataclass(frozen=True, eq=False)
class MotionSpec:
    """One of the motions of a composite joint: `type`, revolute or prismatic, about or along `axis` `(3,)`.

    In the joint frame at zero motion; `position` `(3,)` m: a point on the axis of a turn, None for a travel.
    """

    type: Any = None
    axis: Any = (0.0, 0.0, 1.0)
    position: Any = None


def _motions(path: str, given: Any, beside: Geometry) -> tuple[MotionSpec, ...]:
    """The motions, first to last, checked; together they must be independent."""
    del beside
    if not isinstance(given, list | tuple) or not 1 <= len(given) <= _MOST_MOTIONS:
        raise ModelError(path, checks.show(given), f"a list of 1 to {_MOST_MOTIONS} motions with type, axis, position")
    motions = []
    for i, entry in enumerate(given):
        here, motion = f"{path}/{i}", checks.record(f"{path}/{i}", entry, MotionSpec)
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
    require_independent(path, axes, positions, _turning({"motions": motions}))
    return tuple(motions)


def _turning(geometry: Geometry) -> tuple[bool, ...]:
    return tuple(motion.type == "revolute" for motion in geometry["motions"])


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


def are_independent(
    axes: Float[Array, "k 3"], positions: Float[Array, "k 3"], turning: tuple[bool, ...]
) -> Bool[Array, ""]:
    """Whether traced motions are, where nothing is aligned by chance, as `require_independent` looks at them."""
    motion = Composite(axes, positions, turning)  # pyright: ignore[reportCallIssue]
    return independence(motion, jnp.asarray(0.7 + 0.4 * np.arange(len(turning)), axes.dtype)) > SMALLEST_VOLUME


def _motion(geometry: Geometry, array) -> Composite:
    motions = geometry["motions"]
    positions = [np.zeros(3) if motion.position is None else motion.position for motion in motions]
    axes = array([motion.axis for motion in motions])
    # Names and units are properties here, in place of class variables that the checker takes for fields.
    return Composite(axes, array(positions), _turning(geometry))  # pyright: ignore[reportCallIssue]


COMPOSITE = JointType(
    "composite",
    None,
    _motion,
    (Key("motions", "motions", _motions),),
    (
        GeometryParameter(
            *("motions/axis", "axes", "1", "directions", "independent motions", ("positions",)),
            detail=lambda motion: (motion.turning,),
        ),
        GeometryParameter("motions/position", "positions", "m", "numbers"),
    ),
    rules={
        "independent motions": (
            lambda given, positions: require_independent(given.path, given.value, positions, given.detail[0]),
            are_independent,
        )
    },
)
