"""What the equations say at a saved state: the state of the reference semantics, efforts, and for the audit forces."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from jmbs.ephs import ReferenceDAE
from jmbs.linear import least_multipliers, row_lengths, singular_values_of_directions


class Forces(NamedTuple):
    """Multipliers of all constraint rows, of least Euclidean norm; how far the rows are from zero, `violation`; the
    singular values of the rows, descending, each row scaled to unit length, and the lengths of the rows."""

    multipliers: Float[Array, " rows"]
    violation: Float[Array, " rows"]
    singular_values: Float[Array, " k"]
    lengths: Float[Array, " m"]


class Instant(NamedTuple):
    """One instant of a motion, in the numbering of the reference plan; whoever solves the equations gives it.

    - `x`: the state.
    - `efforts`: all of them, in parts one after the other: what nobody reads needs not be computed.
    - `forces`: None without audit.
    """

    x: tuple[Array, ...]
    efforts: tuple[Float[Array, " some"], ...]
    forces: Forces | None


def instant(dae: ReferenceDAE, t: Any, x: tuple[Array, ...], velocity: Float[Array, " stored"] | None) -> Instant:
    """The instant `(t, x)` by the reference equations, dense in the number of constraint rows.

    **Arguments:** `velocity`: the state's, for the audit; forces are what it takes to make the state move so.
    """
    if velocity is None:
        return Instant(x, (dae.efforts(t, x),), None)
    if not dae.kinematic:
        rates = dae.rates(t, x)
        C = dae.constraint_matrix(t, dae.structures(x))
        return Instant(x, (rates.efforts,), Forces(rates.multipliers, rates.violation, *_singular_values(C)))
    known = dae.known(t, x)
    balance = -known.flow[: dae.plan.n_stored + dae.plan.n_free]
    wanted = balance - jnp.pad(velocity, (0, dae.plan.n_free))
    multipliers = least_multipliers(known.C, wanted)
    return Instant(x, (known.efforts,), Forces(multipliers, known.violation, *_singular_values(known.C)))


def _singular_values(C: Float[Array, "rows efforts"]) -> tuple[Float[Array, " k"], Float[Array, " rows"]]:
    """Of the constraint rows, each scaled to unit length, and their lengths; empty without constraints.

    The rows act on all velocities that the constraints relate, so their rank is the number of independent constraints.
    """
    values = singular_values_of_directions(C) if C.size else jnp.zeros(0, C.dtype)
    return values, row_lengths(C)
