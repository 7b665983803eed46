"""A compiled system: static plan and array leaves, as a pytree that `jit`, `vmap` and `grad` take."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from jmbs.arrays import is_traced
from jmbs.ephs import Balance, Rates, ReferenceDAE, TableEffort, balance
from jmbs.errors import AssemblyError
from jmbs.library.mechanics import BodyPoints, MotionDrive, NamedParameter, SimulationSpec, SplineMotion
from jmbs.programs import quick_to_compile
from jmbs.simulation.arguments import require_state
from jmbs.simulation.assembly import assemble
from jmbs.simulation.instant import instant
from jmbs.simulation.joint_space import (
    joint_space_forward_dynamics,
    joint_space_inverse_dynamics,
    joint_space_mass_matrix,
    velocity_names,
)
from jmbs.simulation.mechanics import MechanicalLayout
from jmbs.simulation.misses import Misses, refuse_misses
from jmbs.simulation.motion_view import MotionView, view_of
from jmbs.simulation.parameter_values import parameter_values, with_values
from jmbs.simulation.state import InnerState, State, identity_state, to_internal
from jmbs.tree import Layout

ASSEMBLY_TOLERANCE = {"float64": 1e-6, "float32": 1e-3}
"""Largest closure gap (m, rad) or miss of a given value that still counts as rounding of the data."""

AnyState = TypeVar("AnyState", State, InnerState)

SINGULAR = 1e-6
"""Regularity of coordinates, of order one where they are sound, below which an initial state is refused."""


class Model(eqx.Module):
    """What `jmbs.compile` returns.

    **Arguments:**

    - `dae`: the equations with all parameters as arrays.
    - `initial`: given initial values, `initial["joints"][name]["q"]` and so on, or states by junction name.
    - `layout`: static; the bodies, joints and other mechanical parts.
    - `settings`: static; what the config's `simulation` section says, used where `simulate` is not told otherwise.
    - `tree`: static; where the tree formulation finds what, None where there is none, for the reason `without_tree`.
    - `allowed`: whether the rules of parameters hold for values that were traced when they were given; None without.
    - `body_points`: static; by body of the mechanism itself what is counted from its centre of mass.
    """

    dae: ReferenceDAE
    initial: dict[str, Any]
    layout: MechanicalLayout = eqx.field(static=True)
    settings: SimulationSpec = eqx.field(static=True)
    table: tuple[NamedParameter, ...] = eqx.field(static=True)
    name: str = eqx.field(static=True)
    config_json: str = eqx.field(static=True, default="{}")
    tree: Layout | None = eqx.field(static=True, default=None)
    without_tree: str = eqx.field(static=True, default="this system is no mechanism")
    allowed: Bool[Array, ""] | None = None
    body_points: tuple[BodyPoints, ...] = eqx.field(static=True, default=())

    @property
    def dtype(self) -> np.dtype:
        """The floating dtype of all arrays."""
        return np.dtype(self.dae.reference_temperature.dtype)

    # -- parameters -----------------------------------------------------------------------------------------------

    def parameters(self) -> dict[str, dict[str, Any]]:
        """All named parameters: path to `value`, `unit`, `shape`."""
        return parameter_values(self)

    def with_parameters(self, values: Mapping[str, Any]) -> Model:
        """The same model with other parameter values; paths as `parameters()` lists them.

        Values may be traced. A number stands for an array of one entry. Raises `ModelError` for an unknown path, a
        wrong shape, and what a config would refuse. Where a value is traced nothing can be raised: one that is not
        allowed becomes NaN, and `simulate` gives the member the status `invalid_parameters`, at its start.
        """
        return with_values(self, values)

    # -- states and dynamics --------------------------------------------------------------------------------------

    def initial_state(self, t0: Any = None) -> State:
        """The consistent initial state, assembled from what is given. Raises `AssemblyError` where that is impossible.

        **Arguments:** `t0`: when, s, which prescribed motions look at; None: as the settings say.

        Under `jit`, `vmap` or `grad` nothing can be raised: `simulate` sets a status instead.
        """
        t = jnp.asarray(self.settings.t0 if t0 is None else t0, self.dtype)
        traced = is_traced((self, t, jnp.zeros(())))
        state, misses = assembled_differentiably(self, t) if traced else _assembled(_bare(self), t)
        if not is_traced((state, misses)):
            try:
                refuse_misses(self, misses, ASSEMBLY_TOLERANCE[self.dtype.name])
            except AssemblyError:
                if any(np.isnan(size) for units in misses.sizes.values() for size in units.values()):
                    self._refuse_beyond_tables(float(t))
                raise
            self._refuse_singular(state)
            self._refuse_no_length(state)
        return dataclasses.replace(state, joints=self.layout.joint_states)

    def view(self, state: State, t: Any = 0.0) -> MotionView:
        """A state by names, as drives see it: `q`, `v`, `position`, `velocity`, `output` and so on; pure.

        Both formulations mean the same by it. See `MotionView`.
        """
        require_state(self, state)
        x, t = to_internal(self.dae, state), jnp.asarray(t, self.dtype)
        return view_of(self.dae, self.layout.parts, x, _efforts(self.dae, t, x))

    def _refuse_beyond_tables(self, t: float) -> None:
        for port, drive in self.dae.drives.items():
            table = drive.position if isinstance(drive, MotionDrive) else drive
            if isinstance(table, SplineMotion | TableEffort):
                first, last = (float(table.times[end]) for end in (0, -1))
                slack = 1e-9 * (last - first)
                if not first - slack <= t <= last + slack:
                    found = f"a table from {first:g} to {last:g} s"
                    raise AssemblyError(f"inputs/{port}: found {found}, wanted one that holds the start at {t:g} s")

    def _refuse_singular(self, state: State) -> None:
        if not self.dae.with_domain:
            return
        if not float(self.dae.regularity(to_internal(self.dae, state))) > SINGULAR:
            found = "coordinates at their singularity (a disk that lies flat on its plane, gimbal lock)"
            raise AssemblyError(f"initial: found {found}, wanted a state off it")

    def _refuse_no_length(self, state: State) -> None:
        elements = self.layout.parts.elements
        lengths = jax.device_get([state[element.length][0] for element in elements])
        for element, length in zip(elements, lengths, strict=True):
            if not length > 0:
                found = "two points at the same place, between which no line goes"
                raise AssemblyError(f"elements/{element.name}: found {found}, wanted two places as the motion starts")

    def dynamics(self, t: Any, state: State, minimum_norm: bool = False) -> Rates:
        """Rates, efforts, multipliers and power at a state, by the reference semantics; pure."""
        require_state(self, state)
        return _rates(self.dae, jnp.asarray(t, self.dtype), to_internal(self.dae, state), minimum_norm)

    def balance(self, t: Any, state: State) -> Balance:
        """First and second law at a state, component by component and junction by junction; pure."""
        require_state(self, state)
        return _balance(self.dae, jnp.asarray(t, self.dtype), to_internal(self.dae, state))

    def step(
        self, state: AnyState, inputs: Mapping[str, Any] | None, dt: Any, t: Any = 0.0, *, steps: int = 1
    ) -> AnyState:
        """The state after `dt` (s), of the same kind as the one given; pure. See `docs/stepping.md`.

        One fixed step of the configured method (`steps`: so many, of equal length), with the configured treatment of
        constraints, in the program that a run with fixed steps is made of. Constants among the `inputs` are held over
        the step.

        **Arguments:** `state`: a `State`, or, for loops, an `InnerState`, which costs no conversions; `t`, s: the time
        at its start. What is not finite after the step, or was not solved in an implicit one, is NaN.

        Raises `ModelError` for wrong arguments.
        """
        from jmbs.simulation.step import stepped

        return stepped(self, state, inputs, dt, t, steps)

    def inner_state(self, state: State) -> InnerState:
        """The state as this model's equations move it, for loops over `step`; pure."""
        from jmbs.simulation.step import inner_state

        return inner_state(self, state)

    def outer_state(self, inner: InnerState) -> State:
        """The `State` that an inner one stands for; pure."""
        from jmbs.simulation.step import outer_state

        return outer_state(self, inner)

    def without_names(self) -> Model:
        """What decides how the model moves, so that models which differ in their texts only share programs."""
        bare = {"initial": {}, "settings": SimulationSpec(), "table": (), "name": "", "config_json": ""}
        return dataclasses.replace(self, **bare, without_tree="", body_points=())

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


