"""Inputs by port path: constants, tables or functions that replace a model's drives."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from jmbs.arrays import is_traced
from jmbs.ephs import ConstantEffort, ConstantFlow, NestedFlow, TableEffort, TableFlow
from jmbs.errors import ModelError
from jmbs.library.mechanics import (
    MotionDrive,
    NamedParameter,
    SplineMotion,
    TableSpec,
    inside,
    motion_drive,
    nearest,
    per_coordinate,
    require_motion,
    show,
)
from jmbs.simulation.motion_view import NamedFlow, named
from jmbs.simulation.user_functions import called, real_array, require_arguments

if TYPE_CHECKING:
    from jmbs.simulation.model import Model

PARTS = ("force", "torque", "velocity", "angular_velocity")
"""Parts of drives that can be replaced by themselves."""
MOST_TRACED_ROWS = 2000
"""Of the table of a prescribed motion: the matrix from its values to the spline has as many rows and columns."""


class FunctionInput(eqx.Module):
    """A drive from a user's function `(t, view)`, which may be a module with arrays; see `MotionView`. `path`: of its
    port, for messages."""

    function: Callable
    size: int = eqx.field(static=True)
    path: str = eqx.field(static=True)

    def flow(self, t, view):
        path = f"inputs/{self.path}"
        return _numbers(path, called(path, self.function, t, view), self.size, t.dtype)


class EffortInput(eqx.Module):
    """A prescribed effort from a user's differentiable function of time, which may be a module with arrays; `path`: of
    its port, for messages."""

    function: Callable
    size: int = eqx.field(static=True)
    path: str = eqx.field(static=True)

    def effort(self, t):
        path = f"inputs/{self.path}"
        return _numbers(path, called(path, self.function, t), self.size, t.dtype)


def _numbers(path: str, value: Any, size: int, dtype: Any) -> Array:
    """What a user's function gave, `(size,)`. Raises `ModelError`."""
    wanted = f"a function that gives a number or {size} numbers" if size > 1 else "a function that gives a number"
    array = real_array(path, value, wanted)
    if array.shape not in ((), (1,), (size,)):
        raise ModelError(path, f"one that gives an array of shape {array.shape}", wanted)
    return jnp.broadcast_to(array.astype(dtype), (size,))


def with_inputs(model: Model, inputs: Mapping[str, Any]) -> Model:
    """The model with drives at the given port paths.

    **Arguments:** `inputs`: path to a number or array (constant), `(times, values)` or a `TableSpec` (linear
    interpolation between strictly increasing times; NaN outside, which ends the run), a function `(t, view)`, which may
    be a module with arrays, or an object with a method `flow` of the same; see `MotionView`. Numbers may be traced, but
    for the times of a prescribed motion. `<joint>/actuation` takes one entry per joint velocity; `<load>/force` and
    `<load>/torque` three. Where the model prescribes an effort, the input does too, and a function is one of `t`:
    `<constraint>/plane/velocity` and `<constraint>/plane/angular_velocity` of a moving surface take three entries.

    Raises `ModelError` for an unknown path, a wrong size or a table that is none. A model with a drive on poses or
    joint coordinates has no tree formulation.
    """
    if not isinstance(inputs, Mapping):
        raise ModelError("inputs", show(inputs), "a mapping of port paths to constants, tables or functions")
    drives, slots = dict(model.dae.drives), model.dae.plan.drive_slots
    for path, value in inputs.items():
        owner, _, key = path.rpartition("/")
        if owner in drives and key in PARTS and hasattr(_innermost(drives[owner]), key):
            drives[owner] = _with_field(drives[owner], key, _drive(model, path, value, 3, drives[owner]))
        elif path in slots:
            drives[path] = _drive(model, path, value, len(slots[path]), drives.get(path))
        else:
            raise ModelError(f"inputs/{path}", "no such port", f"a known one{nearest(path, slots)}")
    if not inputs:
        return model
    dae = eqx.tree_at(lambda d: d.drives, model.dae, drives, is_leaf=lambda leaf: leaf is model.dae.drives)
    model = eqx.tree_at(lambda m: m.dae, model, dae, is_leaf=lambda leaf: leaf is model.dae)
    model = dataclasses.replace(model, table=tuple(p for p in model.table if _is_there(p, drives)))
    beyond = [] if model.tree is None else [p for p in inputs if np.isin(slots.get(p, ()), model.tree.own_slots).any()]
    if not beyond:
        return model
    return dataclasses.replace(model, tree=None, without_tree=f"inputs/{beyond[0]} acts on what the tree alone moves")


def input_size(model: Model, path: str) -> int:
    """How many numbers an input takes. Raises `ModelError` for an unknown path."""
    owner, _, key = path.rpartition("/")
    drives, slots = model.dae.drives, model.dae.plan.drive_slots
    if owner in drives and key in PARTS and hasattr(_innermost(drives[owner]), key):
        return 3
    if path not in slots:
        raise ModelError(f"inputs/{path}", "no such port", f"a known one{nearest(path, slots)}")
    return len(slots[path])


