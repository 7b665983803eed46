"""A state by names as a run sees it: by the formulation that moves it, where little has to be computed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax.numpy as jnp

from jmbs.simulation.formulation import formulation_of
from jmbs.simulation.motion_view import MotionView, view_of
from jmbs.simulation.state import State

if TYPE_CHECKING:
    from jmbs.simulation.model import Model


def run_view(model: Model, state: State, t: Any = 0.0) -> MotionView:
    """What `Model.view` gives at states that meet the constraints, as those of runs and steps do; pure.

    The reference semantics, which `Model.view` asks, solves for rates of joints that a tree has among its unknowns:
    of a cart with two poles that takes four times as long.
    """
    formulation = formulation_of(model, model.settings.formulation)
    seen = formulation.look(jnp.asarray(t, model.dtype), formulation.start(state), None)
    return view_of(model.dae, model.layout.parts, seen.x, jnp.concatenate(seen.efforts))
