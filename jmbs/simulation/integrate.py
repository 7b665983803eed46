"""From a model and a state to an audited trajectory.

Outside of transformations a run is three programs, which begin, advance and finish it; times, tolerances, parameters
and initial values are their arguments. Under `jit`, `vmap` or a derivative it becomes part of the user's program.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import diffrax
import jax
import jax.numpy as jnp
import numpy as np

from jmbs.arrays import is_traced
from jmbs.dae import ACCOUNT, Field, velocity_field
from jmbs.errors import RunInterrupted, SimulationError
from jmbs.fusing import fused, fuses
from jmbs.jaxext import is_off
from jmbs.programs import cached_jit, quick_to_compile
from jmbs.simulation.arguments import require_instance, require_state
from jmbs.simulation.assembly import assemble
from jmbs.simulation.formulation import AbsoluteFormulation, TreeFormulation, formulation_of, projection
from jmbs.simulation.going_on import begin_after, ending_of
from jmbs.simulation.inputs import with_inputs
from jmbs.simulation.model import Model, assembled_differentiably
from jmbs.simulation.outcome import labels_of, trajectory_of
from jmbs.simulation.progress import progress_of, stops_of, waiting
from jmbs.simulation.run_settings import Program, RunSettings, Values
from jmbs.simulation.state import State
from jmbs.simulation.status import Status, is_successful, message
from jmbs.simulation.stiffness import NEAR, fastest_rate, stability_limit
from jmbs.simulation.trajectory import Labels, Trajectory
from jmbs.simulation.until import Roots
from jmbs.simulation.user_functions import looked_at
from jmbs.solvers import (
    AdaptiveSteps,
    FixedSteps,
    Kind,
    LieTerm,
    MuntheKaas,
    Problem,
    Run,
    Steps,
    by_diffrax,
    with_event,
)
from jmbs.tree import OpenTree, TreeWithGears, TreeWithLoops

LONG_RUN = 5000
"""Fixed steps from which a run with gears or loops and its derivative are worth a kernel, which takes half a minute
more to compile (`docs/decisions/forward_jacobian.md`)."""
KINDS: dict[str, Kind] = {"none": "lax", "forward": "lax", "direct": "bounded", "checkpoint": "checkpointed"}
"""Of loops over adaptive steps, by what derivatives go through."""


def simulate(
    model: Model,
    state: State | None = None,
    *,
    t1: Any = None,
    t0: Any = None,
    save_every: float | None = None,
    ts: Any = None,
    solver: str | diffrax.AbstractSolver | None = None,
    dt: Any = None,
    tolerance: float | Mapping[str, float] | None = None,
    constraints: str | None = None,
    formulation: str | None = None,
    inputs: Mapping[str, Any] | None = None,
    max_steps: Any = None,
    until: Mapping[str, Any] | Callable[[Any, Any], Any] | None = None,
    adjoint: str | diffrax.AbstractAdjoint = "auto",
    audit: bool = True,
    throw: bool = True,
    progress: bool = False,
    baumgarte: float | None = None,
    after: Trajectory | None = None,
) -> Trajectory:
    """Integrates a model; pure, so `jit`, `vmap`, `grad` and `jvp` apply.

    Called outside of them it compiles once for a mechanism, method and number of saved times: other times, steps,
    tolerances, parameters and initial values run in the same programs. Functions among `inputs` are compared by
    identity: the same function object, the same program; arrays of a module are numbers as parameters are.

    **Arguments:** what is not given comes from the model's settings.

    - `state`: a consistent state; None assembles the model's own, with gradients.
    - `t0`, `t1`, `save_every`, s; or `ts` (n,): the times to save. Steps end exactly on saved times. `t0`, `t1`, `ts`
      and `dt` may be traced; how many times are saved must be known, so a traced `t1` takes `ts` beside it, such as
      `jnp.linspace(0.0, t1, 101)`, and no `save_every`. Times that are not in order give the status `invalid_times`.
    - `solver`: a method's name or a diffrax Runge-Kutta solver.
    - `dt`: fixed step, s, shortened so that it divides each saving interval; or `tolerance`: one number, or `rtol`
      and `atol`, of which `rtol` counts as eight times the rounding of the precision where it is less (1e-6 in
      float32). Derivatives by times keep the number of steps in each interval, and stretch these.
    - `constraints`: none, baumgarte or project; `baumgarte`: its rate, 1/s.
    - `formulation`: tree or absolute; the default is the tree where there is one.
    - `inputs`: port path to constant, table or function, see `jmbs.simulation.with_inputs`.
    - `max_steps`: of an adaptive run; of one with fixed steps where times or `dt` are traced, which then takes as long
      as so many steps, with `adjoint="forward"` as the steps it takes; there `max_steps` may be traced too.
    - `until`: ends the run where a joint's coordinate first takes a value, `{"elbow": 0.0}`, or a function `(t, view)`
      is zero, see `jmbs.simulation.Until`: the sample there is `Trajectory.event`, its time `event_time`. `{}`: never.
    - `adjoint`: how to differentiate. Fixed steps allow both modes: direct keeps what reverse mode needs of every step,
      checkpoint about the root of that and computes the rest anew; auto is direct up to DIRECT_STEPS steps; forward is
      forward mode alone for trees without constraints, and with gears or loops from LONG_RUN steps on, several times
      quicker there on a CPU (`jax.jacfwd` by few parameters), and where times or `dt` are traced; direct for others.
      Adaptive steps: direct (both modes, slow), checkpoint (reverse mode; auto), forward. Or a diffrax adjoint.
    - `audit`: carry the account and compute energies, residuals and reactions.
    - `throw`: raise `SimulationError` for a failed run (where it can be seen: not under a transformation). With False
      the trajectory has a status, and NaN after the failure.
    - `progress`: draw a progress bar; not under a transformation. Ctrl-C then raises `RunInterrupted`, a
      `KeyboardInterrupt` that makes a trajectory of what was computed.
    - `after`: a trajectory of this model, from whose end (or event) the run goes on in place of a `state`, exactly as
      if that run had not stopped there; `t0` is then its last time, and the account goes on counting.

    Raises `ModelError` for wrong arguments.
    """
    require_instance("model", model, Model, "a Model, which jmbs.compile(system) gives")
    given = with_inputs(model, {} if inputs is None else inputs)
    if after is not None:
        state, t0 = begin_after(after, state, t0)
    settings = RunSettings(
        *(given, t0, t1, save_every, ts, solver, dt, tolerance, constraints, max_steps, adjoint, baumgarte),
        formulation=formulation,
        audit=audit,
        until=until,
    )
    held, compiled = looked_at((model, inputs, until)), is_traced(jnp.zeros(()))
    traced = compiled or is_traced((model, state, inputs, t0, t1, ts, dt, until, after, held))
    # Else JAX takes operations one by one. What functions hold is no argument of a program, though.
    by_programs = traced and not compiled and not is_traced(held)
    assembled = state is None
    if state is None:
        state = _start(given, t0, traced, by_programs)
    require_state(given, state)
    state = State(state.blocks, state.names)
    events = () if settings.until is None else settings.until.names
    labels, given = labels_of(given, settings.method, assembled, events), given.without_names()
    program, values = settings.program(derivatives=traced), settings.values()
    if after is not None:
        values = dataclasses.replace(values, before=ending_of(after, given, program))
    if traced:
        trajectory = _as_fused_call(given, state, program, values, by_programs)
    elif not isinstance(program.adjoint, str):
        trajectory = _whole_jit(given, state, program, values)
    else:
        trajectory = _in_programs(given, state, program, values, settings.ts, labels if progress else None)
    trajectory = dataclasses.replace(trajectory, labels=labels)
    if throw and not is_traced(trajectory):
        _raise_failure(trajectory)
    return trajectory


def _start(model: Model, t0: Any, traced: bool, by_programs: bool) -> State:
    """The consistent initial state; `traced`, `by_programs`: whether under a transformation, and then by a program."""
    if not traced:
        return model.initial_state(t0)
    assembled_by = assembled_differentiably if by_programs else assemble
    return assembled_by(model, jnp.asarray(model.settings.t0 if t0 is None else t0, model.dtype))[0]


def _in_programs(
    model: Model, state: State, program: Program, values: Values, times: np.ndarray, labels: Labels | None
) -> Trajectory:
    """The run in programs that serve others too; with its `labels` it shows its progress and can be interrupted."""
    progress = labels is not None
    first, *others = stops_of(times, wanted=progress)
    with waiting("compiling", progress):
        carry = _begin(model, state, program, values)
        carry = _advance(model, program, values, carry, np.asarray(first))
    try:
        for stop in progress_of(times, others):
            if bool(carry.result != diffrax.RESULTS.successful) or (carry.watch and bool(carry.watch.found)):
                break
            carry = _advance(model, program, values, carry, np.asarray(stop))
    except KeyboardInterrupt:
        raise RunInterrupted(lambda: _unfinished(model, state, program, values, carry, labels)) from None
    with waiting("compiling what is read", progress):
        trajectory = _finish(model, state, program, values, carry)
    if bool(trajectory.status == Status.max_steps_reached) and _is_stiff(model, program, values, carry):
        trajectory = dataclasses.replace(trajectory, status=Status.stiff)
    return trajectory


def _is_stiff(model: Model, program: Program, values: Values, carry: Any) -> bool:
    """Whether an explicit method's steps have been as long as its stability allows."""
    limit = stability_limit(values.base_solver(program))
    if limit is None or not int(carry.accepted):
        return False
    step = float(carry.t - values.times[0]) / int(carry.accepted)
    return step * float(_fastest_rate(model, program, values, carry.t, carry.y)) > NEAR * limit


