"""What a design found: inputs, and what will be known of the unknowns from them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from jmbs.identification.design_limits import Reach
from jmbs.identification.design_record import design_summary
from jmbs.identification.result import InvisibleDirection


class InputTable(NamedTuple):
    """An input as recordings and `simulate` take it: `values` (n,) at `times` (n,), s, linear in between."""

    times: np.ndarray
    values: np.ndarray


@dataclasses.dataclass(frozen=True)
class Expectation:
    """What is known of the unknowns, or will be.

    **Arguments:** `information_gain`: nats, over what was known before; `standard_errors` by name, None where not
    visible; `singular_values` (p,) of the whitened Jacobian; `invisible_directions`.
    """

    information_gain: float
    standard_errors: Mapping[str, float | None]
    singular_values: np.ndarray
    invisible_directions: tuple[InvisibleDirection, ...]


@dataclasses.dataclass(frozen=True)
class ExcitationDesign:
    """What `jmbs.design_excitation` returns.

    **Arguments:**

    - `inputs`: by port path a table; `coefficients` of their bases; `limits`: by name, with what is reached.
    - `before`: what recordings and priors say; `first`: with an input drawn at random within the limits; `after`: with
      the designed one.
    - `values`: by name of unknowns, at which all this holds; `units`.
    - `ts` (n,), s; `shown` and `first_shown`: by name of sensors and limited outputs, (n,); `first_inputs`.
    - `criterion`, its `criterion_value` and `first_value`; `evaluations`; `seconds`; `source`: the study as written.
    """

    name: str
    inputs: Mapping[str, InputTable]
    coefficients: Mapping[str, np.ndarray]
    limits: Mapping[str, Reach]
    before: Expectation
    first: Expectation
    after: Expectation
    values: Mapping[str, float]
    units: Mapping[str, str]
    ts: np.ndarray
    shown: Mapping[str, np.ndarray]
    first_shown: Mapping[str, np.ndarray]
    first_inputs: Mapping[str, InputTable]
    criterion: str
    criterion_value: float
    first_value: float
    evaluations: Mapping[str, int]
    seconds: float
    source: Mapping[str, object] = dataclasses.field(default_factory=dict)

    @property
    def information_gain(self) -> float:
        """Half the logarithm of the ratio of determinants of the information, with the experiment and before, nats.

        Both with a belief of a tenth in every coordinate (standard deviation 10), so that it is finite.
        """
        return self.after.information_gain

    @property
    def predicted_standard_errors(self) -> Mapping[str, float | None]:
        """By name, of a fit to the experiment with what was known before, at the values of the start."""
        return self.after.standard_errors

    def summary(self) -> str:
        """What the command prints."""
        return design_summary(self)
