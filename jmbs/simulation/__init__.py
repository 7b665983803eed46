"""From a system to a trajectory: compiled models, states, simulation, results."""

from jmbs.simulation.along_motion import forces_along, moving_joints
from jmbs.simulation.arguments import known_number, require_instance
from jmbs.simulation.batch import PIECE, map_batch, use_all_cores
from jmbs.simulation.batch_runs import simulate_batch, takes_adaptive_steps
from jmbs.simulation.broken_laws import BrokenLaw
from jmbs.simulation.compilation import compile
from jmbs.simulation.dataset import ACCOUNT as SCALARS
from jmbs.simulation.dataset import (
    BY_COMPONENT,
    RESULT_SCHEMA,
    WRENCH_NAMES,
    WRENCH_UNITS,
    labelled_arrays,
    variable_name,
)
from jmbs.simulation.inputs import input_size, with_inputs
from jmbs.simulation.integrate import simulate
from jmbs.simulation.labelled import LabelledArrays
from jmbs.simulation.misses import chosen_by_assembly, loops
from jmbs.simulation.model import Model
from jmbs.simulation.motion_view import MotionView
from jmbs.simulation.outcome import jmbs_version
from jmbs.simulation.parameter_values import parameter_paths, parameter_unit, parameter_value
from jmbs.simulation.progress import waiting
from jmbs.simulation.quantity_units import FORCE_UNITS, input_units, state_units
from jmbs.simulation.run_settings import least_rtol
from jmbs.simulation.run_times import run_times
from jmbs.simulation.run_view import run_view
from jmbs.simulation.saved_names import saved_names
from jmbs.simulation.speed import measure_speed
from jmbs.simulation.speed_report import SpeedCase, SpeedReport, Timing
from jmbs.simulation.spread import spread_states
from jmbs.simulation.state import InnerState, State
from jmbs.simulation.status import STATUS_NAMES, Status, is_successful, members, message, status_name
from jmbs.simulation.trajectory import JointCoordinates, Labels, Trajectory, continuous_quaternions
from jmbs.simulation.until import Until
from jmbs.simulation.variational import AppliedForces, applied_forces, variational_residual

__all__ = [
    "AppliedForces",
    "BY_COMPONENT",
    "BrokenLaw",
    "FORCE_UNITS",
    "InnerState",
    "JointCoordinates",
    "LabelledArrays",
    "Labels",
    "Model",
    "MotionView",
    "PIECE",
    "RESULT_SCHEMA",
    "SCALARS",
    "STATUS_NAMES",
    "SpeedCase",
    "SpeedReport",
    "State",
    "Status",
    "Timing",
    "Trajectory",
    "Until",
    "WRENCH_NAMES",
    "WRENCH_UNITS",
    "applied_forces",
    "compile",
    "chosen_by_assembly",
    "continuous_quaternions",
    "forces_along",
    "input_size",
    "input_units",
    "state_units",
    "is_successful",
    "known_number",
    "labelled_arrays",
    "least_rtol",
    "jmbs_version",
    "loops",
    "map_batch",
    "measure_speed",
    "parameter_paths",
    "parameter_unit",
    "parameter_value",
    "members",
    "message",
    "moving_joints",
    "require_instance",
    "run_times",
    "run_view",
    "saved_names",
    "simulate",
    "simulate_batch",
    "spread_states",
    "status_name",
    "takes_adaptive_steps",
    "use_all_cores",
    "variational_residual",
    "variable_name",
    "waiting",
    "with_inputs",
]
