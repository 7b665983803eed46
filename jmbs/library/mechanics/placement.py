"""How bodies are placed along joints: the order, and the start of an assembly."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from jaxtyping import Array, Float

from jmbs.by_value import by_value
from jmbs.library.mechanics.find import FoundGear
from jmbs.lie import SE3


@by_value
@dataclasses.dataclass(frozen=True, eq=False)
class Placement:
    """The static plan of an assembly.

    **Arguments:**

    - `bodies`, `joints`: names; `parent` and `child` index bodies per joint, parent -1 for ground.
    - `order`: how bodies are placed: `(joint, placed body, forward)` in sequence.
    - `roots`: bodies that are placed first, as given or at the origin.
    """

    bodies: tuple[str, ...]
    joints: tuple[str, ...]
    parent: tuple[int, ...]
    child: tuple[int, ...]
    order: tuple[tuple[int, int, bool], ...]
    roots: tuple[int, ...]


def make_placement(bodies, joints, given_bodies: set[str], given_joints: set[str]) -> Placement:
    """Plans in which order bodies are placed, starting from the ground and from bodies whose pose is given.

    **Arguments:** `bodies`: names; `joints`: name to `(parent, child)`; `given_bodies`: those with a given pose;
    `given_joints`: those with given coordinates, which are preferred to carry the placement.
    """
    index = {name: i for i, name in enumerate(bodies)}
    ends = [(index.get(parent, -1), index[child]) for parent, child in joints.values()]
    names = tuple(joints)
    placed = {-1} | {index[name] for name in given_bodies}
    roots = sorted(placed - {-1})
    order: list[tuple[int, int, bool]] = []
    while len(placed) <= len(bodies):
        step = _next(names, ends, placed, given_joints)
        if step is None:
            loose = min(set(index.values()) - placed)
            roots.append(loose)
            placed.add(loose)
            continue
        order.append(step)
        placed.add(step[1])
    parent, child = (tuple(e[i] for e in ends) for i in (0, 1))
    return Placement(tuple(bodies), names, parent, child, tuple(order), tuple(roots))


def _next(names, ends, placed, given_joints) -> tuple[int, int, bool] | None:
    candidates = []
    for j, (parent, child) in enumerate(ends):
        if parent in placed and child not in placed:
            candidates.append((names[j] not in given_joints, j, child, True))
        elif child in placed and parent not in placed:
            candidates.append((names[j] not in given_joints, j, parent, False))
    if not candidates:
        return None
    _, joint, body, forward = min(candidates)
    return joint, body, forward


@dataclasses.dataclass(frozen=True)
class GearStep:
    """One coordinate set from others where an assembly starts: by the `gear` between `joints`, by number, that of its
    `end`."""

    gear: str
    joints: tuple[int, ...]
    end: int


def make_gear_steps(
    gears: Sequence[FoundGear], joints: Sequence[str], given_joints: set[str], rates: bool = False
) -> tuple[GearStep, ...]:
    """In which order gears set the coordinates, or rates, of joints that are not given, starting from those that are.

    A gear that has more than one coordinate of which nothing is known sets none, but for those of two: there the first
    one stands where it is; of rates none. **Arguments:** `joints`: all names.
    """
    steps, waiting, known = [], {gear.name: gear for gear in gears}, set[tuple[str, int]]()

    def is_known(joint: str, coordinate: int) -> bool:
        return joint in given_joints or (joint, coordinate) in known

    while waiting:
        unknown = {
            name: [number for number, end in enumerate(gear.ends) if not is_known(*end)]
            for name, gear in waiting.items()
        }
        name = next((name for name in waiting if len(unknown[name]) <= 1), None)
        if name is None and not rates:
            name = next((name for name in waiting if len(waiting[name].ends) == 2), None)
        if name is None:
            break
        gear = waiting.pop(name)
        known |= set(gear.ends)
        if unknown[name]:
            steps.append(GearStep(name, tuple(map(joints.index, gear.joints)), unknown[name][-1]))
    return tuple(steps)


def place_along_joints(
    plan: Placement, motions, offsets1, offsets2, q: list[Array], given_poses: Mapping[str, Array], dtype
) -> list[Float[Array, "3 4"]]:
    """Poses of all bodies from joint elements, roots where they are given or at the origin.

    **Arguments:** per joint its motion, offset poses (3, 4) on parent and child, and element `q`; `given_poses` (3, 4).
    """
    poses: dict[int, Array] = {-1: SE3.identity(dtype)}
    for body in plan.roots:
        poses[body] = given_poses.get(plan.bodies[body], SE3.identity(dtype))
    for j, body, forward in plan.order:
        link = motions[j].inclusion(q[j])
        if forward:
            frame = SE3.compose(SE3.compose(poses[plan.parent[j]], offsets1[j]), link)
            poses[body] = SE3.compose(frame, SE3.inverse(offsets2[j]))
        else:
            frame = SE3.compose(SE3.compose(poses[plan.child[j]], offsets2[j]), SE3.inverse(link))
            poses[body] = SE3.compose(frame, SE3.inverse(offsets1[j]))
    return [poses[b] for b in range(len(plan.bodies))]