def _unfinished(
    model: Model, state: State, program: Program, values: Values, carry: Any, labels: Labels | None
) -> Trajectory:
    """What an interrupted run has computed. The saved time that it passed last is left out: what is observed there
    comes with the step that would have followed."""
    saved = np.array(carry.saved)
    saved[max(int(carry.row), 1) :] = np.nan
    trajectory = _finish(model, state, program, values, carry._replace(saved=jax.device_put(saved)))
    return dataclasses.replace(trajectory, status=Status.interrupted, labels=labels)


def _as_fused_call(model: Model, state: State, program: Program, values: Values, by_programs: bool) -> Trajectory:
    """A run as one function, which is one kernel on a CUDA device, and else a program of its own where that is
    wanted."""
    if fuses() and isinstance(program.adjoint, str):
        return fused(whole, model, state, program, values)
    return (_whole_jit if by_programs else whole)(model, state, program, values)


def whole(model: Model, state: State, program: Program, values: Values) -> Trajectory:
    """A run as one function."""
    formulation = formulation_of(model, program.formulation)
    problem, y0 = problem_of(model, formulation, program, values), start_of(model, formulation, state, program, values)
    if isinstance(program.adjoint, str):
        steps = steps_of(program, values, formulation)
        run = run_of(problem, steps, steps.advance(problem, steps.start(problem, y0)))
    else:
        counts, tolerance = values.counts, (values.rtol, values.atol)
        run = by_diffrax(problem, y0, counts, tolerance, program.steps, program.adjoint)
    return trajectory_of(model, formulation, state, program, values, run)


