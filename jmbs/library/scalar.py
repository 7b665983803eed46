"""Scalar parameters of components: checked where they have a number, left alone where they are traced."""

from __future__ import annotations

from typing import Any

import equinox as eqx
from jax.core import Tracer
from jaxtyping import Array, Float

from jmbs.library.mechanics.checks import number
from jmbs.library.mechanics.declared import unit_and_rule

Scalar = Float[Array, ""] | float


def scalar(path: str, unit: str, *, positive: bool = False, non_negative: bool = False, **default: Any) -> Any:
    """A field of a component for a finite number, which becomes a float; traced values pass unchecked.

    The model's parameter has the unit and the rule. **Arguments:** `path` and `unit` for messages, `default` as
    `eqx.field` takes it. Making the component raises `ModelError` for anything that is no number of that sign.
    """

    def convert(value: Any) -> Scalar:
        if isinstance(value, Tracer):
            return value
        return number(path, value, positive=positive, non_negative=non_negative, unit=unit)

    kind = "positive number" if positive else "non-negative number" if non_negative else "number"
    return eqx.field(metadata=unit_and_rule(unit, kind), converter=convert, **default)
