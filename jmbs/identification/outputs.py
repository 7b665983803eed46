"""What sensors can measure, by name, and its value along a run."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jmbs.ephs import output_units
from jmbs.errors import ModelError
from jmbs.identification.interpolation import rate
from jmbs.library.mechanics import nearest
from jmbs.lie import cross, quaternion_to_rotation
from jmbs.simulation import Model, Trajectory
from jmbs.simulation.parameter_values import parameter_value

_OUTPUT = re.compile(r"(?P<base>[^\[\]()]+?)(?:\((?P<point>[^()]*)\)(?P<of_point>/position)?)?(?:\[(?P<index>\d+)\])?")
BODY_KEYS = {"position": "m", "velocity": "m/s", "angular_velocity": "rad/s", "gyro": "rad/s"}
"""Outputs of bodies and their units; beside them `point(x,y,z)/position` and `accelerometer(x,y,z)`."""


class Output(NamedTuple):
    """One number that a model shows: `key` of the part `name`, entry `index`; `point` (m, body axes) of a point's."""

    key: str
    name: str
    index: int
    unit: str
    point: tuple[float, float, float] | None = None


def output_of(model: Model, where: str, text: str) -> Output:
    """The output that a text names; `where` it stands. Raises `ModelError`, with the nearest name."""
    matched = _OUTPUT.fullmatch(text.strip()) if isinstance(text, str) else None
    if matched is None:
        wanted = "such as elbow/q, hand/position[0] or hand/accelerometer(0,0,0.1)[2]"
        raise ModelError(where, repr(text)[:80], wanted)
    base, index = matched["base"], matched["index"]
    if matched["point"] is not None:
        return _at_point(model, where, text, matched)
    sizes = _sizes(model)
    if base not in sizes:
        raise ModelError(where, f"no output {base}", f"a known one{nearest(base, sizes)}")
    size, unit = sizes[base]
    if index is None and size > 1:
        raise ModelError(where, f"{base}, which has {size} entries", f"one of them, {base}[0] to {base}[{size - 1}]")
    if int(index or 0) >= size:
        raise ModelError(where, text, f"an index below {size}")
    if base.startswith(("states/", "outputs/")):
        key, _, name = base.partition("/")
    else:
        name, _, key = base.rpartition("/")
    return Output(key, name, int(index or 0), unit)


def _at_point(model: Model, where: str, text: str, matched: re.Match[str]) -> Output:
    name, _, key = matched["base"].rpartition("/")
    if name not in model.layout.bodies:
        raise ModelError(where, f"no body {name}", f"a known one{nearest(name, model.layout.bodies)}")
    if (key, matched["of_point"]) not in (("point", "/position"), ("accelerometer", None)):
        raise ModelError(where, text, f"{name}/point(x,y,z)/position[i] or {name}/accelerometer(x,y,z)[i]")
    if matched["index"] is None or int(matched["index"]) > 2:
        raise ModelError(where, text, "an index, 0 to 2, behind it")
    try:
        x, y, z = (float(entry) for entry in matched["point"].split(","))
    except ValueError:
        raise ModelError(where, f"the point ({matched['point']})", "three numbers, m, in the body's axes") from None
    unit = "m" if key == "point" else "m/s^2"
    return Output(key, name, int(matched["index"]), unit, (x, y, z))


def _sizes(model: Model) -> dict[str, tuple[int, str]]:
    """How many entries each output has, and their unit."""
    sizes: dict[str, tuple[int, str]] = {}
    for names in model.layout.coordinates:
        sizes[f"{names.joint}/q"] = len(names.q_names), _one(names.q_units)
        sizes[f"{names.joint}/v"] = len(names.v_names), _one(names.v_units)
    for joint in model.layout.joints:
        sizes[f"{joint}/reaction"] = 6, "N"
    for body in model.layout.bodies:
        sizes |= {f"{body}/{key}": (3, unit) for key, unit in BODY_KEYS.items()}
    for path, shape in model.layout.state_shapes:
        size = 1
        for n in shape:
            size *= n
        sizes[f"states/{path}"] = size, "1"
    sizes |= {f"outputs/{path}": (1, unit) for path, unit in output_units(model.dae).items()}
    return sizes


def _one(units: tuple[str, ...]) -> str:
    return units[0] if len(set(units)) == 1 else "1"


def needs_audit(output: Output) -> bool:
    """Whether only an audited run shows it."""
    return output.key == "reaction"


def signal(
    output: Output, model: Model, run: Trajectory, step: Array, moved: Mapping[str, Array]
) -> Float[Array, " knots"]:
    """The output at the saved times of a run, which are `step` (s) apart; pure.

    **Arguments:** `moved`: by body, how far its centre of mass has moved (3,), m; points stay where they are.
    """
    name, i = output.name, output.index
    if output.key == "gyro":
        return run.angular_velocity[name][:, i]
    if output.key == "outputs":
        return run.outputs[name].reshape(len(run.ts), -1)[:, i]
    if output.key not in ("point", "accelerometer"):
        return getattr(run, output.key)[name].reshape(len(run.ts), -1)[:, i]
    point = jnp.asarray(output.point) - moved.get(name, jnp.zeros(3))
    rotation = jax.vmap(quaternion_to_rotation)(run.quaternion[name])
    if output.key == "point":
        return run.position[name][:, i] + rotation[:, i] @ point
    omega = run.angular_velocity[name]
    weight = parameter_value(model, "gravity")
    force = jnp.einsum("tij,ti->tj", rotation, rate(step, run.velocity[name]) - weight)
    at_point = jax.vmap(lambda w, a: cross(a, point) + cross(w, cross(w, point)))(omega, rate(step, omega))
    return (force + at_point)[:, i]
