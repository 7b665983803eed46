"""Interconnection patterns: inner boxes, one outer box, and junctions where ports meet; pure syntax, no equations."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

from jmbs.ephs.interface import Interface, Port, Quantity
from jmbs.errors import ModelError


@dataclasses.dataclass(frozen=True)
class Junction:
    """A junction: all states equal, all efforts equal, inner flows sum to the outer flows.

    **Arguments:**

    - `name`: how results and messages call it.
    - `inner`: `(box, port)` pairs of the inner boxes.
    - `outer`: ports of the outer box exposed here.
    """

    name: str
    inner: tuple[tuple[str, str], ...]
    outer: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Pattern:
    """An interconnection pattern: interfaces of inner boxes, interface of the outer box, junctions.

    Construction checks what the syntax alone can tell: every inner port stands at exactly one junction, all
    quantities at a junction agree, names exist. Raises `ModelError`.
    """

    inner: Mapping[str, Interface]
    outer: Interface
    junctions: tuple[Junction, ...]

    def __post_init__(self):
        _check_names(self)
        _check_each_port_once(self)
        for junction in self.junctions:
            _check_quantities(self, junction)


def pattern(
    inner: Mapping[str, Interface],
    junctions: Mapping[str, Sequence[str] | str],
    outer: Mapping[str, str] | Iterable[str] = (),
) -> Pattern:
    """A pattern from short strings.

    **Arguments:**

    - `inner`: interface of each inner box.
    - `junctions`: junction name to ports written `box.port`, as a list or one string with spaces.
    - `outer`: exposed ports: names of junctions, or outer port name to junction name; the exposed port is a power
      port when any inner port there is. A name ending in `?` (`{"q?": "q"}`) exposes the state only.

    ```python
    pattern({"pe": pe.ports, "ke": ke.ports, "pkc": pkc.ports}, {"q": "pe.q pkc.q", "p": "pkc.p ke.p"}, outer=["p"])
    ```
    """
    outer_map = dict(outer) if isinstance(outer, Mapping) else {name: name for name in outer}
    built, outer_interface = [], {}
    for name, ports in junctions.items():
        words = ports.split() if isinstance(ports, str) else list(ports)
        pairs = tuple(_split(word, f"junctions/{name}") for word in words)
        exposed = tuple(port.rstrip("?") for port, junction in outer_map.items() if junction == name)
        built.append(Junction(name, pairs, exposed))
    by_name = {junction.name: junction for junction in built}
    for port, junction_name in outer_map.items():
        if junction_name not in by_name:
            raise ModelError(f"outer/{port}", f"junction {junction_name!r}", f"one of {sorted(by_name)}")
        there = [inner[box][p] for box, p in by_name[junction_name].inner if p in inner.get(box, {})]
        if not there:
            raise ModelError(f"outer/{port}", f"junction {junction_name!r} without inner ports", "an inner port there")
        power = not port.endswith("?") and any(p.power for p in there)
        outer_interface[port.rstrip("?")] = Port(there[0].quantity, power)
    return Pattern(dict(inner), outer_interface, tuple(built))


def _split(word: str, path: str) -> tuple[str, str]:
    box, dot, port = word.partition(".")
    if not dot or not box or not port:
        raise ModelError(path, repr(word), "a port written box.port")
    return box, port


def _check_names(p: Pattern) -> None:
    seen: set[str] = set()
    for junction in p.junctions:
        path = f"junctions/{junction.name}"
        if junction.name in seen:
            raise ModelError(path, "the junction's name twice", "unique junction names")
        seen.add(junction.name)
        for box, port in junction.inner:
            if box not in p.inner:
                raise ModelError(path, f"box {box!r}", f"one of the inner boxes {sorted(p.inner)}")
            if port not in p.inner[box]:
                raise ModelError(path, f"port {box}.{port}", f"one of {box}'s ports {sorted(p.inner[box])}")
        for port in junction.outer:
            if port not in p.outer:
                raise ModelError(path, f"outer port {port!r}", f"one of the outer ports {sorted(p.outer)}")


def _check_each_port_once(p: Pattern) -> None:
    count: dict[tuple[str, str], int] = {}
    for junction in p.junctions:
        for pair in (*junction.inner, *(("", port) for port in junction.outer)):
            count[pair] = count.get(pair, 0) + 1
    for box, interface in (*p.inner.items(), ("", p.outer)):
        for port in interface:
            n = count.get((box, port), 0)
            path = f"{box}/{port}" if box else f"outer/{port}"
            if n == 0:
                raise ModelError(path, "a port without a junction", "every port connected to one junction")
            if n > 1:
                raise ModelError(path, f"the port at {n} junctions", "every port connected to one junction")


def _check_quantities(p: Pattern, junction: Junction) -> None:
    quantities: dict[Quantity, str] = {}
    for box, port in junction.inner:
        quantities.setdefault(p.inner[box][port].quantity, f"{box}.{port}")
    for port in junction.outer:
        quantities.setdefault(p.outer[port].quantity, f"outer {port}")
    if len(quantities) > 1:
        (q1, where1), (q2, where2) = list(quantities.items())[:2]
        wanted = "equal quantities at a junction"
        if q1.name == q2.name and q1.space != q2.space and q1.space.shape == q2.space.shape:
            wanted += " (an offset component converts between configuration groups)"
        raise ModelError(f"junctions/{junction.name}", f"{q1} at {where1} and {q2} at {where2}", wanted)
