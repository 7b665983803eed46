"""From a mechanism or any system to a model: flattened, validated, planned once."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from jmbs.arrays import is_traced, resolve_dtype
from jmbs.ephs import ReferenceDAE, System, flatten, reference_dae, undetermined, validate, validate_outputs
from jmbs.errors import ModelError
from jmbs.library.mechanics import (
    CONSTRAINT_TYPES,
    Mechanism,
    NamedParameter,
    SimulationSpec,
    array_fields,
    body_points,
    component_parameter,
    find_parts,
    parameter_table,
    show,
    with_joint_closures,
    with_port_distances,
)
from jmbs.linear import rank_tolerance
from jmbs.simulation.mechanics import initial_states, initial_values, layout_of, refuse_given_twice, state_shapes
from jmbs.simulation.model import Model, given_state
from jmbs.simulation.motion_view import with_names
from jmbs.simulation.parameter_values import REFERENCES, parameter_value, within_bounds
from jmbs.simulation.state import to_internal
from jmbs.tree import make_layout, recognise


def compile(
    system: Mechanism | System,
    dtype: Any = None,
    initial: Mapping[str, Any] | None = None,
    environment_temperature: float = 298.15,
    settings: SimulationSpec | None = None,
    name: str = "system",
    environment_pressure: float | None = None,
) -> Model:
    """Plans a system once and returns it as a model.

    **Arguments:**

    - `system`: a `Mechanism` (built, or read by `jmbs.load`), or any `jmbs.ephs` system. Bodies, joints and other
      mechanical parts are found in either, at any depth, and named by the path of their box.
    - `dtype`: of all arrays; None takes the config's precision (mechanism) or JAX's default.
    - `initial`, `environment_temperature` (K), `environment_pressure` (Pa), `settings`, `name`: for `jmbs.ephs`
      systems; a mechanism brings its own.
      Initial states are given by junction name, those of joints and bodies also as `Mechanism.set_initial` takes them,
      in sections `joints` and `bodies`.

    Raises `ModelError` for a wrong model, before anything is traced.
    """
    if isinstance(system, Mechanism):
        own = {"initial": initial, "settings": settings, "environment_pressure": environment_pressure}
        for key, value in own.items():
            if value is not None:
                raise ModelError(key, show(value), "none beside a Mechanism, which brings its own")
        return _compile_mechanism(system, dtype)
    if not isinstance(system, System):
        wanted = "a Mechanism or a jmbs.ephs System" + ("; jmbs.load reads files" if isinstance(system, str) else "")
        raise ModelError("system", show(system) if isinstance(system, str) else f"a {type(system).__name__}", wanted)
    if settings is not None and not isinstance(settings, SimulationSpec):
        raise ModelError("settings", show(settings), "a SimulationSpec")
    resolved = resolve_dtype(dtype)
    settings = settings or SimulationSpec(precision=resolved.name)
    given = dict(initial or {})
    sections = {key: given.pop(key) for key in ("joints", "bodies") if isinstance(given.get(key), Mapping)}
    environment = environment_temperature, environment_pressure
    for (path, parameter), value in zip(REFERENCES.items(), environment, strict=True):
        if value is not None and not is_traced(value):
            parameter.rules[0].refuse(path, parameter.unit, value, ())
    model = _planned(system, resolved, environment, settings, name, {**sections, "states": given}, "initial")
    table = _field_parameters(model.dae)
    return _with_kind(within_bounds(_with_shared(dataclasses.replace(model, table=table))))


def _compile_mechanism(mechanism: Mechanism, dtype: Any) -> Model:
    settings = mechanism.simulation
    resolved = resolve_dtype(settings.precision if dtype is None else dtype)
    initial = {"joints": mechanism.initial_joints, "bodies": mechanism.initial_bodies}
    initial["states"] = mechanism.initial_states
    environment = mechanism.environment_temperature, mechanism.environment_pressure
    name, systems = mechanism.name, mechanism.systems
    model = _planned(mechanism.system(), resolved, environment, settings, name, initial, "initial/states", systems)
    table = (*parameter_table(mechanism), *_field_parameters(model.dae, systems))
    config = json.dumps(mechanism.config, default=str)
    model = dataclasses.replace(model, table=table, body_points=body_points(mechanism), config_json=config)
    model = within_bounds(_with_shared(model))
    # The rows of joints fix all free efforts; only other systems can leave some open.
    return _with_kind(model) if systems else model


def _planned(
    system: System,
    dtype: np.dtype,
    environment: tuple[float, float | None],
    settings: SimulationSpec,
    name: str,
    initial: Mapping[str, Mapping[str, Any]],
    states_path: str,
    systems: Iterable[str] = (),
) -> Model:
    """The model of a system, still without named parameters.

    **Arguments:** `environment`: temperature and, if it has one, pressure; `initial`: sections `joints`, `bodies` and
    `states`; `states_path` of the last, for messages; `systems`: boxes that a mechanism holds beside its own parts.
    """
    flat = flatten(system)
    parts = find_parts(flat)
    flat = with_port_distances(with_joint_closures(flat, parts))
    flat = dataclasses.replace(flat, drives=with_names(flat, parts))
    validate(flat)
    recognised = recognise(flat, settings.cut_joints)
    known = () if isinstance(recognised, str) else recognised.known
    dae = reference_dae(flat, environment[0], dtype, apart=known, reference_pressure=environment[1])
    validate_outputs(dae)
    given = initial_values(parts, initial.get("joints", {}), initial.get("bodies", {}), dtype)
    given["states"] = initial_states(dae, state_shapes(dae, parts), initial["states"], states_path)
    refuse_given_twice(parts, given)
    layout = layout_of(dae, parts, given, systems)
    tree, reason = (None, recognised) if isinstance(recognised, str) else (make_layout(flat, dae.plan, recognised), "")
    return Model(dae, given, layout, settings, (), name, tree=tree, without_tree=reason)


def _field_parameters(dae: ReferenceDAE, boxes: Iterable[str] | None = None) -> tuple[NamedParameter, ...]:
    """Every parameter of every component (of those within `boxes`, if given), as `<path>/<field>`."""
    rows = []
    for batch, component in zip(dae.plan.batches, dae.components, strict=True):
        paths = [p for p in batch.paths if boxes is None or p.split("/")[0] in boxes]
        for field in array_fields(component):
            rows += [component_parameter(path, component, field) for path in paths]
    found = [row for row in rows if row is not None]
    # A rule that looks at a field beside it needs that this is a parameter too, as integers are not.
    paths = {row.path for row in found}
    sound = lambda row: tuple(rule for rule in row.rules if paths.issuperset(rule.others))  # noqa: E731
    return tuple(dataclasses.replace(row, rules=sound(row)) for row in found)


def _with_shared(model: Model) -> Model:
    """The model in whose table what several components have of one thing is one parameter; they stay where they differ.

    A body inside of a system has one mass, `<body>/mass`, which its kinetic energy and its weight share, but under
    buoyancy; what rolls there has one radius, `<constraint>/radius`, one axis and one plane.
    """
    rows = {row.path: row for row in model.table}
    at = {row.places: row.path for row in model.table}
    for path, places in (*_masses(model), *_rollers(model)):
        own = [at[(place,)] for place in places if (place,) in at]
        values = [parameter_value(model, path) for path in own]
        if len(own) == 2 and (any(map(is_traced, values)) or np.array_equal(values[0], values[1])):
            rows[own[0]] = dataclasses.replace(rows[own[0]], path=path, places=places)
            del rows[own[1]]
    return dataclasses.replace(model, table=tuple(rows.values()))


def _masses(model: Model) -> Iterator[tuple[str, tuple[tuple[str, str], ...]]]:
    """Path and places of each body's mass."""
    for body in model.layout.parts.bodies:
        yield f"{body.name}/mass", tuple((path, "mass") for path in (body.kinetic, body.weight) if path is not None)


