"""Refuses what would act on a rotation without inertia: any of a particle, that of a thin rod about its axis.

Such a rotation is no motion of the body, so that constraints must allow it and forces do no work on it (Lewis, The
physical foundations of geometric mechanics, equation 5.4 and definition 6.11).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from jmbs.ephs import Efforts, Role, System, role
from jmbs.errors import ModelError
from jmbs.library.mechanics import checks, parts
from jmbs.library.mechanics.joint import JointPotential, Offset, adjoint_matrix
from jmbs.library.mechanics.values import TableSpec
from jmbs.lie import SE3, tangent
from jmbs.programs import quick_to_compile

if TYPE_CHECKING:
    from jmbs.library.mechanics.mechanism import Mechanism
    from jmbs.library.mechanics.specification import BodySpec, JointSpec, LoadSpec

SAMPLES = 3
TOLERANCE = 1e-5
"""Relative; far above rounding in float32, far below any restraint that is meant."""


def refuse_inertialess(mechanism: Mechanism) -> None:
    """Raises `ModelError` for a part of the mechanism that acts on a rotation without inertia."""
    reduced = {name: body for name, body in mechanism.bodies.items() if body.kind != "rigid"}
    if not reduced:
        return
    for spec in mechanism.joints.values():
        for end in ("parent", "child"):
            if getattr(spec, end) in reduced:
                _check_joint(spec, end, reduced[getattr(spec, end)])
    for spec in mechanism.constraints.values():
        if spec.body in reduced:
            _check_constraint(mechanism, spec, reduced[spec.body])
    for spec in mechanism.body_constraints.values():
        for end, body in enumerate((spec.body, spec.other)):
            if body in reduced:
                _check_body_constraint(mechanism, spec, end, reduced[body])
    for load in mechanism.loads.values():
        if load.body in reduced:
            _check_load(load, reduced[load.body])
    for element in mechanism.elements.values():
        for end in "ab":
            if getattr(element, end) in reduced:
                path = f"elements/{element.name}/point_{end}"
                _check_point(path, reduced[getattr(element, end)], getattr(element, f"point_{end}"))
    for force in mechanism.forces.values():
        if force.body in reduced:
            _check_force(f"elements/{force.name}/wrench", reduced[force.body], force.wrench)
    for name, values in mechanism.initial_bodies.items():
        if name in reduced and values["angular_velocity"] is not None:
            _check_rate(f"initial/bodies/{name}/angular_velocity", reduced[name], values["angular_velocity"])
    _check_connections(mechanism, reduced)


def turns_inertialess(mechanism: Mechanism, spec: JointSpec) -> bool:
    """Whether rotations without inertia move the joint's coordinates, so that no actuation may act on them."""
    bodies = [mechanism.bodies.get(name) for name in (spec.parent, spec.child)]
    ends = zip(("parent", "child"), bodies, strict=True)
    reduced = [(end, body) for end, body in ends if body is not None and body.kind != "rigid"]
    return any(np.any(np.abs(_shares(spec, end, body)[1]) > TOLERANCE) for end, body in reduced)


def _samples(space: Any) -> list[Any]:
    steps = 0.7 * np.random.default_rng(0).normal(size=(SAMPLES, space.dim))
    return [space.exp(jnp.asarray(step, jnp.result_type(float))) for step in steps]


def _what(body: BodySpec) -> str:
    about = "" if body.axis is None else " about its axis"
    return f"the rotation of {body.kind} {body.name}{about}"


def _twists(spec: JointSpec, end: str, body: BodySpec, q) -> np.ndarray:
    """Twists `(6, n)` of the child's joint frame relative to the parent's by rotations without inertia."""
    frame = getattr(spec, f"{end}_frame")
    offset = Offset(jnp.asarray(frame.position), jnp.asarray(frame.quaternion)).frame
    to_frame = adjoint_matrix(SE3.inverse(offset))
    if end == "parent":
        to_frame = adjoint_matrix(SE3.inverse(parts.motion_of(spec).inclusion(q))) @ to_frame
    directions = jnp.asarray(body.inertialess)
    return np.asarray(to_frame @ jnp.concatenate([directions, jnp.zeros_like(directions)]))


