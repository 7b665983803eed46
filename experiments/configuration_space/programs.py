"""Fixed-step runs of a shipped mechanism, on any group per body and by any method, without stabilisation.

Every step size recompiles `jmbs.simulate`; here one program per mechanism, groups and method takes the step size and
the number of steps as arguments.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

import jmbs
from jmbs.dae import Field, velocity_field
from jmbs.library.mechanics import closure_gap
from jmbs.simulation.formulation import AbsoluteFormulation
from jmbs.simulation.state import to_internal
from jmbs.solvers import LieTerm, MuntheKaas, base_method

CONFIGS = Path(__file__).parents[2] / "configs"
SAMPLES = 200
SPACING = 5e-3  # s, between samples, or one step if that is longer
STAGE_TOLERANCE = 1e-12  # of implicit stages
ARM = 0.1  # m, from the centre of mass to the three further points of a body whose paths are compared
Groups = tuple[str, ...]


class Mechanism(NamedTuple):
    """A compiled mechanism and its consistent initial state, as it is integrated."""

    model: jmbs.Model
    start: tuple[Array, ...]
    bodies: tuple[str, ...]
    grounded: dict[str, bool]
    """By joint: whether it is to the ground."""


class Record(NamedTuple):
    """What is kept of a run; times do not include the start."""

    times: Float[np.ndarray, " T"]  # s
    gap: Float[np.ndarray, "T joints"]  # m
    drift: Float[np.ndarray, " T"]  # J, energy minus that at the start
    points: Float[np.ndarray, "T bodies 4 3"]  # m, centre of mass and points `ARM` off it along the body's axes


class Program(NamedTuple):
    """One compiled program: `run(dae, start, dt, steps)`, where `steps` lie between samples."""

    mechanism: Mechanism
    method: str
    run: Callable


@functools.cache
def bodies_of(config: str) -> tuple[str, ...]:
    """The names of a shipped config's bodies."""
    return tuple(jmbs.load(CONFIGS / f"{config}.yaml").config["bodies"])


@functools.cache
def mechanism(config: str, groups: Groups) -> Mechanism:
    """A shipped config with one group per body."""
    bodies = bodies_of(config)
    overrides = [f"bodies.{body}.group={group}" for body, group in zip(bodies, groups, strict=True)]
    system = jmbs.load(CONFIGS / f"{config}.yaml", overrides=overrides)
    model = jmbs.compile(system)
    start = to_internal(model.dae, model.initial_state())
    grounded = {name: system.config["joints"][name]["parent"] == "ground" for name in model.layout.joints}
    return Mechanism(model, start, bodies, grounded)


def stepper(mech: Mechanism, method: str, field: Callable | None = None) -> Callable:
    """One step `(dae, x, dt) -> (x, whether an implicit stage was solved)`; Munthe-Kaas, no stabilisation."""
    solver = MuntheKaas(base_method(method, STAGE_TOLERANCE), AbsoluteFormulation(mech.model.dae).manifold)
    term = LieTerm(field or velocity_field(False))
    dtype = mech.model.dtype

    def step(dae, x, dt):
        # The mechanisms are autonomous: every step may begin at time zero.
        start, t0 = (x, jnp.zeros(0, dtype)), jnp.zeros((), dtype)
        y, _, _, _, result = solver.step(term, t0, dt, start, Field(dae), None, True)
        return y[0], result == diffrax.RESULTS.successful

    return step


def program(mech: Mechanism, method: str) -> Program:
    """The program of a mechanism by a method."""
    step, plan = stepper(mech, method), mech.model.dae.plan
    rows = []
    for joint in mech.grounded:
        batch, member = plan.member_of[f"{joint}/hc"]
        rows.append(plan.batches[batch].multipliers[member])
    places = [plan.state_of[plan.junction_of[f"{body}/pe", "q"]] for body in mech.bodies]

    def energy(dae, x) -> Float[Array, ""]:
        return jnp.sum(dae.energies(x))

    def points(pose: Float[Array, "3 4"]) -> Float[Array, "4 3"]:
        centre = pose[:, 3]
        return jnp.concatenate([centre[None], centre + ARM * pose[:, :3].T])

    @eqx.filter_jit
    def run(dae, start, dt, steps):
        def one(_, carry):
            x, solved = carry
            x, now = step(dae, x, dt)
            return x, solved & now

        def sample(carry, _):
            x, solved = jax.lax.fori_loop(0, steps, one, carry)
            gaps = dae.closures(x, closure_gap)
            seen = (
                jnp.stack([jnp.linalg.norm(gaps[joint]) for joint in rows]),
                energy(dae, x) - energy(dae, start),
                jnp.stack([points(x[block][row]) for block, row in places]),
            )
            return (x, solved), jax.tree.map(lambda leaf: jnp.where(solved, leaf, jnp.nan), seen)

        return jax.lax.scan(sample, (start, jnp.asarray(True)), None, length=SAMPLES)[1]

    return Program(mech, method, run)