_whole_jit = cached_jit(whole)


@quick_to_compile
def _begin(model: Model, state: State, program: Program, values: Values) -> Any:
    formulation = formulation_of(model, program.formulation)
    problem = problem_of(model, formulation, program, values)
    return steps_of(program, values).start(problem, start_of(model, formulation, state, program, values))


@cached_jit
def _advance(model: Model, program: Program, values: Values, carry: Any, stop: Any) -> Any:
    formulation = formulation_of(model, program.formulation)
    problem = problem_of(model, formulation, program, values)
    return steps_of(program, values, formulation).advance(problem, carry, stop)


@quick_to_compile(repeated=True)
def _finish(model: Model, state: State, program: Program, values: Values, carry: Any) -> Trajectory:
    formulation = formulation_of(model, program.formulation)
    steps = steps_of(program, values)
    problem = None if program.until is None else problem_of(model, formulation, program, values)
    return trajectory_of(model, formulation, state, program, values, run_of(problem, steps, carry))


def run_of(problem: Problem | None, steps: Steps, carry: Any) -> Run:
    """What a run leaves behind, up to its event if it has come to one."""
    run = steps.run(carry)
    return run if problem is None or problem.event is None else with_event(problem, run, carry)


@quick_to_compile
def _fastest_rate(model: Model, program: Program, values: Values, t: Any, y: Any) -> Any:
    return fastest_rate(problem_of(model, formulation_of(model, program.formulation), program, values), t, y)


