"""Forests and spanning trees: what the recursions and the planning of loops rely on."""

from __future__ import annotations

import numpy as np
import pytest

from jmbs.graphs import GROUND, Forest, blocks_of, column_colours, level_sets, spanning_tree


def random_forest(seed: int, n: int = 12) -> Forest:
    rng = np.random.default_rng(seed)
    return Forest(np.array([rng.integers(-1, i) for i in range(n)]))


@pytest.mark.parametrize("seed", range(5))
def test_reach_root_and_depth_agree_with_walking_up(seed):
    forest = random_forest(seed)
    for node in range(len(forest)):
        path = [node]
        while forest.parent[path[-1]] >= 0:
            path.append(forest.parent[path[-1]])
        assert set(np.flatnonzero(forest.reach[node])) == set(path)
        assert forest.root[node] == path[-1]
        assert forest.depth[node] == len(path) - 1


@pytest.mark.parametrize("seed", range(5))
def test_jumps_double(seed):
    forest = random_forest(seed)
    for k, up in enumerate(forest.jumps):
        for node in range(len(forest)):
            above = node
            for _ in range(2**k):
                above = forest.parent[above] if above >= 0 else -1
            assert up[node] == above


@pytest.mark.parametrize("seed", range(5))
def test_branches_hold_what_a_later_child_needs(seed):
    forest = random_forest(seed)
    load, store, count = forest.branches
    for node, parent in enumerate(forest.parent):
        if parent < 0:
            assert load[node] == -1
        elif parent != node - 1:
            assert load[node] == store[parent] < count
        else:
            assert load[node] == count


@pytest.mark.parametrize("seed", range(5))
def test_a_spanning_tree_reaches_every_node_at_least_weight(seed):
    rng = np.random.default_rng(seed)
    n = 8
    ends = [(GROUND if rng.random() < 0.2 else int(rng.integers(n)), int(rng.integers(n))) for _ in range(15)]
    ends = [(a, b) for a, b in ends if a != b]
    weights = [int(rng.integers(7)) for _ in ends]
    tree = spanning_tree(n, ends, weights)
    assert sorted(tree.order) == list(range(n))
    inside = [e for e in tree.edge if e >= 0]
    assert sorted([*inside, *tree.cut]) == list(range(len(ends)))
    for place, (node, edge, back) in enumerate(zip(tree.order, tree.edge, tree.reversed, strict=True)):
        if edge >= 0:
            above, below = ends[edge][::-1] if back else ends[edge]
            parent = tree.forest.parent[place]
            assert below == node and above == (tree.order[parent] if parent >= 0 else GROUND)
    # Whatever is cut is no lighter than any edge of the cycle that it closes.
    for edge in tree.cut:
        without = spanning_tree(n, ends, weights, never=[e for e in inside if weights[e] > weights[edge]])
        if sum(e >= 0 for e in without.edge) == len(inside):
            assert sum(weights[e] for e in without.edge if e >= 0) >= sum(weights[e] for e in inside)


def test_named_edges_are_cut_and_a_tree_may_float():
    tree = spanning_tree(2, [(GROUND, 0), (0, 1)], [1, 1], never=[0])
    assert tree.cut == (0,)
    assert list(tree.edge) == [-1, 1] and list(tree.forest.parent) == [-1, 0]


def test_among_equals_the_tree_is_shallow():
    """Windows side by side: posts on the ground, beams from post to post; every beam hangs on one post."""
    posts, n = 5, 9
    ends = [(GROUND, 0)] + [(k, k + 1) for k in range(n - 1)] + [(GROUND, k) for k in range(2, n, 2)]
    tree = spanning_tree(n, ends, [1] * len(ends))
    assert tree.forest.depth.max() == 1
    assert sum(parent < 0 for parent in tree.forest.parent) == posts


@pytest.mark.parametrize("seed", range(5))
def test_columns_of_one_colour_share_no_row(seed):
    pattern = np.random.default_rng(seed).random((10, 12)) < 0.25
    colours = column_colours(pattern)
    for colour in range(colours.max() + 1):
        assert pattern[:, colours == colour].sum(axis=1).max() <= 1


@pytest.mark.parametrize("seed", range(5))
def test_level_sets_touch_their_neighbours_only(seed):
    rng = np.random.default_rng(seed)
    half = rng.random((20, 20)) < 0.06
    pattern = half | half.T | np.eye(20, dtype=bool)
    sets = level_sets(pattern)
    assert sorted(np.concatenate(sets)) == list(range(20))
    for i, rows in enumerate(sets):
        for j, others in enumerate(sets):
            assert abs(i - j) <= 1 or not pattern[np.ix_(rows, others)].any()


def test_blocks_of_a_band_and_of_a_full_matrix():
    near = np.abs(np.arange(6)[:, None] - np.arange(6)) <= 1
    band = np.kron(near, np.ones((2, 2), dtype=bool))
    np.testing.assert_array_equal(np.sort(blocks_of(band), axis=0), np.arange(12).reshape(6, 2))
    np.testing.assert_array_equal(blocks_of(np.ones((4, 4), dtype=bool)), [[0, 1, 2, 3]])
