"""A compiled system: static plan and array leaves, as a pytree that `jit`, `vmap` and `grad` take."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jmbs.arrays import is_traced
from jmbs.compiler import quick_to_compile
from jmbs.dae import Field, velocity_field
from jmbs.ephs import Balance, Rates, ReferenceDAE, balance
from jmbs.errors import AssemblyError, ModelError
from jmbs.library.mechanics import Parameter, SimulationSpec, nearest
from jmbs.multibody import Layout
from jmbs.simulation.assembly import assemble
from jmbs.simulation.formulation import formulation_of, projection
from jmbs.simulation.instant import instant
from jmbs.simulation.joint_space import (
    joint_space_forward_dynamics,
    joint_space_inverse_dynamics,
    joint_space_mass_matrix,
    velocity_names,
)
from jmbs.simulation.mechanics import MechanicalLayout
from jmbs.simulation.state import State, from_internal, identity_state, to_internal
from jmbs.solvers import LieTerm, MuntheKaas, base_method

ASSEMBLY_TOLERANCE = {"float64": 1e-6, "float32": 1e-3}
"""Largest closure gap (m, rad) or miss of a given value that still counts as rounding of the data."""

SINGULAR = 1e-6
"""Regularity of coordinates, of order one where they are sound, below which an initial state is refused."""


class Model(eqx.Module):
    """What `jmbs.compile` returns.

    **Arguments:**

    - `dae`: the equations with all parameters as arrays.
    - `initial`: given initial values, `initial["joints"][name]["q"]` and so on, or states by junction name.
    - `layout`: static; bodies, joints and elements of a mechanism, empty for other systems.
    - `settings`: static; what the config's `simulation` section says, used where `simulate` is not told otherwise.
    - `tree`: static; where the tree formulation finds what, None where there is none, for the reason `without_tree`.
    """

    dae: ReferenceDAE
    initial: dict[str, Any]
    layout: MechanicalLayout = eqx.field(static=True)
    settings: SimulationSpec = eqx.field(static=True)
    table: tuple[Parameter, ...] = eqx.field(static=True)
    name: str = eqx.field(static=True)
    config_json: str = eqx.field(static=True, default="{}")
    tree: Layout | None = eqx.field(static=True, default=None)
    without_tree: str = eqx.field(static=True, default="this system is no mechanism")

    @property
    def dtype(self) -> np.dtype:
        """The floating dtype of all arrays."""
        return np.dtype(self.dae.reference_temperature.dtype)

    # -- parameters -----------------------------------------------------------------------------------------------

    def parameters(self) -> dict[str, dict[str, Any]]:
        """All named parameters: path to `value`, `unit`, `shape`."""
        rows = {"environment/temperature": (self.dae.reference_temperature, "K")}
        for parameter in self.table:
            rows[parameter.path] = (self._read(parameter), parameter.unit)
        units = {"q": "rad or m", "v": "rad/s or m/s", "position": "m", "quaternion": "1"}
        units |= {"angular_velocity": "rad/s", "velocity": "m/s"}
        for section, names in self.initial.items():
            for name, values in names.items():
                for key, value in values.items():
                    path = f"initial/{name}" if section == "states" else f"initial/{name}/{key}"
                    rows[path] = (value, units.get(key, "1"))
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
        name, *keys = path.split("/")[1:]
        if path.removeprefix("initial/") in dict(self.layout.state_shapes):
            name, keys = path.removeprefix("initial/"), ["value"]
        section = next((s for s, names in self.layout.initial_names if name in names), None)
        known = [f"initial/{n}" for _, names in self.layout.initial_names for n in names]
        if section is None or len(keys) != 1:
            raise ModelError(path, "no such initial value", f"a known one{nearest(path, known)}")
        shapes = self.layout.initial_shapes(section, name)
        if keys[0] not in shapes:
            raise ModelError(path, repr(keys[0]), f"one of {', '.join(shapes)}")
        entry = {**self.initial.get(section, {}).get(name, {}), keys[0]: self._cast(path, value, shapes[keys[0]])}
        initial = {**self.initial, section: {**self.initial.get(section, {}), name: entry}}
        return dataclasses.replace(self, initial=initial)

    # -- states and dynamics --------------------------------------------------------------------------------------

    def initial_state(self) -> State:
        """The consistent initial state, assembled from what is given. Raises `AssemblyError` where that is impossible.

        Under `jit`, `vmap` or `grad` nothing can be raised: `simulate` sets a status instead.
        """
        bare = dataclasses.replace(self.without_names(), initial=self.initial)
        traced = is_traced((bare, jnp.zeros(())))
        state, misses = _assembled_differentiably(bare) if traced else _assembled(bare)
        if not is_traced(misses):
            self._refuse(misses)
            self._refuse_singular(state)
        return state

    def _refuse(self, misses: dict[str, Any]) -> None:
        for path, miss in misses.items():
            if not float(miss) <= ASSEMBLY_TOLERANCE[self.dtype.name]:
                what = f"an assembly that misses by {float(miss):.3g} (m, rad, m/s or rad/s)"
                raise AssemblyError(f"{path}: found {what}, wanted data that all joints and given values can meet")

    def _refuse_singular(self, state: State) -> None:
        if not self.dae.with_domain:
            return
        if not float(self.dae.regularity(to_internal(self.dae, state))) > SINGULAR:
            found = "coordinates at their singularity (a disk that lies flat on its plane, gimbal lock)"
            raise AssemblyError(f"initial: found {found}, wanted a state off it")

    def dynamics(self, t: Any, state: State, minimum_norm: bool = False) -> Rates:
        """Rates, efforts, multipliers and power at a state, by the reference semantics; pure."""
        t, x = jnp.asarray(t, self.dtype), to_internal(self.dae, state)
        rates = self.dae.rates(t, x)
        if not minimum_norm:
            return rates
        forces = instant(self.dae, t, x, rates.velocity).forces
        assert forces is not None
        return rates._replace(multipliers=forces.multipliers)

    def balance(self, t: Any, state: State) -> Balance:
        """First and second law at a state, component by component and junction by junction; pure."""
        return balance(self.dae, jnp.asarray(t, self.dtype), to_internal(self.dae, state))

    def step(self, state: State, inputs: Mapping[str, Any] | None, dt: Any, t: Any = 0.0) -> State:
        """One fixed step of the configured method, projected onto the constraints when the model is; pure."""
        from jmbs.simulation.inputs import with_inputs

        model = with_inputs(self, inputs or {})
        formulation = formulation_of(model, self.settings.formulation)
        t0, dt = jnp.asarray(t, self.dtype), jnp.asarray(dt, self.dtype)
        y0 = (formulation.start(state), jnp.zeros(0, self.dtype))
        treat = projection(type(formulation), False) if self.settings.constraints == "project" else None
        solver = MuntheKaas(base_method(self.settings.method), formulation.manifold, treat)
        after = solver.advance(LieTerm(velocity_field(False)), t0, t0 + dt, y0, Field(formulation.dae))
        return from_internal(model.dae, formulation.reference_state(after.y[0]))

    def without_names(self) -> Model:
        """What decides how the model moves, so that models which differ in their texts only share programs."""
        bare = {"initial": {}, "settings": SimulationSpec(), "table": (), "name": "", "config_json": ""}
        return dataclasses.replace(self, **bare, without_tree="")

    @property
    def velocity_names(self) -> list[tuple[str, str]]:
        """The order of velocities in joint space: joint (or free body) and name of each."""
        return velocity_names(self)

    def mass_matrix(self, state: State) -> Float[Array, "n n"]:
        """The mass matrix in joint space; pure. Raises `ModelError` where there is no tree formulation."""
        return joint_space_mass_matrix(self, state)

    def inverse_dynamics(self, t: Any, state: State, rates: Any) -> Float[Array, " n"]:
        """Generalised forces (N m or N) that give the joint velocities these rates, beside the model's own; pure."""
        return joint_space_inverse_dynamics(self, t, state, rates)

    def forward_dynamics(self, t: Any, state: State) -> Float[Array, " n"]:
        """Rates of the joint velocities under the model's own forces and constraints; pure."""
        return joint_space_forward_dynamics(self, t, state)

    def describe(self) -> str:
        """Bodies, joints, degrees of freedom, loops, redundant constraints, in words."""
        from jmbs.simulation.describe import describe

        return describe(self)


@quick_to_compile
def _assembled(model: Model) -> tuple[State, dict[str, Any]]:
    return assemble(model, differentiable=False)


_assembled_differentiably = eqx.filter_jit(assemble)


def given_state(model: Model) -> State:
    """The states that were given by junction name, all others at the neutral element of their group."""
    state = identity_state(model.dae)
    for name, entry in model.initial.get("states", {}).items():
        state = state.replace(name, entry["value"])
    return state
