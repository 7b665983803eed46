"""A stored energy by a network: whatever its weights, the force is minus its derivative."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from jmbs.library.learned.network import Network
from jmbs.library.mechanics import number


class NetworkPotential(eqx.Module):
    """`V(q) = energy net(q / length)` in J: a law for the `spring` of a joint, the `stiffness` of a spring and damper,
    or the `potential` of a body.

    **Arguments:**

    - `inputs`: how many coordinates: those of the joint, one for a length, twelve for the pose `[R | r]` of a body.
    - `hidden`, `seed`, `net`: of the `Network`.
    - `energy` J and `length` rad or m: what energies and coordinates are counted in, fixed.
    - `periodic`: each coordinate is an angle, rad, after whose full turn the energy is the same: the network sees
      `cos q` and `sin q`.
    """

    net: Network
    scale: float = eqx.field(static=True)
    length: float = eqx.field(static=True)
    periodic: bool = eqx.field(static=True)

    def __init__(
        self,
        inputs: int = 1,
        hidden: int | Sequence[int] = (8,),
        seed: int = 0,
        energy: float = 1.0,
        length: float = 1.0,
        periodic: bool = False,
        net: Any = None,
    ):
        self.net = Network(2 * inputs if periodic else inputs, 1, hidden, seed, net)
        self.scale = number("energy", energy, positive=True, unit="J")
        self.length = number("length", length, positive=True, unit="rad or m")
        self.periodic = bool(periodic)

    def energy(self, q: Float[Array, " *shape"]) -> Float[Array, ""]:
        """The energy at coordinates, J."""
        q = jnp.ravel(q)
        seen = jnp.concatenate([jnp.cos(q), jnp.sin(q)]) if self.periodic else q / self.length
        return self.scale * self.net(seen)[0]
