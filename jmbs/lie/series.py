"""Scalar coefficient functions of the charts, analytic in `x = t^2` and exact to rounding with all their derivatives.

All of them derive from one family of entire functions (Stumpff's),

    S_n(x) = sum_k (-x)^k / (2k + n)!,     S_0 = cos t,  S_1 = sin t / t,  S_2 = (1 - cos t) / t^2, ...

which is closed under differentiation, `S_n' = (n S_{n+2} - S_{n+1}) / 2`. That rule is the family's JVP, so no
derivative of any order divides by `x`, passes through a square root, or cancels.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import cache, partial
from itertools import zip_longest
from math import factorial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from jmbs.lie.types import Scalar

# Below: Taylor; above: closed form. At t = 4 the closed forms have stopped cancelling, and the Taylor terms do not
# yet; every rotation vector that a logarithm returns (t <= pi) lies on the polynomial's side.
SWITCH = 16
# tan(pi/16)^2 = 0.0396 is the largest argument after three halvings of an angle in [0, pi/2].
ARCTANGENT_BOUND = Fraction(1, 25)


def _horners(series: Sequence[tuple[float, ...]], x: Array) -> Sequence[Array]:
    """The values of several series. As a loop: compilers do not look into loops, and evaluate anew what is a mere row
    of sums and products wherever it is used."""
    rows = np.array(list(zip_longest(*series, fillvalue=0.0)))
    start = jnp.zeros((len(series), *x.shape), x.dtype)
    return tuple(jax.lax.scan(_horner_step, (x, start), jnp.asarray(rows[::-1], x.dtype))[0][1])


def _horner_step(carry: tuple[Array, Array], row: Array) -> tuple[tuple[Array, Array], None]:
    """One function for all calls: JAX would compile a loop anew for each function it meets outside of `jit`."""
    x, value = carry
    return (x, value * x + row.reshape(-1, *(1,) * x.ndim)), None


def _truncate(terms, bound: Fraction | int, epsilon: float) -> tuple[float, ...]:
    """The leading coefficients of a series in `x <= bound`, up to the first term below `epsilon` of the zeroth."""
    kept = [next(terms)]
    for k, c in enumerate(terms, start=1):
        if abs(c) * bound**k < Fraction(epsilon) / 8 * abs(kept[0]):
            break
        kept.append(c)
    return tuple(float(c) for c in kept)


@cache
def stumpff_coefficients(n: int, dtype_name: str) -> tuple[float, ...]:
    """Taylor coefficients of `S_n` in `x`, as many as the dtype can tell apart on `[0, SWITCH]`."""

    def terms():
        k = 0
        while True:
            yield Fraction((-1) ** k, factorial(2 * k + n))
            k += 1

    return _truncate(terms(), SWITCH, float(jnp.finfo(dtype_name).eps))


@cache
def arctangent_coefficients(dtype_name: str) -> tuple[float, ...]:
    """Taylor coefficients of `atan(s) / s` in `s^2`, on `[0, ARCTANGENT_BOUND]`."""

    def terms():
        k = 0
        while True:
            yield Fraction((-1) ** k, 2 * k + 1)
            k += 1

    return _truncate(terms(), ARCTANGENT_BOUND, float(jnp.finfo(dtype_name).eps))


@partial(jax.custom_jvp, nondiff_argnums=(0, 1))
def stumpffs(first: int, last: int, x: Scalar) -> tuple[Scalar, ...]:
    """`S_n(x)` for the static orders `0 <= first <= n <= last`, at `x >= 0`."""
    small = x < SWITCH
    beyond = jnp.where(small, float(SWITCH), x)
    t = jnp.sqrt(beyond)
    far = [jnp.cos(t), jnp.sin(t) / t]
    top = range(max(last - 1, 0), last + 1)
    near = dict(zip(top, _horners([stumpff_coefficients(n, x.dtype.name) for n in top], x), strict=True))
    # S_n = 1 / n! - x S_{n+2}: upwards from the closed forms, downwards from the series of the highest two.
    for n in range(last - 1):
        far.append((1 / factorial(n) - far[n]) / beyond)
    for n in reversed(range(first, last - 1)):
        near[n] = 1 / factorial(n) - x * near[n + 2]
    return tuple(jnp.where(small, near[n], far[n]) for n in range(first, last + 1))


@stumpffs.defjvp
def _stumpffs_jvp(first: int, last: int, primals, tangents):
    (x,), (dx,) = primals, tangents
    values = stumpffs(first, last + 2, x)
    rates = (0.5 * (n * values[n - first + 2] - values[n - first + 1]) * dx for n in range(first, last + 1))
    return values[: last + 1 - first], tuple(rates)


def dexp_coefficients_3(x: Scalar) -> tuple[Scalar, Scalar]:
    """`(b, c)` of `dexp = I + b ad + c ad^2` where `ad^3 = -x ad` (SO(3), SE(2)).

    `b = (1 - cos t) / t^2`, `c = (t - sin t) / t^3`.
    """
    return stumpffs(2, 3, x)


def dexp_inv_coefficient_3(x: Scalar) -> Scalar:
    """`d` of `dexp^-1 = I - ad/2 + d ad^2` where `ad^3 = -x ad`; singular at `t = 2 pi`.

    `d = (1 - (t/2) cot(t/2)) / t^2`, with the half angle's cosine and sine written as `1 - y S_2` and `1 - y S_3`
    (`y = t^2/4`), so that the difference at small angles is taken exactly.
    """
    s1, s2, s3 = stumpffs(1, 3, 0.25 * x)
    return 0.25 * (s2 - s3) / s1


def angle_over_sine(w: Scalar, s: Scalar) -> Scalar:
    """`atan2(n, w) / n` with `s = n^2`, for `w >= 0` and `(w, s)` not both zero; smooth at `n = 0` and at `w = 0`.

    Three halvings of the angle bring the arctangent's argument below `tan(pi/16)`, where one short polynomial does,
    without a case distinction; homogeneous of degree -1 in `(w, n)`.
    """
    d = w
    for _ in range(3):
        d = d + jnp.sqrt(d * d + s)
    (value,) = _horners([arctangent_coefficients(s.dtype.name)], s / (d * d))
    return 8 / d * value