def _rollers(model: Model) -> Iterator[tuple[str, tuple[tuple[str, str], ...]]]:
    """Path and places of each number of what rolls, as a mechanism names it."""
    for found in model.layout.parts.constraints:
        boxes = [f"{found.name}/{box}" for box in ("contact", "slip")]
        if set(found.components) == set(boxes):
            for law in ("", "law."):
                for own in CONSTRAINT_TYPES["rolling"].parameters:
                    yield f"{found.name}/{own.path}", tuple((box, f"{law}{own.field}") for box in boxes)


def _with_kind(model: Model) -> Model:
    """Decides whether the constraint rows fix all free efforts, and refuses what nothing fixes."""
    dae = model.dae
    if dae.plan.n_free == 0:
        return model
    x = to_internal(dae, given_state(model))

    @eqx.filter_jit
    def free_matrix(dae, x):
        s = dae.structures(x)
        return dae.constraint_matrix(jnp.zeros((), model.dtype), s)[:, dae.plan.n_stored :]

    matrix = np.asarray(free_matrix(dae, x))
    rank = np.linalg.matrix_rank(matrix, tol=rank_tolerance(model.dtype)) if matrix.size else 0
    if rank == dae.plan.n_free:
        return model
    general = dataclasses.replace(dae, kinematic=False)
    junction = undetermined(general, jnp.zeros((), model.dtype), x)
    if junction is not None:
        found = "an effort that nothing determines"
        raise ModelError(f"junctions/{junction}", found, "a storage, constraint, resistance or drive that fixes it")
    reason = "its constraints do not fix all efforts at junctions without storage"
    return dataclasses.replace(model, dae=general, tree=None, without_tree=reason)
