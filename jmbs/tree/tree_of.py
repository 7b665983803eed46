"""The tree formulation of a system: of which class it is, by what stands beside the tree's own joints."""

from __future__ import annotations

import jax.numpy as jnp

from jmbs.constraints import loop_joints_of
from jmbs.ephs import ReferenceDAE
from jmbs.tree.layout import Layout
from jmbs.tree.links import frames, links_of, splits_of
from jmbs.tree.open_tree import OpenTree
from jmbs.tree.tree_dae import TreeDAE, simple_drives
from jmbs.tree.tree_with_components import TreeWithComponents
from jmbs.tree.tree_with_constraints import TreeWithConstraints
from jmbs.tree.tree_with_gears import TreeWithGears, TreeWithGearsAndComponents
from jmbs.tree.tree_with_loops import AbstractTreeWithLoops, TreeWithLoops, TreeWithLoopsAndComponents


def tree_dae(reference: ReferenceDAE, layout: Layout) -> TreeDAE:
    """The tree formulation of a system at its present parameters; differentiable."""
    splits, links = splits_of(reference, layout), links_of(reference, layout)
    if layout.only_loops is None:
        return _without_loops(reference, layout)(reference, links, splits, layout, False)
    first = jnp.concatenate([frames(reference, group.first) for group in layout.loops])
    second = jnp.concatenate([frames(reference, group.second) for group in layout.loops])
    joints = loop_joints_of(second, [split for split in splits if split is not None])
    return _with_loops(reference, layout)(reference, links, splits, layout, False, joints, (first, second))


def driven_by(dae: TreeDAE, reference: ReferenceDAE) -> TreeDAE:
    """The same tree in the same system with other drives."""
    layout = dae.layout
    tree = reference, dae.links, dae.splits, layout, dae.forward_only
    if isinstance(dae, AbstractTreeWithLoops):
        return _with_loops(reference, layout)(*tree, dae.loop_joints, dae.loop_frames)
    return _without_loops(reference, layout)(*tree)


def _without_loops(reference: ReferenceDAE, layout: Layout) -> type[TreeDAE]:
    """Also for loops where other constraints are beside them."""
    simple = _simply_driven(reference, layout)
    if layout.only_gears is not None and not layout.loops:
        return TreeWithGears if simple and layout.gears_alone else TreeWithGearsAndComponents
    if layout.other_rows.size:
        return TreeWithConstraints
    return OpenTree if simple and layout.only_springs else TreeWithComponents


def _with_loops(reference: ReferenceDAE, layout: Layout) -> type[TreeWithLoops] | type[TreeWithLoopsAndComponents]:
    alone = layout.loops_alone is not None and _simply_driven(reference, layout)
    return TreeWithLoops if alone else TreeWithLoopsAndComponents


def _simply_driven(reference: ReferenceDAE, layout: Layout) -> bool:
    """Whether all drives are simple ones."""
    return len(simple_drives(reference, layout)) == len(reference.drives)