def _is_there(parameter: NamedParameter, drives: Mapping[str, Any]) -> bool:
    """Whether a parameter still has a place: a constant's value has none in a table or a function."""
    if not parameter.drive:
        return True
    owner, field = parameter.places[0]
    try:
        inside(drives[owner], field)
    except AttributeError:
        return False
    return True


def _innermost(drive: Any) -> Any:
    return _innermost(drive.drive) if isinstance(drive, NestedFlow | NamedFlow) else drive


def _with_field(drive, key: str, part):
    if isinstance(drive, NestedFlow | NamedFlow):
        return eqx.tree_at(lambda d: d.drive, drive, _with_field(drive.drive, key, part))
    return eqx.tree_at(lambda d: getattr(d, key), drive, part, is_leaf=lambda leaf: leaf is getattr(drive, key))


def _motion(model: Model, path: str, value: Any, size: int) -> Any:
    """The drive of a prescribed motion that replaces another one."""
    if hasattr(value, "target"):
        return value
    if callable(value):
        require_motion(f"inputs/{path}", value, size)
        return motion_drive(value, size)
    if isinstance(value, TableSpec) or (isinstance(value, tuple) and len(value) == 2):
        times, values = _table(path, value, size)
        if is_traced(times):
            raise ModelError(f"inputs/{path}", "times that are traced", "known times; the values may be traced")
        if is_traced(values):
            if len(times) > MOST_TRACED_ROWS:
                wanted = f"{MOST_TRACED_ROWS} rows at most, or a function of time"
                raise ModelError(f"inputs/{path}", f"{len(times)} rows of values that are traced", wanted)
            values = jnp.asarray(values, model.dtype)
        drive = MotionDrive(SplineMotion.through(times, values), size)
    else:
        drive = motion_drive(per_coordinate(f"inputs/{path}", value, size), size)
    return jax.tree.map(lambda x: jnp.asarray(x, model.dtype), drive)


def _table(path: str, given: Any, size: int) -> tuple[Any, Any]:
    """Times (n,) and values (n, size) of a table, checked as far as they are known. Raises `ModelError`."""
    where = f"inputs/{path}"
    if isinstance(given, TableSpec):
        given.require_columns(where, size)
        return given.times, given.values
    times, values = (real_array(where, part, "numbers") if is_traced(part) else part for part in given)
    # What is traced has a shape at least.
    rows: Any = np.arange(np.size(times), dtype=float).reshape(np.shape(times)) if is_traced(times) else times
    zeros: Any = np.zeros(np.shape(values)) if is_traced(values) else values
    known = TableSpec(rows, zeros, path=where)
    if known.values.shape[1] != size:
        raise ModelError(where, f"values of shape {known.values.shape}", f"shape ({len(known.times)}, {size})")
    found = values.reshape(len(known.times), size) if is_traced(values) else known.values
    return times if is_traced(times) else known.times, found


def _tree_of(function: Callable) -> Callable:
    """A function as a tree: one without arrays of its own is part of the program."""
    leaves = jax.tree.leaves(function)
    return jax.tree_util.Partial(function) if len(leaves) == 1 and leaves[0] is function else function


def _drive(model: Model, path: str, value: Any, size: int, given: Any) -> Any:
    """A drive of the kind, flow or effort, of the one that was there."""
    if isinstance(given, MotionDrive):
        return _motion(model, path, value, size)
    prescribes = hasattr(given, "effort")
    if hasattr(value, "effort" if prescribes else "flow"):
        return named(value, model.layout.parts)
    if callable(value):
        require_arguments(f"inputs/{path}", value, "t" if prescribes else "t, view")
        function = _tree_of(value)
        if prescribes:
            return EffortInput(function, size, path)
        return NamedFlow(FunctionInput(function, size, path), model.layout.parts)
    if isinstance(value, TableSpec) or (isinstance(value, tuple) and len(value) == 2):
        times, values = (jnp.asarray(v, model.dtype) for v in _table(path, value, size))
        return TableEffort(times, values) if prescribes else TableFlow(times, values)
    try:
        array = jnp.asarray(value, model.dtype)
    except (TypeError, ValueError):
        raise ModelError(
            f"inputs/{path}", show(value), "a constant, (times, values), or a function (t, view)"
        ) from None
    if array.ndim > 1 or array.size not in (1, size):
        raise ModelError(f"inputs/{path}", f"shape {np.shape(array)}", f"a number or {size} numbers")
    constant = ConstantEffort if prescribes else ConstantFlow
    return constant(jnp.broadcast_to(array.reshape(-1), (size,)))
