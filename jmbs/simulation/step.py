"""One step of a model by itself, in the program that a run with fixed steps is made of."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from jmbs.arrays import is_traced
from jmbs.dae import Field, velocity_field
from jmbs.errors import ModelError
from jmbs.fusing import as_one_kernel
from jmbs.programs import quick_to_compile
from jmbs.simulation.arguments import known_number, require_instance, require_state, scalar
from jmbs.simulation.formulation import AbsoluteFormulation, TreeFormulation, formulation_of, projection
from jmbs.simulation.inputs import with_inputs
from jmbs.simulation.run_settings import BAUMGARTE_STEPS, FLOAT32_STAGES
from jmbs.simulation.state import InnerState, State
from jmbs.solvers import LieTerm, MuntheKaas, Problem, base_method, with_differentiable_stages

if TYPE_CHECKING:
    from jmbs.simulation.model import Model

Formulation = AbsoluteFormulation | TreeFormulation


def stepped(model: Model, state: Any, inputs: Mapping[str, Any] | None, dt: Any, t: Any, steps: int) -> Any:
    """See `Model.step`."""
    given = with_inputs(model, {} if inputs is None else inputs)
    steps = known_number("steps", steps, positive=True, whole=True)
    dt, t = scalar("dt", dt, model.dtype), scalar("t", t, model.dtype)
    constraints = model.settings.constraints if given.dae.kinematic else "none"
    how = model.settings.method, constraints, steps
    if isinstance(state, InnerState):
        formulation = _formulation(model, given)
        _require_inner(formulation, state)
        return _stepped(formulation, state, dt, t, how)
    require_state(given, state)
    moved = _stepped(_formulation(model, given), State(state.blocks, state.names), dt, t, how)
    return State(moved.blocks, state.names, state.joints)


def inner_state(model: Model, state: State) -> InnerState:
    """See `Model.inner_state`."""
    require_state(model, state)
    return _inner(_formulation(model, model), State(state.blocks, state.names))


def outer_state(model: Model, inner: InnerState) -> State:
    """See `Model.outer_state`."""
    formulation = _formulation(model, model)
    _require_inner(formulation, inner)
    state = _outer(formulation, inner)
    return State(state.blocks, state.names, model.layout.joint_states)


def _require_inner(formulation: Formulation, inner: Any) -> None:
    """Raises `ModelError` unless this is an inner state, and one of this model."""
    require_instance("state", inner, InnerState, "what model.inner_state(state) gives")
    shapes = [(len(block.junctions), *block.space.shape) for block in formulation.manifold.blocks]
    found = [np.shape(values) for values in inner.blocks]
    if found != shapes:
        raise ModelError("state", f"an inner state of shapes {found}", f"{shapes}, those of this model")


def _formulation(model: Model, given: Model) -> Formulation:
    """That of the model `given`, which is `model` with other inputs.

    Of what depends on known parameters alone nothing is left in the program of a loop over steps.
    """
    bare, name = model.without_names(), model.settings.formulation
    if is_traced(bare) or (given.tree is None and model.tree is not None):
        return formulation_of(given, name)
    with jax.ensure_compile_time_eval():
        formulation = _of_known(bare, name)
    return formulation.with_reference(given.dae)


_of_known = quick_to_compile(formulation_of)


@eqx.filter_jit
def _inner(formulation: Formulation, state: State) -> InnerState:
    return InnerState(formulation.start(state))


@eqx.filter_jit
def _outer(formulation: Formulation, inner: InnerState) -> State:
    return _users_state(formulation, inner.blocks)


def _users_state(formulation: Formulation, blocks: tuple[Array, ...]) -> State:
    names = tuple(block.junctions for block in formulation.reference.plan.blocks)
    return State(formulation.users_blocks(blocks), names)


@eqx.filter_jit
def _stepped(formulation: Formulation, state: State | InnerState, dt: Array, t: Array, how: tuple) -> Any:
    return as_one_kernel(functools.partial(_after, how=how), formulation, state, dt, t)


def _after(formulation: Formulation, state: State | InnerState, dt: Array, t: Array, how: tuple) -> Any:
    inner = isinstance(state, InnerState)
    y = state.blocks if inner else formulation.start(state)
    # A kernel of its own where conversions of states cannot be in one; else it is opened.
    y = as_one_kernel(functools.partial(_in_steps, how=how), formulation, y, dt, t)
    return InnerState(y) if inner else _users_state(formulation, y)


def _in_steps(formulation: Formulation, y: tuple[Array, ...], dt: Array, t: Array, how: tuple) -> tuple[Array, ...]:
    method, constraints, steps = how
    problem = _problem(formulation, method, constraints, dt / steps, t)
    account = jnp.zeros(0, dt.dtype)

    def step(y: tuple[Array, ...], number: Any) -> tuple[tuple[Array, ...], None]:
        start, end = t + dt * number / steps, t + dt * (number + 1) / steps
        after = problem.solver.advance(problem.term, start, end, (y, account), problem.args)
        solved = after.result == diffrax.RESULTS.successful
        return jax.tree.map(lambda x: jnp.where(solved, x, jnp.nan), after.y[0]), None

    numbers = jnp.arange(steps, dtype=dt.dtype)
    return step(y, numbers[0])[0] if steps == 1 else jax.lax.scan(step, y, numbers)[0]


def _problem(formulation: Formulation, method: str, constraints: str, dt: Array, t: Array) -> Problem:
    treat = projection(type(formulation), False) if constraints == "project" else None
    exact = dt.dtype == np.float64
    solver = MuntheKaas(base_method(method, None if exact else FLOAT32_STAGES), formulation.manifold, treat)
    rate = 1.0 / (BAUMGARTE_STEPS * dt) if constraints == "baumgarte" else None
    field = Field(formulation.dae, rate)
    return with_differentiable_stages(Problem(LieTerm(velocity_field(False)), solver, field, t[None], False))