def _shares(spec: JointSpec, end: str, body: BodySpec) -> tuple[np.ndarray, np.ndarray]:
    """Per sample what the joint restrains of those twists `(s, 6, n)`, and the velocities of the rest `(s, k, n)`."""
    motion = parts.motion_of(spec)
    restrained, velocities = [], []
    for q in _samples(motion.group):
        twists, basis = _twists(spec, end, body, q), np.asarray(tangent(motion, q))
        velocity = np.linalg.lstsq(basis, twists, rcond=None)[0] if basis.size else np.zeros((0, twists.shape[1]))
        restrained.append(twists - basis @ velocity)
        velocities.append(velocity)
    return np.stack(restrained), np.stack(velocities)


def _check_joint(spec: JointSpec, end: str, body: BodySpec) -> None:
    path = f"joints/{spec.name}"
    restrained, velocities = _shares(spec, end, body)
    if np.max(np.abs(restrained)) > TOLERANCE:
        wanted = "one that leaves it free: spherical, " + ("at the centre" if body.axis is None else "on the axis")
        raise ModelError(path, f"a {spec.type} joint that restrains {_what(body)}, which has no inertia", wanted)
    motion = parts.motion_of(spec)
    for q, velocity in zip(_samples(motion.group), velocities, strict=True):
        for key, force in _joint_forces(spec, motion, q).items():
            # Forces (n, k), each of which does its work on the velocities.
            if np.max(np.abs(force @ velocity), initial=0) > TOLERANCE * np.max(np.abs(force), initial=0):
                found = f"one that acts on {_what(body)}, which has no inertia"
                raise ModelError(f"{path}/{key}", found, f"no {key} on that coordinate")


def _joint_forces(spec: JointSpec, motion, q) -> dict[str, np.ndarray]:
    """Samples `(n, k)` of the generalised forces of spring, friction, rotor and actuation."""
    group, forces = motion.group, {}
    potential, friction = parts.joint_potential(motion, spec), parts.joint_friction(motion, spec)
    if isinstance(potential, JointPotential):
        forces["spring"] = np.asarray(_spring_force(potential, q))[None]
    if spec.friction is not None:
        k = group.dim
        efforts = {"p_r": jnp.linspace(0.5, 1.5, k), "s": jnp.zeros(1)}
        forces["friction"] = np.asarray(friction.onsager({}, Efforts(efforts, jnp.asarray(300.0))))[:k, :k]
    if spec.armature is not None:
        forces["armature"] = np.diag(spec.armature)
    if spec.actuation is not None:
        rows = spec.actuation.values if isinstance(spec.actuation, TableSpec) else spec.actuation
        forces["actuation"] = np.atleast_2d(rows)
    return forces


@quick_to_compile
def _spring_force(potential: JointPotential, q: Array) -> Array:
    group = potential.group
    energy = lambda step: potential.energy({"q_r": q + group.lift(q, step)})  # noqa: E731
    return jax.grad(energy)(jnp.zeros(group.dim))


def _check_constraint(mechanism: Mechanism, spec, body: BodySpec) -> None:
    system = parts.constraint_system(mechanism, spec)
    for component in getattr(system, "boxes", {"": system}).values():
        for q in _samples(parts.GROUPS[body.group]):
            _, rows = component.structure({"q": q})
            _refuse_restraint(spec, rows[:, :6], body)


def _check_body_constraint(mechanism: Mechanism, spec, end: int, body: BodySpec) -> None:
    system = parts.body_constraint_system(mechanism, spec)
    for component in getattr(system, "boxes", {"": system}).values():
        poses = [_samples(group) for group in component.groups if group is not None]
        for q, other in zip(poses[0], reversed(poses[-1]), strict=True):
            _, rows = component.structure({"q": q, "q_other": other})
            _refuse_restraint(spec, rows[:, 6 * end : 6 * end + 6], body)


def _refuse_restraint(spec, rows, body: BodySpec) -> None:
    directions = jnp.asarray(body.inertialess)
    rotations = jnp.concatenate([directions, jnp.zeros_like(directions)])
    if np.max(np.abs(np.asarray(rows @ rotations))) > TOLERANCE:
        found = f"a {spec.type} constraint that restrains {_what(body)}, which has no inertia"
        raise ModelError(f"constraints/{spec.name}", found, "one that leaves it free")


