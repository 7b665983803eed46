"""What sensors measure along a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jmbs.identification.interpolation import rate
from jmbs.identification.output_names import OutputName
from jmbs.lie import cross, quaternion_to_rotation
from jmbs.simulation import Model, Trajectory, parameter_value


def needs_audit(output: OutputName) -> bool:
    """Whether only an audited run shows it."""
    return output.kind == "reaction"


def needs_rates(output: OutputName) -> bool:
    """Whether it follows from how the run changes from one saved time to the next."""
    return output.kind == "accelerometer"


def signal(
    output: OutputName, model: Model, run: Trajectory, step: Array, moved: Mapping[str, Array], known: Any = None
) -> Float[Array, " knots"]:
    """The output at the saved times of a run, which are `step` (s) apart; pure.

    **Arguments:** `moved`: by body, how far its centre of mass has moved (3,), m; points stay where they are; `known`:
    how many of the saved times count, all if it is None.
    """
    name, entry = output.owner, (slice(None), *output.index)
    if output.kind == "gyro":
        return run.angular_velocity[name][entry]
    if output.kind == "declared":
        return run.outputs[name][entry]
    if output.kind == "state":
        return jax.vmap(lambda state: state[name])(run.saved)[entry]
    if output.kind not in ("point", "accelerometer"):
        return getattr(run, output.kind)[name][entry]
    i = output.index[0]
    point = jnp.asarray(output.point, model.dtype)
    point = point - moved[name] if name in moved else point
    rotation = jax.vmap(quaternion_to_rotation)(run.quaternion[name])
    if output.kind == "point":
        return run.position[name][:, i] + rotation[:, i] @ point
    omega = run.angular_velocity[name]
    weight = parameter_value(model, "gravity")
    force = jnp.einsum("tij,ti->tj", rotation, rate(step, run.velocity[name], known) - weight)
    at_point = jax.vmap(lambda w, a: cross(a, point) + cross(w, cross(w, point)))(omega, rate(step, omega, known))
    return (force + at_point)[:, i]
