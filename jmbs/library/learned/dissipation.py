"""Dissipation by networks: whatever their weights, no entropy is destroyed and what is lost is heat.

The force on velocities `v` is `D(v) v` with `D = L diag(d) L^T`, `L` lower triangular with a diagonal of ones and
`d > 0`; the network gives `log d` and what is below the diagonal.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jmbs.arrays import total
from jmbs.ephs import ENTROPY, Interface, power_port
from jmbs.library.learned.network import Network
from jmbs.library.mechanics import count, dissipation, number, relative_momentum
from jmbs.lie import Rn


class NetworkFriction(eqx.Module):
    """A law for the `friction` of a joint: the force `D(v) v` on its velocities.

    The network sees `log(1 + (v / velocity)^2) / 2`, so that it tells slow motions apart over decades, and the force is
    odd in `v`.

    **Arguments:**

    - `size`: how many velocities the joint has.
    - `hidden`, `seed`, `net`: of the `Network`.
    - `damping` N m s/rad or N s/m: about what `D` starts from; `velocity` rad/s or m/s: below which it hardly changes.
      Both are fixed.
    """

    net: Network
    level: float = eqx.field(static=True)
    velocity: float = eqx.field(static=True)

    def __init__(
        self,
        size: int = 1,
        hidden: int | Sequence[int] = (8,),
        seed: int = 0,
        damping: float = 1.0,
        velocity: float = 0.1,
        net: Any = None,
    ):
        count("size", size)
        self.net = Network(size, size * (size + 1) // 2, hidden, seed, net)
        self.level = number("damping", damping, positive=True, unit="N m s/rad or N s/m")
        self.velocity = number("velocity", velocity, positive=True, unit="rad/s or m/s")

    def damping(self, v: Float[Array, " k"]) -> Float[Array, "k k"] | Float[Array, " k"]:
        """`D(v)`; of a single velocity the one number in it."""
        return _damping(self, v)


class NetworkDissipation(eqx.Module):
    """Friction that couples several joints: `D(v) v` on the velocities of all of them, and heat `<v | D v>`.

    Ports `p_1`, `p_2`, ..., one for each joint, and `s`:

    ```python
    mechanism.add_system("gearbox", NetworkDissipation(sizes=[1, 1]))
    mechanism.connect("first", ["gearbox.p_1", "shoulder.p_r"])
    mechanism.connect("second", ["gearbox.p_2", "elbow.p_r"])
    mechanism.connect("heat", ["gearbox.s", "environment.s"])
    ```

    **Arguments:** `sizes`: how many velocities each joint has; the others as those of `NetworkFriction`.
    """

    net: Network
    sizes: tuple[int, ...] = eqx.field(static=True)
    level: float = eqx.field(static=True)
    velocity: float = eqx.field(static=True)
    lawful_by_construction: ClassVar[bool] = True

    def __init__(self, sizes: Sequence[int] = (1, 1), **of_law: Any):
        self.sizes = tuple(count(f"sizes/{i}", size) for i, size in enumerate(sizes))
        law = NetworkFriction(sum(self.sizes), **of_law)
        self.net, self.level, self.velocity = law.net, law.level, law.velocity

    @property
    def ports(self) -> Interface:
        momenta = [relative_momentum(Rn(size)) for size in self.sizes]
        ports = {f"p_{i + 1}": power_port(momentum.space, momentum.name) for i, momentum in enumerate(momenta)}
        return ports | {"s": power_port(Rn(1), ENTROPY)}

    def onsager(self, x, e) -> Float[Array, "k+1 k+1"]:
        del x
        v = jnp.concatenate([e[f"p_{i + 1}"] for i in range(len(self.sizes))])
        D = _damping(self, v)
        return dissipation(D if D.ndim == 2 else jnp.diag(D), v, e.temperature("s"))


def _damping(law: NetworkFriction | NetworkDissipation, v: Float[Array, " k"]) -> Array:
    """`L diag(d) L^T` (k, k), of a single velocity `d`, as the network makes it of the velocities."""
    k = v.shape[0]
    made = law.net(0.5 * jnp.log1p((v / law.velocity) ** 2))
    d = law.level * jnp.exp(made[:k])
    if k == 1:
        return d
    L = jnp.eye(k, dtype=v.dtype).at[np.tril_indices(k, -1)].set(made[k:])
    return total(d[:, None, None] * L.T[:, :, None] * L.T[:, None, :])
