"""A batch of runs with adaptive steps in which no member waits for the slowest; see `jmbs.simulation.rounds`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from jmbs.arrays import is_traced
from jmbs.errors import ModelError
from jmbs.jaxext import runs_on_cpu
from jmbs.simulation.arguments import require_instance, require_state
from jmbs.simulation.assembly import assemble
from jmbs.simulation.batch import batch_of, map_batch, map_one_by_one
from jmbs.simulation.formulation import formulation_of
from jmbs.simulation.integrate import problem_of, run_of, start_of, steps_of, whole
from jmbs.simulation.model import Model
from jmbs.simulation.outcome import labels_of, trajectory_of
from jmbs.simulation.rounds import FEW, Reached, Round, in_rounds
from jmbs.simulation.run_settings import Program, RunSettings, Values
from jmbs.simulation.state import State
from jmbs.simulation.trajectory import Trajectory
from jmbs.solvers import AdaptiveSteps

WANTED = "a Model, or a pair of a Model and a State"


def simulate_batch(
    function: Callable[[PyTree], Any],
    batch: PyTree,
    *,
    report: Callable[[list[Round]], None] | None = None,
    **settings: Any,
) -> Trajectory:
    """The runs of all members of a batch, as `jax.vmap(lambda member: simulate(*function(member), ...))(batch)` gives
    them, in rounds: members with adaptive steps that have finished or failed cost nothing more.

    Nothing is raised for a member that fails: see `Trajectory.status`. Neither `jit` nor derivatives apply; under them
    take `map_batch`, whose members wait for each other. It compiles anew for another function object.

    **Arguments:**

    - `function`: from one member to its `Model`, such as `model.with_parameters` gives, or to a model and a state.
    - `batch`: a pytree of arrays with equal leading axes, as those of the trajectory.
    - `report`: is told the rounds that it took.
    - `settings`: as `simulate` takes them: `t1`, `t0`, `save_every`, `ts`, `solver`, `dt`, `tolerance`, `constraints`,
      `formulation`, `max_steps`, `until`, `audit`, `baumgarte`; the same for all members.

    Raises `ModelError` for wrong arguments, and for traced ones.
    """
    size = batch_of(function, batch)
    batch = jax.tree.map(jnp.asarray, batch)
    if is_traced((batch, jnp.zeros(()))):
        wanted = "known ones; under jit and for derivatives map_batch(lambda member: simulate(...), batch)"
        raise ModelError("batch", "traced values", wanted)
    # Known values would be refused where one member's are not allowed; as traced ones they give that member a status.
    member = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), batch)
    example, state = eqx.filter_eval_shape(lambda member: _model_and_state(function, member), member)
    given: dict[str, Any] = dict.fromkeys(TAKEN) | {"adjoint": "auto"} | settings
    run = RunSettings(example, **given)
    labels = labels_of(example, run.method, state is None, () if run.until is None else run.until.names)
    program, values = run.program(derivatives=False), run.values()
    if not program.adaptive:
        trajectory = _all_at_once(function, run.program(derivatives=True), values, batch)
    else:
        states, carry = _begun(function, program, values, batch)
        advance = lambda *some: _advanced(function, program, values, *some)  # noqa: E731
        carry, rounds = in_rounds(advance, batch, carry, size)
        trajectory = _finished(function, program, values, batch, states, carry)
        if report is not None:
            report(rounds)
    return dataclasses.replace(trajectory, labels=labels)


def takes_adaptive_steps(model: Model) -> bool:
    """Whether runs of a model do, as it is configured: those that `simulate_batch` is for."""
    return RunSettings(model, **dict.fromkeys(TAKEN), adjoint="auto").counts is None


TAKEN = ("t0", "t1", "save_every", "ts", "solver", "dt", "tolerance", "constraints", "max_steps", "baumgarte")
"""Settings that the model's own stand in for."""


def _model_and_state(function: Callable[[PyTree], Any], member: PyTree) -> tuple[Model, State | None]:
    """What the function gives for one member. Raises `ModelError` for anything else."""
    given = function(member)
    pair: tuple[Any, Any] = given if isinstance(given, tuple) and len(given) == 2 else (given, None)
    model, state = pair
    require_instance("function", model, Model, WANTED)
    if state is not None:
        require_state(model, state)
        state = State(state.blocks, state.names)
    return model, state


def _bare(function: Callable[[PyTree], Any], member: PyTree) -> Model:
    return _model_and_state(function, member)[0].without_names()


def _whole_start(function: Callable[[PyTree], Any], member: PyTree, values: Values) -> tuple[Model, State]:
    model, state = _model_and_state(function, member)
    state = assemble(model, jnp.asarray(values.times[0], model.dtype))[0] if state is None else state
    return model.without_names(), State(state.blocks, state.names)


@eqx.filter_jit
def _all_at_once(function: Callable, program: Program, values: Values, batch: PyTree) -> Trajectory:
    return map_batch(lambda member: whole(*_whole_start(function, member, values), program, values), batch)


@eqx.filter_jit
def _begun(function: Callable, program: Program, values: Values, batch: PyTree) -> tuple[State, Any]:
    def one(member: PyTree) -> tuple[State, Any]:
        model, state = _whole_start(function, member, values)
        formulation = formulation_of(model, program.formulation)
        problem = problem_of(model, formulation, program, values)
        return state, steps_of(program, values).start(problem, start_of(model, formulation, state, program, values))

    return map_batch(one, batch)


@eqx.filter_jit
def _advanced(
    function: Callable, program: Program, values: Values, batch: PyTree, carry: Any, most: Array
) -> tuple[Any, Reached]:
    last = len(values.times) - 1

    def one(given: tuple) -> tuple[Any, Reached]:
        member, carry, most = given
        model = _bare(function, member)
        formulation = formulation_of(model, program.formulation)
        problem = problem_of(model, formulation, program, values)
        tried = carry.accepted + carry.rejected
        most = jnp.minimum(values.max_steps, tried + most)
        some = steps_of(program, dataclasses.replace(values, max_steps=most), formulation)
        carry = some.advance(problem, carry)
        share = (carry.t - values.times[0]) / (values.times[-1] - values.times[0])
        unlimited = steps_of(program, values)
        assert isinstance(unlimited, AdaptiveSteps)
        going = unlimited.is_going(problem, carry, last)
        return carry, Reached(going, carry.accepted + carry.rejected, share)

    mapped = map_one_by_one if runs_on_cpu() and len(most) <= FEW else map_batch
    return mapped(one, (batch, carry, most))


@eqx.filter_jit
def _finished(
    function: Callable, program: Program, values: Values, batch: PyTree, states: State, carry: Any
) -> Trajectory:
    def one(given: tuple) -> Trajectory:
        member, state, carry = given
        model = _bare(function, member)
        formulation = formulation_of(model, program.formulation)
        steps, problem = steps_of(program, values), problem_of(model, formulation, program, values)
        run = run_of(None if program.until is None else problem, steps, carry)
        return trajectory_of(model, formulation, state, program, values, run)

    return map_batch(one, (batch, states, carry))
