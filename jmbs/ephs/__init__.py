"""Exergetic port-Hamiltonian systems: the language, its flattening, and its reference meaning."""

from jmbs.ephs.balance import Balance, balance
from jmbs.ephs.build import reference_dae
from jmbs.ephs.component import Efforts, Environment, Role, follows, is_lawful, role
from jmbs.ephs.drive import (
    ConstantEffort,
    ConstantFlow,
    EffortDrive,
    FlowDrive,
    FunctionEffort,
    FunctionFlow,
    NestedFlow,
    TableEffort,
    TableFlow,
    interpolate,
)
from jmbs.ephs.evaluate import each, energy_gradient
from jmbs.ephs.expose import exposed
from jmbs.ephs.flatten import FlatJunction, FlatSystem, flatten
from jmbs.ephs.interface import ENTROPY, VOLUME, Interface, Port, Quantity, power_port, state_port
from jmbs.ephs.junction_positions import as_it_is
from jmbs.ephs.junctions import Junctions
from jmbs.ephs.laws import validate_component
from jmbs.ephs.outputs import Outputs, output_shapes, output_units, outputs_at, validate_outputs
from jmbs.ephs.pattern import Junction, Pattern, pattern
from jmbs.ephs.plan import Batch, Block, Plan, make_plan
from jmbs.ephs.rates import Power, Rates, State, Structure
from jmbs.ephs.semantics import ReferenceDAE
from jmbs.ephs.solvability import imbalance, undetermined
from jmbs.ephs.system import Closure, System, interface_of, lossy_system
from jmbs.ephs.unproven import made_by_unproven
from jmbs.ephs.validate import validate
from jmbs.ephs.view import StateView

__all__ = [
    "as_it_is",
    "ENTROPY",
    "VOLUME",
    "Balance",
    "Batch",
    "Block",
    "Closure",
    "ConstantEffort",
    "ConstantFlow",
    "EffortDrive",
    "Efforts",
    "Environment",
    "FlatJunction",
    "FlatSystem",
    "FlowDrive",
    "FunctionEffort",
    "FunctionFlow",
    "Interface",
    "Junction",
    "Junctions",
    "NestedFlow",
    "Outputs",
    "Pattern",
    "Plan",
    "Port",
    "Power",
    "Quantity",
    "Rates",
    "ReferenceDAE",
    "Role",
    "State",
    "StateView",
    "Structure",
    "System",
    "TableEffort",
    "TableFlow",
    "balance",
    "each",
    "energy_gradient",
    "exposed",
    "flatten",
    "follows",
    "imbalance",
    "interface_of",
    "interpolate",
    "is_lawful",
    "lossy_system",
    "made_by_unproven",
    "make_plan",
    "output_shapes",
    "output_units",
    "outputs_at",
    "pattern",
    "power_port",
    "reference_dae",
    "role",
    "state_port",
    "undetermined",
    "validate",
    "validate_component",
    "validate_outputs",
]
