"""Junctions whose effort is the rate of a position that several transformers know: what they say has to agree.

A transformer may have `output_position(x)`, of its states, whose rate is its output's effort: `d/dt X(x) = A e_in`.
Where two of them meet with their outputs, one gives the junction's effort and the others are constraint rows
`0 = A e_in - e_out`, which integrate to `X - X_first = 0`. Where they meet a joint's rate see
`jmbs.library.mechanics.port_position`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from typing import Any

from jaxtyping import Array, Float

from jmbs.ephs.system import Closure


@dataclasses.dataclass(frozen=True)
class _Gap:
    """How far the position of the first of two transformers is from that of the second; names of their state ports."""

    own: tuple[str, ...]
    leading: tuple[str, ...]

    def __call__(self, parts: tuple[Any, Any], states: tuple[Array, ...]) -> Float[Array, " k"]:
        own = dict(zip(self.own, states[: len(self.own)], strict=True))
        leading = dict(zip(self.leading, states[len(self.own) :], strict=True))
        return parts[0].output_position(own) - parts[1].output_position(leading)


def as_it_is(gap: Float[Array, " k"]) -> Float[Array, " k"]:
    """The rows of a closure that are its error."""
    return gap


def position_closures(
    components: Mapping[str, Any], eliminated: Collection[str], junction_of: Mapping[tuple[str, str], str]
) -> list[Closure]:
    """The closures of transformers that stayed constraint rows beside an eliminated one, where both know a position."""
    knowing = [path for path, c in components.items() if getattr(c, "output_position", None) is not None]
    at = {path: junction_of[path, components[path].output] for path in knowing}
    first = {at[path]: path for path in knowing if path in eliminated}
    pairs = [(path, first[at[path]]) for path in knowing if path not in eliminated and at[path] in first]
    return [_closure(path, lead, components) for path, lead in sorted(pairs)]


def _closure(path: str, lead: str, components: Mapping[str, Any]) -> Closure:
    own, leading = _states(components[path]), _states(components[lead])
    states = (*((path, port) for port in own), *((lead, port) for port in leading))
    return Closure(path, path, (path, lead), states, _Gap(own, leading), as_it_is)


def _states(component: Any) -> tuple[str, ...]:
    return tuple(name for name, port in component.ports.items() if not port.power)
