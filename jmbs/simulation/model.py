"""A compiled system: static plan and array leaves, as a pytree that `jit`, `vmap` and `grad` take."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from jmbs.arrays import resolve_dtype
from jmbs.dae import StateManifold, project, velocity_field
from jmbs.ephs import Rates, ReferenceDAE, System, flatten, reference_dae, validate
from jmbs.errors import AssemblyError, ModelError
from jmbs.library.mechanics import Mechanism, Parameter, SimulationSpec, nearest, parameter_table, show
from jmbs.linear import rank_tolerance
from jmbs.simulation.assembly import assemble
from jmbs.simulation.mechanics import MechanicalLayout, initial_values, layout_of
from jmbs.simulation.state import State, from_internal, identity_state, to_internal
from jmbs.solvers import LieTerm, MuntheKaas, base_method

ASSEMBLY_TOLERANCE = {"float64": 1e-6, "float32": 1e-3}
"""Largest closure gap (m, rad) or miss of a given value that still counts as rounding of the data."""


class Model(eqx.Module):
    """What `jmbs.compile` returns.

    **Arguments:**

    - `dae`: the equations with all parameters as arrays.
    - `initial`: given initial values, `initial["joints"][name]["q"]` and so on, or states by junction name.
    - `layout`: static; bodies, joints and elements of a mechanism, empty for other systems.
    - `settings`: static; what the config's `simulation` section says, used where `simulate` is not told otherwise.
    """

    dae: ReferenceDAE
    initial: dict[str, Any]
    layout: MechanicalLayout = eqx.field(static=True)
    settings: SimulationSpec = eqx.field(static=True)
    table: tuple[Parameter, ...] = eqx.field(static=True)
    name: str = eqx.field(static=True)
    config_json: str = eqx.field(static=True, default="{}")

    @property
    def dtype(self) -> np.dtype:
        """The floating dtype of all arrays."""
        return np.dtype(self.dae.reference_temperature.dtype)

    @property
    def manifold(self) -> StateManifold:
        """The manifold on which the state and the account are integrated."""
        return StateManifold(self.dae.plan.blocks, self.dae.plan.n_stored)

    # -- parameters -----------------------------------------------------------------------------------------------

    def parameters(self) -> dict[str, dict[str, Any]]:
        """All named parameters: path to `value`, `unit`, `shape`."""
        rows = {"environment/temperature": (self.dae.reference_temperature, "K")}
        for parameter in self.table:
            rows[parameter.path] = (self._read(parameter), parameter.unit)
        units = {"q": "rad or m", "v": "rad/s or m/s", "position": "m", "quaternion": "1"}
        units |= {"angular_velocity": "rad/s", "velocity": "m/s"}
        for section in self.initial.values():
            for name, values in section.items():
                for key, value in values.items():
                    rows[f"initial/{name}/{key}"] = (value, units.get(key, "1"))
        return {path: {"value": value, "unit": unit, "shape": jnp.shape(value)} for path, (value, unit) in rows.items()}

    def with_parameters(self, values: Mapping[str, Any]) -> Model:
        """The same model with other parameter values; paths as `parameters()` lists them.

        Values may be traced. A number stands for an array of one entry. Raises `ModelError` for an unknown path or a
        wrong shape.
        """
        model = self
        by_path = {parameter.path: parameter for parameter in self.table}
        for path, value in values.items():
            if path == "environment/temperature":
                dae = eqx.tree_at(lambda d: d.reference_temperature, model.dae, self._cast(path, value, ()))
                model = eqx.tree_at(lambda m: m.dae, model, dae)
            elif path.startswith("initial/"):
                model = model._with_initial(path, value)
            elif path in by_path:
                model = model._with_parameter(by_path[path], value)
            else:
                raise ModelError(path, "no such parameter", f"a known one{nearest(path, self.parameters())}")
        return model

    def _cast(self, path: str, value: Any, shape: tuple[int, ...]):
        array = jnp.asarray(value, self.dtype)
        if array.shape != shape:
            if array.size != int(np.prod(shape)):
                raise ModelError(path, f"shape {array.shape}", f"shape {shape}")
            array = array.reshape(shape)
        return array

    def _leaf(self, parameter: Parameter, place: tuple[str, str]):
        """A function that picks the leaf of a place out of a DAE, and the member's index in it."""
        owner, field = place
        if parameter.drive:
            return (lambda dae: functools.reduce(getattr, field.split("."), dae.drives[owner])), None
        batch, member = self.dae.plan.member_of[owner]
        return (lambda dae: functools.reduce(getattr, field.split("."), dae.components[batch])), member

    def _read(self, parameter: Parameter):
        where, member = self._leaf(parameter, parameter.places[0])
        leaf = where(self.dae)
        return leaf if member is None else leaf[member]

    def _with_parameter(self, parameter: Parameter, value: Any) -> Model:
        dae = self.dae
        for place in parameter.places:
            where, member = self._leaf(parameter, place)
            leaf = where(dae)
            new = self._cast(parameter.path, value, leaf.shape if member is None else leaf.shape[1:])
            dae = eqx.tree_at(where, dae, new if member is None else leaf.at[member].set(new))
        return eqx.tree_at(lambda m: m.dae, self, dae)

    def _with_initial(self, path: str, value: Any) -> Model:
        _, name, *keys = path.split("/")
        section = next((s for s, names in self.layout.initial_names if name in names), None)
        known = [f"initial/{n}" for _, names in self.layout.initial_names for n in names]
        if section is None or len(keys) != 1:
            raise ModelError(path, "no such initial value", f"a known one{nearest(path, known)}")
        shapes = self.layout.initial_shapes(section, name)
        if keys[0] not in shapes:
            raise ModelError(path, repr(keys[0]), f"one of {', '.join(shapes)}")
        entry = {**self.initial.get(section, {}).get(name, {}), keys[0]: self._cast(path, value, shapes[keys[0]])}
        initial = {**self.initial, section: {**self.initial.get(section, {}), name: entry}}
        return Model(self.dae, initial, self.layout, self.settings, self.table, self.name, self.config_json)

    # -- states and dynamics --------------------------------------------------------------------------------------

    def initial_state(self) -> State:
        """The consistent initial state, assembled from what is given. Raises `AssemblyError` where that is impossible.

        Under `jit`, `vmap` or `grad` nothing can be raised: `simulate` sets a status instead.
        """
        state, misses = _assembled(self)
        if not any(isinstance(m, Tracer) for m in jax.tree.leaves(misses)):
            self._refuse(misses)
        return state

    def _refuse(self, misses: dict[str, Any]) -> None:
        for path, miss in misses.items():
            if not float(miss) <= ASSEMBLY_TOLERANCE[self.dtype.name]:
                what = f"an assembly that misses by {float(miss):.3g} (m, rad, m/s or rad/s)"
                raise AssemblyError(f"{path}: found {what}, wanted data that all joints and given values can meet")

    def dynamics(self, t: Any, state: State, minimum_norm: bool = False) -> Rates:
        """Rates, efforts, multipliers and power at a state; pure."""
        return self.dae.rates(jnp.asarray(t, self.dtype), to_internal(self.dae, state), None, minimum_norm)

    def step(self, state: State, inputs: Mapping[str, Any] | None, dt: Any, t: Any = 0.0) -> State:
        """One fixed step of the configured method, projected onto the constraints when the model is; pure."""
        from jmbs.simulation.inputs import with_inputs

        dae = with_inputs(self, inputs or {}).dae
        t0, dt = jnp.asarray(t, self.dtype), jnp.asarray(dt, self.dtype)
        y0 = (to_internal(dae, state), jnp.zeros(0, self.dtype))
        treat = projection(False) if self.settings.constraints == "project" else None
        solver = MuntheKaas(base_method(self.settings.method), self.manifold, treat)
        term = LieTerm(velocity_field(False, None))
        y1, *_ = solver.step(term, t0, t0 + dt, y0, dae, solver.init(term, t0, t0 + dt, y0, dae), True)
        return from_internal(dae, y1[0])

    def describe(self) -> str:
        """Bodies, joints, degrees of freedom, loops, redundant constraints, in words."""
        from jmbs.simulation.describe import describe

        return describe(self)


