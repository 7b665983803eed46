"""The tree formulation of a system: of which class it is, by what is constrained beside its own joints."""

from __future__ import annotations

import jax.numpy as jnp

from jmbs.constraints import loop_joints_of
from jmbs.ephs import ReferenceDAE
from jmbs.tree.layout import Layout
from jmbs.tree.links import frames, links_of, splits_of
from jmbs.tree.open_tree import OpenTree
from jmbs.tree.tree_dae import TreeDAE
from jmbs.tree.tree_with_constraints import TreeWithConstraints
from jmbs.tree.tree_with_gears import TreeWithGears
from jmbs.tree.tree_with_loops import TreeWithLoops


def tree_dae(reference: ReferenceDAE, layout: Layout) -> TreeDAE:
    """The tree formulation of a system at its present parameters; differentiable."""
    splits, links = splits_of(reference, layout), links_of(reference, layout)
    if layout.only_loops is None:
        return _without_loops(layout)(reference, links, splits, layout, False)
    first = jnp.concatenate([frames(reference, group.first) for group in layout.loops])
    second = jnp.concatenate([frames(reference, group.second) for group in layout.loops])
    joints = loop_joints_of(second, [split for split in splits if split is not None])
    return TreeWithLoops(reference, links, splits, layout, False, joints, (first, second))


def _without_loops(layout: Layout) -> type[OpenTree] | type[TreeWithGears] | type[TreeWithConstraints]:
    """Also for loops where other constraints are beside them."""
    if layout.only_gears is not None and not layout.loops:
        return TreeWithGears
    return TreeWithConstraints if layout.other_rows.size else OpenTree