def _bare(model: Model) -> Model:
    """The model as programs that assemble it take it."""
    return dataclasses.replace(model.without_names(), initial=model.initial)


def assembled_differentiably(model: Model, t: Array) -> tuple[State, Misses]:
    """The consistent initial state and what it misses by one program, through which derivatives go; see `assemble`."""
    return _assembled_differentiably(_bare(model), t)


@quick_to_compile
def _assembled(model: Model, t: Array) -> tuple[State, Misses]:
    return assemble(model, t, differentiable=False)


@eqx.filter_jit
def _efforts(dae: ReferenceDAE, t: Any, x: Any) -> Array:
    return dae.efforts(t, x)


_assembled_differentiably = eqx.filter_jit(assemble)
_balance = quick_to_compile(balance)


@quick_to_compile
def _rates(dae: ReferenceDAE, t: Array, x: tuple[Array, ...], minimum_norm: bool) -> Rates:
    rates = dae.rates(t, x)
    if not minimum_norm:
        return rates
    forces = instant(dae, t, x, rates.velocity).forces
    assert forces is not None
    return rates._replace(multipliers=forces.multipliers)


def given_state(model: Model) -> State:
    """The states that were given by junction name, all others at the neutral element of their group."""
    state = identity_state(model.dae)
    for name, entry in model.initial.get("states", {}).items():
        state = state.replace(name, entry["value"])
    return state