def problem_of(
    model: Model, formulation: AbsoluteFormulation | TreeFormulation, program: Program, values: Values
) -> Problem:
    """What a run solves: equations of motion, with its method, saved times, and the event that ends it."""
    treat = projection(type(formulation), program.audit) if program.constraints == "project" else None
    solver = MuntheKaas(values.base_solver(program), formulation.manifold, treat)
    dae = formulation.dae
    if isinstance(formulation, TreeFormulation) and _has_forward_kernel(program, values, formulation):
        dae = dataclasses.replace(formulation.dae, forward_only=True)
    field = Field(dae, values.baumgarte)
    event = None
    if program.until is not None:
        event = Roots(program.until, values.goals, type(formulation), model.dae.plan, model.layout.parts)
    return Problem(LieTerm(velocity_field(program.audit)), solver, field, values.times, program.audit, event)


def start_of(
    model: Model, formulation: AbsoluteFormulation | TreeFormulation, state: State, program: Program, values: Values
) -> tuple[Any, Any]:
    """The formulation's state, NaN where parameters or times are not allowed, and the account, empty without audit;
    those of the run before, if this one goes on from it."""
    before = values.before
    size = len(ACCOUNT) + len(model.dae.plan.irreversible) if program.audit else 0
    start = formulation.start(state) if before is None else before.state.blocks
    account = jnp.zeros(size, model.dtype) if before is None or not program.audit else before.account
    for allowed in (model.allowed, values.valid):
        if allowed is not None:
            start = jax.tree.map(lambda leaf, allowed=allowed: jnp.where(allowed, leaf, jnp.nan), start)
    return start, account


def is_open(formulation: AbsoluteFormulation | TreeFormulation) -> bool:
    """Whether it is a tree on which nothing acts but simple forces: elsewhere adaptive steps in one kernel take longer
    to compile than most runs take."""
    dae = formulation.dae if isinstance(formulation, TreeFormulation) else None
    return isinstance(dae, OpenTree) and dae.alone is not None


def _has_forward_kernel(
    program: Program, values: Values, formulation: AbsoluteFormulation | TreeFormulation | None
) -> bool:
    """Whether fixed steps and their derivatives forwards are one kernel: of trees that nothing beside them constrains,
    and in long runs of those that gears or loops do."""
    if program.adaptive or program.adjoint != "forward" or is_off("forward_kernel"):
        return False
    if not isinstance(formulation, TreeFormulation):
        return False
    if isinstance(formulation.dae, OpenTree):
        return True
    steps = len(values.times) if program.steps is None else program.steps
    return steps >= LONG_RUN and isinstance(formulation.dae, TreeWithGears | TreeWithLoops)


def steps_of(
    program: Program, values: Values, formulation: AbsoluteFormulation | TreeFormulation | None = None
) -> Steps:
    """How a run goes; without a `formulation` all but what its kernels are."""
    assert isinstance(program.adjoint, str)
    if not program.adaptive:
        forward = _has_forward_kernel(program, values, formulation)
        keep = program.adjoint == "checkpoint"
        return FixedSteps(values.counts, program.steps, keep, program.traced, forward, values.max_steps)
    simple = formulation is not None and is_open(formulation)
    most = values.max_steps if program.steps is None else program.steps
    kind = KINDS[program.adjoint]
    return AdaptiveSteps(values.rtol, values.atol, most, kind, program.traced, simple and kind == "lax")


def _raise_failure(trajectory: Trajectory) -> None:
    if trajectory.ts.ndim == 1 and not bool(is_successful(trajectory.status)):
        raise SimulationError(f"t = {float(trajectory.failure_time):g} s: {message(trajectory.status)}")
