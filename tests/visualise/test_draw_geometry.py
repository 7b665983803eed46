"""Distances in diagrams agree with distances measured point by point."""

from __future__ import annotations

import numpy as np
import pytest

from jmbs.visualise.diagram.geometry import Rounded, crosses, nearest_point, point_along

BOXES = [
    Rounded(3 + 2j, 20 + 20j, 20.0),
    Rounded(-5 + 1j, 60 + 22j, 22.0),
    Rounded(0j, 200 + 120j, 44.0),
    Rounded(1j, 30 + 10j, 0.0),
]


def points(rng, count, size):
    return rng.uniform(-size, size, count) + 1j * rng.uniform(-size, size, count)


def outline_points(box: Rounded) -> np.ndarray:
    directions = np.exp(2j * np.pi * np.arange(4000) / 4000)
    return box.outline(box.centre, box.centre + 1000 * directions)


@pytest.mark.parametrize("box", BOXES, ids=str)
def test_distance_to_points_and_segments(box):
    rng = np.random.default_rng(0)
    a, b = points(rng, 40, 400), points(rng, 40, 400)
    outline = outline_points(box)
    direct = np.abs(a[:, None] - outline).min(axis=1)
    np.testing.assert_allclose(np.abs(box.distance(a, a)), direct, atol=0.5)
    along = a[:, None] + np.linspace(0, 1, 2001) * (b - a)[:, None]
    sampled = box.distance(along, along).min(axis=1)
    outside = sampled > 0.5
    assert outside.any() and not outside.all()
    np.testing.assert_allclose(box.distance(a, b)[outside], sampled[outside], atol=0.5)
    assert (box.distance(a, b)[sampled < -0.5] <= 0).all()


@pytest.mark.parametrize("other", BOXES, ids=str)
def test_gap_of_boxes(other):
    box = BOXES[1]
    for centre in points(np.random.default_rng(1), 20, 400):
        moved = other.at(centre)
        outline = outline_points(moved)
        if box.contains(outline).any() or moved.contains(outline_points(box)).any():
            assert box.gap(moved) < 0
        else:
            assert box.gap(moved) == pytest.approx(box.distance(outline, outline).min(), abs=0.5)
        assert box.gap(moved) == pytest.approx(moved.gap(box))


def test_crossings_and_points_on_lines():
    assert crosses(0, 2 + 2j, 2j, 2 + 0j) and not crosses(0, 1 + 1j, 2 + 2j, 3 + 0j)
    assert not crosses(0, 1, 1, 1 + 1j)  # a common end is no crossing
    assert nearest_point(1 + 5j, 0, 3) == 1 and nearest_point(-1j, 1, 3) == 1
    assert point_along((0, 4, 4 + 4j), 0.75) == (4 + 2j, 1j)
