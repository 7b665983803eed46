"""The four mechanisms that all codes simulate: a chain, a humanoid, the Panda arm, a row of four-bar windows."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from experiments.benchmarks.neutral import Link, Loop, System, at_rest

GRAVITY = 9.81
ROD_RADIUS = 0.01
"""Of rods, relative to their length: enough inertia about their own axis for codes that need some."""
X, Y, Z, NOWHERE, STRAIGHT = np.eye(3)[0], np.eye(3)[1], np.eye(3)[2], np.zeros(3), np.eye(3)


def system_of(mechanism: str, size: int = 1) -> System:
    """A mechanism by name; `size`: links of a `chain`, windows of a `four_bar`, without meaning for the others."""
    match mechanism:
        case "chain":
            return chain(size)
        case "four_bar":
            return four_bar(size)
        case "humanoid":
            return humanoid()
        case "panda":
            return panda()
    raise ValueError(f"mechanism: found {mechanism!r}, wanted chain, humanoid, panda or four_bar")


def rod(name: str, parent: int, position, direction, length: float, mass: float) -> Link:
    """A thin rod from its hinge (about y) along x or z."""
    along = np.asarray(direction, float)
    across = mass * length**2 / 12
    inertia = np.diag(np.where(np.abs(along) > 0.5, mass * (ROD_RADIUS * length) ** 2 / 2, across))
    return Link(name, parent, "hinge", np.asarray(position, float), STRAIGHT, Y, mass, 0.5 * length * along, inertia)


def chain(count: int) -> System:
    """A planar chain of equal rods, 1 m and 1 kg in all, that hangs 30 degrees aside from its first hinge."""
    length = 1.0 / count
    links = [rod(f"link{i}", i - 1, -length * Z if i else NOWHERE, -Z, length, 1.0 / count) for i in range(count)]
    q, v = at_rest(links)
    q[0] = np.pi / 6
    return System("chain", tuple(links), (), q, v, 0.3, GRAVITY)


def four_bar(windows: int) -> System:
    """Windows side by side, of rods of 1 m and 1 kg: N+1 upright, N across; the top starts with 1 m/s along x.

    Source: IFToMM library of computational benchmark problems, case A02 (there with N = 40 at most).
    """
    links, loops, uprights = [], [], []
    for i in range(windows + 1):
        uprights.append(len(links))
        links.append(rod(f"upright{i}", -1, i * X, Z, 1.0, 1.0))
        if i < windows:
            links.append(rod(f"across{i}", uprights[-1], Z, X, 1.0, 1.0))
    for i in range(windows):
        loops.append(Loop(f"corner{i}", uprights[i] + 1, X, uprights[i + 1], Z))
    q, v = at_rest(links)
    v[:] = -1.0
    v[uprights] = 1.0
    return System("four_bar", tuple(links), tuple(loops), q, v, 0.0, GRAVITY)


def panda() -> System:
    """The Franka Emika Panda with its hand: seven hinges, two sliding fingers; nine links."""
    data = json.loads((Path(__file__).parent / "panda.json").read_text(encoding="utf-8"))
    links = []
    for row in data["links"]:
        place, inertial = np.array(row["position"]), (row["mass"], np.array(row["com"]), np.array(row["inertia"]))
        links.append(
            Link(
                row["name"],
                row["parent"],
                row["joint"],
                place,
                np.array(row["rotation"]),
                np.array(row["axis"]),
                *inertial,
            )
        )
    q, v = np.array(data["q"]), np.zeros(len(links))
    return System("panda", tuple(links), (), q, v, 0.3, GRAVITY)


def humanoid() -> System:
    """A tree of 20 bodies with 29 degrees of freedom, without contact: free pelvis, ball shoulders, a sliding pack."""
    links: list[Link] = []

    def add(name: str, parent: str | None, joint: str, position, axis, mass: float, box, com) -> None:
        index = -1 if parent is None else [link.name for link in links].index(parent)
        squares = np.square(box)
        inertia = np.diag(mass / 12 * (squares.sum() - squares))
        place, middle = np.asarray(position, float), np.asarray(com, float)
        links.append(Link(name, index, joint, place, STRAIGHT, np.asarray(axis, float), mass, middle, inertia))

    add("pelvis", None, "free", NOWHERE, Z, 10.0, (0.20, 0.30, 0.15), (0, 0, 0))
    add("abdomen", "pelvis", "hinge", (0, 0, 0.10), Y, 8.0, (0.18, 0.28, 0.20), (0, 0, 0.10))
    add("chest", "abdomen", "hinge", (0, 0, 0.20), Z, 15.0, (0.22, 0.34, 0.30), (0, 0, 0.15))
    add("neck", "chest", "hinge", (0, 0, 0.32), Y, 1.0, (0.10, 0.10, 0.10), (0, 0, 0.05))
    add("head", "neck", "hinge", (0, 0, 0.10), Z, 4.0, (0.18, 0.15, 0.22), (0.01, 0, 0.11))
    add("pack", "chest", "slide", (-0.18, 0, 0.15), Z, 3.0, (0.12, 0.25, 0.30), (-0.02, 0, 0))
    for side, sign in (("left", 1), ("right", -1)):
        shoulder = (0, 0.2 * sign, 0.27)
        add(f"{side}_upper_arm", "chest", "ball", shoulder, Z, 2.0, (0.09, 0.09, 0.28), (0, 0.01 * sign, -0.14))
        add(f"{side}_forearm", f"{side}_upper_arm", "hinge", (0, 0, -0.28), Y, 1.3, (0.07, 0.07, 0.25), (0, 0, -0.12))
        add(f"{side}_hand", f"{side}_forearm", "hinge", (0, 0, -0.25), X, 0.5, (0.04, 0.09, 0.18), (0, 0, -0.08))
    for side, sign in (("left", 1), ("right", -1)):
        add(f"{side}_thigh", "pelvis", "hinge", (0, 0.1 * sign, -0.08), Y, 8.0, (0.15, 0.15, 0.42), (0, 0, -0.19))
        add(f"{side}_shin", f"{side}_thigh", "hinge", (0, 0, -0.42), Y, 3.5, (0.11, 0.11, 0.41), (0, 0, -0.18))
        add(f"{side}_foot", f"{side}_shin", "hinge", (0, 0, -0.41), Y, 1.0, (0.18, 0.09, 0.07), (0.05, 0, -0.03))
        add(f"{side}_toes", f"{side}_foot", "hinge", (0.14, 0, -0.05), Y, 0.2, (0.07, 0.09, 0.03), (0.03, 0, 0))
    q, v = at_rest(links)
    return System("humanoid", tuple(links), (), q, v, 0.5, GRAVITY)
