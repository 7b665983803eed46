"""Draws the interconnection pattern of a system or mechanism as SVG."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

from jmbs.ephs import FlatSystem, System, flatten, validate
from jmbs.errors import ModelError
from jmbs.files import write_text
from jmbs.library.mechanics import Mechanism
from jmbs.visualise.diagram import text
from jmbs.visualise.diagram.geometry import Rectangle
from jmbs.visualise.diagram.graph import Diagram, flat_diagram, nested_diagram
from jmbs.visualise.diagram.label import Label, labels
from jmbs.visualise.diagram.route import route
from jmbs.visualise.diagram.svg import Picture, write_svg

FRAME_MARGIN, NAME_HEIGHT = 34.0, 20.0
"""Space (px) between the outer box and what is in it, and room above it for its name."""


@dataclasses.dataclass(frozen=True)
class Drawing:
    """A picture; notebooks show it. **Arguments:** `svg`, the text of an SVG file."""

    svg: str

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Writes the SVG file, over an earlier one, and returns its path. Raises `ModelError` for another suffix."""
        path = Path(path)
        if path.suffix.lower() != ".svg":
            raise ModelError(str(path), f"a file {path.suffix or 'without suffix'}", "a file .svg")
        write_text(path, self.svg)
        return path

    def _repr_svg_(self) -> str:
        return self.svg


def draw(system: System | Mechanism, depth: int = 1, flat: bool = False, name: str | None = None) -> Drawing:
    """The interconnection pattern of a system in the graphical language of exergetic port-Hamiltonian systems.

    Round inner boxes are coloured by what fills them; dots are junctions, solid lines power ports, dashed lines state
    ports; lines through the outer rectangle are outer ports. A port's name stands once at a junction where several
    ports share it, and beside its line otherwise. The same system gives the same picture.

    **Arguments:**

    - `system`: an `jmbs.ephs.System`, or a mechanism for its `.system()`.
    - `depth`: 1 shows the system's own boxes, 2 opens composite boxes among them, 3 those inside, and so on.
    - `flat`: shows the flattened system instead: all primitive components by path.
    - `name`: written above the outer box; that of a mechanism if not given.

    Raises `ModelError` for anything else, and for a system that has no meaning, whatever is connected to its outer
    ports.
    """
    if isinstance(system, Mechanism):
        name = system.name if name is None else name
        system = system.system()
    if not isinstance(system, System):
        raise ModelError("system", type(system).__name__, "a Mechanism or a System")
    if isinstance(depth, bool) or not isinstance(depth, int) or depth < 1:
        raise ModelError("depth", depth, "a whole number, 1 or greater")
    if flat and depth != 1:
        raise ModelError("depth", f"{depth} for a flattened system", "depth or flat, not both: nothing is nested there")
    if not system.boxes:
        raise ModelError("system", "no boxes", "at least one box to draw")
    _check(system)
    diagram = flat_diagram(system) if flat else nested_diagram(system, depth)
    return Drawing(write_svg(compose(diagram, name or "")))


def compose(diagram: Diagram, name: str = "") -> Picture:
    """Where everything in a diagram goes, and the name above its outer box."""
    from jmbs.visualise.diagram.layout import place  # here: it brings networkx, which plots of results do without

    placed = place(diagram)
    frame = placed.bounds().grown(FRAME_MARGIN)
    above = Rectangle(frame.low - 1j * NAME_HEIGHT, frame.low + text.width(name, text.NAME_SIZE))
    wires = route(placed, frame, above)
    return Picture(placed, frame, wires, labels(placed, wires, frame, above), Label(name, above))


def _check(system: System) -> None:
    """Refuses wrong systems. A junction with outer ports may still get outside what it lacks, so it is not judged."""
    flat = flatten(system)
    closed = tuple(junction for junction in flat.junctions if not junction.outer)
    validate(FlatSystem(flat.components, closed, flat.drives, flat.closures))
