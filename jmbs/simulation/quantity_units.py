"""Units of states, and of inputs, by the quantity that is stored, of those that the library stores."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from jmbs.ephs import ENTROPY, VOLUME, Block

if TYPE_CHECKING:
    from jmbs.simulation.model import Model


class StoredUnits(NamedTuple):
    """Units of what is stored, of its flow and of its effort, whose product is a power."""

    state: str
    flow: str
    effort: str


STORED = {
    "charge": StoredUnits("C", "A", "V"),
    "flux_linkage": StoredUnits("Wb", "V", "A"),
    ENTROPY: StoredUnits("J/K", "W/K", "K"),
    VOLUME: StoredUnits("m^3", "m^3/s", "Pa"),
    "length": StoredUnits("m", "m/s", "N"),
    "displacement": StoredUnits("m", "m/s", "N"),
    "momentum": StoredUnits("kg m/s", "N", "m/s"),
    "relative_momentum_R1": StoredUnits("kg m^2/s or kg m/s", "N m or N", "rad/s or m/s"),
}
PART_UNITS = {"force": "N", "torque": "N m", "velocity": "m/s", "angular_velocity": "rad/s"}
FORCE_UNITS = {"rad/s": "N m", "m/s": "N"}


def state_units(model: Model) -> dict[str, str]:
    """By junction the unit of a state as `State` shows it: velocities and currents where storages have momenta. What
    is in no known unit is left out."""
    found = {}
    for block in model.dae.plan.blocks:
        units = _units_of(block)
        if units is not None:
            found |= dict.fromkeys(block.junctions, units.effort if block.from_effort else units.state)
    return found


def input_units(model: Model, port: str) -> tuple[str, ...]:
    """Units of an input's entries, each once: of forces and torques of actuations and loads, coordinates of motions,
    and what sources of other systems give. None where they are not known."""
    owner, _, key = port.rpartition("/")
    drives, plan = model.dae.drives, model.dae.plan
    if key in PART_UNITS and owner in drives:
        return (PART_UNITS[key],)
    joint = next((entry for entry in model.layout.coordinates if entry.joint == owner), None)
    if joint is not None:
        units = joint.q_units if key == "motion" else [FORCE_UNITS.get(unit, "") for unit in joint.v_units]
        return tuple(dict.fromkeys(unit for unit in units if unit))
    slots = plan.drive_slots.get(port, np.zeros(0, int))
    for block in plan.blocks:
        units = _units_of(block)
        if len(slots) and block.slots.start <= slots[0] < block.slots.stop and units is not None:
            return (units.effort if port in drives and not hasattr(drives[port], "flow") else units.flow,)
    return ()


def _units_of(block: Block) -> StoredUnits | None:
    return STORED.get(block.label.partition(":")[0])
