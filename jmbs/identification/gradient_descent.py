"""Descent along reverse gradients, a batch of windows at each step, by optax: a gradient costs a few runs however many
unknowns there are.

The cost is that of shooting, per sample; where recordings are cut into windows, it counts the gaps between them too.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from jmbs.identification.horizons import PARTS, STAGES
from jmbs.identification.lbfgs import Descent, stepped
from jmbs.identification.least_squares import Iterate
from jmbs.identification.optimiser import LBFGS, Optimiser
from jmbs.identification.position import Position, Progress
from jmbs.identification.priors import prior_distances
from jmbs.identification.problem import FitProblem
from jmbs.identification.problem_steps import has_shorter_steps, with_steps
from jmbs.identification.study import Prior
from jmbs.identification.transforms import Transform
from jmbs.identification.unknowns import bounds_of
from jmbs.identification.window_groups import WindowGroup, costs, groups_of
from jmbs.programs import cached_jit

LAST_PART = 0.25
FALLING = 0.01
"""A descent has converged whose cost fell by no more than this part in the last part of its passes."""
GROWING = 0.5
"""In this part of its passes at most the horizon of a descent with curvature grows to the whole of each recording."""
STILL, RECENT = 0.003, 0.7
"""A stage ends early where the cost falls by no more than STILL of itself a step, in the mean of recent steps: each
counts RECENT times what the one after it counts."""


class _Batch(eqx.Module):
    """Windows of a group: which, and what each counts."""

    chosen: Int[Array, " b"]
    weights: Float[Array, " b"]


class _Belief(eqx.Module):
    """What of an unknown the priors ask for."""

    transform: Transform
    prior: Prior | None = eqx.field(static=True)
    size: int = eqx.field(static=True)


@dataclasses.dataclass
class _State:
    """Where a descent is: the vector `z` (k,), what the optimiser remembers, the best cost after three quarters of the
    passes, and of a descent with curvature its `stage` and the mean part by which recent steps lowered its cost."""

    z: Array
    memory: list[Array]
    mark: float
    stage: int = 0
    fall: float = 1.0

    def arrays(self) -> dict[str, np.ndarray]:
        """All of it for a checkpoint."""
        memory = {f"memory{i}": np.asarray(leaf) for i, leaf in enumerate(self.memory)}
        return {name: np.asarray(getattr(self, name)) for name in ("z", "mark", "stage", "fall")} | memory


class GradientDescent:
    """A problem that is solved so. Vectors (k,) are those of the problem, then the states that windows start from, at
    first `starts`. Raises `ModelError` for recordings that cannot be cut."""

    def __init__(self, problem: FitProblem):
        self.problem, self.estimator = problem, problem.study.estimator
        self.optimiser = self.estimator.optimiser or Optimiser()
        self.groups, self.starts = groups_of(problem)
        self.dtype = problem.study.model.dtype
        self.samples = max(sum(experiment.samples() for experiment in problem.training), 1)
        blocks = problem.unknowns.blocks
        self.beliefs = tuple(_Belief(block.transform, block.prior, block.size) for block in blocks)
        free = np.full(len(self.starts), np.inf)
        lower, upper = bounds_of(blocks)
        self.bounds = [jnp.asarray(np.append(lower, -free)), jnp.asarray(np.append(upper, free))]
        self.windows = sum(group.size for group in self.groups)

    def batches(self, start: int, number: int) -> Iterator[tuple[WindowGroup, _Batch]]:
        """All windows once, shuffled in pass `number`; what fills a last batch up counts nothing."""
        rng = np.random.default_rng([self.problem.study.seed, start, number])
        found = []
        for group in self.groups:
            size = min(self.optimiser.batch or group.size, group.size)
            order = rng.permutation(group.size)
            for begin in range(0, group.size, size):
                chosen = order[begin : begin + size]
                counts = np.append(np.ones(len(chosen)), np.zeros(size - len(chosen)))
                chosen = np.append(chosen, np.resize(order, size - len(chosen)))
                found.append((group, chosen, counts * (self.windows / counts.sum())))
        for i in rng.permutation(len(found)):
            group, chosen, weights = found[i]
            yield group, _Batch(jnp.asarray(chosen), jnp.asarray(weights, self.dtype))

    @property
    def steps(self) -> int:
        """Of a pass."""
        return sum(-(-group.size // min(self.optimiser.batch or group.size, group.size)) for group in self.groups)

    def cost(self, z: Array) -> float:
        """Half the sum of squares at a vector: of all samples, gaps and priors; infinite where a run fails."""
        loss = self.estimator.loss, self.estimator.scale
        found = sum(float(_group_cost(group, z, *loss)) for group in self.groups) + float(_prior_cost(self.beliefs, z))
        return found if np.isfinite(found) else np.inf

    def passed(self, state: _State, start: int, number: int) -> tuple[_State, float, float]:
        """After one more pass over all windows; how far it went, and the largest change of a coordinate."""
        before, steps = np.asarray(state.z), self.steps
        z, memory = state.z, state.memory
        for i, (group, batch) in enumerate(self.batches(start, number)):
            rate = self.optimiser.rate(number * steps + i, self.estimator.max_iterations * steps)
            z, memory = _step(
                self.optimiser,
                self.beliefs,
                group,
                batch,
                z,
                memory,
                jnp.asarray(rate, self.dtype),
                jnp.asarray(self.samples, self.dtype),
                self.bounds,
                self.estimator.loss,
                self.estimator.scale,
            )
        moved = np.asarray(z) - before
        self.problem.counts.simulations += 2 * len(self.problem.training)
        self.problem.counts.jacobians += len(self.problem.training)
        return _State(z, memory, state.mark), float(np.linalg.norm(moved)), float(np.max(np.abs(moved), initial=0.0))

    def stage_of(self, state: _State, number: int) -> int:
        """The stage of a descent with curvature in a pass: the next one where its cost is still, or is due."""
        due = int(STAGES * number / (GROWING * self.estimator.max_iterations))
        return min(max(state.stage + (state.fall <= STILL), due), STAGES)

    def at_stage(self, state: _State, stage: int) -> tuple[GradientDescent, _State]:
        """The descent as one of its stages begins, anew at the same place, with steps that follow the motion which that
        stage looks at: a law that is being learned may fit what long steps get wrong."""
        x = np.asarray(state.z, float)[: len(self.problem.unknowns.first)]
        steps = self.problem.steps()
        problem = with_steps(self.problem, x, steps, PARTS[stage], keep=True)
        descent = GradientDescent(problem) if has_shorter_steps(problem, steps, training=True) else self
        return descent, _State(state.z, self.first_memory(state.z), np.inf, stage)

    def stepped(self, state: _State) -> tuple[_State, float, float]:
        """After one more step with curvature; how far it went, and the largest change of a coordinate."""
        at, fall, part = _descent_of(state), state.fall, PARTS[state.stage]

        def evaluate(z: np.ndarray) -> tuple[float, np.ndarray]:
            at, samples, share = (jnp.asarray(x, self.dtype) for x in (z, self.samples, part))
            loss = self.estimator.loss, self.estimator.scale
            cost, slope = _cost_and_slope(self.groups, self.beliefs, at, samples, share, *loss)
            return float(cost), np.asarray(slope, float)

        lower, upper = (np.asarray(bound, float) for bound in self.bounds)
        after, count = stepped(evaluate, at, lower, upper)
        self.problem.counts.simulations += 2 * count * len(self.problem.training)
        self.problem.counts.jacobians += count * len(self.problem.training)
        moved = after.z - at.z
        if np.isfinite(at.cost):
            latest = (at.cost - after.cost) / max(at.cost, np.finfo(float).tiny)
            fall = RECENT * fall + (1 - RECENT) * latest if np.any(moved) else 0.0
        memory = [jnp.asarray(x) for x in after.known()]
        found = _State(jnp.asarray(after.z, self.dtype), memory, state.mark, state.stage, fall)
        return found, float(np.linalg.norm(moved)), float(np.max(np.abs(moved), initial=0.0))

    def first_memory(self, z: Array) -> list[Array]:
        """What the optimiser remembers at first."""
        if self.optimiser.name == LBFGS:
            return [jnp.asarray(x) for x in Descent.at(np.asarray(z, float)).known()]
        return jax.tree.leaves(self.optimiser.first_memory(z))

    def first_state(self, position: Position) -> _State:
        """Where it starts, or goes on from a checkpoint."""
        z = jnp.asarray(np.concatenate([position.iterate.x, self.starts]), self.dtype)
        kept = position.memory
        # A second course goes on where the first one ended.
        second_course = position.start == self.estimator.starts
        whole = second_course or self.estimator.segments is not None or self.estimator.horizon == "full"
        memory = self.first_memory(z)
        if not kept:
            return _State(z, memory, np.inf, STAGES if whole else 0)
        found = [jnp.asarray(kept[f"memory{i}"], leaf.dtype) for i, leaf in enumerate(memory)]
        numbers = float(kept["mark"]), int(kept.get("stage", STAGES)), float(kept.get("fall", 1.0))
        return _State(jnp.asarray(kept["z"], self.dtype), found, *numbers)


def descend(problem: FitProblem, position: Position, seen: Callable[[Position, Progress], None]) -> Position:
    """Goes on from a position to the last pass; `seen` is called after each, with the best vector so far."""
    if position.iterate.stopped:
        return position
    descent, p = GradientDescent(problem), len(problem.unknowns.first)
    passes = descent.estimator.max_iterations
    state, begun = descent.first_state(position), bool(position.memory)
    curved = descent.optimiser.name == LBFGS
    best = position.iterate if begun else dataclasses.replace(position.iterate, cost=descent.cost(state.z))
    for number in range(best.iterations, passes):
        if curved:
            stage = descent.stage_of(state, number)
            if stage > state.stage:
                before, (descent, state) = descent, descent.at_stage(state, stage)
                if descent is not before:
                    cost = descent.cost(jnp.asarray(best.x, descent.dtype))  # it was that of longer steps
                    best = dataclasses.replace(best, cost=cost)
            state, step, change = descent.stepped(state)
        else:
            state, step, change = descent.passed(state, position.start, number)
        cost = descent.cost(state.z)
        better = cost < best.cost
        best = Iterate(
            np.asarray(state.z)[:p] if better else best.x,
            iterations=number + 1,
            evaluations=best.evaluations + 1,
            cost=cost if better else best.cost,
            step=step,
            change=change,
        )
        if number + 1 <= (1 - LAST_PART) * passes:
            state.mark = best.cost
        if number + 1 == passes:
            best = dataclasses.replace(best, stopped=_verdict(best.cost, state.mark))
        elif curved and not change and state.stage == STAGES:
            bottom = np.all(np.isfinite(state.memory[1])) and _verdict(best.cost, cost) == "converged"
            best = dataclasses.replace(best, stopped="converged" if bottom else "stuck")
        steps = descent.problem.steps()
        position = dataclasses.replace(position, iterate=best, memory=state.arrays(), steps=steps)
        done = position.before[0] + number + 1
        seen(position, Progress(1, 1, done, 2 * cost / descent.samples, step, change, passes - number - 1))
        if best.stopped:
            break
    return position


def _descent_of(state: _State) -> Descent:
    """What a state knows, with curvature."""
    cost, *known = (np.asarray(leaf, float) for leaf in state.memory)
    return Descent(np.asarray(state.z, float), float(cost), *known)


def _verdict(cost: float, mark: float) -> str:
    """`mark`: an earlier best cost, or that where the descent stands still; converged where `cost` is hardly lower."""
    if not np.isfinite(cost):
        return "stuck"
    return "converged" if mark - cost <= FALLING * cost else "limit"


def _prior_cost(beliefs: tuple[_Belief, ...], z: Float[Array, " k"]) -> Float[Array, ""]:
    own = z[: sum(belief.size for belief in beliefs)]
    return 0.5 * jnp.sum(prior_distances(beliefs, own) ** 2)


@cached_jit
def _group_cost(group: WindowGroup, z: Float[Array, " k"], loss: str, scale: float) -> Float[Array, ""]:
    return jnp.sum(costs(group, z, jnp.arange(group.size), loss, scale))


@cached_jit
def _cost_and_slope(
    groups: list[WindowGroup],
    beliefs: tuple[_Belief, ...],
    z: Float[Array, " k"],
    samples: Float[Array, ""],
    part: Float[Array, ""],
    loss: str,
    scale: float,
) -> tuple[Float[Array, ""], Float[Array, " k"]]:
    """Of all windows together, per sample, over a part of each where they are whole recordings."""

    def cost(z: Array) -> Array:
        found = _prior_cost(beliefs, z)
        for group in groups:
            looked_at = part if group.starts is None else None
            found = found + jnp.sum(costs(group, z, jnp.arange(group.size), loss, scale, looked_at))
        return found / samples

    return jax.value_and_grad(cost)(z)


@cached_jit
def _step(
    optimiser: Optimiser,
    beliefs: tuple[_Belief, ...],
    group: WindowGroup,
    batch: _Batch,
    z: Float[Array, " k"],
    memory: list[Array],
    rate: Float[Array, ""],
    samples: Float[Array, ""],
    bounds: list[Array],
    loss: str,
    scale: float,
) -> tuple[Float[Array, " k"], list[Array]]:
    """One step; it stays where a gradient is not finite."""

    def cost(z: Array) -> Array:
        own = jnp.sum(batch.weights * costs(group, z, batch.chosen, loss, scale))
        return (own + _prior_cost(beliefs, z)) / samples

    gradient = jax.grad(cost)(z)
    structure = jax.tree.structure(optimiser.first_memory(z))
    moved, after = optimiser.stepped(z, gradient, jax.tree.unflatten(structure, memory), rate)
    sound = jnp.all(jnp.isfinite(gradient))
    kept = [jnp.where(sound, new, old) for new, old in zip(jax.tree.leaves(after), memory, strict=True)]
    return jnp.where(sound, jnp.clip(moved, *bounds), z), kept
