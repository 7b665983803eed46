"""What a trajectory of a model holds, by name, before there is one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jmbs.ephs import output_units
from jmbs.simulation.observation_plan import observation_plan

if TYPE_CHECKING:
    from jmbs.simulation.model import Model


def saved_names(model: Model) -> dict[str, tuple[str, ...]]:
    """Names in the mappings of a `Trajectory`, by its field, in their order: `{"q": ("hinge",), ...}`.

    Without `energy_made` and `entropy_made`, which are found while a run is traced.
    """
    plan = observation_plan(model)
    bodies, residuals = (tuple(e.name for e in found.entries) for found in (plan.position, plan.residuals))
    places = {
        "q": plan.q,
        "v": plan.v,
        "reaction": plan.reaction,
        "temperature": plan.temperature_rise,
        "states": plan.states,
        "multipliers": plan.multipliers,
        "stored": plan.stored,
        "production": plan.production,
        "destroyed": plan.production,
    }
    return {
        **dict.fromkeys(("position", "quaternion", "angular_velocity", "velocity"), bodies),
        **{field: tuple(entry.name for entry in found.entries) for field, found in places.items()},
        **dict.fromkeys(("constraint_position", "constraint_velocity"), residuals),
        "outputs": tuple(output_units(model.dae)),
    }
