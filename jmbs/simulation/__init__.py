"""From a system to a trajectory: compiled models, states, simulation, results."""

from jmbs.simulation.along_motion import forces_along, moving_joints
from jmbs.simulation.batch import map_batch, use_all_cores
from jmbs.simulation.broken_laws import BrokenLaw
from jmbs.simulation.compilation import compile
from jmbs.simulation.inputs import with_inputs
from jmbs.simulation.integrate import simulate
from jmbs.simulation.misses import chosen_by_assembly, loops
from jmbs.simulation.model import Model
from jmbs.simulation.motion_view import MotionView
from jmbs.simulation.outcome import jmbs_version
from jmbs.simulation.parameter_values import parameter_paths, parameter_unit, parameter_value
from jmbs.simulation.progress import waiting
from jmbs.simulation.run_view import run_view
from jmbs.simulation.speed import measure_speed
from jmbs.simulation.speed_report import SpeedCase, SpeedReport, Timing
from jmbs.simulation.spread import spread_states
from jmbs.simulation.state import State
from jmbs.simulation.status import Status, is_successful, members, message, status_name
from jmbs.simulation.trajectory import JointCoordinates, Labels, Trajectory, continuous_quaternions
from jmbs.simulation.until import Until
from jmbs.simulation.variational import AppliedForces, applied_forces, variational_residual

__all__ = [
    "AppliedForces",
    "BrokenLaw",
    "JointCoordinates",
    "Labels",
    "Model",
    "MotionView",
    "SpeedCase",
    "SpeedReport",
    "State",
    "Status",
    "Timing",
    "Trajectory",
    "Until",
    "applied_forces",
    "compile",
    "chosen_by_assembly",
    "continuous_quaternions",
    "forces_along",
    "is_successful",
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
    "run_view",
    "simulate",
    "spread_states",
    "status_name",
    "use_all_cores",
    "variational_residual",
    "waiting",
    "with_inputs",
]
