"""What the recursions know of a mechanism's tree: static numbering, and the parameters as arrays in components.

Bodies are numbered so that parents come first; velocities (degrees of freedom) follow their bodies in that order.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from jmbs.by_value import by_value
from jmbs.graphs import Forest
from jmbs.jaxext import all_entries_at
from jmbs.rigid_body.joints import Joints, entries_of
from jmbs.rigid_body.paths import Entries
from jmbs.spatial import Symmetric, Vector


@by_value
@dataclasses.dataclass(frozen=True, eq=False)
class JointGroup:
    """Joints of one kind, evaluated together.

    **Arguments:** `bodies` (n,) that they lead to; `velocities` (n, k), their places in the vector of velocities;
    `space`, the configuration group.
    """

    names: tuple[str, ...]
    bodies: np.ndarray
    velocities: np.ndarray
    space: Any


@by_value
@dataclasses.dataclass(frozen=True, eq=False)
class Tree:
    """**Arguments:** `bodies`: names in the order of `forest`; `groups`: all joints of the tree, one per body."""

    bodies: tuple[str, ...]
    forest: Forest
    groups: tuple[JointGroup, ...]

    @functools.cached_property
    def freedom(self) -> np.ndarray:
        """Number of velocities of every body's joint."""
        freedom = np.zeros(len(self.bodies), dtype=int)
        for group in self.groups:
            freedom[group.bodies] = group.velocities.shape[1]
        return freedom

    @functools.cached_property
    def body_of(self) -> np.ndarray:
        """`(n_v,)`: the body that each velocity moves directly."""
        return np.repeat(np.arange(len(self.bodies)), self.freedom)

    @property
    def free_bodies(self) -> list[int]:
        """The bodies that no joint leads to, by number: their groups have no names."""
        return [int(body) for group in self.groups if not any(group.names) for body in group.bodies]

    @property
    def n_velocities(self) -> int:
        return len(self.body_of)

    def by_velocity(self, entries: Entries) -> Entries:
        """Entries of bodies `(bodies, ...)`: for each velocity those of the body that it moves."""
        return all_entries_at(entries, self.body_of)

    @functools.cached_property
    def order(self) -> np.ndarray | None:
        """Where each body stands when the groups are put one after the other; None if in the same order."""
        listed = np.concatenate([g.bodies for g in self.groups])
        return None if np.array_equal(listed, np.arange(len(listed))) else np.argsort(listed)

    @functools.cached_property
    def velocity_order(self) -> np.ndarray | None:
        """The same for velocities, column by column of each group."""
        empty = np.zeros(0, dtype=int)
        listed = np.concatenate([empty, *(g.velocities.T.ravel() for g in self.groups)])
        return None if np.array_equal(listed, np.arange(len(listed))) else np.argsort(listed)

    @functools.cached_property
    def moves(self) -> np.ndarray:
        """`(n, n_v)`: whether a velocity moves a body."""
        return self.forest.reach[:, self.body_of]

    def moving(self, bodies: np.ndarray) -> np.ndarray:
        """`(..., n_v)`: whether a velocity moves each of the bodies; none moves the ground, -1."""
        return (bodies >= 0)[..., None] & self.moves[bodies]

    @functools.cached_property
    def nodes(self) -> Nodes:
        """The bodies' joints, one degree of freedom at a time."""
        count = np.maximum(self.freedom, 1)
        last = np.cumsum(count) - 1
        body = np.repeat(np.arange(len(count)), count)
        first = np.zeros(len(body), dtype=bool)
        first[last - count + 1] = True
        above = self.forest.parent[body]
        parent = np.where(first, np.where(above >= 0, last[np.maximum(above, 0)], -1), np.arange(len(body)) - 1)
        free = np.repeat(self.freedom > 0, count)
        is_last = np.zeros(len(body), dtype=bool)
        is_last[last] = True
        return Nodes(Forest(parent), body, first, is_last, free)


@by_value
@dataclasses.dataclass(frozen=True, eq=False)
class Nodes:
    """Single degrees of freedom in a row; a body without freedom has one node that never moves.

    **Arguments:** per node: its place in the `forest`, the `body` that it moves, whether it is the `first` or the
    `last` of that body (the last one carries the body's inertia), and whether it is `free` at all.
    """

    forest: Forest
    body: np.ndarray
    first: np.ndarray
    last: np.ndarray
    free: np.ndarray

    @functools.cached_property
    def simple(self) -> bool:
        """One node per body, and all of them free."""
        return bool(self.first.all() and self.free.all())


class Links(eqx.Module):
    """The tree's parameters.

    **Arguments:** `joints` by group. By body: `mass` (n,) kg, `inertia` (n, 6) kg m^2 (body axes, about the centre of
    mass; xx, xy, xz, yy, yz, zz), `weight` (n, 3) N (world axes). `armature` (n_v,) kg m^2 or kg, what rotors add to
    the diagonal of the mass matrix, None where there are none.
    """

    joints: tuple[Joints, ...]
    mass: Array
    inertia: Array
    weight: Array
    armature: Array | None = None

    @property
    def weightless(self) -> Links:
        """The same without weight."""
        return Links(self.joints, self.mass, self.inertia, jnp.zeros_like(self.weight), self.armature)

    def rotor_momentum(self, v: Array) -> Array:
        """The rotors' momenta at velocities, or the torques on them at rates of velocities, where there are some."""
        assert self.armature is not None
        return self.armature * v

    def with_rotors(self, forces: Array, dv: Array) -> Array:
        """Generalised forces that bodies need, with what the rotors need beside them to change velocities by `dv`."""
        return forces if self.armature is None else forces + self.rotor_momentum(dv)

    def inertias(self, components: bool) -> Symmetric:
        """The inertias in one of the forms of `jmbs.spatial`."""
        if components:
            return entries_of(self.inertia, 6)
        x, y, z = self.inertia[:, :3], self.inertia[:, 3:5], self.inertia[:, 5:]
        rows = [x, x[:, 1:2], y, x[:, 2:3], y[:, 1:2], z]
        return jnp.concatenate(rows, axis=1).reshape(-1, 3, 3)

    def weights(self, components: bool) -> Vector:
        """The weights in one of the forms."""
        return entries_of(self.weight, 3) if components else self.weight