@functools.cache
def projection(audit: bool):
    """The solver's projection of `(x, account)`: the energy that it adds goes to the account's last entry."""

    def apply(t, y, dae):
        x, account = y
        x, work = project(dae, t, x)
        return x, account.at[3].add(work) if audit else account

    return apply


@eqx.filter_jit
def _assembled(model: Model) -> tuple[State, dict[str, Any]]:
    return assembled(model)


def assembled(model: Model) -> tuple[State, dict[str, Any]]:
    """The assembled state and the misses by path; differentiable."""
    if model.layout.placement is not None:
        return assemble(model)
    dae = model.dae
    x = to_internal(dae, _given_state(model))
    x, _ = project(dae, jnp.zeros((), model.dtype), x) if dae.kinematic else (x, None)
    violation = jnp.max(jnp.abs(dae.violation(jnp.zeros((), model.dtype), x)), initial=0.0) if dae.kinematic else 0.0
    return from_internal(dae, x), {"initial": jnp.asarray(violation)}


def _given_state(model: Model) -> State:
    """The states that were given by junction name, all others at the neutral element of their group."""
    state = identity_state(model.dae)
    for name, entry in model.initial.get("states", {}).items():
        state = state.replace(name, entry["value"])
    return state


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
    layout = MechanicalLayout.empty(tuple(n for b in dae.plan.blocks for n in b.junctions))
    given = {n: {"value": jnp.asarray(v, resolved)} for n, v in (initial or {}).items()}
    for n in given:
        if n not in dae.plan.state_of:
            raise ModelError(f"initial/{n}", "no such state", f"a known one{nearest(n, dae.plan.state_of)}")
    settings = settings or SimulationSpec(precision=resolved.name)
    model = Model(dae, {"states": given}, layout, settings, _field_parameters(dae), name)
    return _with_kind(model)