def _check_load(load: LoadSpec, body: BodySpec) -> None:
    path = f"loads/{load.name}"
    if np.any(_rows(load.force)):
        _check_point(f"{path}/point", body, load.point)
    torque = _rows(load.torque)
    # A torque in world axes has some part along the rod's axis in some pose.
    part = torque if load.frame == "world" else torque @ body.inertialess
    if np.max(np.abs(part), initial=0) > TOLERANCE * np.max(np.abs(torque), initial=0):
        found = f"a torque on {_what(body)}, which has no inertia"
        raise ModelError(f"{path}/torque", found, "no torque" if body.axis is None else "a body-frame torque across it")


def _rows(value: Any) -> np.ndarray:
    return value.values if isinstance(value, TableSpec) else value[None]


def _check_point(path: str, body: BodySpec, point: np.ndarray) -> None:
    off = point if body.axis is None else point - (point @ body.axis) * body.axis
    if np.linalg.norm(off) > TOLERANCE * np.linalg.norm(point):
        wanted = "the particle's centre, 0, 0, 0" if body.axis is None else "a point on the rod's axis"
        raise ModelError(path, f"{checks.show(point)}, which is no point of {body.kind} {body.name}", wanted)


def _check_force(path: str, body: BodySpec, wrench: Any) -> None:
    """Looks at a user's wrench in a few states."""
    velocities = np.random.default_rng(1).normal(size=(SAMPLES, 6))
    for number, (pose, velocity) in enumerate(zip(_samples(SE3), velocities, strict=True)):
        value = np.asarray(wrench(jnp.asarray(0.3 * number), pose, jnp.asarray(velocity, pose.dtype)))
        if np.max(np.abs(value[:3] @ body.inertialess)) > TOLERANCE * np.max(np.abs(value)):
            found = f"a wrench with a torque on {_what(body)}, which has no inertia"
            raise ModelError(path, found, "a wrench without that torque")


def _check_rate(path: str, body: BodySpec, rate: np.ndarray) -> None:
    if np.max(np.abs(rate @ body.inertialess)) > TOLERANCE * np.max(np.abs(rate)):
        found = f"{checks.show(rate)}, which has a part along {_what(body)}"
        raise ModelError(path, found, "none: that rotation has no inertia and is no motion")


def _check_connections(mechanism: Mechanism, reduced: dict[str, BodySpec]) -> None:
    """Refuses systems on ports of bodies and joints where they could do work on a rotation without inertia."""
    momenta = {f"{name}.p": body for name, body in reduced.items()}
    rates = {}
    for spec in mechanism.joints.values():
        ends = [reduced[name] for name in (spec.parent, spec.child) if name in reduced]
        if ends and turns_inertialess(mechanism, spec):
            rates[f"{spec.name}.p_r"] = ends[0]
    for connection in mechanism.connections.values():
        others = [port for port in connection.ports if port not in momenta]
        for port in connection.ports:
            body = momenta.get(port)
            if body is not None and all(_leaves_free(mechanism, other, body) for other in others):
                body = None
            body = body or rates.get(port)
            if body is not None:
                found = f"{port}, through which a system could act on {_what(body)}, which has no inertia"
                raise ModelError(f"connections/{connection.name}", found, "another port, or a rigid body")


def _leaves_free(mechanism: Mechanism, word: str, body: BodySpec) -> bool:
    """Whether a transformer at a body's momentum (the velocity of a point, say) does not see those rotations."""
    box, _, port = word.partition(".")
    component = mechanism.systems.get(box)
    if component is None or isinstance(component, System) or role(component) is not Role.TRANSFORMER:
        return False
    inputs = [name for name, p in component.ports.items() if p.power and name != component.output]
    if port not in inputs:
        return False
    start = sum(component.ports[name].dim for name in inputs[: inputs.index(port)])
    rotations = np.concatenate([body.inertialess, np.zeros_like(body.inertialess)])
    for number in range(SAMPLES):
        states = {name: _samples(p.quantity.space)[number] for name, p in component.ports.items()}
        if np.max(np.abs(np.asarray(component.ratio(states))[:, start : start + 6] @ rotations)) > TOLERANCE:
            return False
    return True
