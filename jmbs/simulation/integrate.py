"""From a model and a state to an audited trajectory, through diffrax."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping
from typing import Any

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array

from jmbs.dae import ACCOUNT, velocity_field
from jmbs.ephs import TableFlow
from jmbs.errors import ModelError, SimulationError
from jmbs.library.mechanics import show
from jmbs.simulation.inputs import with_inputs
from jmbs.simulation.model import ASSEMBLY_TOLERANCE, Model, assembled, projection
from jmbs.simulation.observe import observe
from jmbs.simulation.progress import progress_meter
from jmbs.simulation.state import State, to_internal
from jmbs.simulation.status import Status, message
from jmbs.simulation.trajectory import Labels, Trajectory, continuous_quaternions
from jmbs.solvers import FIXED_STEP_ONLY, LieTerm, MuntheKaas, base_method

DEFAULT_MAX_STEPS = 100_000
FIRST_STEP = 1e-3
"""First step of adaptive runs, s, or a tenth of the first saving interval if that is less. Always given: diffrax's own
guess adds a tangent to the state, which on a group is meaningless; a step too large is simply rejected."""
BAUMGARTE_STEPS = 20.0
"""Baumgarte's rate is `1 / (BAUMGARTE_STEPS dt)`, or `1 / (BAUMGARTE_STEPS * 1 ms)` for adaptive steps."""
ADJOINTS = ("auto", "direct", "checkpoint", "forward")


def simulate(
    model: Model,
    state: State | None = None,
    *,
    t1: float | None = None,
    t0: float | None = None,
    save_every: float | None = None,
    ts: Any = None,
    solver: str | diffrax.AbstractSolver | None = None,
    dt: float | None = None,
    tolerance: float | Mapping[str, float] | None = None,
    constraints: str | None = None,
    inputs: Mapping[str, Any] | None = None,
    max_steps: int | None = None,
    adjoint: str | diffrax.AbstractAdjoint = "auto",
    audit: bool = True,
    throw: bool = True,
    progress: bool = False,
    baumgarte: float | None = None,
) -> Trajectory:
    """Integrates a model; pure, so `jit`, `vmap`, `grad` and `jvp` apply.

    **Arguments:** what is not given comes from the model's settings.

    - `state`: a consistent state; None assembles the model's own, with gradients.
    - `t0`, `t1`, `save_every`, s; or `ts` (n,): the times to save. Steps end exactly on saved times.
    - `solver`: a method's name or a diffrax Runge-Kutta solver.
    - `dt`: fixed step, s, shortened so that it divides each saving interval; or `tolerance`: one number, or `rtol`
      and `atol`.
    - `constraints`: none, baumgarte or project; `baumgarte`: its rate, 1/s.
    - `inputs`: port path to constant, table or function, see `jmbs.simulation.with_inputs`.
    - `max_steps`: of an adaptive run.
    - `adjoint`: auto (direct for fixed steps, checkpoint for adaptive ones), direct (forward and reverse), checkpoint
      (reverse, least memory), forward; or a diffrax adjoint.
    - `audit`: carry the account and compute energies, residuals and reactions.
    - `throw`: raise `SimulationError` for a failed run (where it can be seen: not under a transformation). With False
      the trajectory has a status, and NaN after the failure.
    - `progress`: draw a progress bar.

    Raises `ModelError` for wrong arguments.
    """
    plan = _Run(model, t0, t1, save_every, ts, solver, dt, tolerance, constraints, max_steps, adjoint, baumgarte)
    traced = _is_traced((model, state, ts))
    model = with_inputs(model, inputs or {})
    if state is None:
        if not traced:
            state = model.initial_state()
        else:
            state, _ = assembled(model)
    run = _integrate_jit if not traced else _integrate
    trajectory = run(model, state, plan, audit, progress)
    if throw and not _is_traced(trajectory):
        _raise_failure(trajectory)
    return trajectory


