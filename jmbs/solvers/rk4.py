"""The classical fourth-order Runge-Kutta method, which diffrax does not ship."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import diffrax
import numpy as np

_TABLEAU = diffrax.ButcherTableau(
    a_lower=(np.array([1 / 2]), np.array([0.0, 1 / 2]), np.array([0.0, 0.0, 1.0])),
    b_sol=np.array([1 / 6, 1 / 3, 1 / 3, 1 / 6]),
    b_error=np.array([0.0, 0.0, 0.0, 0.0]),
    c=np.array([1 / 2, 1 / 2, 1.0]),
)


class RK4(diffrax.AbstractERK):
    """Classical Runge-Kutta, order 4, four stages, no error estimate: for fixed steps only."""

    tableau: ClassVar[diffrax.ButcherTableau] = _TABLEAU
    interpolation_cls: ClassVar[Callable] = diffrax.ThirdOrderHermitePolynomialInterpolation.from_k

    def order(self, terms):
        del terms
        return 4
