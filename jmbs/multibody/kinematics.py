"""TreeMotion of a tree: motions of joints by what they declare, then of all bodies relative to the world."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jmbs.graphs import Forest
from jmbs.multibody.joints import Column
from jmbs.multibody.tree import Links, Tree
from jmbs.multibody.walks import outward
from jmbs.spatial import Motion, add, compose, cross, rest, subtract, times, vector


class TreeMotion(NamedTuple):
    """Motions of all bodies relative to the world, entries `(bodies, ...)`, and twists per velocity `(n_v, ...)`.

    A twist is the body's angular velocity and the velocity of its centre of mass, world axes, relative to its parent.
    """

    bodies: Motion
    columns: Column


def kinematics(
    tree: Tree,
    links: Links,
    q: tuple[Array, ...],
    v: Array,
    dv: Array | None = None,
    local: bool = False,
    walk: bool = False,
) -> TreeMotion:
    """Poses, velocities and accelerations of all bodies.

    **Arguments:** `q`: elements by joint group, `(n, ..., *space.shape)`; `v`, `dv`: velocities and their rates
    `(n_v, ...)`, no rates meaning zero; the dots are a batch axis that all have, or none. `local`: put the first body
    of each tree at the origin, which changes no force and keeps small numbers small. `walk`: go from body to body
    instead of composing by doubling, which pays for batches.
    """
    motions, columns = [], []
    for group, joints, element in zip(tree.groups, links.joints, q, strict=True):
        places = group.velocities.T
        motion, own = joints.relative(element, [v[p] for p in places], None if dv is None else [dv[p] for p in places])
        motions.append(motion)
        columns += own
    relative = jax.tree.map(lambda *parts: _ordered(parts, tree.order), *motions)
    relative = jax.tree.map(lambda x: jnp.broadcast_to(x, (x.shape[0], *v.shape[1:])), relative)
    if local:
        base = tree.forest.parent < 0
        relative = relative._replace(position=tuple(select(base, jnp.zeros_like(x), x) for x in relative.position))
    bodies = (_walked if walk else _doubled)(tree.forest, relative)
    if not columns:
        return TreeMotion(bodies, ((v, v, v), (v, v, v)))
    own = jax.tree.map(lambda *parts: _ordered(parts, tree.velocity_order), *columns)
    R: tuple = tuple(x[tree.body_of] for x in bodies.rotation)
    return TreeMotion(bodies, (times(R, own[0]), times(R, own[1])))


def joint_rates(tree: Tree, links: Links, q: tuple[Array, ...], twists: Float[Array, "bodies 6"]) -> Array:
    """The velocities `(n_v,)` of the joints that explain the bodies' twists (body axes), by least squares."""
    kin = kinematics(tree, links, q, jnp.zeros(tree.n_velocities, twists.dtype))
    R, r = kin.bodies.rotation, kin.bodies.position
    w, v = times(R, vector(twists[:, :3])), times(R, vector(twists[:, 3:]))
    parent = tree.forest.parent
    above = lambda x: tuple(select(parent >= 0, c[np.maximum(parent, 0)], jnp.zeros_like(c)) for c in x)  # noqa: E731
    spin = subtract(w, above(w))
    velocity = subtract(v, add(above(v), cross(above(w), subtract(r, above(r)))))
    relative = jnp.stack([*spin, *velocity], axis=-1)
    columns = jnp.stack([*kin.columns[0], *kin.columns[1]], axis=-1)
    rates = jnp.zeros(tree.n_velocities, twists.dtype)
    for group in tree.groups:
        if group.velocities.shape[1]:
            S = columns[group.velocities]
            normal, rhs = jnp.einsum("nka,nla->nkl", S, S), jnp.einsum("nka,na->nk", S, relative[group.bodies])
            rates = rates.at[group.velocities].set(jnp.linalg.solve(normal, rhs[..., None])[..., 0])
    return rates


def _doubled(forest: Forest, relative: Motion) -> Motion:
    """Motions relative to the world, from those relative to parents: composed by doubling, in log(depth) rounds."""
    if not forest.jumps:
        return relative

    def double(whole: Motion, up: Array) -> tuple[Motion, None]:
        above = jax.tree.map(lambda x: x[jnp.maximum(up, 0)], whole)
        return jax.tree.map(lambda new, old: select(up >= 0, new, old), compose(above, whole), whole), None

    # A scan, so that compile time does not grow with the depth.
    return jax.lax.scan(double, relative, jnp.asarray(np.stack(forest.jumps)))[0]


def _walked(forest: Forest, relative: Motion) -> Motion:
    """The same, one body after the other."""

    def step(above: Motion, own: Motion) -> tuple[Motion, Motion]:
        whole = compose(above, own)
        return whole, whole

    return outward(forest, step, rest(relative.position[0][0]), relative)


def select(mask: Array | np.ndarray, a: Array, b: Array) -> Array:
    """`a` where the mask `(n,)` of the first axis holds, else `b`."""
    return jnp.where(mask.reshape(mask.shape + (1,) * (a.ndim - 1)), a, b)


def _ordered(parts: tuple[Array, ...], order: np.ndarray | None) -> Array:
    whole = parts[0] if len(parts) == 1 else jnp.concatenate(_alike(parts))
    return whole if order is None else whole[order]


def _alike(parts: tuple[Array, ...]) -> list[Array]:
    shape = jnp.broadcast_shapes(*(x.shape[1:] for x in parts))
    return [jnp.broadcast_to(x, (x.shape[0], *shape)) for x in parts]
