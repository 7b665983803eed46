"""Lossless coupling by a network: whatever its weights, the power that leaves one port enters the others.

The flows are `f = J(x) e` with `J = -J^T`: the network gives what is below the diagonal. Gyroscopic forces are of this
kind, those of a flywheel inside a body for one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from jmbs.ephs import Interface, power_port, state_port
from jmbs.errors import ModelError
from jmbs.library.learned.network import Network
from jmbs.library.mechanics import count, number, relative_momentum
from jmbs.lie import SE3, Rn

POSE = 12
"""Numbers of a pose `[R | r]`."""


class NetworkCoupling(eqx.Module):
    """Forces `J(poses) v` on the velocities `v` of joints, skew in them, so that they do no work together.

    Ports `p_1`, `p_2`, ..., one for each joint, and `q_1`, ..., the poses of bodies that it depends on:

    ```python
    mechanism.add_system("flywheel", NetworkCoupling(sizes=[1, 1]))
    mechanism.connect("first", ["flywheel.p_1", "outer.p_r"])
    mechanism.connect("second", ["flywheel.p_2", "inner.p_r"])
    mechanism.connect("pose", ["flywheel.q_1", "frame.q"])
    ```

    **Arguments:**

    - `sizes`: how many velocities each joint has, two or more together; `bodies`: how many poses it sees.
    - `hidden`, `seed`, `net`: of the `Network`, which sees the poses `[R | r / length]`.
    - `strength` N m s/rad: what entries of `J` are counted in; `length` m. Both are fixed.
    """

    net: Network
    sizes: tuple[int, ...] = eqx.field(static=True)
    bodies: int = eqx.field(static=True)
    strength: float = eqx.field(static=True)
    length: float = eqx.field(static=True)
    lawful_by_construction: ClassVar[bool] = True

    def __init__(
        self,
        sizes: Sequence[int] = (1, 1),
        bodies: int = 1,
        hidden: int | Sequence[int] = (8,),
        seed: int = 0,
        strength: float = 1.0,
        length: float = 1.0,
        net: Any = None,
    ):
        self.sizes = tuple(count(f"sizes/{i}", size) for i, size in enumerate(sizes))
        k = sum(self.sizes)
        if k < 2:
            raise ModelError("sizes", f"{k} velocities", "2 or more, for a single one exchanges power with nothing")
        self.bodies = count("bodies", bodies)
        self.net = Network(POSE * self.bodies, k * (k - 1) // 2, hidden, seed, net)
        self.strength = number("strength", strength, positive=True, unit="N m s/rad")
        self.length = number("length", length, positive=True, unit="m")

    @property
    def ports(self) -> Interface:
        momenta = [relative_momentum(Rn(size)) for size in self.sizes]
        ports = {f"p_{i + 1}": power_port(momentum.space, momentum.name) for i, momentum in enumerate(momenta)}
        return ports | {f"q_{i + 1}": state_port(SE3, "pose") for i in range(self.bodies)}

    def structure(self, x):
        units = jnp.concatenate([jnp.ones((3, 3)), jnp.full((3, 1), 1.0 / self.length)], axis=1)
        poses = [x[f"q_{i + 1}"] for i in range(self.bodies)]
        seen = jnp.concatenate([jnp.ravel(pose * jnp.asarray(units, pose.dtype)) for pose in poses])
        k = sum(self.sizes)
        lower = jnp.zeros((k, k), seen.dtype).at[np.tril_indices(k, -1)].set(self.strength * self.net(seen))
        return lower - lower.T, None
