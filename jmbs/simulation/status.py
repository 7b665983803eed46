"""What became of an integration: one enumeration, whose members are the messages people read."""

from __future__ import annotations

import equinox as eqx
import jax
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Bool

from jmbs.errors import ModelError


class Status(eqx.Enumeration):
    """The outcome of a simulation, an array-like item per member of a batch.

    Items pass through `jit` and `vmap`; choose between two with `Status.where(pred, a, b)`.
    """

    successful = "Finished."
    inconsistent_initial_state = (
        "The initial state violates the constraints; assemble it with `model.initial_state()` after changing geometry."
    )
    invalid_parameters = (
        "A parameter has a value that a config would refuse, such as a mass that is not positive;"
        " `model.with_parameters` names it where it is called with known values."
    )
    not_finite = (
        "The state became infinite or NaN; the step is too large for the method, or the model has a singularity there."
    )
    max_steps_reached = (
        "The largest number of steps was reached before the end; raise `max_steps` or the tolerance, or choose an"
        " implicit method if the equations are stiff."
    )
    stiff = (
        "The largest number of steps was reached before the end, and stability and not accuracy decided the steps: the"
        " equations are stiff; choose an implicit method, such as kvaerno5."
    )
    step_too_small = "The step control asked for a step smaller than the smallest allowed; loosen the tolerance."
    implicit_solve_failed = "The nonlinear solve inside an implicit step did not converge; try a smaller step."
    table_exceeded = "A tabulated input was asked for a time outside its table."
    singular_coordinates = (
        "The coordinates reached a singularity of theirs (such as gimbal lock), where the equations have no meaning."
    )
    interrupted = "The run was interrupted before its end."
    ended_at_event = "Ended at the event that was waited for."
    constraints_violated = (
        "The constraints are not met at the end: the steps are too long or the tolerance is too loose, or masses,"
        " inertias or lengths differ by more than the precision allows."
    )
    invalid_times = "The saved times are not finite and increasing from the start on, or the step is not positive."


STATUS_NAMES = (
    "successful",
    "inconsistent_initial_state",
    "invalid_parameters",
    "not_finite",
    "max_steps_reached",
    "stiff",
    "step_too_small",
    "implicit_solve_failed",
    "table_exceeded",
    "singular_coordinates",
    "interrupted",
    "ended_at_event",
    "constraints_violated",
    "invalid_times",
)


def is_successful(status: Status) -> Bool[Array, ...]:
    """Whether each member finished, or ended at its event; usable under `jit` and `vmap`, shape that of the batch."""
    return (status == Status.successful) | (status == Status.ended_at_event)


def message(status: Status) -> str:
    """The message of one concrete status (not of a batch: index that with `members`)."""
    _require_single(status)
    return Status[status]


def status_name(status: Status) -> str:
    """The member's name of one concrete status, as scripts compare it (`not_finite`)."""
    _require_single(status)
    return next(name for name in STATUS_NAMES if bool(status == getattr(Status, name)))


def members(status: Status) -> list[Status]:
    """The single statuses in a concrete batch with one axis; a list of one for an unbatched status."""
    (codes,) = jax.tree.leaves(status)
    if codes.ndim == 0:
        return [status]
    # An array again, for indexing numpy gives a scalar, which the enumeration does not recognise.
    return [jax.tree.map(lambda leaf, i=i: np.asarray(leaf[i]), status) for i in range(codes.shape[0])]


def _require_single(status: Status) -> None:
    (codes,) = jax.tree.leaves(status)
    if isinstance(codes, Tracer):
        raise ModelError("status", "a traced status", "a concrete one; read messages outside jit, vmap and grad")
    if codes.ndim:
        raise ModelError("status", f"a batch of shape {codes.shape}", "the status of one member")
