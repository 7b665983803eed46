"""Systems: a pattern whose boxes are filled with primitive components or with systems again."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from jmbs.ephs.component import Environment, role
from jmbs.ephs.interface import Interface
from jmbs.ephs.pattern import Junction, Pattern, pattern
from jmbs.errors import ModelError


@dataclasses.dataclass(frozen=True)
class Closure:
    """A position-level constraint whose rate is the velocity constraint of a reversible component.

    `residual(error(parts, states))` vanishes when the constraint is met, and its rate is then `C e` of the component
    `constraint`; both have the same rows. It is split so that the costly end (a logarithm) is evaluated for all
    closures of one `residual` together; their errors have one shape.

    **Arguments:**

    - `name`: what messages and results call it (the joint's name).
    - `constraint`: path of the reversible component whose rows it integrates.
    - `parts`: paths of the components whose parameters the residual needs.
    - `states`: `(path, port)` of the ports whose states it needs.
    - `error`: gets two tuples, in the order of `parts` and `states`; gives any array.
    - `residual`: from that array to the rows.
    - `drive`: the outer port, if any, whose drive says with `target(t)` where the constraint is at a time; `error` gets
      that as a third argument.
    """

    name: str
    constraint: str
    parts: tuple[str, ...]
    states: tuple[tuple[str, str], ...]
    error: Any
    residual: Any
    drive: str = ""

    def below(self, prefix: str) -> Closure:
        """The same closure seen from the root, where its system's paths begin with `prefix` (`chamber/`)."""
        return dataclasses.replace(
            self,
            name=f"{prefix}{self.name}" if self.name else prefix.rstrip("/"),
            constraint=prefix + self.constraint,
            parts=tuple(prefix + part for part in self.parts),
            states=tuple((prefix + path, port) for path, port in self.states),
            drive=self.drive and prefix + self.drive,
        )


@dataclasses.dataclass(frozen=True)
class System:
    """A composite system: a pattern and what fills its boxes.

    **Arguments:**

    - `pattern`: the interconnection.
    - `boxes`: a component or a system for every inner box; interfaces must equal the pattern's.
    - `drives`: outer port name to a drive (see `jmbs.ephs.drive`); an outer port without one is closed at the root.
    - `closures`: position-level constraints among the boxes.

    Raises `ModelError` with path, found, wanted.
    """

    pattern: Pattern
    boxes: Mapping[str, Any]
    drives: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    closures: tuple[Closure, ...] = ()

    def __post_init__(self):
        for name in self.boxes:
            if name not in self.pattern.inner:
                raise ModelError(name, "a filling for no box", f"one of the inner boxes {sorted(self.pattern.inner)}")
        for name, interface in self.pattern.inner.items():
            if name not in self.boxes:
                raise ModelError(name, "an empty box", "a component or a system for every inner box")
            _check_interface(name, interface, interface_of(self.boxes[name], name))
        for name in self.drives:
            if name not in self.pattern.outer:
                raise ModelError(f"drives/{name}", "no such outer port", f"one of {sorted(self.pattern.outer)}")
            if not self.pattern.outer[name].power:
                raise ModelError(f"drives/{name}", "a drive of a state port", "a power port, through which it can act")
        for junction in self.pattern.junctions:
            self._check_power(junction)

    @property
    def ports(self) -> Interface:
        return self.pattern.outer

    def _check_power(self, junction: Junction) -> None:
        """Refuses power that would pass through a state port of a composite box to what is inside."""
        ports, nested = self.pattern.inner, self.boxes
        powers = [f"{box}.{port}" for box, port in junction.inner if ports[box][port].power]
        powers += [f"outer/{port}" for port in junction.outer if self.pattern.outer[port].power]
        for box, port in junction.inner:
            if powers and not ports[box][port].power and isinstance(nested[box], System) and nested[box]._hides(port):
                found = f"the power port {powers[0]} at {box}.{port}, a state port of a system, which carries no power"
                raise ModelError(
                    f"junctions/{junction.name}", found, "state ports there, or a power port of that system"
                )

    def _hides(self, outer: str) -> bool:
        """Whether power ports meet at the junction behind an outer port."""
        inner = next(junction.inner for junction in self.pattern.junctions if outer in junction.outer)
        composites = [(self.boxes[box], port) for box, port in inner if isinstance(self.boxes[box], System)]
        return any(self.pattern.inner[box][port].power for box, port in inner) or any(
            box._hides(port) for box, port in composites
        )


def lossy_system(
    boxes: Mapping[str, Any], junctions: Mapping[str, str], outer: Mapping[str, str], heats_environment: bool
) -> System:
    """A pattern whose losses meet at the junction `s`: its own environment `env` takes them, or its outer port `s`.

    **Arguments:** as those of `jmbs.ephs.pattern`, ports of a junction in one string; `s` is among the junctions.
    """
    boxes, junctions, outer = dict(boxes), dict(junctions), dict(outer)
    if heats_environment:
        boxes["env"] = Environment()
        junctions["s"] += " env.s"
    else:
        outer["s"] = "s"
    return System(pattern({name: box.ports for name, box in boxes.items()}, junctions, outer), boxes)


def interface_of(box: Any, path: str) -> Interface:
    """The interface of a component or system; raises `ModelError` for anything else."""
    if not isinstance(box, System):
        role(box, path)
    return box.ports


def _check_interface(path: str, wanted: Interface, found: Interface) -> None:
    if dict(wanted) != dict(found):
        describe = lambda interface: "{" + ", ".join(f"{n}: {p}" for n, p in interface.items()) + "}"  # noqa: E731
        raise ModelError(path, f"interface {describe(found)}", f"the box's interface {describe(wanted)}")
