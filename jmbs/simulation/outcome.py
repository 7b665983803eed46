"""From saved states and an account to a trajectory: what was seen, the books, and what became of the run."""

from __future__ import annotations

import importlib.metadata
from typing import Any

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jmbs.dae import ACCOUNT
from jmbs.ephs import TableEffort, TableFlow
from jmbs.linear import rank_tolerance
from jmbs.simulation.by_name import ByName
from jmbs.simulation.formulation import AbsoluteFormulation, TreeFormulation
from jmbs.simulation.model import Model
from jmbs.simulation.observation_plan import observation_plan, storage_kinds
from jmbs.simulation.observe import observe
from jmbs.simulation.run_settings import RunSettings
from jmbs.simulation.status import Status
from jmbs.simulation.trajectory import Labels, Trajectory, continuous_quaternions


def trajectory_of(
    model: Model,
    run: RunSettings,
    formulation: AbsoluteFormulation | TreeFormulation,
    times,
    saved,
    result,
    end,
    stats,
    audit: bool,
    consistent: Array,
) -> Trajectory:
    """The trajectory of a run: everything observed at saved times, NaN after a failure, and what became of it.

    **Arguments:** `times` (T,) s; `saved`: states of the formulation and accounts at those times; `result`, `stats`:
    diffrax's; `end`: the time where the integration ended and the regularity of its coordinates there; `consistent`:
    whether the first state met the constraints.
    """
    xs, account = saved
    finite = jnp.stack([jnp.all(jnp.isfinite(leaf), axis=tuple(range(1, leaf.ndim))) for leaf in xs]).all(axis=0)
    finite = jnp.cumprod(finite.astype(jnp.int32)).astype(bool)
    start = jax.tree.map(lambda leaf: leaf[:1], xs)
    safe = jax.tree.map(lambda leaf, first: jnp.where(_wide(finite, leaf), leaf, first), xs, start)
    plan = observation_plan(model)
    seen = jax.vmap(lambda t, y: observe(model, plan, *formulation.look(t, y, audit)))(times, safe)
    seen = jax.tree.map(lambda leaf: jnp.where(_wide(finite, leaf), leaf, jnp.nan), seen)
    account = jnp.where(finite[:, None], account, jnp.nan)
    end_time, regularity = end
    singular = _singular(seen.pop("regularity"), regularity)
    status = _status(result, jnp.all(finite), consistent, _beyond_tables(model, times), singular)
    failure_time = jnp.where(status == Status.successful, jnp.nan, end_time)
    books = _books(model, seen, account) if audit else dict.fromkeys(_BOOK_KEYS)
    times, seen, books = jax.tree.map(lambda leaf: leaf[run.lead :], (times, seen, books))
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
        status=status,
        failure_time=failure_time,
        stats=stats,
        labels=_labels(model, run),
        stored=seen.get("stored"),
        production=seen.get("production"),
        multipliers=seen.get("multipliers"),
        **books,
    )


_BOOK_KEYS = (
    *("kinetic", "potential", "total", "supplied", "dissipated", "entropy_produced"),
    *("exergy_destroyed", "first_law_residual", "projection_work"),
    *("destroyed", "constraint_rank", "constraint_margin"),
)


def _books(model: Model, seen: dict[str, Any], account: Array) -> dict[str, Any]:
    """The account; first-law residual: change of (total + thermal + heat given away) - supplied - projection work."""
    supplied, dissipated, entropy, projection_work = account[:, : len(ACCOUNT)].T
    temperature = model.dae.reference_temperature
    rank, margin = _constraint_rank(seen.pop("singular_values"), model.dtype)
    total = seen["kinetic"] + seen["potential"]
    whole = total + seen["thermal"] + seen["heat"]
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
        "first_law_residual": whole - whole[0] - supplied - projection_work,
        "projection_work": projection_work,
    }


def _constraint_rank(singular_values: Float[Array, "T m"], dtype) -> tuple[Array, Array]:
    """The rank of the constraint rows at every saved time, and the margin to the next drop; see `Trajectory`."""
    if singular_values.shape[1] == 0:
        zeros = jnp.zeros(singular_values.shape[0], dtype)
        return zeros, zeros + 1
    relative = singular_values / singular_values[:, :1]
    rank = jnp.sum(relative > rank_tolerance(dtype), axis=1)
    margin = jnp.take(relative, jnp.maximum(rank[0] - 1, 0), axis=1)
    return jnp.where(jnp.isnan(margin), jnp.nan, rank.astype(dtype)), margin


NEAR_SINGULAR, APPROACHING = 0.02, 0.3
"""A failed run that ends with less regularity than the first, or saved a state with less, has failed because of it; or,
if a fixed step went beyond, one that saved a state with less than the second."""


def _singular(saved: Float[Array, " T"], last: Float[Array, ""]) -> Array:
    """Whether a failed run came to a singularity of the coordinates: from regularity at saved times and the end."""
    least = jnp.min(saved, initial=1.0, where=jnp.isfinite(saved))
    return (jnp.fmin(last, least) < NEAR_SINGULAR) | (jnp.isnan(last) & (least < APPROACHING))


def _wide(mask: Array, leaf: Array) -> Array:
    return mask.reshape(mask.shape + (1,) * (leaf.ndim - 1))


def _with_continuous_signs(values: ByName, where: np.ndarray) -> ByName:
    """The same with quaternions of continuous sign; `where` (n, 4) they stand in the stacked array."""
    array = values.array.at[:, where].set(continuous_quaternions(values.array[:, where]))
    return ByName(array, values.entries)


def _beyond_tables(model: Model, times) -> Array:
    """Whether some tabulated drive ends before the run does, or starts after it."""
    is_table = lambda leaf: isinstance(leaf, TableFlow | TableEffort)  # noqa: E731
    tables = [d for d in jax.tree.leaves(model.dae.drives, is_leaf=is_table) if is_table(d)]
    slack = 1e-9 * (times[-1] - times[0])
    short = [(d.times[0] > times[0] + slack) | (d.times[-1] < times[-1] - slack) for d in tables]
    return jnp.any(jnp.stack(short)) if short else jnp.asarray(False)


def _status(result, finite: Array, consistent: Array, beyond_tables: Array, singular: Array) -> Status:
    R = diffrax.RESULTS
    status = Status.where(finite, Status.successful, Status.not_finite)
    status = Status.where(result == R.max_steps_reached, Status.max_steps_reached, status)
    status = Status.where(result == R.dt_min_reached, Status.step_too_small, status)
    implicit = (result == R.nonlinear_max_steps_reached) | (result == R.nonlinear_divergence)
    status = Status.where(implicit, Status.implicit_solve_failed, status)
    status = Status.where(result == R.nonfinite, Status.not_finite, status)
    status = Status.where((status != Status.successful) & beyond_tables, Status.table_exceeded, status)
    status = Status.where((status != Status.successful) & singular, Status.singular_coordinates, status)
    bad_start = (status == Status.successful) & ~consistent
    return Status.where(bad_start, Status.inconsistent_initial_state, status)


def _labels(model: Model, run: RunSettings) -> Labels:
    try:
        version = importlib.metadata.version("jmbs")
    except importlib.metadata.PackageNotFoundError:
        version = "unknown"
    layout = model.layout
    constraints = tuple((name, multipliers) for name, _, multipliers in layout.constraints)
    return Labels(
        name=model.name,
        bodies=layout.bodies,
        joints=layout.joints,
        joint_coordinates=layout.coordinates,
        method=run.method,
        config_json=model.config_json,
        version=version,
        constraints=constraints,
        storage_kinds=storage_kinds(model.dae),
    )
