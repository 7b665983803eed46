"""Quantities, ports and interfaces: what a box shows of itself to the junctions around it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from jmbs.lie import AbstractGroup

ENTROPY = "entropy"
"""Name of the quantity whose storage has the effort `theta - theta0` (differential of exergy, not of energy)."""
VOLUME = "volume"
"""Name of the quantity whose storage has the effort `pi0 - p` where the environment has a pressure, else `-p`."""


@dataclasses.dataclass(frozen=True)
class Quantity:
    """A space and a name: what is stored or exchanged (`(SE3, "pose")`, `(R1, "entropy")`).

    States are elements of `space`; flows lie in its Lie algebra and efforts in the dual, both
    left-trivialised, so that a power is the plain dot product `effort @ flow` whatever the space.
    """

    space: AbstractGroup
    name: str

    def __str__(self) -> str:
        return f"({self.space.name}, {self.name})"


@dataclasses.dataclass(frozen=True)
class Port:
    """A quantity that a box shares; a power port (`power=True`) also exchanges energy, a state port only tells `x`."""

    quantity: Quantity
    power: bool = True

    @property
    def dim(self) -> int:
        return self.quantity.space.dim

    def __str__(self) -> str:
        return f"{'power' if self.power else 'state'} port of {self.quantity}"


Interface = Mapping[str, Port]
"""Ports by name, in the order in which a component stacks them."""


def power_port(space: AbstractGroup, name: str) -> Port:
    """A power port of the quantity `(space, name)`."""
    return Port(Quantity(space, name), power=True)


def state_port(space: AbstractGroup, name: str) -> Port:
    """A state port of the quantity `(space, name)`."""
    return Port(Quantity(space, name), power=False)
