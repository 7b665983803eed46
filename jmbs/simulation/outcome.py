"""From saved states and an account to a trajectory: what was seen, and the books."""

from __future__ import annotations

import functools
import importlib.metadata
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jmbs.arrays import without_derivatives
from jmbs.dae import ACCOUNT
from jmbs.ephs import output_units
from jmbs.fusing import fused, fuses
from jmbs.linear import rank_tolerance
from jmbs.simulation.by_name import ByName
from jmbs.simulation.event_sample import entries_of_event, times_with
from jmbs.simulation.formulation import AbsoluteFormulation, TreeFormulation
from jmbs.simulation.instant import Instant
from jmbs.simulation.lengths import typical_length
from jmbs.simulation.misses import chosen_by_assembly
from jmbs.simulation.model import Model
from jmbs.simulation.observation_plan import observation_plan, storage_kinds
from jmbs.simulation.observe import observe
from jmbs.simulation.quantity_units import state_units
from jmbs.simulation.run_settings import Program, Values
from jmbs.simulation.run_status import came_to_singularity, constraints_met, status_of
from jmbs.simulation.state import Ending, InnerState, State, with_velocities
from jmbs.simulation.status import Status, is_successful
from jmbs.simulation.trajectory import Labels, Trajectory, continuous_quaternions
from jmbs.solvers import Event, Run


def trajectory_of(
    model: Model,
    formulation: AbsoluteFormulation | TreeFormulation,
    state: State,
    program: Program,
    values: Values,
    run: Run,
) -> Trajectory:
    """The trajectory of a run from a `state`: everything observed at saved times, NaN after a failure, and what became
    of it. Its labels are to come, see `labels_of`."""
    (xs, account), event = run.saved, run.event
    times = values.times if event is None else times_with(event, values.times)
    finite = jnp.stack([jnp.all(jnp.isfinite(leaf), axis=tuple(range(1, leaf.ndim))) for leaf in xs]).all(axis=0)
    finite = jnp.cumprod(finite.astype(jnp.int32)).astype(bool)
    # After a failure the first state is looked at instead; what is seen of it is thrown away.
    safe = lambda leaf: jnp.where(_wide(finite, leaf), leaf, leaf[:1])  # noqa: E731
    slopes = safe(run.slopes) if program.audit else None
    velocities = None if slopes is None else slopes[:, : formulation.manifold.n_stored]
    plan = observation_plan(model)

    def observed(t: Array, x: Any, velocity: Any) -> tuple[dict[str, Any], Instant]:
        at = formulation.look(t, x, velocity)
        return observe(model, plan, at, t) | {"blocks": with_velocities(model.dae.plan, at.x, at.efforts)}, at

    seen, first = _at_all(observed, times, jax.tree.map(safe, xs), velocities)
    if slopes is not None:
        production = slopes[:, slopes.shape[1] - len(model.dae.plan.irreversible) :]
        seen["production"] = ByName(production[:, plan.production.index], plan.production.entries)
    end_time, (y, _) = run.end
    # A status has no derivative, and tracing one takes time.
    start = times[0], jax.tree.map(lambda leaf: leaf[0], xs)
    judged = without_derivatives((formulation, state, first, start, (end_time, y)))
    projects, length = program.constraints == "project", functools.partial(typical_length, model)
    met = constraints_met(*judged, projects=projects, length=length)
    seen, account = jax.tree.map(lambda leaf: jnp.where(_wide(finite, leaf), leaf, jnp.nan), (seen, account))
    regularity = seen.pop("regularity") if model.dae.has_domain else None
    singular = None if regularity is None else came_to_singularity(regularity, formulation.dae.regularity(y))
    status = status_of(model, values, run, finite, met, singular)
    if event is not None:
        after = jnp.arange(len(times)) > event.row
        times = jnp.where((status == Status.ended_at_event) & after, jnp.nan, times)
    done = status == Status.successful if event is None else is_successful(status)
    failure_time = jnp.where(done, jnp.nan, end_time)
    books = _books(model, seen, account, values.before) if program.audit else dict.fromkeys(_BOOK_KEYS)
    ending = _ending((xs, account, books["first_law_residual"]), None if event is None else (event, status))
    times, seen, books = jax.tree.map(lambda leaf: leaf[program.lead :], (times, seen, books))
    at_event: dict[str, Any] = {} if event is None else entries_of_event(event, status, program.lead)
    stats = {"steps": run.accepted + run.rejected, "accepted": run.accepted, "rejected": run.rejected}
    return Trajectory(
        ts=times,
        position=seen["position"],
        quaternion=_with_continuous_signs(seen["quaternion"], plan.body_quaternions),
        angular_velocity=seen["angular_velocity"],
        velocity=seen["velocity"],
        q=_with_continuous_signs(seen["q"], plan.joint_quaternions),
        v=seen["v"],
        reaction=seen.get("reaction"),
        constraint_position=seen.get("constraint_position"),
        constraint_velocity=seen.get("constraint_velocity"),
        temperature=seen["temperature"],
        states=seen["states"],
        outputs=seen.get("outputs", {}),
        status=status,
        failure_time=failure_time,
        stats=stats,
        labels=_NO_LABELS,
        stored=seen.get("stored"),
        production=seen.get("production"),
        multipliers=seen.get("multipliers"),
        energy_made=seen.get("energy_made"),
        entropy_made=seen.get("entropy_made"),
        saved=State(seen["blocks"], state.names, model.layout.joint_states),
        ending=ending,
        **books,
        **at_event,
    )


