"""What an assembly could not meet, in words: the worst first, each with its unit, and what would have to give way."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from jaxtyping import Array, Float

from jmbs.errors import AssemblyError

if TYPE_CHECKING:
    from jmbs.simulation.mechanics import MechanicalLayout
    from jmbs.simulation.model import Model

Sizes = dict[str, dict[str, Array]]
"""By path of what is missed, the miss of each unit; "" where the unit is not known."""


class Misses(NamedTuple):
    """By how much an assembly misses what was asked for: the largest of each path and unit; and the `length`, m, beside
    which lengths are small or large."""

    sizes: Sizes
    length: Float[Array, ""]


SHOWN = 4
"""How many misses, and how many values that would have to give way, a message names."""


def unit_of_row(multiplier: str) -> str:
    """The unit of what a constraint row binds, by the name of its multiplier."""
    return "rad" if multiplier.startswith("torque") else "m"


def refuse_misses(model: Model, misses: Misses, tolerance: float) -> None:
    """Raises `AssemblyError` where something is missed by more than the tolerance, times `length` for lengths."""
    most = {unit: tolerance * float(misses.length) for unit in ("m", "m/s")}
    sizes = [(float(size), unit, path) for path, units in misses.sizes.items() for unit, size in units.items()]
    missed = sorted((entry for entry in sizes if not entry[0] <= most.get(entry[1], tolerance)), key=_order)
    if not missed:
        return
    size, unit, path = missed[0]
    found = f"an assembly that misses by {_number(size, unit)}"
    others = [f"{where} by {_number(much, of)}" for much, of, where in missed[1:]]
    if others:
        more = f" and {len(others) - SHOWN} more" if len(others) > SHOWN else ""
        found += f" ({', '.join(others[:SHOWN])}{more})"
    wanted = "data that all joints and given values can meet"
    rates = not any(of in ("m", "rad") for _, of, _ in missed)
    giving = _exact(model, "v" if rates else "q")
    if giving:
        which = ", ".join(giving[:SHOWN]) + (f" and {len(giving) - SHOWN} more" if len(giving) > SHOWN else "")
        guess = "" if rates else ", or given as a guess"
        wanted += f": one of {which} left out{guess}"
    raise AssemblyError(f"{path}: found {found}, wanted {wanted}")


def _order(entry: tuple[float, str, str]) -> tuple[bool, float]:
    """What is not a number first, then by size."""
    return not np.isnan(entry[0]), -entry[0]


def _number(size: float, unit: str) -> str:
    return f"{size:.3g} {'' if unit in ('1', 'rate') else unit}".rstrip()


def _exact(model: Model, key: str) -> list[str]:
    """Paths of given coordinates (of joints that something else binds) or rates that hold exactly, and of drives that
    prescribe."""
    given, parts = model.initial.get("joints", {}), model.layout.parts
    bound = [*loops(model.layout), *(gear.joints for gear in parts.gears), [motion.joint for motion in parts.motions]]
    among = {name for joints in bound for name in joints} if key == "q" else set(given)
    paths = [f"initial/joints/{name}/{key}" for name, entry in given.items() if key in entry and name in among]
    prescribing = [port for port, drive in model.dae.drives.items() if not hasattr(drive, "flow")]
    return paths if key == "q" else [*paths, *(f"inputs/{port}" for port in prescribing)]


def loops(layout: MechanicalLayout) -> list[tuple[str, ...]]:
    """The joints of each loop: one that the placement does not need, and those along which its bodies were placed."""
    plan = layout.placement
    used = {joint for joint, _, _ in plan.order}
    closing = [joint for joint in range(len(plan.joints)) if joint not in used]
    if not closing:
        return []
    way: dict[int, tuple[int, ...]] = {-1: (), **{body: () for body in plan.roots}}
    for joint, body, forward in plan.order:
        way[body] = (*way[(plan.parent if forward else plan.child)[joint]], joint)
    found = []
    for joint in closing:
        around = set(way[plan.parent[joint]]) ^ set(way[plan.child[joint]]) | {joint}
        found.append(tuple(plan.joints[i] for i in sorted(around)))
    return found


def chosen_by_assembly(model: Model) -> tuple[str, ...]:
    """Joints in loops of which nothing is given, where no joint of the loop is guessed: assembly chose their branch."""
    given, chosen = model.initial.get("joints", {}), dict[str, None]()
    states = model.initial.get("states", {})
    for loop in loops(model.layout):
        if not any("guess" in given.get(name, {}) for name in loop):
            free = (name for name in loop if "q" not in given.get(name, {}))
            chosen |= dict.fromkeys(name for name in free if model.layout.joint(name).coordinates not in states)
    return tuple(name for name in chosen if model.layout.joint(name).group.dim)
