"""A run that goes on where another ended: with its state as it was moved, and with its account."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np

from jmbs.dae import ACCOUNT
from jmbs.errors import ModelError
from jmbs.simulation.arguments import require_instance
from jmbs.simulation.formulation import formulation_of
from jmbs.simulation.run_settings import Program
from jmbs.simulation.state import Ending, State
from jmbs.simulation.trajectory import Trajectory

if TYPE_CHECKING:
    from jmbs.simulation.model import Model


def begin_after(after: Any, state: Any, t0: Any) -> tuple[State, Any]:
    """The state at the end of a trajectory, or at its event, and the time there if `t0` says none.

    Raises `ModelError` for what is no trajectory of one run, and beside a state.
    """
    require_instance("after", after, Trajectory, "a Trajectory, which simulate gives")
    if state is not None:
        raise ModelError("after", "a trajectory beside a state", "one of them")
    if after.ts.ndim != 1:
        found = f"a trajectory whose times have the shape {after.ts.shape}"
        raise ModelError("after", found, "that of one run; jax.vmap takes many at a time")
    if after.event_row is None:
        return after.state(-1), after.ts[-1] if t0 is None else t0
    ended = after.event_row >= 0
    row = jnp.where(ended, after.event_row, len(after.ts) - 1)
    return after.state(row), after.ts[row] if t0 is None else t0


def ending_of(after: Trajectory, model: Model, program: Program) -> Ending:
    """Where the run ended that this one, of a `model` with its inputs, goes on from.

    Raises `ModelError` where that was moved in other coordinates, or kept no account and this one does.
    """
    ending = after.ending
    if ending is None:
        raise ModelError("after", "a trajectory without its end", "one that simulate gave")
    blocks = formulation_of(model, program.formulation).manifold.blocks
    shapes = [(len(block.junctions), *block.space.shape) for block in blocks]
    found = [np.shape(values) for values in ending.state.blocks]
    if found != shapes:
        raise ModelError(
            "after", "a run of another formulation or model", f"one of the {program.formulation} formulation"
        )
    if program.audit and len(ending.account) != len(ACCOUNT) + len(model.dae.plan.irreversible):
        raise ModelError("after", "a run without audit", "one with it, or audit=False")
    return ending
