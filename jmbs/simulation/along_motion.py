"""Generalised forces along a motion given by joint coordinates, rates and accelerations; nothing is integrated."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax
from jaxtyping import Array, Float

from jmbs.errors import ModelError
from jmbs.jaxext import with_entries
from jmbs.rigid_body import inverse_dynamics
from jmbs.simulation.state import identity_state
from jmbs.tree import Layout, tree_dae

if TYPE_CHECKING:
    from jmbs.simulation.model import Model


def moving_joints(model: Model, path: str = "model") -> tuple[str, ...]:
    """The joints that say all of a motion, one coordinate each, in the order of the tree's velocities.

    Raises `ModelError` naming `path` where more moves than these: free bodies, joints of several coordinates, loops,
    constraints, or states of other components.
    """
    layout = _open_tree(model, path)
    names = [""] * layout.tree.n_velocities
    for group, source in zip(layout.tree.groups, layout.sources, strict=True):
        if not group.velocities.shape[1]:
            continue
        if not source.constraints:
            body = layout.tree.bodies[group.bodies[0]]
            raise ModelError(
                path, f"{body}, which no joint leads to", "bodies that joints lead to, for inverse dynamics"
            )
        if not source.one_parameter:
            wanted = "revolute, prismatic or screw joints, for inverse dynamics"
            raise ModelError(path, f"{group.names[0]}, a joint of other coordinates", wanted)
        for name, place in zip(group.names, group.velocities[:, 0], strict=True):
            names[place] = name
    own = {source.block for source in layout.sources}
    for i, block in enumerate(layout.blocks[: len(layout.kept)]):
        if i not in own and not block.environment and block.slots.stop > block.slots.start:
            raise ModelError(path, f"{block.junctions[0]}, a state of its own", "motion of joints only")
    return tuple(names)


def _open_tree(model: Model, path: str) -> Layout:
    if model.tree is None:
        raise ModelError(path, f"no tree formulation, since {model.without_tree}", "a mechanism with a tree")
    if model.tree.other_rows.size:
        found = f"{model.tree.other_rows.size} rows of loops, constraints or prescribed motions"
        raise ModelError(path, found, "an open tree without constraints, for inverse dynamics")
    return model.tree


def forces_along(
    model: Model, ts: Float[Array, " n"], q: Float[Array, "n k"], v: Float[Array, "n k"], dv: Float[Array, "n k"]
) -> Float[Array, "n k"]:
    """Generalised forces, N m or N, of `moving_joints` that move them so, beside all that the model has; pure."""
    layout = _open_tree(model, "model")
    dae = tree_dae(model.dae, layout)
    reference = identity_state(model.dae).blocks
    kept = [reference[i] for i in layout.kept]

    def at(t: Array, q: Array, v: Array, dv: Array) -> Array:
        y = _placed(layout, kept, q, v)
        forces, loads = dae.forces(t, y)
        return inverse_dynamics(layout.tree, dae.links, dae.elements(y), v, dv, loads) - forces

    return jax.vmap(at)(ts, q, v, dv)


def _placed(layout: Layout, kept: list[Array], q: Array, v: Array) -> tuple[Array, ...]:
    """The tree's state at coordinates and rates."""
    blocks = list(kept)
    for group, source in zip(layout.tree.groups, layout.sources, strict=True):
        if group.velocities.shape[1]:
            blocks[source.block] = with_entries(blocks[source.block], source.rows, q[group.velocities])
    return (*blocks, v[None])
