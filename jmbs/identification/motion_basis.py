"""Functions of time whose combinations are smooth motions, with exact rates and accelerations."""

from __future__ import annotations

import abc
from collections.abc import Sequence

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import scipy.interpolate
from jaxtyping import Array, Float

from jmbs.errors import ModelError
from jmbs.identification.study import Estimator, Recording
from jmbs.library.mechanics import count, number, show

DEGREE = 5
"""Of splines, so that accelerations are smooth twice."""
KNOTS_A_PERIOD = 4
"""Of a spline's cutoff frequency, so that accelerations at that frequency are a per cent off at most."""
SAMPLES_A_KNOT = 5
"""Where no trajectory is given: so many samples from one knot of a spline to the next."""
LEAST = 1e-5
"""The smallest singular value of a basis at its samples, beside the largest."""


class AbstractBasis(eqx.Module):
    """`k` functions of time. `idle` (k,): one for those that a recording does not reach, else zero."""

    idle: eqx.AbstractVar[Float[Array, " k"]]

    @abc.abstractmethod
    def values(self, times: Float[Array, " n"], order: int) -> Float[Array, "n k"]:
        """The functions at times, s, or their derivatives of `order` 1 or 2; pure, with derivatives by the times."""


class FourierBasis(AbstractBasis):
    """1, then cosines and sines of `harmonics` multiples of `rate`, rad/s, about `origin`, s."""

    idle: Float[Array, " k"]
    origin: Float[Array, ""]
    rate: Float[Array, ""]
    harmonics: int = eqx.field(static=True)

    def values(self, times, order):
        rates = self.rate * jnp.arange(1, self.harmonics + 1, dtype=self.rate.dtype)
        phase = rates * (times - self.origin)[:, None]
        cosine, sine = jnp.cos(phase), jnp.sin(phase)
        constant = jnp.full((len(times), 1), 0.0 if order else 1.0, self.rate.dtype)
        pairs = ((cosine, sine), (-sine, cosine), (-cosine, -sine))[order]
        return jnp.concatenate([constant, *(rates**order * pair for pair in pairs)], axis=1)


class SplineBasis(AbstractBasis):
    """Splines of fifth degree on knots `spacing` (s) apart from `origin` (s) on; beyond the first and the last of
    `intervals` their polynomials go on."""

    idle: Float[Array, " k"]
    origin: Float[Array, ""]
    spacing: Float[Array, ""]
    intervals: Float[Array, ""]

    def values(self, times, order):
        at = (times - self.origin) / self.spacing
        interval = jnp.clip(jnp.floor(at), 0.0, self.intervals - 1)
        powers = [(at - interval) ** i for i in range(DEGREE + 1 - order)]
        parts = jnp.stack(powers, axis=1) @ jnp.asarray(_PIECES[order], times.dtype) / self.spacing**order
        columns = interval.astype(int)[:, None] + jnp.arange(DEGREE + 1)
        rows = jnp.arange(len(times))[:, None]
        return jnp.zeros((len(times), len(self.idle)), times.dtype).at[rows, columns].set(parts)


def _pieces() -> list[np.ndarray]:
    """Coefficients (power, function) of the splines within an interval, and of their derivatives."""
    piece = scipy.interpolate.PPoly.from_spline(scipy.interpolate.BSpline.basis_element(range(DEGREE + 2)))
    of_function = piece.c[::-1, DEGREE : 2 * DEGREE + 1][:, ::-1]
    found = [of_function]
    for _ in range(2):
        found.append(found[-1][1:] * np.arange(1, len(found[-1]))[:, None])
    return found


_PIECES = _pieces()


def basis_of(
    estimator: Estimator, recording: Recording, recordings: Sequence[Recording], dtype: np.dtype
) -> AbstractBasis:
    """The basis of a recording's motion, as large as that of the longest one. Raises `ModelError`."""
    given = dict(estimator.trajectory or {"basis": "spline"})
    where, kind = "estimator/trajectory", given.pop("basis", None)
    given = {key: value for key, value in given.items() if value is not None}
    wanted = {"fourier": {"period", "harmonics"}, "spline": {"cutoff"}}.get(str(kind))
    if wanted is None:
        raise ModelError(f"{where}/basis", show(kind), "fourier or spline")
    if extra := set(given) - wanted:
        raise ModelError(f"{where}/{min(extra)}", show(given[min(extra)]), f"{' and '.join(sorted(wanted))} of {kind}")
    origin = jnp.asarray(np.min(recording.ts), dtype)
    if kind == "fourier":
        if missing := wanted - set(given):
            raise ModelError(f"{where}/{min(missing)}", "nothing", f"{' and '.join(sorted(wanted))} of {kind}")
        harmonics = count(f"{where}/harmonics", given["harmonics"])
        rate = jnp.asarray(2 * np.pi / number(f"{where}/period", given["period"], positive=True), dtype)
        return FourierBasis(jnp.zeros(2 * harmonics + 1, dtype), origin, rate, harmonics)
    steps = np.concatenate([np.diff(r.ts) for r in recordings])
    spacing = SAMPLES_A_KNOT * float(np.median(steps))
    if given:
        spacing = 1 / (KNOTS_A_PERIOD * number(f"{where}/cutoff", given["cutoff"], positive=True))
    longest = max(_intervals(r, spacing) for r in recordings)
    own = _intervals(recording, spacing)
    idle = np.arange(longest + DEGREE) >= own + DEGREE
    return SplineBasis(*(jnp.asarray(value, dtype) for value in (idle, origin, np.ptp(recording.ts) / own, own)))


def _intervals(recording: Recording, spacing: float) -> int:
    """Of a spline from the first sample to the last, none longer than `spacing`, s."""
    return max(int(np.ceil(float(np.ptp(recording.ts)) / spacing * (1 - 1e-9))), 1)


def require_seen(basis: AbstractBasis, recording: str, joint: str, rows: np.ndarray) -> None:
    """Refuses a basis that the samples of a joint do not determine; `rows` (n, k): the basis at these."""
    active = rows[:, np.asarray(basis.idle) == 0]
    singular = np.linalg.svd(active, compute_uv=False) if len(active) >= active.shape[1] else np.zeros(1)
    if np.min(singular) <= LEAST * np.max(singular):
        found = (
            f"{active.shape[1]} functions of time, which the {len(active)} samples of {joint} in {recording} leave open"
        )
        wanted = "a smaller cutoff, fewer harmonics or a period that the recording covers, and samples all along"
        raise ModelError("estimator/trajectory", found, wanted)
