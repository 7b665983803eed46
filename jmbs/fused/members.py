"""Members of a fused call: which axes its arguments have for them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax.core import ShapedArray


class Own(NamedTuple):
    """Of an argument: which of the `axes` of members it has; whether the members' axis is
    the `minor` one, innermost in memory, as another fused call leaves it."""

    axes: tuple[bool, ...]
    minor: bool = False

    @property
    def by_member(self) -> bool:
        """Whether members have one each."""
        return any(self.axes)


class Members(NamedTuple):
    """Axes of members, which lead: their `sizes`, the outermost first; what `arguments` have of them; which of the
    results, which have all, are left with the members' axis as the `minor` one, since other fused calls alone want
    them."""

    sizes: tuple[int, ...]
    arguments: tuple[Own, ...]
    minor: tuple[bool, ...]

    @property
    def count(self) -> int:
        """How many there are."""
        return math.prod(self.sizes)

    def of(self, arguments: Sequence[Own], minor: Sequence[bool]) -> Members:
        """The same members and another program."""
        return Members(self.sizes, tuple(arguments), tuple(minor))

    def whole(self, minor: bool = False) -> Own:
        """An argument that has all axes."""
        return Own((True,) * len(self.sizes), minor)

    @property
    def nothing(self) -> Own:
        """One that all share."""
        return Own((False,) * len(self.sizes))

    def type(self, of_one: Any) -> ShapedArray:
        """That of a result."""
        return ShapedArray((*self.sizes, *of_one.shape), of_one.dtype)


def spread(x: Any, own: Own, sizes: Sequence[int]) -> Any:
    """An argument with all axes of members."""
    if all(own.axes):
        return x
    shape = jnp.shape(x)[sum(own.axes) :]
    ones = [size if there else 1 for size, there in zip(sizes, own.axes, strict=True)]
    return jnp.broadcast_to(jnp.reshape(x, (*ones, *shape)), (*sizes, *shape))


def one_axis(x: Any, members: Members) -> Any:
    """Of an array with all axes of members, these as one."""
    return jnp.reshape(x, (members.count, *jnp.shape(x)[len(members.sizes) :]))


def chosen(wanted: Sequence[bool], of: Sequence) -> list:
    """Those entries that are wanted."""
    return [x for x, keep in zip(of, wanted, strict=True) if keep]
