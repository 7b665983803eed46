"""What loops over steps share: how saved times and what is kept there are addressed, and what a run leaves behind."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from jmbs.solvers.munthe_kaas import MuntheKaas


class Problem(NamedTuple):
    """What is integrated.

    **Arguments:** `term`: velocities `(t, y, args)`; `solver`; `args`; `times` (s), from the start on, on which steps
    end and where states are kept; `slopes`: whether velocities are kept there too; `event`: functions
    `(t, y, args) -> (roots,)` whose first root ends the run, or None.
    """

    term: diffrax.AbstractTerm
    solver: MuntheKaas
    args: PyTree
    times: Float[Array, " times"]
    slopes: bool
    event: Any = None

    @property
    def ends(self) -> Float[Array, " times"]:
        """Where the interval ends that starts at each of the times; the last one leads nowhere."""
        return jnp.append(self.times[1:], self.times[-1])

    def velocity(self, t: Float[Array, ""], y: PyTree) -> Float[Array, " n"]:
        """That of a state, if velocities are kept; else nothing."""
        return self.term.vf(t, y, self.args) if self.slopes else jnp.zeros(0, self.times.dtype)


class Event(NamedTuple):
    """Whether an event was `found`; the `row` of saved states that is the one there; its `time`, s, NaN if there was
    none; `which` of the functions had the root."""

    found: Bool[Array, ""]
    row: Int[Array, ""]
    time: Float[Array, ""]
    which: Int[Array, ""]


class Run(NamedTuple):
    """**Arguments:** states at saved times, `(times, ...)`, NaN after a failure or an event; the velocities there,
    `(0, n)` if they were not asked for; time (s) and state at the end, or at the failure; diffrax's result; the numbers
    of steps that were accepted and rejected; the event, None where none was waited for."""

    saved: PyTree
    slopes: Float[Array, "times n"]
    end: tuple[Float[Array, ""], PyTree]
    result: Any
    accepted: Int[Array, ""]
    rejected: Int[Array, ""]
    event: Event | None = None


class Steps(Protocol):
    """A way to step. What it needs from step to step is the *carry*, of which `row` is the saved time passed last."""

    def start(self, problem: Problem, y0: PyTree) -> Any:
        """The carry before the first step."""
        ...

    def advance(self, problem: Problem, carry: Any, stop: Int[Array, ""] | None = None) -> Any:
        """The carry at the saved time of number `stop`, or at the end; or where the run failed, or before an event."""
        ...

    def run(self, carry: Any) -> Run:
        """What the run leaves behind."""
        ...


def with_differentiable_stages(problem: Problem) -> Problem:
    """With an implicit method's loop over stages in a form that both modes of differentiation go through."""
    solver = problem.solver
    if not hasattr(solver.solver, "scan_kind"):
        return problem
    bounded = eqx.tree_at(lambda s: s.solver.scan_kind, solver, "bounded", is_leaf=lambda leaf: leaf is None)
    return problem._replace(solver=bounded)


def as_row(y: PyTree) -> Float[Array, " size"]:
    """All numbers of a state, one after the other: a loop that keeps states then has one array of them."""
    return jnp.concatenate([leaf.ravel() for leaf in jax.tree.leaves(y)])


def finite_start(row: Float[Array, " size"]) -> Any:
    """The result that a run starts with: failed where the numbers of its first state are not all finite."""
    results = diffrax.RESULTS
    return results.where(jnp.all(jnp.isfinite(row)), results.successful, results.nonfinite)  # pyright: ignore[reportArgumentType]


def as_states(rows: Float[Array, "times size"], y: PyTree) -> PyTree:
    """States `(times, ...)` from their rows; `y`: a state."""
    leaves, structure = jax.tree.flatten(y)
    found = jax.lax.split(rows, [leaf.size for leaf in leaves], axis=1)
    return structure.unflatten(x.reshape(len(rows), *leaf.shape) for x, leaf in zip(found, leaves, strict=True))


def entry(x: Array, i: Int[Array, ""]) -> Array:
    """`x[i]` for an index that is not negative."""
    return jax.lax.dynamic_index_in_dim(x, i, keepdims=False, allow_negative_indices=False)
