"""Inner power ports of a system, shown at its outer box."""

from __future__ import annotations

import dataclasses
from typing import Any

from jmbs.ephs.pattern import Junction, Pattern
from jmbs.ephs.system import System


def exposed(system: System, path: str, port: str) -> tuple[System, str]:
    """The system with the junction at a component's power port exposed, and the name of the outer port that shows it.

    An outer port that is there already is taken; a new one is called `<path>/<port>`.

    **Arguments:** `path` of a component of the system, through any depth. Raises `KeyError` where there is none.
    """
    box, _, rest = path.partition("/")
    filling: Any = system.boxes[box]
    if rest:
        if not isinstance(filling, System):
            raise KeyError(path)
        filling, inner_port = exposed(filling, rest, port)
    else:
        inner_port = port
    kind = filling.ports[inner_port]
    inner = {**system.pattern.inner, box: dict(filling.ports)}
    junctions, shown = [], ""
    for junction in system.pattern.junctions:
        if (box, inner_port) in junction.inner:
            shown = next((name for name in junction.outer if system.pattern.outer[name].power), f"{path}/{port}")
            if shown not in junction.outer:
                junction = dataclasses.replace(junction, outer=(*junction.outer, shown))
        junctions.append(junction)
    if not shown:
        shown = f"{path}/{port}"
        junctions.append(Junction(shown, ((box, inner_port),), (shown,)))
    outer = {**system.pattern.outer, shown: system.pattern.outer.get(shown, kind)}
    boxes = {**system.boxes, box: filling}
    return dataclasses.replace(system, pattern=Pattern(inner, outer, tuple(junctions)), boxes=boxes), shown
