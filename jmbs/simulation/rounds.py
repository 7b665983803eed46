"""Rounds of tries, after each of which those members of a batch that go on move together: none waits for the slowest.

Within a round a member that has finished waits for the others of its piece (see `map_batch`). Rounds therefore begin
short and grow with what has been done, members with about as much to do stand side by side, and when few are left they
move to narrower programs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PyTree

from jmbs.simulation.batch import PIECE

FIRST_ROUND = 16
"""Tries of the first round."""
GROWTH = 0.5
"""Of a later round, relative to all tries before it."""
NARROWER = 8
"""How much narrower the next program is."""
FEW = 4
"""Members that the narrowest program takes, one after the other."""


class Reached(NamedTuple):
    """Of each member whether it is `going`, its `tries` so far, and the `share` of its time that it has passed."""

    going: Bool[Array, " members"]
    tries: Int[Array, " members"]
    share: Float[Array, " members"]


class Round(NamedTuple):
    """**Arguments:** the `width` of the program; the `tries` of each of its members in this round, in their order."""

    width: int
    tries: np.ndarray

    @property
    def work(self) -> int:
        """Tries that were computed, those of members that wait for others among them."""
        piece = min(PIECE, self.width) if self.width > FEW else 1
        whole = np.pad(self.tries, (0, -len(self.tries) % piece)).reshape(-1, piece)
        return int(piece * whole.max(axis=1).sum())


Advance = Callable[[PyTree, PyTree, Int[Array, " members"]], tuple[PyTree, Reached]]
"""From members, what they carry, and how many tries each may take, to what they carry then."""


def in_rounds(advance: Advance, members: PyTree, carry: PyTree, size: int) -> tuple[PyTree, list[Round]]:
    """What all members carry when none is going any more, and the rounds that this took.

    **Arguments:** `members`, `carry`: arrays whose first axis is that of the members, of which there are `size`.
    """
    widths, rounds = _widths(size), []
    order, most = np.arange(size), FIRST_ROUND
    tries = np.zeros(size, int)
    while len(order):
        width = min(w for w in widths if w >= len(order))
        places = np.pad(order, (0, width - len(order)), "edge")
        limits = np.where(np.arange(width) < len(order), most, 0)
        own, carried = _taken((members, carry), places)
        moved, progress = advance(own, carried, jnp.asarray(limits))
        carry = _put(carry, moved, np.where(np.arange(width) < len(order), places, size))
        going, after, share = (np.asarray(x)[: len(order)] for x in jax.device_get(progress))
        rounds.append(Round(width, after - tries[order]))
        tries[order] = after
        ahead = after * (1 - share) / np.maximum(share, np.finfo(share.dtype).eps)
        order = order[going][np.argsort(ahead[going], kind="stable")]
        most = max(FIRST_ROUND, int(GROWTH * after.max()))
    return carry, rounds


def _widths(size: int) -> list[int]:
    """Of programs, from that of all members to that of few; wide ones are whole pieces on every device."""
    unit, widths = PIECE * len(jax.devices()), []
    width = size
    while width > FEW:
        widths.append(-(-width // unit) * unit if width > unit else width)
        width = -(-width // NARROWER)
    return [*widths, min(size, FEW)]


@jax.jit
def _taken(tree: PyTree, places: Int[Array, " some"]) -> PyTree:
    return jax.tree.map(lambda x: x[places], tree)


@jax.jit
def _put(tree: PyTree, some: PyTree, places: Int[Array, " some"]) -> PyTree:
    """With these entries at these places; those at places beyond the last are left out."""
    return jax.tree.map(lambda x, new: x.at[places].set(new, mode="drop"), tree, some)
