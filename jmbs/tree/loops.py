"""Joints that close loops: 6 - k rows each, and rates that follow from the velocities of the two bodies.

With the bodies' velocities `V` in their own axes, the joint's rates `u` and its tangent `S`,

    S u + first V_1 + second V_2 = 0,      hence    W^T (first V_1 + second V_2) = 0,      W^T S = 0,

and the wrench `W mu - S^+T f` of the joint balances the flow `f` that other components take at its rates.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jmbs.constraints import Split, split
from jmbs.ephs import Structure
from jmbs.jaxext import entries_at
from jmbs.rigid_body import Tree, TreeMotion, about_origin
from jmbs.spatial import add, cross, times
from jmbs.tree.loop_groups import LoopGroup
from jmbs.tree.segments import Segment


class LoopRows(NamedTuple):
    """A group of loop joints at a state; see the module's docstring."""

    split: Split
    first: Float[Array, "n 6 6"]
    second: Float[Array, "n 6 6"]


def loop_rows(groups: tuple[LoopGroup, ...], splits: tuple[Split | None, ...], s: Structure) -> tuple[LoopRows, ...]:
    """All groups at a state of which the structure `s` is; `splits` where tangents are constant."""
    rows = []
    for group, known in zip(groups, splits, strict=True):
        matrix, k = s.C[group.constraint.batch], group.rates.shape[1]
        assert matrix is not None
        matrix = matrix[group.constraint.members]
        tangent, first, second = matrix[..., :k], matrix[..., k : k + 6], matrix[..., k + 6 :]
        own = split(tangent) if known is None else known
        rows.append(LoopRows(own, first @ _ratios(s, group.first), second @ _ratios(s, group.second)))
    return tuple(rows)


def _ratios(s: Structure, offsets: tuple[Segment, ...]) -> Float[Array, "n 6 6"]:
    return jnp.concatenate([s.A[part.batch][part.members] for part in offsets])  # type: ignore[index]


def loop_rates(groups, loops: tuple[LoopRows, ...], twists: Float[Array, "bodies 6"]) -> list[Float[Array, "n k"]]:
    """The rates of all loop joints, group by group."""
    rates = []
    for group, at in zip(groups, loops, strict=True):
        first, second = (_of_bodies(twists, group.bodies[:, end]) for end in (0, 1))
        gap = jnp.einsum("nij,nj->ni", at.first, first) + jnp.einsum("nij,nj->ni", at.second, second)
        rates.append(-jnp.einsum("nki,ni->nk", at.split.inverse, gap))
    return rates


def _of_bodies(twists: Array, bodies: np.ndarray) -> Array:
    """Velocities of bodies; zero for the ground."""
    return jnp.where((bodies >= 0)[:, None], twists[np.maximum(bodies, 0)], jnp.zeros((), twists.dtype))


def balancing(groups, loops: tuple[LoopRows, ...], flow: Float[Array, " efforts"]) -> list[Float[Array, "n 6"]]:
    """The part of the joints' wrenches along their tangents, which balances flows at their rates."""
    return [-jnp.einsum("nki,nk->ni", at.split.inverse, flow[g.rates]) for g, at in zip(groups, loops, strict=True)]


def loop_loads(
    groups, loops: tuple[LoopRows, ...], wrenches: list[Float[Array, "n 6"]], loads: Float[Array, "bodies 6"]
) -> Float[Array, "bodies 6"]:
    """`loads` on bodies in their axes and those of the joints' wrenches, which are multipliers of the whole rows."""
    for group, at, wrench in zip(groups, loops, wrenches, strict=True):
        for end, matrix in enumerate((at.first, at.second)):
            held = np.flatnonzero(group.bodies[:, end] >= 0)
            load = jnp.einsum("nij,ni->nj", matrix[held], wrench[held])
            loads = loads.at[group.bodies[held, end]].add(-load)
    return loads


def jacobian(
    tree: Tree, groups: tuple[LoopGroup, ...], loops: tuple[LoopRows, ...], kin: TreeMotion
) -> Float[Array, "m n_v"]:
    """The rows normal to the joints' tangents as functions of the tree's velocities, joint by joint, group by group.

    **Arguments:** `kin`: the tree's motion, in arrays.
    """
    columns = jnp.concatenate(about_origin(tree, kin), axis=1).T
    parts = [jnp.zeros((0, tree.n_velocities), columns.dtype)]
    for group, at in zip(groups, loops, strict=True):
        rows: Array = jnp.zeros((), columns.dtype)
        for end, matrix in enumerate((at.first, at.second)):
            bodies = group.bodies[:, end]
            normal = jnp.swapaxes(at.split.normal, 1, 2) @ matrix
            part = from_origin(kin, np.maximum(bodies, 0), normal)
            product = jnp.matmul(part, columns, precision="highest")
            rows = rows + jnp.where(tree.moving(bodies)[:, None, :], product, 0.0)
        parts.append(rows.reshape(rows.shape[0] * rows.shape[1], tree.n_velocities))
    return jnp.concatenate(parts)


def from_origin(kin: TreeMotion, bodies: np.ndarray, rows: Float[Array, "n m 6"]) -> Float[Array, "n m 6"]:
    """Rows on bodies' velocities in their own axes as rows on twists about the world's origin, in world axes."""
    R, r = (entries_at(x, bodies)[:, None] for x in (kin.bodies.rotation, kin.bodies.position))
    angular, linear = (times(R, part) for part in (rows[..., :3], rows[..., 3:]))
    return jnp.concatenate([add(angular, cross(r, linear)), linear], axis=-1)
