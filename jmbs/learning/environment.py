"""A model as an environment of reinforcement learning: pure functions of arrays; episodes start anew by themselves.

`jit`, `vmap`, `scan` and derivatives apply: a policy is trained by gradients through the simulation, or without.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PyTree

from jmbs.errors import ModelError
from jmbs.fusing import fused
from jmbs.jaxext import any_member
from jmbs.learning.actions import Actions, actions_of
from jmbs.learning.guarded import guarded
from jmbs.library.mechanics import count
from jmbs.simulation import Model, MotionView, State, known_number, require_instance, run_view

Transition = tuple["Episode", PyTree, Float[Array, ""], Bool[Array, ""], Bool[Array, ""], dict[str, Any]]
"""Episode, observation, reward, whether it terminated, whether it was truncated, and what else is known."""


class Episode(eqx.Module):
    """Where an episode is; a pytree.

    **Arguments:** the `motion`; `steps` since the start; the `key` from which the next episodes will come.
    """

    motion: State
    steps: Int[Array, ""]
    key: Array


class ModelEnvironment(eqx.Module):
    """A model, what acts on it, what is seen and what is wanted.

    The functions `observation(view)`, `reward(view, action)` and `terminated(view)` look at the state after a step by
    names, as drives do: `view.q["hinge"]`, `view.v`, `view.position["pole"]`; see `jmbs.simulation.MotionView`.

    A member that fails, whose state is not finite after a step, terminates: it keeps the last finite state, gets
    `failure_reward`, and has no part in gradients. Other members of the batch do not notice.

    **Arguments:**

    - `model`.
    - `actions`: port path to limits `(low, high)`, each a number or one per entry; an action is one vector of all
      entries, in this order, clipped to the limits and held over a step.
    - `observation`: gives an array, or a pytree of some.
    - `reward`: gives a number. `terminated`: gives whether the episode ends here, such as by a fall; None: never.
    - `dt` s: from one action to the next, in `substeps` steps of the model's method.
    - `horizon`: steps after which an episode is truncated; None: never.
    - `start`: a function of a key that gives values of `initial/...` by path, or a `State`; None: the model's own
      initial state.
    - `failure_reward`.

    Raises `ModelError` for wrong arguments.
    """

    model: Model
    actions: Actions
    observation: Callable[[MotionView], PyTree]
    reward: Callable[[MotionView, Array], Any]
    terminated: Callable[[MotionView], Any] | None
    start: Callable[[Array], Any] | None
    dt: float = eqx.field(static=True)
    substeps: int = eqx.field(static=True)
    horizon: int | None = eqx.field(static=True)
    failure_reward: float = eqx.field(static=True)

    def __init__(
        self,
        model: Model,
        *,
        actions: Mapping[str, Any],
        observation: Callable[[MotionView], PyTree],
        reward: Callable[[MotionView, Array], Any],
        dt: float,
        terminated: Callable[[MotionView], Any] | None = None,
        substeps: int = 1,
        horizon: int | None = None,
        start: Callable[[Array], Any] | None = None,
        failure_reward: float = 0.0,
    ):
        require_instance("model", model, Model, "a Model, which jmbs.compile(system) gives")
        given = {"observation": observation, "reward": reward, "terminated": terminated, "start": start}
        for name, function in given.items():
            if not callable(function) and (function is not None or name in ("observation", "reward")):
                raise ModelError(name, repr(function), "a function")
        self.model, self.actions = model, actions_of(model, actions)
        self.observation, self.reward, self.terminated, self.start = observation, reward, terminated, start
        self.dt = known_number("dt", dt, "s", positive=True)
        self.substeps = count("substeps", substeps)
        self.horizon = None if horizon is None else count("horizon", horizon)
        self.failure_reward = float(failure_reward)

    def reset(self, key: Array) -> Episode:
        """The start of an episode, which the key decides. Raises `ModelError` for what is no key."""
        dtype = getattr(key, "dtype", None)
        is_key = dtype is not None and jnp.issubdtype(dtype, jax.dtypes.prng_key) and key.shape == ()
        if not (is_key or (dtype == np.uint32 and key.shape == jax.random.key_data(jax.random.key(0)).shape)):
            found = repr(key) if dtype is None else f"an array {dtype} of shape {key.shape}"
            raise ModelError("key", found, "one key, such as jax.random.key(0)")
        own, later = jax.random.split(key)
        return Episode(self._first(own), jnp.zeros((), jnp.int32), later)

    def observe(self, episode: Episode) -> PyTree:
        """What is observed now; a step gives it too."""
        return fused(self._observed, episode.motion, episode.steps)

    def _observed(self, motion: State, steps: Array) -> PyTree:
        return self.observation(self._view(motion, steps))

    def step(self, episode: Episode, action: Float[Array, " n"]) -> Transition:
        """One step; where it ends an episode, the next one begins at once.

        Gives the episode, its observation (where a new one has begun, the first of that), reward, `terminated`,
        `truncated`, and a dictionary: `final_observation`, what was observed at the end of the step, before a new
        episode began; `steps`, of the episode that the step belongs to; `failed`.
        """
        moved, observation, reward, terminated, truncated, info = self.advance(episode, action)
        after, seen = self._renewed(terminated | truncated, moved, observation)
        return after, seen, reward, terminated, truncated, info

    def advance(self, episode: Episode, action: Float[Array, " n"]) -> Transition:
        """The same without a new episode: who calls it looks after the ends."""
        action = self.actions.limited(action, self.model.dtype)
        steps = episode.steps + 1
        motion, observation, reward, terminated, fine = fused(self._moved, episode.motion, episode.steps, action)
        truncated = jnp.zeros((), bool) if self.horizon is None else steps >= self.horizon
        info = {"final_observation": observation, "steps": steps, "failed": ~fine}
        return Episode(motion, steps, episode.key), observation, reward, terminated, truncated, info

    def _moved(self, motion: State, steps: Array, action: Array) -> tuple[State, PyTree, Array, Array, Array]:
        """The state after a step, its observation, reward, whether the episode ends, and whether the step is finite."""
        # Without the environment itself, whose arrays may be differentiated: all such are arguments here.
        held = functools.partial(_held, self.actions, self.dt, self.substeps)
        arrived, fine = guarded(held, self.model, motion, action, self._time(steps))
        motion = jax.tree.map(lambda new, old: jnp.where(fine, new, old), arrived, motion)
        view = self._view(motion, steps + 1)
        reward = _scalar("reward", self.reward(view, action), self.model.dtype)
        reward = jnp.where(fine, reward, jnp.asarray(self.failure_reward, self.model.dtype))
        ended = jnp.zeros((), bool) if self.terminated is None else jnp.asarray(self.terminated(view))
        if ended.shape != () or ended.dtype != bool:
            raise ModelError("terminated", f"an array {ended.dtype} of shape {ended.shape}", "true or false")
        return motion, self.observation(view), reward, ended | ~fine, fine

    def _renewed(self, ended: Array, episode: Episode, observation: PyTree) -> tuple[Episode, PyTree]:
        """A new episode and its observation where one has ended. Costs little in steps in which none has."""

        def begin() -> tuple[Episode, PyTree]:
            new = self.reset(episode.key)
            both = (new, self.observe(new)), (episode, observation)
            return jax.tree.map(lambda fresh, old: jnp.where(ended, fresh, old), *both)

        return jax.lax.cond(any_member(ended), begin, lambda: (episode, observation))

    def _first(self, key: Array) -> State:
        given = {} if self.start is None else self.start(key)
        if isinstance(given, State):
            return State(given.blocks, given.names, self.model.layout.joint_states)
        if not isinstance(given, Mapping) or not all(path.startswith("initial/") for path in given):
            wanted = "a State, or a mapping of paths below initial/; parameters are those of the environment's model"
            raise ModelError("start", repr(given), wanted)
        return fused(lambda given: self.model.with_parameters(given).initial_state(), given)

    def _time(self, steps: Array) -> Float[Array, ""]:
        dtype = self.model.dtype
        return jnp.asarray(self.model.settings.t0, dtype) + steps.astype(dtype) * jnp.asarray(self.dt, dtype)

    def _view(self, motion: State, steps: Array) -> MotionView:
        return run_view(self.model, motion, self._time(steps))


def _held(
    actions: Actions, dt: float, substeps: int, model: Model, motion: State, action: Array, began: Array
) -> State:
    """The state after a step of `dt` (s) with the action held."""
    return model.step(motion, actions.inputs(action), dt, began, steps=substeps)


def _scalar(path: str, value: Any, dtype: Any) -> Array:
    value = jnp.asarray(value)
    if value.shape != ():
        raise ModelError(path, f"an array of shape {value.shape}", "one number")
    return value.astype(dtype)