class _Run:
    """The resolved settings of one run; hashable by value of what decides the compiled program."""

    def __init__(
        self, model, t0, t1, save_every, ts, solver, dt, tolerance, constraints, max_steps, adjoint, baumgarte
    ):
        settings = model.settings
        t0 = settings.t0 if t0 is None else t0
        self.ts, self.lead = _times(settings, t0, t1, save_every, ts)
        self.grid = None
        method = settings.method if solver is None else solver
        self.method = method if isinstance(method, str) else type(method).__name__
        self.dt, self.rtol, self.atol = _step_control(settings, dt, tolerance, self.method, model.dtype)
        root_tolerance = None if self.dt is not None and model.dtype == np.float64 else (self.rtol or 1e-5)
        self.solver = base_method(method, root_tolerance) if isinstance(method, str) else method
        self.constraints = settings.constraints if constraints is None else constraints
        if self.constraints not in ("none", "baumgarte", "project"):
            raise ModelError("constraints", show(self.constraints), "none, baumgarte or project")
        if not model.dae.kinematic:
            self.constraints = "none"
        self.baumgarte = None
        if self.constraints == "baumgarte":
            self.baumgarte = baumgarte or 1.0 / (BAUMGARTE_STEPS * (self.dt or 1e-3))
        self.max_steps = max_steps or settings.max_steps or DEFAULT_MAX_STEPS
        if self.dt is not None:
            self.grid = _grid(self.ts, self.dt)
            self.max_steps = len(self.grid) - 1
        self.adjoint = _adjoint(adjoint, self.dt is not None)

    def _key(self):
        grid = None if self.grid is None else self.grid.tobytes()
        names = (self.method, self.dt, self.rtol, self.atol, self.constraints, self.baumgarte, self.max_steps)
        solver = jax.tree_util.tree_structure(self.solver), tuple(map(str, jax.tree.leaves(self.solver)))
        return (self.ts.tobytes(), self.lead, grid, names, solver, str(self.adjoint))

    def __hash__(self):
        return hash(self._key())

    def __eq__(self, other):
        return isinstance(other, _Run) and self._key() == other._key()


def _times(settings, t0, t1, save_every, ts) -> tuple[np.ndarray, int]:
    """Times that the run stops at, from `t0` on, and how many of them at the start were not asked for."""
    if ts is not None:
        if t1 is not None and float(np.asarray(ts)[-1]) > t1 + 1e-12:
            raise ModelError("ts", f"a last time {float(np.asarray(ts)[-1]):g} s", f"times up to t1 = {t1:g} s")
        ts = np.asarray(ts, dtype=np.float64)
        if ts.ndim != 1 or ts.size == 0 or not np.all(np.isfinite(ts)) or np.any(np.diff(ts) <= 0) or ts[0] < t0:
            raise ModelError("ts", show(ts), f"increasing finite times from t0 = {t0:g} s on")
        return (np.concatenate([[t0], ts]), 1) if ts[0] > t0 else (ts, 0)
    t1 = settings.t1 if t1 is None else t1
    if t1 is None:
        raise ModelError("t1", "nothing", "the end of the simulation, s")
    if not np.isfinite(t1) or t1 <= t0:
        raise ModelError("t1", show(t1), f"a time after t0 = {t0:g} s")
    save_every = (settings.save_every or (t1 - t0) / 100) if save_every is None else save_every
    if not save_every > 0:
        raise ModelError("save_every", show(save_every), "a positive number of seconds")
    count = int(np.floor((t1 - t0) / save_every * (1 + 1e-12) + 1e-9))
    times = t0 + save_every * np.arange(count + 1)
    if t1 - times[-1] > 1e-9 * (t1 - t0):
        times = np.append(times, t1)
    times[-1] = t1
    return times, 0


def _step_control(settings, dt, tolerance, method, dtype):
    if dt is not None and tolerance is not None:
        raise ModelError("simulate", "both dt and tolerance", "one of them")
    if dt is None and tolerance is None:
        dt, rtol, atol = settings.dt, settings.rtol, settings.atol
    elif tolerance is not None:
        pair = tolerance if isinstance(tolerance, Mapping) else {"rtol": tolerance, "atol": tolerance}
        rtol, atol = float(pair["rtol"]), float(pair["atol"])
    else:
        rtol = atol = None
    if dt is not None and not dt > 0:
        raise ModelError("dt", show(dt), "a positive number of seconds")
    if dt is None and method in (*FIXED_STEP_ONLY, "RK4", "Euler"):
        raise ModelError("dt", "nothing", f"a fixed step, since {method} has no error estimate")
    return dt, rtol, atol


def _grid(ts: np.ndarray, dt: float) -> np.ndarray:
    """Equal steps of at most `dt` between neighbouring saved times."""
    pieces = [np.asarray([ts[0]])]
    for a, b in zip(ts[:-1], ts[1:], strict=True):
        n = max(1, int(np.ceil((b - a) / dt * (1 - 1e-9))))
        piece = a + (b - a) * np.arange(1, n + 1) / n
        piece[-1] = b
        pieces.append(piece)
    return np.concatenate(pieces)


