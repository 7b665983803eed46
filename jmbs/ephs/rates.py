"""What the semantics of a system speaks in: states, structures at a state, rates and the power behind them.

The rows (ii) are the constraint rows of `jmbs.ephs.semantics`.
"""

from __future__ import annotations

from typing import NamedTuple

from jaxtyping import Array, Float

State = tuple[Array, ...]
"""One array `(n, *space.shape)` per block of the plan."""


class Structure(NamedTuple):
    """What the components say at a state: per batch `J (n, P, P)`, `C (n, m, P)`, ratio `A (n, out, in)`, or None."""

    J: tuple[Array | None, ...]
    C: tuple[Array | None, ...]
    A: tuple[Array | None, ...]


class Power(NamedTuple):
    """Rates of the account: W, W, W/K and W, scalars but for the last.

    `supplied` by drives; `dissipated` mechanical or electrical power turned to heat; `entropy` produced by irreversible
    components; `constraint` power that multipliers feed in because (ii) is violated, zero on the constraints;
    `production`: the entropy (W/K) that each irreversible component produces, in the order of `Plan.irreversible`.
    """

    supplied: Float[Array, ""]
    dissipated: Float[Array, ""]
    entropy: Float[Array, ""]
    constraint: Float[Array, ""]
    production: Float[Array, " irreversible"]


class Known(NamedTuple):
    """The matrix `C` of the rows (ii), `(C_S, C_A)`; all `efforts`; reduced `flow` out of the storages without
    multipliers; supplied and dissipated power and entropy production; the residual of the rows, `violation`."""

    C: Float[Array, "rows stored+free"]
    efforts: Float[Array, " efforts"]
    flow: Float[Array, " efforts"]
    account: tuple[Array, Array, Array]
    violation: Float[Array, " rows"]


class Rates(NamedTuple):
    """Right-hand side: left-trivialised `velocity` of the states, all `efforts`, `multipliers`, the account.

    `violation` is the residual of the rows (ii).
    """

    velocity: Float[Array, " stored"]
    efforts: Float[Array, " efforts"]
    multipliers: Float[Array, " rows"]
    violation: Float[Array, " rows"]
    power: Power
