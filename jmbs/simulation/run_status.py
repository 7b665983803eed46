"""What became of a run: whether it started and ended where the constraints are met, and why it failed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import diffrax
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from jmbs.ephs import TableEffort, TableFlow
from jmbs.library.mechanics import SplineMotion
from jmbs.simulation.formulation import AbsoluteFormulation, TreeFormulation
from jmbs.simulation.instant import Instant
from jmbs.simulation.model import ASSEMBLY_TOLERANCE, Model
from jmbs.simulation.run_settings import Values
from jmbs.simulation.state import State
from jmbs.simulation.status import Status, is_successful
from jmbs.solvers import Run

MOST_MISSED = {"float64": 1e-3, "float32": 1e-2}
"""By how much constraints may be missed at the end, m, rad, m/s or rad/s: projections leave what is of second order in
the errors of steps."""
ROUNDED = 100.0
"""Roundings of a mechanism's typical length that constraints may be missed by anyway."""
NEAR_SINGULAR, APPROACHING = 0.02, 0.3
"""A failed run that ends with less regularity than the first, or saved a state with less, has failed because of it; or,
if a fixed step went beyond, one that saved a state with less than the second."""


class Met(NamedTuple):
    """Whether a run starts at the state that was asked for, with its constraints met, and whether they are met at its
    end; None where nobody looks there."""

    start: Bool[Array, ""]
    end: Bool[Array, ""] | None


def constraints_met(
    formulation: AbsoluteFormulation | TreeFormulation,
    state: State,
    first: Instant,
    start: tuple[Float[Array, ""], Any],
    end: tuple[Float[Array, ""], Any],
    *,
    projects: bool,
    length: Callable[[], Float[Array, ""]],
) -> Met:
    """What a run from a `state` meets; its end is looked at if the run `projects`.

    **Arguments:** `first`: the first instant; `start`, `end`: time, s, and state there; `length`: the typical one, m,
    of the mechanism, whose rounding is no miss.
    """
    missed = formulation.inconsistency(*start, state, first)
    precision = missed.dtype.name
    most = 10 * ASSEMBLY_TOLERANCE[precision]
    if not formulation.is_constrained:
        return Met(missed <= most, None)
    rounding = ROUNDED * jnp.finfo(missed.dtype).eps * length()
    if not projects:
        return Met(jnp.maximum(missed, formulation.residual(*start)) <= jnp.maximum(most, rounding), None)
    both = jax.tree.map(lambda *leaves: jnp.stack(leaves), start, end)
    at_start, at_end = jax.vmap(formulation.residual)(*both)
    starts = jnp.maximum(missed, at_start) <= jnp.maximum(most, rounding)
    return Met(starts, at_end <= jnp.maximum(MOST_MISSED[precision], rounding))


def came_to_singularity(saved: Float[Array, " T"], last: Float[Array, ""]) -> Bool[Array, ""]:
    """Whether a failed run came to a singularity of the coordinates: from regularity at saved times and the end."""
    least = jnp.min(saved, initial=1.0, where=jnp.isfinite(saved))
    return (jnp.fmin(last, least) < NEAR_SINGULAR) | (jnp.isnan(last) & (least < APPROACHING))


def status_of(
    model: Model, values: Values, run: Run, finite: Bool[Array, " T"], met: Met, singular: Bool[Array, ""] | None
) -> Status:
    """What became of a run.

    **Arguments:** `finite`: which saved states are; `singular`: whether it came to a singularity of the coordinates,
    None where they have none.
    """
    event = run.event
    complete = jnp.all(finite) if event is None else jnp.all(finite) | (event.found & finite[event.row])
    status = _of_integration(run.result, complete)
    for reason, of_failure in (
        (_beyond_tables(model, values.times), Status.table_exceeded),
        (singular, Status.singular_coordinates),
    ):
        if reason is not None:
            status = Status.where((status != Status.successful) & reason, of_failure, status)
    # A run that failed from such a start has failed for it.
    unexplained = (status != Status.table_exceeded) & (status != Status.singular_coordinates)
    status = Status.where(unexplained & finite[0] & ~met.start, Status.inconsistent_initial_state, status)
    if event is not None:
        status = Status.where(event.found & (status == Status.successful), Status.ended_at_event, status)
    if met.end is not None:
        status = Status.where(is_successful(status) & ~met.end, Status.constraints_violated, status)
    if model.allowed is not None:
        status = Status.where(model.allowed, status, Status.invalid_parameters)
    if values.valid is not None:
        status = Status.where(values.valid, status, Status.invalid_times)
    return status


def _of_integration(result: diffrax.RESULTS, complete: Bool[Array, ""]) -> Status:
    """What the integration says of itself; `complete`: all that was to be saved is finite."""
    R = diffrax.RESULTS
    status = Status.where(complete, Status.successful, Status.not_finite)
    status = Status.where(result == R.max_steps_reached, Status.max_steps_reached, status)
    status = Status.where(result == R.dt_min_reached, Status.step_too_small, status)
    implicit = (result == R.nonlinear_max_steps_reached) | (result == R.nonlinear_divergence)
    status = Status.where(implicit, Status.implicit_solve_failed, status)
    return Status.where(result == R.nonfinite, Status.not_finite, status)


def _beyond_tables(model: Model, times: Float[Array, " T"]) -> Bool[Array, ""] | None:
    """Whether some tabulated drive ends before the run does, or starts after it; None without any."""
    is_table = lambda leaf: isinstance(leaf, TableFlow | TableEffort | SplineMotion)  # noqa: E731
    tables = [d for d in jax.tree.leaves(model.dae.drives, is_leaf=is_table) if is_table(d)]
    slack = 1e-9 * (times[-1] - times[0])
    short = [(d.times[0] > times[0] + slack) | (d.times[-1] < times[-1] - slack) for d in tables]
    return jnp.any(jnp.stack(short)) if short else None