def _adjoint(adjoint, fixed: bool) -> diffrax.AbstractAdjoint:
    if not isinstance(adjoint, str):
        return adjoint
    match adjoint:
        case "auto":
            return diffrax.DirectAdjoint() if fixed else diffrax.RecursiveCheckpointAdjoint()
        case "direct":
            return diffrax.DirectAdjoint()
        case "checkpoint":
            return diffrax.RecursiveCheckpointAdjoint()
        case "forward":
            return diffrax.ForwardMode()
    raise ModelError("adjoint", show(adjoint), f"one of {', '.join(ADJOINTS)}, or a diffrax adjoint")


def _integrate(model: Model, state: State, run: _Run, audit: bool, progress: bool) -> Trajectory:
    dae, dtype, ts = model.dae, model.dtype, run.ts
    x0 = to_internal(dae, state)
    account = jnp.zeros(len(ACCOUNT) if audit else 0, dtype)
    treat = projection(audit) if run.constraints == "project" else None
    solver = MuntheKaas(run.solver, model.manifold, treat)
    times = jnp.asarray(ts, dtype)
    span = float(ts[-1] - ts[0])
    if len(ts) == 1:
        saved, result = jax.tree.map(lambda leaf: leaf[None], (x0, account)), diffrax.RESULTS.successful
        end = times[0]
        stats = {"steps": jnp.asarray(0), "accepted": jnp.asarray(0), "rejected": jnp.asarray(0)}
    else:
        if run.dt is not None:
            controller, dt0 = diffrax.StepTo(ts=jnp.asarray(run.grid, dtype)), None
        else:
            assert run.rtol is not None and run.atol is not None
            pid = diffrax.PIDController(rtol=run.rtol, atol=run.atol, dtmin=1e-13 * span)
            controller = diffrax.ClipStepSizeController(pid, step_ts=times)
            dt0 = jnp.asarray(min(FIRST_STEP, 0.1 * float(ts[1] - ts[0])), dtype)
        solution = diffrax.diffeqsolve(
            LieTerm(velocity_field(audit, run.baumgarte)),
            solver,
            t0=times[0],
            t1=times[-1],
            dt0=dt0,
            y0=(x0, account),
            args=dae,
            saveat=diffrax.SaveAt(subs=(diffrax.SubSaveAt(ts=times), diffrax.SubSaveAt(t1=True, fn=_only_time))),
            stepsize_controller=controller,
            adjoint=run.adjoint,
            max_steps=run.max_steps,
            throw=False,
            progress_meter=progress_meter(progress),
        )
        ys: Any = solution.ys
        (saved, end), result = ys, solution.result
        end = end[-1]
        stats = {
            "steps": solution.stats["num_steps"],
            "accepted": solution.stats["num_accepted_steps"],
            "rejected": solution.stats["num_rejected_steps"],
        }
    return _trajectory(model, run, times, saved, result, end, stats, audit)


def _only_time(t, y, args):
    del y, args
    return t


_integrate_jit = eqx.filter_jit(_integrate)


def _trajectory(model: Model, run: _Run, times, saved, result, end, stats, audit: bool) -> Trajectory:
    xs, account = saved
    finite = jnp.stack([jnp.all(jnp.isfinite(leaf), axis=tuple(range(1, leaf.ndim))) for leaf in xs]).all(axis=0)
    finite = jnp.cumprod(finite.astype(jnp.int32)).astype(bool)
    start = jax.tree.map(lambda leaf: leaf[:1], xs)
    safe = jax.tree.map(lambda leaf, first: jnp.where(_wide(finite, leaf), leaf, first), xs, start)
    seen = jax.vmap(lambda t, x: observe(model, t, x, audit))(times, safe)
    seen = jax.tree.map(lambda leaf: jnp.where(_wide(finite, leaf), leaf, jnp.nan), seen)
    account = jnp.where(finite[:, None], account, jnp.nan)
    status = _status(result, jnp.all(finite), _consistent(model, safe, times), _beyond_tables(model, times))
    failure_time = jnp.where(status == Status.successful, jnp.nan, end)
    books = _books(model, seen, account) if audit else dict.fromkeys(_BOOK_KEYS)
    times, seen, books = jax.tree.map(lambda leaf: leaf[run.lead :], (times, seen, books))
    quaternion = {name: continuous_quaternions(q) for name, q in seen["quaternion"].items()}
    return Trajectory(
        ts=times,
        position=seen["position"],
        quaternion=quaternion,
        angular_velocity=seen["angular_velocity"],
        velocity=seen["velocity"],
        q={name: _continuous(model, name, q) for name, q in seen["q"].items()},
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
        **books,
    )


