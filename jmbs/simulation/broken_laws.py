"""Where a finished run tells that a component broke the first or the second law: which one, when, by how much."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from jmbs.arrays import is_traced
from jmbs.errors import ModelError
from jmbs.simulation.by_name import ByName

if TYPE_CHECKING:
    from jmbs.simulation.trajectory import Trajectory

FIRST, SECOND, KEPT = "first law", "second law", "kept"
ROUNDING = {"float64": 1e-6, "float32": 1e-4}
"""Of the energy that a run is about: what is less over the whole of it is nothing."""
BETWEEN = 1e-3
"""The same of what is integrated, which is as wrong as the steps are coarse."""
WARM = 300.0
"""K, about what environments have: makes energies of entropies to compare them."""


class BrokenLaw(NamedTuple):
    """A law that a component broke: `time` (s) when it was worst, and `size` then, in `unit`.

    First law: the power that it makes, W. Second law: the entropy that it produces, W/K, negative, or any of a
    reversible component; or the exergy that it destroyed between two saved times, J, negative. `member`: of a batch,
    None for a single run.
    """

    law: str
    component: str
    time: float
    size: float
    unit: str
    member: int | None = None

    def __str__(self) -> str:
        what = {"W": "makes energy", "W/K": "produces entropy", "J": "destroyed exergy since the saved time before"}
        where = "" if self.member is None else f" in member {self.member}"
        at = f"at t = {self.time:.4g} s{where}"
        return f"{self.component} breaks the {self.law}: it {what[self.unit]}, {self.size:.3g} {self.unit}, {at}"


def broken_laws(trajectory: Trajectory) -> tuple[BrokenLaw, ...]:
    """See `Trajectory.broken_laws`."""
    if is_traced(trajectory):
        raise ModelError("trajectory", "traced arrays", "concrete ones; ask outside jit, vmap and grad")
    trajectory = jax.device_get(trajectory)
    if trajectory.production is None:
        return ()
    found: dict[tuple[str, str], BrokenLaw] = {}
    for broken in (*_made(trajectory), *_destroyed_entropy(trajectory), *_regained_exergy(trajectory)):
        found.setdefault((broken.component, broken.law), broken)
    return tuple(found.values())


def _made(trajectory: Trajectory) -> Iterator[BrokenLaw]:
    """By components whose laws are a user's; what is rounding is zero there already."""
    energy, entropy = trajectory.energy_made, trajectory.entropy_made
    if energy is None or entropy is None:
        return
    irreversible = np.isin(list(entropy), list(trajectory.production or ()))
    made = _by_member(entropy)
    yield from _worst(trajectory, FIRST, energy, _by_member(energy), "W")
    yield from _worst(trajectory, SECOND, entropy, np.where(irreversible, np.minimum(made, 0.0), made), "W/K")


def _destroyed_entropy(trajectory: Trajectory) -> Iterator[BrokenLaw]:
    """By any irreversible component, also by one of jmbs with parameters against its law."""
    assert trajectory.production is not None
    rate, rounding = _by_member(trajectory.production), ROUNDING[trajectory.ts.dtype.name]
    ts = np.nan_to_num(_times(trajectory))
    span = (ts.max(axis=1) - ts.min(axis=1))[:, None, None]
    least = rounding * np.abs(rate).max(axis=(1, 2), keepdims=True, initial=0.0)
    lost = (-rate > least) & (-rate * WARM * span > rounding * _energy(trajectory))
    yield from _worst(trajectory, SECOND, trajectory.production, np.where(lost, rate, 0.0), "W/K")


def _regained_exergy(trajectory: Trajectory) -> Iterator[BrokenLaw]:
    """Between saved times, by irreversible components whose laws are a user's."""
    destroyed, tried = trajectory.destroyed, trajectory.entropy_made
    if destroyed is None or tried is None:
        return
    change = np.diff(_by_member(destroyed), axis=1, prepend=0.0)
    change[:, 0] = 0.0
    change[~np.isfinite(np.reshape(destroyed.array, change.shape))] = 0.0  # after a failure or an event
    regained = (-change > BETWEEN * _energy(trajectory)) & np.isin(list(destroyed), list(tried))
    yield from _worst(trajectory, SECOND, destroyed, np.where(regained, change, 0.0), "J")


def _times(trajectory: Trajectory) -> Float[np.ndarray, "members T"]:
    return np.reshape(trajectory.ts, (-1, trajectory.ts.shape[-1]))


def _by_member(values: ByName) -> Float[np.ndarray, "members T names"]:
    """All values, zero after failures; of components, so that each has one number."""
    array = np.nan_to_num(np.asarray(values.array), posinf=0.0, neginf=0.0)
    return array.reshape(math.prod(array.shape[:-2]), *array.shape[-2:])


def _energy(trajectory: Trajectory) -> Float[np.ndarray, "members 1 1"]:
    """The largest energy that a run is about, J."""
    names = ("kinetic", "potential", "supplied", "dissipated", "exergy_destroyed")
    parts = [np.reshape(getattr(trajectory, name), (*_times(trajectory).shape, 1)) for name in names]
    if trajectory.stored is not None:
        parts.append(_by_member(trajectory.stored))
    return np.abs(np.nan_to_num(np.concatenate(parts, axis=2), posinf=0.0, neginf=0.0)).max(axis=(1, 2), keepdims=True)


def _worst(
    trajectory: Trajectory, law: str, names: Iterable[str], broken: Float[np.ndarray, "members T names"], unit: str
) -> Iterator[BrokenLaw]:
    """The largest entry of each name, if it is not zero."""
    ts = _times(trajectory)
    for i, name in enumerate(names):
        member, k = np.unravel_index(np.argmax(np.abs(broken[:, :, i])), ts.shape)
        size = float(broken[member, k, i])
        if size != 0.0:
            yield BrokenLaw(
                law, name, float(ts[member, k]), size, unit, int(member) if trajectory.ts.ndim > 1 else None
            )
