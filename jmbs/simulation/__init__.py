"""From a system to a trajectory: compiled models, states, simulation, results."""

from jmbs.simulation.inputs import with_inputs
from jmbs.simulation.integrate import simulate
from jmbs.simulation.model import Model, compile
from jmbs.simulation.state import State
from jmbs.simulation.status import Status, is_successful, members, message, status_name
from jmbs.simulation.trajectory import JointCoordinates, Labels, Trajectory, continuous_quaternions

__all__ = [
    "JointCoordinates",
    "Labels",
    "Model",
    "State",
    "Status",
    "Trajectory",
    "compile",
    "continuous_quaternions",
    "is_successful",
    "members",
    "message",
    "simulate",
    "status_name",
    "with_inputs",
]
