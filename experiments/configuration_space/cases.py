"""What is run: mechanisms, groups, methods, step sizes."""

from __future__ import annotations

from typing import NamedTuple

from programs import Groups, Record

SYSTEMS = ("heavy_top", "spherical_double_pendulum", "two_floating_bodies", "three_bar_loop")
GROUPS = ("SE3", "SO3xR3")
METHODS = ("rk4", "tsit5", "dopri8", "implicit_midpoint")
SIZES = (2e-2, 1e-2, 5e-3, 2.5e-3, 1e-3, 5e-4, 2.5e-4, 1.25e-4)  # s
PAPER_SIZE = 1e-3  # s
REFERENCE_SIZE = 2.5e-4  # s, by dopri8, or rk4 if that is not among the methods
T1, LONG_T1 = 1.0, 5.0  # s
ERROR_T1 = 0.5  # s, for errors of the motion: the double pendulum is chaotic
REPEATS = 60  # of each program, for its least time


class Options(NamedTuple):
    """How much is run."""

    systems: tuple[str, ...] = SYSTEMS
    methods: tuple[str, ...] = METHODS
    sizes: tuple[float, ...] = SIZES
    mixed: bool = True
    repeats: int = REPEATS


QUICK = Options(("heavy_top",), ("rk4", "implicit_midpoint"), (2.5e-3, 1e-3), False, 2)


class Key(NamedTuple):
    """What a run is of; `dt` in s."""

    groups: Groups
    method: str
    dt: float


class Study(NamedTuple):
    """All runs of one mechanism."""

    grounded: dict[str, bool]
    runs: dict[Key, Record]
    errors: dict[Key, float]  # m, of the bodies' points up to `ERROR_T1`
    floor: float  # m, distance between the reference solutions on both groups
    evaluations: dict[Key, float]  # per step
    times: dict[tuple[Groups, str], float]  # per step, of the fourth-order method's on SE(3)
    long: dict[Key, Record]
