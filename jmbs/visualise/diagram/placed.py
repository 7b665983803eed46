"""A diagram with a place for everything in it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping

from jmbs.visualise.diagram import text
from jmbs.visualise.diagram.geometry import Rectangle, Rounded, around, bounds
from jmbs.visualise.diagram.graph import Diagram

TITLE_HEIGHT = 20.0
"""Of the name of an opened box (px)."""


@dataclasses.dataclass(frozen=True)
class Placed:
    """A pattern with its places.

    **Arguments:** `boxes`: shapes by box name; `dots`: points by junction name; `outer`: about where the outer ports
    leave, by port name; `inside`: the patterns of opened boxes, by box name.
    """

    diagram: Diagram
    boxes: Mapping[str, Rounded]
    dots: Mapping[str, complex]
    outer: Mapping[str, complex]
    inside: Mapping[str, Placed]

    def mapped(self, change: Callable[[complex], complex]) -> Placed:
        """With every place changed."""
        return Placed(
            self.diagram,
            {name: shape.at(change(shape.centre)) for name, shape in self.boxes.items()},
            {name: change(point) for name, point in self.dots.items()},
            {name: change(point) for name, point in self.outer.items()},
            {name: inner.mapped(change) for name, inner in self.inside.items()},
        )

    def moved(self, by: complex) -> Placed:
        return self.mapped(lambda point: point + by)

    def bounds(self) -> Rectangle:
        shapes = [around(shape.centre, 2 * shape.half) for shape in self.boxes.values()]
        return bounds([*shapes, *(Rectangle(point, point) for point in self.dots.values())])

    def levels(self, path: str = "") -> Iterator[tuple[str, Placed]]:
        """This pattern and all patterns inside its opened boxes, with their paths (`base/`)."""
        yield path, self
        for name, inner in self.inside.items():
            yield from inner.levels(f"{path}{name}/")

    def solid_boxes(self) -> list[Rounded]:
        """What nothing may be drawn over, at all levels: closed boxes, and the names of opened ones."""
        closed = [shape for name, shape in self.boxes.items() if name not in self.inside]
        names = [title(self.boxes[name], name).rounded() for name in self.inside]
        return closed + names + [box for inner in self.inside.values() for box in inner.solid_boxes()]

    def all_dots(self) -> list[complex]:
        """The places of the junctions, at all levels."""
        return [point for _, pattern in self.levels() for point in pattern.dots.values()]


def title(shape: Rounded, name: str) -> Rectangle:
    """Where the name of an opened box stands: at its top, inside."""
    top = shape.centre - 1j * shape.half.imag
    return around(top + 1j * (4.0 + TITLE_HEIGHT / 2), complex(text.width(name, text.NAME_SIZE), TITLE_HEIGHT))
