"""The one program of a sweep: values of a chunk of members in, what is kept of them out."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array

from jmbs.simulation import (
    STATUS_NAMES,
    Model,
    State,
    Status,
    Trajectory,
    map_batch,
    simulate,
    simulate_batch,
    takes_adaptive_steps,
)
from jmbs.sweeping.keep import kept_of
from jmbs.sweeping.study import SweepStudy
from jmbs.sweeping.varied import move_the_start, with_varied


class Outcome(NamedTuple):
    """Of a member, or a chunk of them with an axis in front: what is `kept`, by variable, and what became of it."""

    kept: dict[str, Array]
    status: Status
    failure_time: Array


class MemberProgram:
    """Traces one member once; `compiled` makes the program of a chunk of any size."""

    def __init__(self, study: SweepStudy):
        self.study = study
        # Parameters are arguments, as in a fit: XLA would fold constants. One start serves all members where it can:
        # assembly is a third of the program of a mechanism with loops.
        start = None if move_the_start(study.model, study.varied) else study.model.initial_state()
        self.parameters, static = eqx.partition((study.model, start), eqx.is_array)
        times, rows = study.times()
        self.times, self.sample_times = times, times[rows]

        def varied(parameters: Any, values: dict[str, Array]) -> tuple[Model, State | None]:
            model, state = eqx.combine(parameters, static)
            return with_varied(model, study.varied, values), state

        def outcome(run: Trajectory) -> Outcome:
            return Outcome(kept_of(study.keep, run, times, rows), run.status, run.failure_time)

        def run(parameters: Any, values: dict[str, Array]) -> Trajectory:
            changed, state = varied(parameters, values)
            return simulate(changed, state, ts=times, audit=study.keep.needs_audit, throw=False)

        self._run, self._outcomes = run, jax.jit(jax.vmap(outcome))
        self._member = jax.jit(lambda parameters, values: outcome(run(parameters, values)))
        self._varied = lambda values: _given_start(*varied(self.parameters, values))
        self._compiled: dict[int, ChunkProgram] = {}

    @functools.cached_property
    def shapes(self) -> dict[str, jax.ShapeDtypeStruct]:
        """Shapes of what is kept of one member, by variable."""
        return jax.eval_shape(self._member, self.parameters, self._values(())).kept

    @property
    def member_bytes(self) -> int:
        """Of one member's values and of what is kept of it."""
        arrays = [*self._values(()).values(), *self.shapes.values()]
        return sum(int(np.prod(array.shape)) * array.dtype.itemsize for array in arrays)

    def compiled(self, chunk: int) -> ChunkProgram:
        """The program of `chunk` members."""
        if chunk not in self._compiled:
            self._compiled[chunk] = self._compile(chunk)
        return self._compiled[chunk]

    def _compile(self, chunk: int) -> ChunkProgram:
        if takes_adaptive_steps(self.study.model):
            run = jax.eval_shape(self._run, self.parameters, self._values(()))
            bytes = chunk * sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(run))
            return ChunkProgram(self._in_rounds, chunk, self.study.model.dtype, bytes)
        each = self._member

        def members(parameters: Any, values: dict[str, Array]) -> Outcome:
            return map_batch(functools.partial(each, parameters), values)

        program = jax.jit(members).lower(self.parameters, self._values((chunk,))).compile()
        memory: Any = program.memory_analysis()
        bytes = 0
        if memory is not None:
            bytes = memory.temp_size_in_bytes + memory.output_size_in_bytes + memory.argument_size_in_bytes
        return ChunkProgram(functools.partial(program, self.parameters), chunk, self.study.model.dtype, bytes)

    def _in_rounds(self, values: dict[str, np.ndarray]) -> Outcome:
        """Of members with adaptive steps: none waits for the slowest."""
        runs = simulate_batch(self._varied, values, ts=self.times, audit=self.study.keep.needs_audit)
        return self._outcomes(runs)

    def _values(self, lead: tuple[int, ...]) -> dict[str, jax.ShapeDtypeStruct]:
        dtype = self.study.model.dtype
        return {one.path: jax.ShapeDtypeStruct((*lead, *one.shape), dtype) for one in self.study.varied}


@functools.lru_cache(maxsize=2)
def member_program(study: SweepStudy) -> MemberProgram:
    """The programs of a study, which a sweep that goes on shares with the one before."""
    return MemberProgram(study)


def _given_start(model: Model, state: State | None) -> Any:
    """As `simulate_batch` takes them: the model alone where each member is assembled."""
    return model if state is None else (model, state)


class ChunkProgram(NamedTuple):
    """A program, how many members it takes, and the bytes that it takes while it runs: arguments, results and what is
    between, as its compiler counts; with adaptive steps those of the trajectories alone."""

    program: Callable[[dict[str, np.ndarray]], Outcome]
    chunk: int
    dtype: np.dtype
    bytes: int

    def __call__(self, values: dict[str, np.ndarray]) -> Outcome:
        """What becomes of members, up to `chunk` of them, with these values (n, ...) by path.

        Fewer are filled up with copies of the last one, so that the program stays the same.
        """
        size = len(next(iter(values.values())))
        fill = np.minimum(np.arange(self.chunk), size - 1)
        filled = {path: value[fill].astype(self.dtype) for path, value in values.items()}
        return self.program(filled)


def status_names(outcome: Outcome, size: int) -> list[str]:
    """Names of the first `size` members' statuses."""
    codes = np.asarray(jax.tree.leaves(outcome.status)[0])[:size]
    return [_name_of_code(int(code)) for code in codes]


@functools.cache
def _name_of_code(code: int) -> str:
    by_code = {int(np.asarray(jax.tree.leaves(getattr(Status, name))[0])): name for name in STATUS_NAMES}
    return by_code[code]


def on_host(outcome: Outcome, size: int) -> dict[str, np.ndarray]:
    """What is kept of the first `size` members and their times of failure, as numpy arrays; waits for it."""
    arrays = outcome.kept | {"failure_time": outcome.failure_time}
    return {name: np.asarray(array)[:size] for name, array in arrays.items()}
