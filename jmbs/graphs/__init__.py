"""Graphs and trees, planned once with numpy; nothing here knows mechanics."""

from jmbs.graphs.forest import Forest
from jmbs.graphs.spanning import GROUND, SpanningTree, spanning_tree

__all__ = ["GROUND", "Forest", "SpanningTree", "spanning_tree"]
