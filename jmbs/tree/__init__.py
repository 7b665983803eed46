"""The tree formulation: joint coordinates along a spanning tree, O(n) recursions, loops as constraints on top."""

from jmbs.tree.couplings import stored_with
from jmbs.tree.layout import Layout, make_layout
from jmbs.tree.open_tree import OpenTree
from jmbs.tree.projection import project
from jmbs.tree.reactions import Seen, efforts_at, seen
from jmbs.tree.recognise import Recognised, recognise
from jmbs.tree.tree_dae import TreeDAE
from jmbs.tree.tree_of import tree_dae
from jmbs.tree.tree_with_gears import TreeWithGears
from jmbs.tree.tree_with_loops import TreeWithLoops

__all__ = [
    "Layout",
    "OpenTree",
    "Recognised",
    "Seen",
    "TreeDAE",
    "TreeWithGears",
    "TreeWithLoops",
    "efforts_at",
    "make_layout",
    "project",
    "recognise",
    "seen",
    "stored_with",
    "tree_dae",
]