def _ending(rows: Any, event: tuple[Event, Status] | None) -> Ending:
    """What another run goes on from: of the rows of state, account and residual the last, or that at the event."""
    if event is None:
        blocks, account, residual = jax.tree.map(lambda leaf: leaf[-1], rows)
    else:
        found, status = event
        row = jnp.where(status == Status.ended_at_event, found.row, len(rows[1]) - 1)
        blocks, account, residual = jax.tree.map(lambda leaf: leaf[row], rows)
    return Ending(InnerState(blocks), account, residual)


_NO_LABELS = Labels("", (), ())


def _at_all(observed: Callable, *given: Any) -> tuple[dict[str, Any], Instant]:
    """What is observed at all saved times; and the first instant."""
    if not fuses():
        seen, instants = jax.vmap(observed)(*given)
        return seen, jax.tree.map(lambda leaf: leaf[0], instants)
    # A kernel writes all of its results, so the instants are none of them.
    seen = jax.vmap(lambda *args: fused(lambda *args: observed(*args)[0], *args))(*given)
    start = jax.tree.map(lambda leaf: leaf[0], given)
    return seen, fused(lambda *args: observed(*args)[1], *start)


_BOOK_KEYS = (
    *("kinetic", "potential", "total", "supplied", "dissipated", "entropy_produced"),
    *("exergy_destroyed", "first_law_residual", "projection_work"),
    *("destroyed", "constraint_rank", "constraint_margin"),
)


def _books(model: Model, seen: dict[str, Any], account: Array, before: Ending | None) -> dict[str, Any]:
    """The account; first-law residual: change of (total + thermal + heat given away) - supplied - projection work.

    **Arguments:** `before`: the end of the run that this one goes on from.
    """
    supplied, dissipated, entropy, projection_work = account[:, : len(ACCOUNT)].T
    temperature = model.dae.reference_temperature
    values, lengths = seen.pop("singular_values")
    rank, margin = _constraint_rank(values, lengths, model.dtype)
    total = seen["kinetic"] + seen["potential"]
    whole = total + seen["thermal"] + seen["heat"]
    residual = whole - whole[0] - supplied - projection_work
    if before is not None and before.residual is not None:
        residual = residual + (supplied + projection_work)[0] + before.residual
    return {
        "kinetic": seen["kinetic"],
        "potential": seen["potential"],
        "total": total,
        "supplied": supplied,
        "dissipated": dissipated,
        "entropy_produced": entropy,
        "exergy_destroyed": temperature * entropy,
        "destroyed": ByName(temperature * account[:, len(ACCOUNT) :], seen["production"].entries),
        "constraint_rank": rank,
        "constraint_margin": margin,
        "first_law_residual": residual,
        "projection_work": projection_work,
    }


def _constraint_rank(singular_values: Float[Array, "T m"], lengths: Float[Array, "T n"], dtype) -> tuple[Array, Array]:
    """The rank of the constraint rows at every saved time, and the margin to the next drop; see `Trajectory`.

    Singular values are those of the rows' directions. A row that vanishes keeps its direction: its length tells.
    """
    if singular_values.shape[1] == 0:
        zeros = jnp.zeros(singular_values.shape[0], dtype)
        return zeros, zeros + 1
    relative = singular_values / singular_values[:, :1]
    rank = jnp.sum(relative > rank_tolerance(dtype), axis=1)
    margin = jnp.take(relative, jnp.maximum(rank[0] - 1, 0), axis=1)
    return jnp.where(jnp.isnan(margin), jnp.nan, rank.astype(dtype)), margin * _lightest(lengths)


def _lightest(lengths: Float[Array, "T n"]) -> Float[Array, " T"]:
    """The least, over the rows, of a row's length relative to the largest that it has in the run."""
    largest = jnp.nanmax(lengths, axis=0, initial=0.0)
    relative = jnp.where(largest > 0, lengths / jnp.where(largest > 0, largest, 1.0), 1.0)
    return jnp.min(relative, axis=1, initial=1.0)


def _wide(mask: Array, leaf: Array) -> Array:
    return mask.reshape(mask.shape + (1,) * (leaf.ndim - 1))


def _with_continuous_signs(values: ByName, where: np.ndarray) -> ByName:
    """The same with quaternions of continuous sign; `where` (n, 4) they stand in the stacked array."""
    array = values.array.at[:, where].set(continuous_quaternions(values.array[:, where]))
    return ByName(array, values.entries)


@functools.cache
def jmbs_version() -> str:
    """The version that is installed. Looked up once: that reads files, which takes as long as a short run."""
    try:
        return importlib.metadata.version("jmbs")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


def labels_of(model: Model, method: str, assembled: bool, events: tuple[str, ...] = ()) -> Labels:
    """What the arrays of a trajectory are called; `assembled`: it starts where assembly put it; names of `events`."""
    layout = model.layout
    constraints = tuple((entry.name, entry.multipliers) for entry in layout.constraints)
    return Labels(
        name=model.name,
        bodies=layout.bodies,
        joints=layout.joints,
        joint_coordinates=layout.coordinates,
        method=method,
        config_json=model.config_json,
        version=jmbs_version(),
        state_units=tuple(state_units(model).items()),
        constraints=constraints,
        output_units=tuple(output_units(model.dae).items()),
        storage_kinds=storage_kinds(model.dae),
        assembled=chosen_by_assembly(model) if assembled else (),
        events=events,
    )
