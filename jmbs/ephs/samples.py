"""Where the laws of a component are tried: states, efforts and temperatures over wide ranges, or on its own domain.

A component says where it has meaning by an attribute `domain`, which maps `"port.x"` (a state in R^n), `"port.e"` (an
effort) or `"port.theta"` (the absolute temperature at a thermal port, K) to `(low, high)`: numbers, or one number per
coordinate. What it does not say is tried over `STATES`, `EFFORTS` and `TEMPERATURES`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jmbs.ephs.interface import ENTROPY
from jmbs.errors import ModelError
from jmbs.lie import Rn

COUNT = 48
STATES, EFFORTS, TEMPERATURES = (-10.0, 10.0), (-1e3, 1e3), (1.0, 3000.0)
"""In the units of states (for groups of tangents at the identity), in those of efforts, and in K."""
ENVIRONMENTS = (250.0, 350.0)
"""Of the reference temperature, K."""
DECADES = 6.0
"""How far below the ends of a range that holds zero samples come."""


class Samples(NamedTuple):
    """Samples of one component: `states` (n, *shape) by port, `efforts` (n, dim) by power port, `theta0` (n,) K.

    In the first one the system rests at the reference temperature, if the domain holds that.
    """

    states: dict[str, Array]
    efforts: dict[str, Array]
    theta0: Float[Array, " n"]
    thermal: tuple[str, ...]

    def place(self, i: int) -> str:
        """One of them, in words."""
        parts = [f"{port}.x = {_shown(x[i])}" for port, x in self.states.items()]
        for port, e in self.efforts.items():
            warm = port in self.thermal
            parts.append(f"{port}.theta = {_shown(self.theta0[i] + e[i])}" if warm else f"{port}.e = {_shown(e[i])}")
        return ", ".join(parts) or "any state"


def samples_of(path: str, component: Any, count: int = COUNT) -> Samples:
    """Samples of a component on its `domain`; always the same. Raises `ModelError` for a domain that is none."""
    domain = _domain(path, component)
    random = np.random.default_rng(0)
    theta0 = random.uniform(*ENVIRONMENTS, count)
    states, efforts, thermal = {}, {}, []
    for name, port in component.ports.items():
        space = port.quantity.space
        steps = _within(random, domain.get(f"{name}.x", STATES), (count, space.dim))
        states[name] = jax.vmap(space.exp)(jnp.asarray(steps))
        if not port.power:
            continue
        warm = port.quantity.name == ENTROPY
        bounds = domain.get(f"{name}.theta", TEMPERATURES) if warm else domain.get(f"{name}.e", EFFORTS)
        values = _within(random, bounds, (count, port.dim))
        values[0] = np.clip(theta0[0] if warm else 0.0, *bounds)
        efforts[name] = jnp.asarray(values - theta0[:, None] if warm else values)
        thermal += [name] if warm else []
    return Samples(states, efforts, jnp.asarray(theta0), tuple(thermal))


def _within(random: np.random.Generator, bounds: tuple[Any, Any], shape: tuple[int, int]) -> np.ndarray:
    """Numbers over all decades of a range, of both signs where it has both."""
    low, high = (np.broadcast_to(np.asarray(end, float), shape) for end in bounds)
    larger = np.where(np.abs(high) >= np.abs(low), high, low)
    end = np.where(low * high < 0, np.where(random.uniform(size=shape) < 0.5, low, high), larger)
    one_sided = low * high > 0
    least = np.where(one_sided, np.minimum(np.abs(low), np.abs(high)), np.abs(end) * 10**-DECADES)
    most = np.where(one_sided, np.maximum(np.abs(low), np.abs(high)), np.abs(end))
    ratio = np.divide(most, least, out=np.ones(shape), where=least > 0)
    return np.clip(np.sign(end) * least * ratio ** random.uniform(size=shape), low, high)


def _domain(path: str, component: Any) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """The component's domain, checked."""
    domain, sizes = getattr(component, "domain", None) or {}, _sizes(component)
    for key in domain:
        if key not in sizes:
            raise ModelError(f"{path}/domain", repr(key), f"one of {', '.join(sizes)}")
    return {key: _bounds(f"{path}/domain/{key}", bounds, sizes[key]) for key, bounds in domain.items()}


def _sizes(component: Any) -> dict[str, int]:
    """What a domain may bound, and how many numbers that is."""
    sizes = {}
    for name, port in component.ports.items():
        if isinstance(port.quantity.space, Rn):
            sizes[f"{name}.x"] = port.dim
        if port.power:
            sizes[f"{name}.theta" if port.quantity.name == ENTROPY else f"{name}.e"] = port.dim
    return sizes


def _bounds(path: str, bounds: Any, size: int) -> tuple[np.ndarray, np.ndarray]:
    least = 0.0 if path.endswith(".theta") else -np.inf
    try:
        low, high = (np.broadcast_to(np.asarray(end, float), size) for end in bounds)
        sound = np.all(np.isfinite(low) & np.isfinite(high) & (low <= high) & (low >= least))
    except (TypeError, ValueError):
        sound = False
    if not sound:
        kelvin = ", positive and in K" if least == 0 else ""
        raise ModelError(path, bounds, f"(low, high), finite{kelvin}: numbers, or {size} per end")
    return low, high


def _shown(value: Any) -> str:
    array = np.asarray(value)
    return f"{float(array[0]):.3g}" if array.shape == (1,) else np.array2string(array, precision=3, threshold=6)
