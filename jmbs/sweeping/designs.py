"""Designs: which values the members of a sweep have. They depend on the seed and the member's number, on nothing else.

`random` takes a stream of Philox, a generator that can be set to any place of its sequence, for each path: member i has
its own part of it, so a path more or less changes no other path's values, and any range of members is made at once.
`sobol` goes to a member's place in the sequence; `latin_hypercube` is by definition a property of all members.
"""

from __future__ import annotations

import abc
import dataclasses
import functools
import hashlib
import warnings
from collections.abc import Mapping

import numpy as np
from scipy.stats import qmc

from jmbs.errors import ModelError
from jmbs.sweeping.distributions import MOST_NUMBERS, SPACED, AbstractDistribution, Choices, Shape

SOBOL_BITS = 30
"""Of a coordinate; a sequence has as many points as that can tell apart."""
_WORDS = 4
"""That Philox makes at once."""


class AbstractDesign(abc.ABC):
    """The members' values, by path."""

    members: int

    @abc.abstractmethod
    def values(self, start: int, stop: int) -> dict[str, np.ndarray]:
        """Values (stop - start, *shape) by path, of the members from `start` on."""


@dataclasses.dataclass(frozen=True, eq=False)
class Spread:
    """Varied paths: a distribution and the shape of a value for each."""

    distributions: Mapping[str, AbstractDistribution]
    shapes: Mapping[str, Shape]

    @property
    def dimension(self) -> int:
        """Coordinates of the unit cube that one member takes."""
        return sum(entry.size(self.shapes[path]) for path, entry in self.distributions.items())

    def at(self, points: np.ndarray) -> dict[str, np.ndarray]:
        """Values (n, *shape) by path at points (n, dimension) of the unit cube."""
        found, first = {}, 0
        for path, entry in self.distributions.items():
            last = first + entry.size(self.shapes[path])
            found[path] = entry.at(points[:, first:last], self.shapes[path])
            first = last
        return found


@dataclasses.dataclass(frozen=True, eq=False)
class GridDesign(AbstractDesign):
    """All combinations of the axes' values; the last path changes fastest."""

    spread: Spread

    @property
    def lengths(self) -> tuple[int, ...]:
        """Values on each axis."""
        return tuple(len(self._axis(path).values) for path in self.spread.distributions)

    @property
    def members(self) -> int:  # type: ignore[override]
        """The product of the axes' lengths."""
        return int(np.prod([int(length) for length in self.lengths], dtype=object))

    def values(self, start: int, stop: int) -> dict[str, np.ndarray]:
        numbers = np.unravel_index(np.arange(start, stop), self.lengths)
        paths = self.spread.distributions
        return {p: self._axis(p).take(n, self.spread.shapes[p]) for p, n in zip(paths, numbers, strict=True)}

    def _axis(self, path: str) -> Choices:
        axis = self.spread.distributions[path]
        if not isinstance(axis, Choices):
            raise ModelError(f"vary/{path}", "a distribution in a grid", f"one of {', '.join(SPACED)}")
        return axis


@dataclasses.dataclass(frozen=True, eq=False)
class RandomDesign(AbstractDesign):
    """Independent members."""

    spread: Spread
    members: int
    seed: int

    def values(self, start: int, stop: int) -> dict[str, np.ndarray]:
        found = {}
        for path, entry in self.spread.distributions.items():
            shape = self.spread.shapes[path]
            found[path] = entry.at(self._points(path, entry.size(shape), start, stop), shape)
        return found

    def _points(self, path: str, size: int, start: int, stop: int) -> np.ndarray:
        digest = hashlib.sha256(f"{self.seed} {path}".encode()).digest()
        generator = np.random.Philox(key=np.frombuffer(digest[:16], "<u8"))
        blocks = -(-size // _WORDS)
        generator.advance(start * blocks)
        words = generator.random_raw((stop - start) * blocks * _WORDS).reshape(stop - start, blocks * _WORDS)
        return ((words[:, :size] >> np.uint64(12)) + 0.5) * 2.0**-52


@dataclasses.dataclass(frozen=True, eq=False)
class SobolDesign(AbstractDesign):
    """Scrambled points of Sobol's sequence (Owen; Matousek's linear scramble), spread most evenly for powers of two."""

    spread: Spread
    members: int
    seed: int

    def __post_init__(self) -> None:
        if self.members > 2**SOBOL_BITS:
            raise ModelError("members", self.members, f"at most {2**SOBOL_BITS}, the points of a Sobol sequence")
        if self.spread.dimension > qmc.Sobol.MAXDIM:
            raise ModelError(
                "vary", f"{self.spread.dimension} numbers", f"at most {qmc.Sobol.MAXDIM} of a Sobol sequence"
            )

    def values(self, start: int, stop: int) -> dict[str, np.ndarray]:
        sequence = qmc.Sobol(self.spread.dimension, bits=SOBOL_BITS, rng=np.random.default_rng(self.seed))
        if start:
            sequence.fast_forward(start)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="The balance properties", category=UserWarning)
            points = sequence.random(stop - start)
        return self.spread.at(points + 2.0 ** -(SOBOL_BITS + 1))


@dataclasses.dataclass(frozen=True, eq=False)
class LatinHypercubeDesign(AbstractDesign):
    """Each coordinate has one member in each of `members` equal parts of its range."""

    spread: Spread
    members: int
    seed: int

    def __post_init__(self) -> None:
        if self.members * self.spread.dimension > MOST_NUMBERS:
            wanted = f"at most {MOST_NUMBERS:g} numbers, which are drawn together; random and sobol have no such limit"
            raise ModelError("members", f"{self.members} of {self.spread.dimension} numbers each", wanted)

    @functools.cached_property
    def _points(self) -> np.ndarray:
        points = qmc.LatinHypercube(self.spread.dimension, rng=np.random.default_rng(self.seed)).random(self.members)
        return np.clip(points, 2.0**-53, 1 - 2.0**-53)

    def values(self, start: int, stop: int) -> dict[str, np.ndarray]:
        return self.spread.at(self._points[start:stop])


@dataclasses.dataclass(frozen=True, eq=False)
class ListDesign(AbstractDesign):
    """Members one by one, as a file says them: `columns` (members, *shape) by path."""

    columns: Mapping[str, np.ndarray]

    @property
    def members(self) -> int:  # type: ignore[override]
        """Rows of the list."""
        return len(next(iter(self.columns.values())))

    def values(self, start: int, stop: int) -> dict[str, np.ndarray]:
        return {path: column[start:stop] for path, column in self.columns.items()}


SAMPLED = {"random": RandomDesign, "sobol": SobolDesign, "latin_hypercube": LatinHypercubeDesign}
"""Designs that take a number of members and a seed, by name."""
DESIGNS = ("grid", *SAMPLED, "file")
