"""A trajectory as labelled arrays: the layout of result files, schema `jmbs-result/1`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jaxtyping import ArrayLike

from jmbs.arrays import is_traced
from jmbs.errors import ModelError
from jmbs.simulation.broken_laws import KEPT, broken_laws
from jmbs.simulation.labelled import LabelledArray, LabelledArrays
from jmbs.simulation.status import Status, is_successful, members, message, status_name

if TYPE_CHECKING:
    import xarray as xr

    from jmbs.simulation.trajectory import Trajectory

RESULT_SCHEMA = "jmbs-result/1"

# Field of `Trajectory` -> (unit, long name) of the account kept as scalars over time.
ACCOUNT: dict[str, tuple[str, str]] = {
    "kinetic": ("J", "kinetic energy"),
    "potential": ("J", "potential energy: gravity, zero at the world origin, springs, and what stores more than heat"),
    "total": ("J", "kinetic plus potential energy"),
    "supplied": ("J", "work supplied since the start by actuation, loads and prescribed motion"),
    "dissipated": ("J", "mechanical or electrical energy turned to heat since the start"),
    "entropy_produced": ("J/K", "entropy produced since the start"),
    "exergy_destroyed": ("J", "environment temperature times entropy produced"),
    "first_law_residual": ("J", "change of stored energy plus heat and work to the environment minus work supplied"),
    "projection_work": ("J", "energy added by constraint stabilisation since the start"),
    "constraint_rank": ("1", "number of independent constraint rows"),
    "constraint_margin": ("1", "smallest relative singular value of the rows that were independent at the start"),
}
# Field of `Trajectory` -> (dimension, unit, long name) of what is kept by component path.
BY_COMPONENT: dict[str, tuple[str, str, str]] = {
    "destroyed": ("irreversible", "J", "exergy destroyed since the start by each irreversible component"),
    "production": ("irreversible", "W/K", "entropy production rate of each irreversible component"),
    "stored": ("storage", "J", "exergy held by each storage"),
    "energy_made": ("tried", "W", "energy that each component makes whose laws were tried on samples only"),
    "entropy_made": ("tried", "W/K", "entropy that each of these components makes"),
}
WRENCH_NAMES = ("torque_x", "torque_y", "torque_z", "force_x", "force_y", "force_z")
WRENCH_UNITS = ("N m", "N m", "N m", "N", "N", "N")


def dataset_of(trajectory: Trajectory) -> xr.Dataset:
    """The dataset of a concrete trajectory with at most one batch axis; see `Trajectory.to_xarray`."""
    import xarray as xr  # here, because it takes longer to import than the rest of jmbs and few callers need it

    labelled = labelled_arrays(trajectory)
    return xr.Dataset(dict(labelled.data_vars), dict(labelled.coords), dict(labelled.attrs))


def labelled_arrays(trajectory: Trajectory) -> LabelledArrays:
    """What `Trajectory.to_xarray` holds, for what needs no xarray; of the same trajectories."""
    if is_traced(trajectory):
        raise ModelError("trajectory", "traced arrays", "concrete ones; call `to_xarray` outside jit, vmap and grad")
    if trajectory.ts.ndim > 2:
        raise ModelError("trajectory", f"times of shape {trajectory.ts.shape}", "at most one batch axis before time")
    trajectory = _without_what_follows(jax.device_get(trajectory))
    batched = trajectory.ts.ndim == 2
    lead = ("member",) if batched else ()

    broken = broken_laws(trajectory)
    variables = _body_variables(trajectory) | _joint_variables(trajectory)
    variables |= _other_variables(trajectory) | _constraint_variables(trajectory)
    variables = {name: (lead + dims, data, attrs) for name, (dims, data, attrs) in variables.items()}
    attributes: dict[str, Any] = {
        "result_schema": RESULT_SCHEMA,
        "jmbs_version": trajectory.labels.version,
        "name": trajectory.labels.name,
        "config": trajectory.labels.config_json,
        "method": trajectory.labels.method,
        **({} if trajectory.production is None else {"laws": "; ".join(map(str, broken)) or KEPT}),
    }
    if batched:
        outcome, summary = _batch_outcome(trajectory)
        variables |= outcome
        attributes |= summary
    else:
        attributes |= _outcome(trajectory)
    return LabelledArrays(_as_variables(variables), _as_variables(_coordinates(trajectory)), attributes)


def _as_variables(parts: Mapping[str, Any]) -> dict[str, LabelledArray]:
    """Of (dimensions, array, attributes) by name; one dimension needs no tuple."""
    return {
        name: LabelledArray((dims,) if isinstance(dims, str) else dims, np.asarray(data), attrs)
        for name, (dims, data, attrs) in parts.items()
    }


def _without_what_follows(trajectory: Trajectory) -> Trajectory:
    """A single run up to the sample at its event, if it has one; members of a batch keep their common length."""
    row = trajectory.event_row
    if row is None or np.ndim(row) or row < 0:
        return trajectory
    shape = np.shape(trajectory.ts)
    return jax.tree.map(lambda leaf: leaf[: int(row) + 1] if np.shape(leaf)[:1] == shape else leaf, trajectory)


def _coordinates(trajectory: Trajectory) -> dict[str, Any]:
    labels = trajectory.labels
    times, shared = _time_axis(trajectory.ts)
    coordinates: dict[str, Any] = {"time": ("time", times, {"units": "s", "long_name": "time"})}
    if trajectory.ts.ndim == 2:
        coordinates["member"] = ("member", np.arange(trajectory.ts.shape[0]), {"units": "1", "long_name": "member"})
    if not shared:
        attrs = {"units": "s", "long_name": "time of each member"}
        coordinates["member_time"] = (("member", "time"), trajectory.ts, attrs)
    if labels.bodies:
        coordinates["body"] = ("body", list(labels.bodies), {"long_name": "body"})
        coordinates["xyz"] = ("xyz", list("xyz"), {"long_name": "vector component"})
        coordinates["wxyz"] = ("wxyz", list("wxyz"), {"long_name": "quaternion component"})
    if labels.joints and trajectory.reaction is not None:
        attrs = {"units": ", ".join(WRENCH_UNITS), "long_name": "wrench component, torque first"}
        coordinates["wrench"] = ("wrench", list(WRENCH_NAMES), attrs)
    for field, (dim, _, _) in BY_COMPONENT.items():
        if getattr(trajectory, field):
            coordinates[dim] = (dim, sorted(getattr(trajectory, field)), {"long_name": f"path of {dim} component"})
    if trajectory.stored and labels.storage_kinds:
        kinds = dict(labels.storage_kinds)
        attrs = {"long_name": "what the storage holds"}
        coordinates["storage_kind"] = ("storage", [kinds[path] for path in sorted(trajectory.stored)], attrs)
    if labels.joints:
        coordinates["joint"] = ("joint", list(labels.joints), {"long_name": "joint"})
    for symbol, kind, joint, names, units in _coordinate_sets(trajectory):
        dim = _coordinate_dim(trajectory, symbol, joint)
        attrs = {"units": ", ".join(units), "long_name": f"names of the {kind} of {joint}"}
        coordinates[dim] = (dim, list(names), attrs)
    return coordinates


def _time_axis(ts: ArrayLike) -> tuple[np.ndarray, bool]:
    """The `time` coordinate (T,), and whether it holds for every member (times after a failure aside).

    Members that saved at different times share an index instead.
    """
    ts = np.asarray(ts)
    finite = np.isfinite(ts)
    if ts.ndim == 1:
        return np.where(finite, ts, np.nan), True
    latest = np.max(np.where(finite, ts, -np.inf), axis=0)
    if np.all(~finite | (ts == latest)):
        return np.where(np.isfinite(latest), latest, np.nan), True
    return np.arange(ts.shape[1], dtype=ts.dtype), False


def _body_variables(trajectory: Trajectory) -> dict[str, Any]:
    fields = (
        ("position", "xyz", "m", "position of the centre of mass, world axes"),
        ("quaternion", "wxyz", "1", "orientation, body to world, scalar first"),
        ("angular_velocity", "xyz", "rad/s", "angular velocity, body axes"),
        ("velocity", "xyz", "m/s", "velocity of the centre of mass, world axes"),
    )
    bodies = trajectory.labels.bodies
    if not bodies:
        return {}
    return {
        field: (
            ("time", "body", axis),
            np.stack([getattr(trajectory, field)[body] for body in bodies], axis=-2),
            {"units": unit, "long_name": name},
        )
        for field, axis, unit, name in fields
    }


def _joint_variables(trajectory: Trajectory) -> dict[str, Any]:
    variables: dict[str, Any] = {}
    joints = trajectory.labels.joints
    for symbol, kind, joint, _, units in _coordinate_sets(trajectory):
        attrs = {"units": _joined(units), "long_name": f"{kind} of {joint}"}
        dims = ("time", _coordinate_dim(trajectory, symbol, joint))
        variables[f"{symbol}_{variable_name(joint)}"] = (dims, getattr(trajectory, symbol)[joint], attrs)
    if joints and trajectory.reaction is not None:
        attrs = {
            "units": ", ".join(WRENCH_UNITS),
            "long_name": "wrench of the joint on the child, at and in the child's joint frame",
        }
        stacked = np.stack([trajectory.reaction[joint] for joint in joints], axis=-2)
        variables["reaction"] = (("time", "joint", "wrench"), stacked, attrs)
    for field, unit, name in (
        ("constraint_position", "m or rad", "largest entry of gap and rotation vector of the closure"),
        ("constraint_velocity", "m/s or rad/s", "largest entry of the closure's rate"),
    ):
        residual = getattr(trajectory, field)
        if joints and residual is not None:
            stacked = np.stack([residual[joint] for joint in joints], axis=-1)
            variables[field] = (("time", "joint"), stacked, {"units": unit, "long_name": name})
    return variables


def _other_variables(trajectory: Trajectory) -> dict[str, Any]:
    variables: dict[str, Any] = {}
    for field, (unit, name) in ACCOUNT.items():
        if getattr(trajectory, field) is not None:
            variables[field] = (("time",), getattr(trajectory, field), {"units": unit, "long_name": name})
    for field, (dim, unit, name) in BY_COMPONENT.items():
        values = getattr(trajectory, field)
        if values:
            stacked = np.stack([values[path] for path in sorted(values)], axis=-1)
            variables[field] = (("time", dim), stacked, {"units": unit, "long_name": name})
    for store, kelvin in trajectory.temperature.items():
        attrs = {"units": "K", "long_name": f"temperature of {store}"}
        variables[f"temperature_{variable_name(store)}"] = (("time",), kelvin, attrs)
    labels = trajectory.labels
    variables |= _by_path("state", trajectory.states, dict(labels.state_units), trajectory.ts.ndim)
    return variables | _by_path("output", trajectory.outputs, dict(labels.output_units), trajectory.ts.ndim)


def _constraint_variables(trajectory: Trajectory) -> dict[str, Any]:
    """Multipliers and residuals of constraints beyond joints."""
    variables: dict[str, Any] = {}
    for path, rows in trajectory.labels.constraints:
        if trajectory.multipliers is not None:
            units = tuple({"torque": "N m", "force": "N"}.get(row.partition("_")[0], "1") for row in rows)
            attrs = {"units": _joined(units), "long_name": f"{', '.join(rows)} of {path}"}
            name = f"multiplier_{variable_name(path)}"
            variables[name] = (("time", f"{name}_row"), trajectory.multipliers[path], attrs)
        for field, text in (("constraint_position", "violation"), ("constraint_velocity", "rate of the violation")):
            residuals = getattr(trajectory, field)
            if residuals is not None:
                attrs = {"units": "1", "long_name": f"largest {text} of {path}"}
                variables[f"{field}_{variable_name(path)}"] = (("time",), residuals[path], attrs)
    return variables


def _by_path(kind: str, values: Mapping[str, Any], units: Mapping[str, str], lead: int) -> dict[str, Any]:
    """Variables `state_<path>` or `output_<path>`, whose values have `lead` axes of members and time."""
    variables = {}
    for path, array in values.items():
        name = f"{kind}_{variable_name(path)}"
        dims = ("time", *(f"{name}_axis{axis}" for axis in range(array.ndim - lead)))
        variables[name] = (dims, array, {"units": units.get(path, "1"), "long_name": f"{kind} {path}"})
    return variables


def variable_name(path: str) -> str:
    """A path in the name of a variable: NetCDF reads a slash as a group, and names of components never hold a dot."""
    return path.replace("/", ".")


def _coordinate_sets(trajectory: Trajectory) -> list[tuple[str, str, str, tuple[str, ...], tuple[str, ...]]]:
    """(symbol, kind, joint, names, units) of every `q` and `v` with at least one entry."""
    sets = []
    for joint, q_names, q_units, v_names, v_units in trajectory.labels.joint_coordinates:
        # A fixed joint has none, and NetCDF takes a dimension of length zero for an unlimited one.
        if q_names:
            sets.append(("q", "coordinates", joint, q_names, q_units))
        if v_names:
            sets.append(("v", "velocities", joint, v_names, v_units))
    return sets


def _coordinate_dim(trajectory: Trajectory, symbol: str, joint: str) -> str:
    """`q_<joint>_coordinate`, lengthened while another joint is itself called `<joint>_coordinate`."""
    name, joints = f"{variable_name(joint)}_coordinate", set(map(variable_name, trajectory.labels.joints))
    while name in joints:
        name += "_"
    return f"{symbol}_{name}"


def _joined(units: tuple[str, ...]) -> str:
    return units[0] if len(set(units)) == 1 else ", ".join(units)


def _outcome(trajectory: Trajectory) -> dict[str, Any]:
    return {
        "status": message(trajectory.status),
        "status_name": status_name(trajectory.status),
        "failure_time": float(trajectory.failure_time),
        **_event(trajectory),
        **{name: np.asarray(count).item() for name, count in trajectory.stats.items()},
    }


def _event(trajectory: Trajectory) -> dict[str, Any]:
    """Time and name of the event that ended a run, NaN and nothing where none did; empty where none was waited for."""
    if trajectory.event_time is None or trajectory.event_which is None:
        return {}
    names = (*trajectory.labels.events, "")
    return {"event_time": float(trajectory.event_time), "event": names[int(trajectory.event_which)]}


def _batch_outcome(trajectory: Trajectory) -> tuple[dict[str, Any], dict[str, Any]]:
    singles = members(trajectory.status)
    failed = sum(not bool(is_successful(single)) for single in singles)
    variables: dict[str, Any] = {
        "status": ("member", [message(single) for single in singles], {"long_name": "status"}),
        "failure_time": ("member", trajectory.failure_time, {"units": "s", "long_name": "time of failure"}),
    }
    if trajectory.event_time is not None:
        attrs = {"units": "s", "long_name": "time of the event"}
        variables["event_time"] = ("member", trajectory.event_time, attrs)
    for name, count in trajectory.stats.items():
        variables[name] = ("member", np.asarray(count), {"units": "1", "long_name": name})
    summary = f"{failed} of {len(singles)} members failed" if failed else message(Status.successful)
    return variables, {"status": summary}