_BOOK_KEYS = (
    *("kinetic", "potential", "total", "supplied", "dissipated", "entropy_produced"),
    *("exergy_destroyed", "first_law_residual", "projection_work"),
)


def _books(model: Model, seen: dict[str, Any], account: Array) -> dict[str, Array]:
    """The account; first-law residual: change of (total + thermal + heat given away) - supplied - projection work."""
    supplied, dissipated, entropy, projection_work = account.T
    total = seen["kinetic"] + seen["potential"]
    whole = total + seen["thermal"] + seen["heat"]
    return {
        "kinetic": seen["kinetic"],
        "potential": seen["potential"],
        "total": total,
        "supplied": supplied,
        "dissipated": dissipated,
        "entropy_produced": entropy,
        "exergy_destroyed": model.dae.reference_temperature * entropy,
        "first_law_residual": whole - whole[0] - supplied - projection_work,
        "projection_work": projection_work,
    }


def _wide(mask: Array, leaf: Array) -> Array:
    return mask.reshape(mask.shape + (1,) * (leaf.ndim - 1))


def _continuous(model: Model, joint: str, q: Array) -> Array:
    """Joint coordinates with quaternions of continuous sign."""
    kind = model.layout.types[model.layout.joints.index(joint)]
    if kind == "spherical":
        return continuous_quaternions(q)
    if kind == "free":
        return jnp.concatenate([q[:, :3], continuous_quaternions(q[:, 3:])], axis=1)
    return q


def _consistent(model: Model, x, times) -> Array:
    """Whether the first state meets position and velocity constraints as far as data can be expected to."""
    dae = model.dae
    if dae.plan.n_rows == 0 or not dae.kinematic:
        return jnp.asarray(True)
    first = jax.tree.map(lambda leaf: leaf[0], x)
    miss = jnp.concatenate([dae.closures(first), dae.violation(times[0], first)])
    return jnp.max(jnp.abs(miss)) <= 10 * ASSEMBLY_TOLERANCE[model.dtype.name]


def _beyond_tables(model: Model, times) -> Array:
    """Whether some tabulated drive ends before the run does, or starts after it."""
    is_table = lambda leaf: isinstance(leaf, TableFlow)  # noqa: E731
    tables = [d for d in jax.tree.leaves(model.dae.drives, is_leaf=is_table) if is_table(d)]
    slack = 1e-9 * (times[-1] - times[0])
    short = [(d.times[0] > times[0] + slack) | (d.times[-1] < times[-1] - slack) for d in tables]
    return jnp.any(jnp.stack(short)) if short else jnp.asarray(False)


def _status(result, finite: Array, consistent: Array, beyond_tables: Array) -> Status:
    R = diffrax.RESULTS
    status = Status.where(finite, Status.successful, Status.not_finite)
    status = Status.where(result == R.max_steps_reached, Status.max_steps_reached, status)
    status = Status.where(result == R.dt_min_reached, Status.step_too_small, status)
    implicit = (result == R.nonlinear_max_steps_reached) | (result == R.nonlinear_divergence)
    status = Status.where(implicit, Status.implicit_solve_failed, status)
    status = Status.where(result == R.nonfinite, Status.not_finite, status)
    status = Status.where((status != Status.successful) & beyond_tables, Status.table_exceeded, status)
    bad_start = (status == Status.successful) & ~consistent
    return Status.where(bad_start, Status.inconsistent_initial_state, status)


def _labels(model: Model, run: _Run) -> Labels:
    try:
        version = importlib.metadata.version("jmbs")
    except importlib.metadata.PackageNotFoundError:
        version = "unknown"
    layout = model.layout
    return Labels(model.name, layout.bodies, layout.joints, layout.coordinates, run.method, model.config_json, version)


def _raise_failure(trajectory: Trajectory) -> None:
    if trajectory.ts.ndim == 1 and not bool(trajectory.status == Status.successful):
        raise SimulationError(f"t = {float(trajectory.failure_time):g} s: {message(trajectory.status)}")


def _is_traced(tree) -> bool:
    return any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(tree))
