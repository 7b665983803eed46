"""From a mechanism or any system to a model: flattened, validated, planned once."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from jmbs.arrays import resolve_dtype
from jmbs.ephs import ReferenceDAE, System, flatten, reference_dae, undetermined, validate
from jmbs.errors import ModelError
from jmbs.library.mechanics import Mechanism, Parameter, SimulationSpec, parameter_table, show
from jmbs.linear import rank_tolerance
from jmbs.multibody import make_layout, recognise
from jmbs.simulation.mechanics import MechanicalLayout, initial_states, initial_values, layout_of, state_shapes
from jmbs.simulation.model import Model, given_state
from jmbs.simulation.state import to_internal


def compile(
    system: Mechanism | System,
    dtype: Any = None,
    initial: Mapping[str, Any] | None = None,
    environment_temperature: float = 298.15,
    settings: SimulationSpec | None = None,
    name: str = "system",
) -> Model:
    """Plans a system once and returns it as a model.

    **Arguments:**

    - `system`: a `Mechanism` (built, or read by `jmbs.load`), or any `jmbs.ephs` system.
    - `dtype`: of all arrays; None takes the config's precision (mechanism) or JAX's default.
    - `initial`, `environment_temperature` (K), `settings`, `name`: for `jmbs.ephs` systems, whose initial states are
      given by junction name; a mechanism brings its own.

    Raises `ModelError` for a wrong model, before anything is traced.
    """
    if isinstance(system, Mechanism):
        return _compile_mechanism(system, dtype)
    if not isinstance(system, System):
        raise ModelError("system", show(system), "a Mechanism or a jmbs.ephs System")
    resolved = resolve_dtype(dtype)
    flat = flatten(system)
    validate(flat)
    dae = reference_dae(flat, environment_temperature, resolved)
    shapes = state_shapes(dae)
    layout = MechanicalLayout.empty(shapes)
    settings = settings or SimulationSpec(precision=resolved.name)
    given = {"states": initial_states(dae, shapes, initial or {})}
    model = Model(dae, given, layout, settings, _field_parameters(dae), name)
    return _with_kind(model)


def _field_parameters(dae: ReferenceDAE, boxes: Iterable[str] | None = None) -> tuple[Parameter, ...]:
    """Every array field of every component (of those within `boxes`, if given), as `<path>/<field>`."""
    rows = []
    for batch, component in zip(dae.plan.batches, dae.components, strict=True):
        paths = [p for p in batch.paths if boxes is None or p.split("/")[0] in boxes]
        for keys, leaf in jax.tree_util.tree_flatten_with_path(component)[0]:
            names = [getattr(k, "name", None) for k in keys]
            if eqx.is_inexact_array(leaf) and all(names):
                field = ".".join(str(n) for n in names)
                rows += [Parameter(f"{p}/{field.replace('.', '/')}", "1", ((p, field),)) for p in paths]
    return tuple(rows)


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
    general = ReferenceDAE(dae.components, dae.drives, dae.reference_temperature, dae.plan, kinematic=False)
    junction = undetermined(general, jnp.zeros((), model.dtype), x)
    if junction is not None:
        found = "an effort that nothing determines"
        raise ModelError(f"junctions/{junction}", found, "a storage, constraint, resistance or drive that fixes it")
    reason = "its constraints do not fix all efforts at junctions without storage"
    return dataclasses.replace(model, dae=general, tree=None, without_tree=reason)


def _compile_mechanism(mechanism: Mechanism, dtype: Any) -> Model:
    resolved = resolve_dtype(mechanism.simulation.precision if dtype is None else dtype)
    system = mechanism.system()
    flat = flatten(system)
    validate(flat)
    recognised = recognise(flat, mechanism.simulation.cut_joints)
    known = () if isinstance(recognised, str) else recognised.known
    dae = reference_dae(flat, mechanism.environment_temperature, resolved, apart=known)
    layout = layout_of(mechanism, dae)
    initial = initial_values(mechanism, resolved) | {
        "states": initial_states(dae, dict(layout.state_shapes), mechanism.initial_states, "initial/states")
    }
    table = (*parameter_table(mechanism), *_field_parameters(dae, mechanism.systems))
    config_json = json.dumps(mechanism.config, default=str)
    tree, reason = (None, recognised) if isinstance(recognised, str) else (make_layout(flat, dae.plan, recognised), "")
    model = Model(dae, initial, layout, mechanism.simulation, table, mechanism.name, config_json, tree, reason)
    # The rows of joints fix all free efforts; only other systems can leave some open.
    return _with_kind(model) if mechanism.systems else model
