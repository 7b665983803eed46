"""What a fit keeps of its estimate, so that it can be asked more afterwards."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from jmbs.identification.problem import FitProblem
    from jmbs.identification.trust import Sensitivity


@dataclasses.dataclass(frozen=True)
class Solution:
    """Where an estimation ended.

    **Arguments:** `problem`, with the noise that was estimated; `x` (p,), coordinates of the estimate; `sensitivity`
    there; `quantile`: how many standard errors an interval reaches to each side; `noise`: by sensor the standard
    deviation that holds where a recording gives none.
    """

    problem: FitProblem
    x: np.ndarray
    sensitivity: Sensitivity
    quantile: float
    noise: Mapping[str, float]
