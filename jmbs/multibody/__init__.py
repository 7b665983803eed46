"""The tree formulation: joint coordinates along a spanning tree, O(n) recursions, loops as constraints on top."""

from jmbs.multibody.couplings import stored_with
from jmbs.multibody.dynamics import forward_dynamics, inverse_dynamics, mass_solver
from jmbs.multibody.kinematics import TreeMotion, kinematics
from jmbs.multibody.layout import Layout, make_layout
from jmbs.multibody.mass_matrix import mass_matrix, turned_inertias
from jmbs.multibody.projection import project
from jmbs.multibody.reactions import Seen, efforts_at, seen
from jmbs.multibody.recognise import Recognised, recognise
from jmbs.multibody.tree import Links, Tree
from jmbs.multibody.tree_dae import TreeDAE, tree_dae

__all__ = [
    "TreeMotion",
    "Layout",
    "Links",
    "Recognised",
    "Seen",
    "Tree",
    "TreeDAE",
    "efforts_at",
    "forward_dynamics",
    "inverse_dynamics",
    "kinematics",
    "make_layout",
    "mass_matrix",
    "mass_solver",
    "project",
    "recognise",
    "seen",
    "stored_with",
    "tree_dae",
    "turned_inertias",
]
