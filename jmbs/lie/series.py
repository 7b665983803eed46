"""Scalar coefficient functions of the charts, analytic in `x = t^2` and exact to rounding with all their derivatives.

All of them derive from one family of entire functions (Stumpff's),

    S_n(x) = sum_k (-x)^k / (2k + n)!,     S_0 = cos t,  S_1 = sin t / t,  S_2 = (1 - cos t) / t^2, ...

which is closed under differentiation, `S_n' = (n S_{n+2} - S_{n+1}) / 2`. That rule is the family's JVP, so no
derivative of any order divides by `x`, passes through a square root, or cancels.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache, partial
from math import factorial

import jax
import jax.numpy as jnp
from jaxtyping import Array

from jmbs.lie.types import Scalar

# Below: Taylor; above: closed form. At t = 4 the closed forms have stopped cancelling, and the Taylor terms do not
# yet; every rotation vector that a logarithm returns (t <= pi) lies on the polynomial's side.
SWITCH = 16
# tan(pi/16)^2 = 0.0396 is the largest argument after three halvings of an angle in [0, pi/2].
ARCTANGENT_BOUND = Fraction(1, 25)


def _horner(coefficients: tuple[float, ...], x: Array) -> Array:
    value = jnp.full_like(x, coefficients[-1])
    for c in reversed(coefficients[:-1]):
        value = value * x + c
    return value


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


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def stumpff(n: int, x: Scalar) -> Scalar:
    """`S_n(x)` for a static order `n >= 0` and `x >= 0`."""
    if n == 0:
        return jnp.cos(jnp.sqrt(x))
    small = x < SWITCH
    beyond = jnp.where(small, float(SWITCH), x)
    t = jnp.sqrt(beyond)
    value = jnp.cos(t) if n % 2 == 0 else jnp.sin(t) / t
    for m in range(n % 2, n, 2):
        value = (1 / factorial(m) - value) / beyond
    return jnp.where(small, _horner(stumpff_coefficients(n, x.dtype.name), x), value)


@stumpff.defjvp
def _stumpff_jvp(n: int, primals, tangents):
    (x,), (dx,) = primals, tangents
    return stumpff(n, x), stumpff_derivative(n, x) * dx


def stumpff_derivative(n: int, x: Scalar) -> Scalar:
    """`dS_n/dx`."""
    if n == 0:
        return -0.5 * stumpff(1, x)
    return 0.5 * (n * stumpff(n + 2, x) - stumpff(n + 1, x))


def dexp_coefficients_3(x: Scalar) -> tuple[Scalar, Scalar]:
    """`(b, c)` of `dexp = I + b ad + c ad^2` where `ad^3 = -x ad` (SO(3), SE(2)).

    `b = (1 - cos t) / t^2`, `c = (t - sin t) / t^3`.
    """
    return stumpff(2, x), stumpff(3, x)


def dexp_inv_coefficient_3(x: Scalar) -> Scalar:
    """`d` of `dexp^-1 = I - ad/2 + d ad^2` where `ad^3 = -x ad`; singular at `t = 2 pi`.

    `d = (1 - (t/2) cot(t/2)) / t^2`, with the half angle's cosine and sine written as `1 - y S_2` and `1 - y S_3`
    (`y = t^2/4`), so that the difference at small angles is taken exactly.
    """
    y = 0.25 * x
    return 0.25 * (stumpff(2, y) - stumpff(3, y)) / stumpff(1, y)


def _dexp_inv_coefficient_3_rate(x: Scalar) -> tuple[Scalar, Scalar]:
    """`d` and `dd/dx`."""
    y = 0.25 * x
    s1, numerator = stumpff(1, y), stumpff(2, y) - stumpff(3, y)
    ratio = numerator / s1
    slope = (stumpff_derivative(2, y) - stumpff_derivative(3, y) - ratio * stumpff_derivative(1, y)) / s1
    return 0.25 * ratio, 0.0625 * slope


def dexp_coefficients_5(x: Scalar) -> tuple[Scalar, Scalar, Scalar, Scalar]:
    """`(c1, c2, c3, c4)` of `dexp = I + c1 ad + ... + c4 ad^4` where `ad (ad^2 + x)^2 = 0` (SE(3)).

    Matching `(e^z - 1)/z` and its derivative at the double roots `z = +-i t` gives `c3 = -b'`, `c1 = b - x b'`,
    `c4 = -c'`, `c2 = c - x c'` in terms of the two coefficients of SO(3). In closed form
    `c1 = (4 - t sin t - 4 cos t) / 2t^2`, `c2 = (4t - 5 sin t + t cos t) / 2t^3`,
    `c3 = (2 - t sin t - 2 cos t) / 2t^4`, `c4 = (2t - 3 sin t + t cos t) / 2t^5`.
    """
    s2, s3, s4, s5 = (stumpff(n, x) for n in (2, 3, 4, 5))
    c3 = 0.5 * (s3 - 2 * s4)
    c4 = 0.5 * (s4 - 3 * s5)
    return s2 + x * c3, s3 + x * c4, c3, c4


def dexp_inv_coefficients_5(x: Scalar) -> tuple[Scalar, Scalar]:
    """`(b2, b4)` of `dexp^-1 = I - ad/2 + b2 ad^2 + b4 ad^4` where `ad (ad^2 + x)^2 = 0`; singular at `t = 2 pi`.

    `b4 = -d'`, `b2 = d - x d'` by the same matching; in closed form
    `b2 = 2/t^2 + (t + 3 sin t) / (4t (cos t - 1))`, `b4 = 1/t^4 + (t + sin t) / (4t^3 (cos t - 1))`.
    """
    d, slope = _dexp_inv_coefficient_3_rate(x)
    return d - x * slope, -slope


def angle_over_sine(w: Scalar, s: Scalar) -> Scalar:
    """`atan2(n, w) / n` with `s = n^2`, for `w >= 0` and `(w, s)` not both zero; smooth at `n = 0` and at `w = 0`.

    Three halvings of the angle bring the arctangent's argument below `tan(pi/16)`, where one short polynomial does,
    without a case distinction; homogeneous of degree -1 in `(w, n)`.
    """
    d = w
    for _ in range(3):
        d = d + jnp.sqrt(d * d + s)
    return 8 / d * _horner(arctangent_coefficients(s.dtype.name), s / (d * d))
