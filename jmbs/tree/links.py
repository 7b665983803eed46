"""The tree's parameters, gathered from the components of the reference semantics."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from jmbs.constraints import Split, split
from jmbs.ephs import ReferenceDAE, follows
from jmbs.jaxext import entries_at, sums_of_parts
from jmbs.library.mechanics import BodyPotential, frame_at
from jmbs.lie import is_lower_pair
from jmbs.rigid_body import FreeBodies, GeneralJoints, Joints, Links, OneParameterJoints, basis
from jmbs.tree.layout import GroupSource, Layout
from jmbs.tree.rotors import Rotors
from jmbs.tree.segments import Segment


def links_of(reference: ReferenceDAE, layout: Layout) -> Links:
    """The parameters of a layout's tree; differentiable."""
    joints = tuple(_joints(reference, source, len(source.rows)) for source in layout.sources)
    mass, inertia = _gather(reference, layout.energies, lambda c: (c.mass, c.inertia))
    weight = _gather(reference, layout.weights, _weight)
    J = 0.5 * (inertia + jnp.swapaxes(inertia, 1, 2))
    armature = _armature(reference, layout.rotors, layout.tree.n_velocities)
    return Links(joints, mass, jnp.concatenate([J[:, 0], J[:, 1, 1:], J[:, 2, 2:]], axis=1), weight, armature)


def _armature(reference: ReferenceDAE, rotors: Rotors | None, n_v: int) -> Array | None:
    """The inertia of the rotors on each velocity `(n_v,)`; None where there are none at all."""
    if rotors is None:
        return None
    parts, place = [], 0
    for segment in rotors.inertias:
        inertia = _gather(reference, (segment,), lambda component: component.inertia).ravel()
        parts.append((inertia, rotors.velocities[place : place + len(inertia)]))
        place += len(inertia)
    return sums_of_parts(parts, n_v, reference.reference_temperature.dtype)


def _weight(potential) -> Array:
    """The weight (3,) that the tree counts, N; none where the reference semantics counts it with a user's law."""
    if follows(potential, BodyPotential):
        return jnp.zeros_like(potential.gravity)
    return potential.mass * potential.gravity


def splits_of(reference: ReferenceDAE, layout: Layout) -> tuple[Split | None, ...]:
    """How loop joints split the space of twists, by group; None where that changes as they move."""
    splits: list[Split | None] = []
    for group in layout.loops:
        motion = members(reference.components[group.constraint.batch], group.constraint).motion
        constant = is_lower_pair(motion)
        splits.append(
            split(basis(motion, len(group.bodies), reference.reference_temperature.dtype)) if constant else None
        )
    return tuple(splits)


def _joints(reference: ReferenceDAE, source: GroupSource, n: int) -> Joints:
    dtype = reference.reference_temperature.dtype
    if not source.constraints:
        return FreeBodies()
    both = frames(reference, (*source.before, *source.after))
    before, after = both[:n], both[n:]
    if not source.one_parameter:
        (segment,) = source.constraints
        motion = members(reference.components[segment.batch], segment).motion
        return GeneralJoints.of(motion, before, after, bool(source.reversed[0]))
    motions = [(members(reference.components[s.batch], s).motion, len(s.members)) for s in source.constraints]
    twist = jnp.concatenate([basis(motion, n, dtype) for motion, n in motions])[..., 0]
    if source.reversed.any():
        twist = jnp.where(source.reversed[:, None], -twist, twist)
    return OneParameterJoints.of(before, twist, after)


def gear_values(
    reference: ReferenceDAE, parts: tuple[Segment, ...], ends: Iterable[Array], function: Callable[..., Array]
) -> Array:
    """What a function of a gear and of values at its ends gives, gear by gear `(n, ...)`.

    **Arguments:** `ends` `(ends, members, ...)` of each segment of `parts`; the function takes a gear with its own.
    """
    each = eqx.filter_vmap(function)
    found = [each(members(reference.components[s.batch], s), tuple(own)) for s, own in zip(parts, ends, strict=True)]
    return found[0] if len(found) == 1 else jnp.concatenate(found)


def frames(reference: ReferenceDAE, parts: tuple[Segment, ...]) -> Array:
    """Poses `(n, 3, 4)` of joint frames in their bodies."""
    position, quaternion = _gather(reference, parts, lambda offset: (offset.position, offset.quaternion))
    return jax.vmap(frame_at)(position, quaternion)


def _gather(reference: ReferenceDAE, parts: tuple[Segment, ...], function: Callable):
    values = [eqx.filter_vmap(function)(members(reference.components[s.batch], s)) for s in parts]
    return jax.tree.map(lambda *leaves: leaves[0] if len(leaves) == 1 else jnp.concatenate(leaves), *values)


def members(component, segment: Segment):
    """The members of a batch of components that a segment names."""
    return jax.tree.map(lambda x: entries_at(x, segment.members) if eqx.is_array(x) else x, component)
