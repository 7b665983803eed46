"""The validated description of constraints between two bodies: by a user's law, or on a surface of a moving body."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jmbs.errors import ModelError
from jmbs.library.mechanics import checks
from jmbs.library.mechanics.moving_surfaces import PointSlide, RollerContact, RollerSlip
from jmbs.library.mechanics.surface_specification import SurfaceSpec
from jmbs.library.mechanics.velocity_constraints import Roller
from jmbs.lie import SE3

WANTED = "a module with gap(pose, other), or with rate(pose, velocity, other, other_velocity)"
SURFACES = {"rolling": "plane", "no_slide": "relative_to"}
"""What the surface is called, by the types that may refer to one of a body."""
SAMPLES = 3
ROUNDINGS = 1e4
"""That a law which is linear may be off by, relative to its values."""


@dataclasses.dataclass(frozen=True, eq=False)
class BodyConstraintSpec:
    """A constraint between `body` and `other`, which may be ground.

    `laws`: by the box of each (`contact`, or "" where there is one alone), with the names of its multipliers; `type`:
    the name of the user's class, or `rolling` or `no_slide`. Raises `ModelError` with paths below `constraints/<name>`.
    """

    name: str
    type: str
    body: str
    other: str
    laws: dict[str, tuple[Any, tuple[str, ...]]]

    @property
    def boxes(self) -> dict[str, str]:
        """The path of each law's component."""
        return {box: f"{self.name}/{box}" if box else self.name for box in self.laws}

    @property
    def by_law(self) -> bool:
        """Whether a user's law says what it is."""
        return self.type not in SURFACES

    @property
    def other_key(self) -> str:
        """Where its specification names the other body."""
        return "other" if self.by_law else f"{SURFACES[self.type]}/body"

    @classmethod
    def of_law(cls, name: str, law: Any, body: Any, given: Mapping[str, Any]) -> BodyConstraintSpec:
        """By a user's law; `given` may hold `other`. A law may declare `multiplier_names`, one for each row: what
        begins with `torque` is in N m, others in N."""
        path = f"constraints/{checks.name(f'constraints/{name}', name)}"
        values = checks.given(path, given, (), ("other",), "a constraint by a law")
        ends = _ends(path, body, values.get("other", "ground"))
        rows = _rows(f"{path}/type", law)
        usual = ("force",) if rows == 1 else tuple(f"force_{i + 1}" for i in range(rows))
        names = tuple(getattr(law, "multiplier_names", usual))
        if len(names) != rows:
            raise ModelError(f"{path}/type", f"multiplier_names {names} of {rows} rows", "a name for each row")
        return cls(name, type(law).__name__, *ends, {"": (law, names)})

    @classmethod
    def on_surface(cls, name: str, type: str, body: Any, given: Mapping[str, Any]) -> BodyConstraintSpec:
        """A `rolling` or `no_slide` whose surface is one of a body: `{body, point, normal}` in that body's frame."""
        path, key = f"constraints/{checks.name(f'constraints/{name}', name)}", SURFACES[type]
        surface = dict(given[key])
        body, other = _ends(path, body, surface.pop("body"), f"{key}/body")
        for rate in ("velocity", "angular_velocity"):
            if surface.get(rate) is not None:
                raise ModelError(f"{path}/{key}/{rate}", checks.show(surface[rate]), f"none: {other} moves itself")
        values = {k: v for k, v in given.items() if k != key}
        if type == "no_slide":
            checks.require_keys(f"{path}/{key}", surface, ())
            values = checks.given(path, values, ("direction",), ("point", "frame"), "a no_slide constraint")
            frame = checks.choice(f"{path}/frame", values.get("frame", "body"), ("body", "other", "world"))
            point: Any = checks.vector(f"{path}/point", values.get("point", (0, 0, 0)), 3)
            direction: Any = checks.direction(f"{path}/direction", values["direction"])
            return cls(name, type, body, other, {"": (PointSlide(point, direction, frame), ("force",))})
        values = checks.given(path, values, ("radius",), ("axis",), "a rolling constraint")
        plane: Any = SurfaceSpec.make(f"{path}/{key}", surface, plane=True)
        axis: Any = None if "axis" not in values else checks.direction(f"{path}/axis", values["axis"])
        radius: Any = np.asarray(checks.number(f"{path}/radius", values["radius"], positive=True, unit="m"))
        roller = Roller(radius, axis, plane.point, plane.normal)
        contact = RollerContact(roller), ("force_normal",)
        return cls(name, type, body, other, {"contact": contact, "slip": (RollerSlip(roller), ("force_x", "force_y"))})


def refers_to_body(type: Any, given: Mapping[str, Any]) -> bool:
    """Whether a constraint's surface is one of a body."""
    surface = given.get(SURFACES.get(type, "")) if isinstance(type, str) else None
    return isinstance(surface, Mapping) and surface.get("body") is not None


def _ends(path: str, body: Any, other: Any, key: str = "other") -> tuple[str, str]:
    if body is None or checks.reference(f"{path}/body", body) == "ground":
        raise ModelError(f"{path}/body", checks.show(body), "a body (ground does not move)")
    if checks.reference(f"{path}/{key}", other) == body:
        raise ModelError(f"{path}/{key}", other, "another body than its own")
    return body, other


def _rows(path: str, law: Any) -> int:
    """How many rows a law has. Refuses what is no law, and rates that are not linear in the velocities."""
    kinds = [kind for kind in ("gap", "rate") if callable(getattr(law, kind, None))]
    if len(kinds) != 1 or isinstance(law, type):
        raise ModelError(path, checks.show(law), WANTED)
    rng = np.random.default_rng(0)
    for _ in range(SAMPLES):
        pose, other = (SE3.exp(jnp.asarray(rng.normal(size=6))) for _ in range(2))
        if kinds == ["gap"]:
            value = law.gap(pose, other)
        else:
            u, w = jnp.asarray(rng.normal(size=(2, 2, 6)))
            rate = lambda u, pose=pose, other=other: law.rate(pose, u[0], other, u[1])  # noqa: E731
            value = rate(u)
            _require_linear(path, rate(u + 2.0 * w), value + 2.0 * rate(w), rate(0.0 * u))
        if not isinstance(value, jax.Array) or value.ndim != 1 or not len(value):
            raise ModelError(path, f"values of shape {np.shape(value)}", "a law with values (m,), one per row")
    return len(value)


def _require_linear(path: str, of_sum: Any, sum_of: Any, at_rest: Any) -> None:
    allowed = ROUNDINGS * jnp.finfo(sum_of.dtype).eps * np.max(np.abs(np.asarray(sum_of)), initial=1.0)
    off = np.max(np.abs(np.asarray(of_sum) - np.asarray(sum_of)), initial=0.0)
    if max(off, np.max(np.abs(np.asarray(at_rest)), initial=0.0)) > allowed:
        raise ModelError(path, "a rate that is not linear in the velocities", "a linear one, zero at rest")
