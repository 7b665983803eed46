"""Environments as gymnasium's, for libraries of reinforcement learning: one, and a batch of them in one program.

Arrays are numpy's. Member `i` of a batch that is reset with a seed is the single environment reset with `seed + i`.
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium.spaces import Box
from gymnasium.vector.utils import batch_space
from jaxtyping import Array

from jmbs.errors import ModelError
from jmbs.learning.environment import Episode, ModelEnvironment


class GymnasiumEnv(gymnasium.Env):
    """One environment. It does not start anew by itself."""

    metadata = {"render_modes": []}

    def __init__(self, environment: ModelEnvironment):
        self.environment = environment
        self.observation_space, self.action_space = _spaces(environment)
        self._reset = eqx.filter_jit(lambda environment, key: _begun(environment, key))
        self._step = eqx.filter_jit(lambda environment, episode, action: environment.advance(episode, action))
        self._episode: Episode | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        """Starts an episode: of a seed always the same one, else the one that follows. Takes no options."""
        _refuse_options(options)
        super().reset(seed=seed)
        if seed is None and self._episode is not None:
            key = self._episode.key
        else:
            key = jax.random.key(int(self.np_random.integers(2**31)) if seed is None else seed)
        self._episode, observation = self._reset(self.environment, key)
        return _numbers(observation), {}

    def step(self, action: Any):
        """See `gymnasium.Env.step`; `info` holds `steps` and `failed`."""
        action = jnp.asarray(action, self.environment.model.dtype)
        self._episode, observation, reward, *ended, info = self._step(self.environment, _begun_yet(self), action)
        info = {"steps": int(info["steps"]), "failed": bool(info["failed"])}
        return _numbers(observation), float(reward), *map(bool, ended), info


class GymnasiumVectorEnv(gymnasium.vector.VectorEnv):
    """A batch of environments in one program; members start anew in the step in which their episodes end.

    `infos` hold `steps` and `failed`; where an episode ended also `final_obs`, the last observation of each that did,
    and `final_info`, as gymnasium's same-step mode has them.
    """

    metadata = {"render_modes": [], "autoreset_mode": gymnasium.vector.AutoresetMode.SAME_STEP}

    def __init__(self, environment: ModelEnvironment, num_envs: int):
        if isinstance(num_envs, bool) or not isinstance(num_envs, int) or num_envs < 1:
            raise ModelError("num_envs", repr(num_envs), "a positive whole number")
        self.environment, self.num_envs = environment, num_envs
        self.single_observation_space, self.single_action_space = _spaces(environment)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._reset = eqx.filter_jit(eqx.filter_vmap(_begun, in_axes=(None, 0)))
        each = lambda environment, episode, action: environment.step(episode, action)  # noqa: E731
        self._step = eqx.filter_jit(eqx.filter_vmap(each, in_axes=(None, 0, 0)))
        self._episode: Episode | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        """Starts all episodes: of a seed always the same ones. Takes no options."""
        _refuse_options(options)
        super().reset(seed=seed)
        if seed is None and self._episode is not None:
            keys = self._episode.key
        else:
            first = int(self.np_random.integers(2**31)) if seed is None else seed
            keys = jax.vmap(jax.random.key)(first + jnp.arange(self.num_envs))
        self._episode, observation = self._reset(self.environment, keys)
        return _numbers(observation), {}

    def step(self, actions: Any):
        """See `gymnasium.vector.VectorEnv.step`."""
        actions = jnp.asarray(actions, self.environment.model.dtype)
        if actions.shape != self.action_space.shape:
            raise ModelError("actions", f"shape {actions.shape}", f"{self.action_space.shape}, one of each environment")
        self._episode, *seen, info = self._step(self.environment, _begun_yet(self), actions)
        observation, reward, terminated, truncated, final, steps, failed = jax.tree.map(
            _numbers, (*seen, info["final_observation"], info["steps"], info["failed"])
        )
        everywhere = np.ones(self.num_envs, bool)
        infos: dict[str, Any] = {"steps": steps, "_steps": everywhere, "failed": failed, "_failed": everywhere}
        ended = terminated | truncated
        if ended.any():
            last = np.full(self.num_envs, None, dtype=object)
            for i in np.flatnonzero(ended):
                last[i] = final[i]
            infos |= {"final_obs": last, "_final_obs": ended, "_final_info": ended}
            infos["final_info"] = {"steps": steps, "_steps": ended, "failed": failed, "_failed": ended}
        return observation, reward, terminated, truncated, infos


def _begun(environment: ModelEnvironment, key: Array) -> tuple[Episode, Array]:
    """An episode and what is observed at its start."""
    episode = environment.reset(key)
    return episode, environment.observe(episode)


def _refuse_options(options: dict[str, Any] | None) -> None:
    if options:
        raise ModelError("reset/options", ", ".join(map(str, options)), "none; seeds decide how episodes start")


def _begun_yet(env: GymnasiumEnv | GymnasiumVectorEnv) -> Episode:
    if env._episode is None:
        raise ModelError("step", "no episode", "reset() before the first step")
    return env._episode


def _numbers(array: Array) -> np.ndarray:
    """A copy that stays as it is, and may be written to."""
    return np.array(array)


def _spaces(environment: ModelEnvironment) -> tuple[Box, Box]:
    """Of observations and of actions. Raises `ModelError` where an observation is no array."""
    _, seen = eqx.filter_eval_shape(_begun, environment, jax.random.key(0))
    if not isinstance(seen, jax.ShapeDtypeStruct):
        raise ModelError("observation", f"a {type(seen).__name__}", "one array, as gymnasium's boxes are")
    dtype: Any = environment.model.dtype
    low, high = (np.asarray(limit, dtype) for limit in (environment.actions.low, environment.actions.high))
    seen_dtype: Any = np.dtype(seen.dtype)
    return Box(-np.inf, np.inf, seen.shape, seen_dtype), Box(low, high, dtype=dtype)