def record(prog: Program, dt: float, t1: float) -> Record:
    """A run to `t1` (s); NaN from where an implicit stage was not solved or the state is not finite."""
    steps = max(1, round(max(SPACING, t1 / SAMPLES) / dt))
    gap, drift, points = _call(prog, dt, steps)
    count = round(t1 / (steps * dt))
    times = steps * dt * np.arange(1, count + 1)
    return Record(times, *(np.asarray(leaf)[:count] for leaf in (gap, drift, points)))


def _call(prog: Program, dt: float, steps: int):
    model = prog.mechanism.model
    return jax.block_until_ready(
        prog.run(model.dae, prog.mechanism.start, jnp.asarray(dt, model.dtype), jnp.asarray(steps))
    )


def common_points(a: Record, b: Record, t1: float) -> tuple[np.ndarray, np.ndarray]:
    """Points of two runs at the times of `a` up to `t1` (s), of which `b` has at least all."""
    count, stride = round(t1 / a.times[0]), round(a.times[0] / b.times[0])
    rows = slice(stride - 1, stride * count, stride)
    np.testing.assert_allclose(a.times[:count], b.times[rows], rtol=1e-9)
    return a.points[:count], b.points[rows]


def distance(a: Record, b: Record, t1: float) -> float:
    """The largest distance (m) between the points of two runs up to `t1` (s)."""
    p, q = common_points(a, b, t1)
    return float(np.max(np.linalg.norm(p - q, axis=-1)))


def turn(a: Record, b: Record, t1: float) -> float:
    """The largest difference (rad, if small) between the axes of the bodies of two runs up to `t1` (s)."""
    p, q = (points[..., 1:, :] - points[..., :1, :] for points in common_points(a, b, t1))
    return float(np.max(np.linalg.norm(p - q, axis=-1))) / ARM


def relative_times(programs: dict[tuple[Groups, str], Program], repeats: int) -> dict[tuple[Groups, str], float]:
    """Time per step of every program over that of the first, at 1 ms; the least of many short interleaved repeats."""
    least = dict.fromkeys(programs, np.inf)
    for _ in range(repeats):
        for key, prog in programs.items():
            started = time.perf_counter()
            _call(prog, 1e-3, 1)
            least[key] = min(least[key], time.perf_counter() - started)
    first = next(iter(least.values()))
    return {key: value / first for key, value in least.items()}


def evaluations_per_step(mech: Mechanism, method: str, sizes: tuple[float, ...], steps: int = 10) -> list[float]:
    """Evaluations of the vector field in a step from the start on, mean over `steps`, for each step size.

    The Jacobian of an implicit stage counts as one evaluation per column.
    """
    solver = base_method(method, STAGE_TOLERANCE)
    if isinstance(solver, diffrax.AbstractERK):
        return [float(solver.tableau.num_stages)] * len(sizes)  # pyright: ignore[reportAttributeAccessIssue]
    count, field = [0], velocity_field(False)

    def tick():
        count[0] += 1

    def counted(t, y, args):
        jax.debug.callback(tick)
        return field(t, y, args)

    step = eqx.filter_jit(stepper(mech, method, counted))
    dae, result = mech.model.dae, []
    for dt in sizes:
        count[0], x = 0, mech.start
        for _ in range(steps):
            x, _ = step(dae, x, jnp.asarray(dt, mech.model.dtype))
        jax.effects_barrier()
        result.append(count[0] / steps + mech.model.dae.plan.n_stored)
    return result