def _field_parameters(dae: ReferenceDAE) -> tuple[Parameter, ...]:
    """Every array field of every component, as `<path>/<field>`."""
    rows = []
    for batch, component in zip(dae.plan.batches, dae.components, strict=True):
        for keys, leaf in jax.tree_util.tree_flatten_with_path(component)[0]:
            names = [getattr(k, "name", None) for k in keys]
            if eqx.is_inexact_array(leaf) and all(names):
                field = ".".join(str(n) for n in names)
                rows += [Parameter(f"{p}/{field.replace('.', '/')}", "1", ((p, field),)) for p in batch.paths]
    return tuple(rows)


def _with_kind(model: Model) -> Model:
    """Decides whether the constraint rows fix all free efforts, and refuses what nothing fixes."""
    dae = model.dae
    if dae.plan.n_free == 0:
        return model
    x = to_internal(dae, _given_state(model))

    @eqx.filter_jit
    def free_matrix(dae, x):
        s = dae.structures(x)
        return dae.constraint_matrix(jnp.zeros((), model.dtype), s)[:, dae.plan.n_stored :]

    matrix = np.asarray(free_matrix(dae, x))
    rank = np.linalg.matrix_rank(matrix, tol=rank_tolerance(model.dtype)) if matrix.size else 0
    if rank == dae.plan.n_free:
        return model
    general = ReferenceDAE(dae.components, dae.drives, dae.reference_temperature, dae.plan, kinematic=False)
    junction = general.undetermined(jnp.zeros((), model.dtype), x)
    if junction is not None:
        found = "an effort that nothing determines"
        raise ModelError(f"junctions/{junction}", found, "a storage, constraint, resistance or drive that fixes it")
    return Model(general, model.initial, model.layout, model.settings, model.table, model.name, model.config_json)


def _compile_mechanism(mechanism: Mechanism, dtype: Any) -> Model:
    resolved = resolve_dtype(mechanism.simulation.precision if dtype is None else dtype)
    system = mechanism.system()
    flat = flatten(system)
    validate(flat)
    dae = reference_dae(flat, mechanism.environment_temperature, resolved)
    layout = layout_of(mechanism, dae)
    initial = initial_values(mechanism, resolved)
    table = parameter_table(mechanism)
    config_json = _json(mechanism.config)
    return Model(dae, initial, layout, mechanism.simulation, table, mechanism.name, config_json)


def _json(config: Mapping[str, Any]) -> str:
    import json

    return json.dumps(config, default=str)
