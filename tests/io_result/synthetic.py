"""Plausible trajectories in closed form, for tests of what is done with a trajectory after it was computed."""

from __future__ import annotations

import json
from dataclasses import replace

import jax
import jax.numpy as jnp
from jaxtyping import Array

from jmbs.simulation.by_name import ByName, entries_of
from jmbs.simulation.status import Status
from jmbs.simulation.trajectory import JointCoordinates, Labels, Trajectory, continuous_quaternions

MASS, STIFFNESS, DAMPING, ENVIRONMENT = 2.0, 8.0, 0.2, 300.0
RATE = 1.5  # rad/s, of the turning body

LABELS = Labels(
    name="pair",
    bodies=("slider", "rotor"),  # not in alphabetical order
    joints=("rail", "axle"),
    joint_coordinates=(
        JointCoordinates("rail", ("travel",), ("m",), ("rate",), ("m/s",)),
        JointCoordinates("axle", ("angle", "travel"), ("rad", "m"), ("angle_rate", "travel_rate"), ("rad/s", "m/s")),
    ),
    method="tsit5",
    config_json=json.dumps({"schema": "jmbs/1", "name": "pair"}),
    version="0.0.test",
    state_units=(("motor/current", "A"),),
)


def by_name(values: dict[str, Array]) -> ByName:
    """Values `(T, ...)` by name, stacked as in a simulated trajectory."""
    stacked = jnp.concatenate([value.reshape(value.shape[0], -1) for value in values.values()], axis=1)
    return ByName(stacked, entries_of({name: value.shape[1:] for name, value in values.items()}))


def pair_trajectory(amplitude: float | Array = 0.5, t1: float = 10.0, count: int = 201) -> Trajectory:
    """A damped oscillator along x beside a body that turns steadily about z: pure, usable under `vmap`."""
    ts = jnp.linspace(0.0, t1, count)
    decay = DAMPING / (2 * MASS)
    frequency = (STIFFNESS / MASS - decay**2) ** 0.5
    envelope = amplitude * jnp.exp(-decay * ts)
    x = envelope * jnp.cos(frequency * ts)
    rate = -envelope * (decay * jnp.cos(frequency * ts) + frequency * jnp.sin(frequency * ts))
    kinetic, potential = 0.5 * MASS * rate**2, 0.5 * STIFFNESS * x**2
    total = kinetic + potential
    dissipated = total[0] - total
    zero, angle = jnp.zeros_like(ts), RATE * ts
    turn = jnp.stack([jnp.cos(angle / 2), zero, zero, jnp.sin(angle / 2)], axis=-1)
    # The sign that a rotation matrix gives back, so that continuity is earned.
    turn = continuous_quaternions(jnp.where(turn[:, :1] < 0, -turn, turn))
    still = jnp.stack([zero, zero, zero], axis=-1)
    upright = jnp.stack([zero + 1, zero, zero, zero], axis=-1)
    return Trajectory(
        ts=ts,
        position=by_name({"slider": jnp.stack([x, zero, zero], axis=-1), "rotor": still + 1.0}),
        quaternion=by_name({"slider": upright, "rotor": turn}),
        angular_velocity=by_name({"slider": still, "rotor": jnp.stack([zero, zero, zero + RATE], axis=-1)}),
        velocity=by_name({"slider": jnp.stack([rate, zero, zero], axis=-1), "rotor": still}),
        q=by_name({"rail": x[:, None], "axle": jnp.stack([angle, zero], axis=-1)}),
        v=by_name({"rail": rate[:, None], "axle": jnp.stack([zero + RATE, zero], axis=-1)}),
        reaction=by_name({"rail": jnp.concatenate([still, still + MASS], axis=-1), "axle": jnp.zeros((count, 6))}),
        constraint_position=by_name({"rail": 1e-12 * (1.1 + jnp.sin(7 * ts)), "axle": zero}),
        constraint_velocity=by_name({"rail": 1e-11 * (1.1 + jnp.cos(7 * ts)), "axle": 1e-13 * (1.1 + jnp.sin(3 * ts))}),
        kinetic=kinetic,
        potential=potential,
        total=total,
        supplied=zero,
        dissipated=dissipated,
        entropy_produced=dissipated / ENVIRONMENT,
        exergy_destroyed=dissipated,
        first_law_residual=1e-9 * jnp.sin(ts) * total[0],
        projection_work=zero,
        temperature=by_name({"bearing": ENVIRONMENT + zero}),
        states=by_name({"motor/current": jnp.cos(ts), "field": jnp.zeros((count, 2))}),
        status=Status.successful,
        failure_time=jnp.asarray(jnp.nan),
        stats={"steps": jnp.asarray(400), "accepted": jnp.asarray(390), "rejected": jnp.asarray(10)},
        labels=LABELS,
    )


def failed(trajectory: Trajectory, time: float) -> Trajectory:
    """The same, failed at `time`: later values are NaN, as a simulation returns them."""
    late = trajectory.ts > time

    def cut(leaf: Array) -> Array:
        along_time = leaf.ndim > 0 and leaf.shape[0] == late.shape[0]
        return jnp.where(late.reshape(-1, *(1,) * (leaf.ndim - 1)), jnp.nan, leaf) if along_time else leaf

    return replace(jax.tree.map(cut, trajectory), status=Status.not_finite, failure_time=jnp.asarray(time))


def without_audit(trajectory: Trajectory) -> Trajectory:
    """The same with the account, the reactions and the residuals switched off."""
    fields = ["reaction", "constraint_position", "constraint_velocity", "kinetic", "potential", "total", "supplied"]
    fields += ["dissipated", "entropy_produced", "exergy_destroyed", "first_law_residual", "projection_work"]
    return replace(trajectory, **dict.fromkeys(fields))


def chain_trajectory(bodies: int, count: int = 201) -> Trajectory:
    """Many bodies and joints: a travelling wave along a chain, to see whether plots stay readable."""
    pair = pair_trajectory(count=count)
    ts = pair.ts
    names = tuple(f"link{index}" for index in range(bodies))
    joints = tuple(f"hinge{index}" for index in range(bodies))
    positions, angles, residuals = {}, {}, {}
    for index, (name, joint) in enumerate(zip(names, joints, strict=True)):
        phase = 0.3 * index
        positions[name] = jnp.stack([index + 0.3 * jnp.sin(ts - phase), 0 * ts, -0.5 * index * jnp.cos(ts)], axis=-1)
        angles[joint] = (0.3 + 0.05 * index) * jnp.cos(ts - phase)[:, None]
        residuals[joint] = 10.0 ** (-14 + 0.3 * index) * (1.1 + jnp.sin((index + 1) * ts / 3))
    labels = Labels(
        name="chain",
        bodies=names,
        joints=joints,
        joint_coordinates=tuple(JointCoordinates(j, ("angle",), ("rad",), ("rate",), ("rad/s",)) for j in joints),
        method="tsit5",
        version="0.0.test",
    )
    same = {name: pair.quaternion["rotor"] for name in names}
    vector = {name: pair.velocity["slider"] for name in names}
    return replace(
        pair,
        position=by_name(positions),
        quaternion=by_name(same),
        velocity=by_name(vector),
        angular_velocity=by_name(vector),
        q=by_name(angles),
        v=by_name(angles),
        reaction=by_name({joint: pair.reaction["rail"] for joint in joints}),
        constraint_position=by_name(residuals),
        constraint_velocity=by_name(residuals),
        labels=labels,
    )
