"""The record of a simulation: motion, reactions, energy and entropy account, and what became of the run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from jmbs.arrays import is_traced
from jmbs.errors import ModelError
from jmbs.library.mechanics import JointCoordinates
from jmbs.programs import quick_to_compile
from jmbs.simulation.broken_laws import BrokenLaw, broken_laws
from jmbs.simulation.by_name import ByName
from jmbs.simulation.dataset import dataset_of
from jmbs.simulation.event_sample import sample
from jmbs.simulation.state import Ending, State
from jmbs.simulation.status import Status

if TYPE_CHECKING:
    import xarray as xr


@dataclass(frozen=True)
class Labels:
    """What a trajectory's arrays are called; static and hashable, so it travels through `jit`.

    **Arguments:**

    - `name`: of the system. `bodies`, `joints`: in the order of the config.
    - `joint_coordinates`: one entry per joint that has coordinates.
    - `method`, `config_json`, `version`: the method, the full config as JSON, and the version of jmbs.
    - `state_units`: pairs (path, unit) for entries of `Trajectory.states`; a missing one is written as "1".
    - `output_units`: pairs (path, unit) of what components declare, see `Trajectory.outputs`.
    - `constraints`: name and names of the multipliers of each constraint beyond joints.
    - `assembled`: joints of loops of which nothing was given: assembly chose where they start.
    - `storage_kinds`: pairs (path, kind) of the storages: thermal, fluid, electric, magnetic, kinetic or potential.
    - `events`: what the run was to end at, by joint; `function` of a user's function.
    """

    name: str
    bodies: tuple[str, ...]
    joints: tuple[str, ...]
    joint_coordinates: tuple[JointCoordinates, ...] = ()
    method: str = ""
    config_json: str = "{}"
    version: str = ""
    state_units: tuple[tuple[str, str], ...] = ()
    constraints: tuple[tuple[str, tuple[str, ...]], ...] = ()
    assembled: tuple[str, ...] = ()
    storage_kinds: tuple[tuple[str, str], ...] = ()
    output_units: tuple[tuple[str, str], ...] = ()
    events: tuple[str, ...] = ()


class Trajectory(eqx.Module):
    """A simulated motion at T saved times; `vmap` puts batch axes in front of every array.

    Values by body, joint, constraint, store or path are mappings, `position["link1"]` and so on, whose names share one
    array (see `jmbs.simulation.by_name`); shapes below are those of one name.

    By body: `position` (T, 3) m and `velocity` (T, 3) m/s of the centre of mass in world axes, `quaternion` (T, 4)
    wxyz, body to world, continuous in time, `angular_velocity` (T, 3) rad/s in body axes.

    By joint: `q` (T, nq) and `v` (T, k), the child's motion relative to the parent, `v` in the child's joint frame;
    `reaction` (T, 6), the total wrench (torque N m, then force N) that the joint exerts on the child, at the child's
    joint frame and in its axes; `constraint_position` (T,), the largest entry of gap (m) and rotation vector (rad) of
    the closure, and `constraint_velocity` (T,), that of its rate.

    By constraint beyond joints: `multipliers` (T, rows), the forces (N) or torques (N m) that it exerts on the body, as
    the labels name them; the two residuals as for joints, the first of what has a position-level closure.

    The account (T,) in J, `entropy_produced` in J/K, counts from the start; its fields, `reaction` and the constraint
    residuals are `None` when the audit was switched off. `temperature` (T,) K by thermal store, `states` path ->
    (T, ...) for any other state. `outputs` (T, ...) by `<path>/<name>`, what components declare, in the units that they
    name.

    By component path: `destroyed` (T,) J, exergy destroyed since the start by each irreversible component;
    `production` (T,) W/K, the entropy that it produces at that time; `stored` (T,) J, the exergy held by each storage,
    so that `supplied + projection_work = change of sum(stored) + sum(destroyed)`. `constraint_rank` (T,) is the number
    of independent constraint rows, `constraint_margin` (T,) the smallest singular value of those that were independent
    at the start, relative to the largest, times the length of the lightest row beside the largest that it has in the
    run: zero where rows become parallel or one vanishes. All of them are `None` without audit.

    `energy_made` (T,) W and `entropy_made` (T,) W/K, by path of each component whose laws were tried on samples only,
    as those of users are: what it gives out beyond what it takes in at that time. Zero, but for the entropy of
    irreversible components, which is not negative; `broken_laws` tells where that is not so. `None` where there are no
    such components.

    `status` and `failure_time` (s, NaN after success) tell what became of the run; `stats` counts steps.
    Values at times after a failure are NaN.

    Of a run `until` an event, else `None`: `event_time` (), s, NaN where there was none; `event_row` (), which of the
    samples is the one at the event, -1 where there was none: its time in `ts` is that of the event, and later samples
    and times are NaN; `event_which` (), which of `labels.events` it was, -1 where there was none. `event` is the sample
    itself.

    `state(i)` is the state at a saved time, out of `saved` (T, ...); `ending`, where the run ended, is what
    `simulate(model, after=trajectory)` goes on from.
    """

    ts: Float[Array, " T"]
    position: ByName
    quaternion: ByName
    angular_velocity: ByName
    velocity: ByName
    q: ByName
    v: ByName
    reaction: ByName | None
    constraint_position: ByName | None
    constraint_velocity: ByName | None
    kinetic: Float[Array, " T"] | None
    potential: Float[Array, " T"] | None
    total: Float[Array, " T"] | None
    supplied: Float[Array, " T"] | None
    dissipated: Float[Array, " T"] | None
    entropy_produced: Float[Array, " T"] | None
    exergy_destroyed: Float[Array, " T"] | None
    first_law_residual: Float[Array, " T"] | None
    projection_work: Float[Array, " T"] | None
    temperature: ByName
    states: ByName
    status: Status
    failure_time: Float[Array, ""]
    stats: dict[str, Array]
    labels: Labels = eqx.field(static=True)
    multipliers: ByName | None = None
    destroyed: ByName | None = None
    production: ByName | None = None
    stored: ByName | None = None
    constraint_rank: Float[Array, " T"] | None = None
    constraint_margin: Float[Array, " T"] | None = None
    energy_made: ByName | None = None
    entropy_made: ByName | None = None
    outputs: Mapping[str, Array] = eqx.field(default_factory=dict)
    event_time: Float[Array, ""] | None = None
    event_row: Int[Array, ""] | None = None
    event_which: Int[Array, ""] | None = None
    saved: State | None = None
    ending: Ending | None = None

    def state(self, i: Any) -> State:
        """The state at saved time number `i`, negative from the end, which may be traced; of each in a batch. To
        rounding: `simulate(model, after=trajectory)` goes on exactly where the run ended.

        Raises `ModelError` for a number that is none of a saved time.
        """
        if self.saved is None:
            raise ModelError("state", "a trajectory without states", "one that simulate gave")
        axis, count = self.ts.ndim - 1, self.ts.shape[-1]
        if not is_traced(i):
            number = np.asarray(i)
            if number.dtype.kind not in "iu" or np.any((number < -count) | (number >= count)):
                raise ModelError("state", f"sample {i!r}", f"a whole number from {-count} to {count - 1}")
        return _picked(self.saved, axis, i if is_traced(i) else np.asarray(i))

    @property
    def event(self) -> Trajectory:
        """The sample at the event, `sol.event.v["hinge"]` and so on: shapes as above without (T,); NaN where there was
        no event. Differentiable, in batches too. Raises `ModelError` for a run that was to end at none."""
        if self.event_row is None:
            raise ModelError("event", "a run that was to end at none", "one of simulate(..., until=...)")
        return sample(self, self.event_row)

    def to_xarray(self) -> xr.Dataset:
        """The trajectory as an `xarray.Dataset` of schema `jmbs-result/1`, with units and names.

        A trajectory with one batch axis gets a leading dimension `member`, and its status, failure time and step
        counts become variables along it. Raises `ModelError` for traced arrays and for several batch axes.
        """
        return dataset_of(self)

    def broken_laws(self) -> tuple[BrokenLaw, ...]:
        """Where and when components made energy or destroyed entropy, the worst of each component and law.

        Empty if there are none, and without audit. Raises `ModelError` for traced arrays.
        """
        return broken_laws(self)


@quick_to_compile
def _picked(saved: State, axis: int, i: Int[Array, ""]) -> State:
    return jax.tree.map(lambda leaf: jnp.asarray(leaf)[(slice(None),) * axis + (i,)], saved)


def continuous_quaternions(q: Float[Array, "T *n 4"]) -> Float[Array, "T *n 4"]:
    """The same rotations as `q` (T, ..., 4), with signs chosen so that neighbours in time lie in one half space.

    The first quaternion keeps its sign. NaN samples flip nothing. Differentiable: the signs are constants to AD.
    """
    opposite = jnp.sum(q[1:] * q[:-1], axis=-1) < 0
    flips = jnp.where(opposite, -jnp.ones((), q.dtype), jnp.ones((), q.dtype))
    signs = jnp.cumprod(jnp.concatenate([jnp.ones_like(q[:1, ..., 0]), flips]), axis=0)
    return signs[..., None] * q
