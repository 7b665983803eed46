"""Graphs and trees, planned once with numpy; nothing here knows mechanics."""

from jmbs.graphs.colouring import column_colours
from jmbs.graphs.forest import Forest
from jmbs.graphs.levels import blocks_of, level_sets
from jmbs.graphs.spanning import GROUND, SpanningTree, spanning_tree

__all__ = ["GROUND", "Forest", "SpanningTree", "blocks_of", "column_colours", "level_sets", "spanning_tree"]
