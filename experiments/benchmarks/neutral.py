"""What a mechanism is, whatever code simulates it: links, joints and loops as plain numbers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

Vector = np.ndarray
"""`(3,)` float64."""

COORDINATES = {"hinge": 1, "slide": 1, "ball": 4, "free": 7}
"""Coordinates by joint: angle (rad); travel (m); quaternion wxyz; position (m, parent's axes), then quaternion wxyz."""
RATES = {"hinge": 1, "slide": 1, "ball": 3, "free": 6}
"""Rates by joint: rad/s; m/s; angular velocity; angular velocity, then velocity of the frame's origin. The vectors are
in the axes of the link."""


class Link(NamedTuple):
    """A rigid link, and the joint by which it hangs on its parent.

    The link's frame is the joint's: at zero coordinates it stands at `position` and `rotation` in the parent's frame.
    Links are listed depth first, each after its parent.

    - `parent`: index of the parent, -1 for the world.
    - `joint`: hinge, slide, ball or free (only on the world, at its origin).
    - `position` (3,) m, `rotation` (3, 3): parent's axes from the link's.
    - `axis` (3,): of a hinge or slide, one of the link's axes, of either sign.
    - `mass` kg; `com` (3,) m, in the link's frame; `inertia` (3, 3) kg m^2, about the centre of mass, link's axes.
    """

    name: str
    parent: int
    joint: str
    position: Vector
    rotation: np.ndarray
    axis: Vector
    mass: float
    com: Vector
    inertia: np.ndarray


class Loop(NamedTuple):
    """A hinge about the y axis that closes a loop: points `(3,)` m of two links that stay together."""

    name: str
    a: int
    point_a: Vector
    b: int
    point_b: Vector


class System(NamedTuple):
    """A mechanism and where it starts.

    - `q` (nq,), `v` (nv,): coordinates and rates of all links in order, see `COORDINATES` and `RATES`.
    - `spread`: standard deviation of each random coordinate and rate about them (rad, m, rad/s, m/s); zero with loops.
    - `gravity`: m/s^2, along -z.
    """

    name: str
    links: tuple[Link, ...]
    loops: tuple[Loop, ...]
    q: np.ndarray
    v: np.ndarray
    spread: float
    gravity: float

    def slices(self, sizes: dict[str, int]) -> list[slice]:
        """Where each link's entries are in `q` (`sizes=COORDINATES`) or `v` (`sizes=RATES`)."""
        ends = np.cumsum([sizes[link.joint] for link in self.links])
        return [slice(int(end) - sizes[link.joint], int(end)) for end, link in zip(ends, self.links, strict=True)]

    def opened(self) -> System:
        """The same tree without its loops."""
        return self._replace(loops=())


def at_rest(links: list[Link]) -> tuple[np.ndarray, np.ndarray]:
    """Coordinates `(nq,)` at zero, with unit quaternions, and rates `(nv,)` zero."""
    zero = {"hinge": [0], "slide": [0], "ball": [1, 0, 0, 0], "free": [0, 0, 0, 1, 0, 0, 0]}
    q = [float(x) for link in links for x in zero[link.joint]]
    return np.array(q), np.zeros(sum(RATES[link.joint] for link in links))
