"""Product quadrature rules over solid shapes: Gauss-Legendre rules, and equal angles about an axis.

Averaged over angles about z, a polynomial keeps even powers of the distance from the axis only. So over a cylinder it
is a polynomial in the squared distance and z, and over a ball or half ball in the radius and the cosine of the polar
angle.
"""

from __future__ import annotations

import itertools

import numpy as np

from jmbs.library.mechanics.shapes import Shape

Rule = tuple[np.ndarray, np.ndarray]
"""Nodes and weights."""


def quadrature(shape: Shape, degree: int) -> Rule:
    """Points `(n, 3)` m inside a shape and positive weights `(n,)` m^3, exact for polynomials up to the degree."""
    match shape.kind:
        case "box":
            return _box(shape.dimensions, degree)
        case "sphere":
            return _ball(shape.dimensions[0], -1.0, 1.0, degree)
        case "cylinder":
            radius, height = shape.dimensions
            return _cylinder(radius, height, degree)
        case _:
            radius, height = shape.dimensions
            end = np.array([0.0, 0.0, height / 2])
            middle, middle_weights = _cylinder(radius, height, degree)
            top, top_weights = _ball(radius, 0.0, 1.0, degree)
            bottom, bottom_weights = _ball(radius, -1.0, 0.0, degree)
            points = np.concatenate([middle, top + end, bottom - end])
            return points, np.concatenate([middle_weights, top_weights, bottom_weights])


def gauss(low: float, high: float, degree: int) -> Rule:
    """The Gauss-Legendre rule on an interval, exact for polynomials up to the degree."""
    nodes, weights = np.polynomial.legendre.leggauss(degree // 2 + 1)
    return (low + high) / 2 + (high - low) / 2 * nodes, (high - low) / 2 * weights


def _equal_angles(degree: int) -> Rule:
    """Exact for trigonometric polynomials up to the degree."""
    count = degree + 1
    return 2 * np.pi / count * np.arange(count), np.full(count, 2 * np.pi / count)


def _product(*rules: Rule) -> Rule:
    """Nodes `(d, n)` and weights `(n,)` of the product of `d` rules."""
    nodes = np.array(list(itertools.product(*(nodes for nodes, _ in rules)))).T
    weights = np.array(list(itertools.product(*(weights for _, weights in rules))))
    return nodes, np.prod(weights, axis=1)


def _box(lengths: np.ndarray, degree: int) -> Rule:
    nodes, weights = _product(*(gauss(-length / 2, length / 2, degree) for length in lengths))
    return nodes.T, weights


def _cylinder(radius: float, height: float, degree: int) -> Rule:
    """With `s` the squared distance from the axis, the volume element is `1/2 ds dphi dz`."""
    squares = gauss(0.0, radius**2, degree // 2)
    (s, phi, z), weights = _product(squares, _equal_angles(degree), gauss(-height / 2, height / 2, degree))
    return np.stack([np.sqrt(s) * np.cos(phi), np.sqrt(s) * np.sin(phi), z], axis=1), weights / 2


def _ball(radius: float, low: float, high: float, degree: int) -> Rule:
    """The part of a ball where the cosine of the polar angle is between `low` and `high`."""
    # Two degrees more, for the factor r^2 of the volume element.
    (r, cosine, phi), weights = _product(
        gauss(0.0, radius, degree + 2), gauss(low, high, degree), _equal_angles(degree)
    )
    distance = r * np.sqrt(1 - cosine**2)
    return np.stack([distance * np.cos(phi), distance * np.sin(phi), r * cosine], axis=1), weights * r**2
