"""What an environment costs beside its dynamics, and steps per second beside C MuJoCo's own batched rollout.

A cart with two poles under random forces, RK4; all in float64 on one thread, in turns, by the CPU's time, since other
programs may use the machine. `python -m experiments.benchmarks.learning_environment`, from the root of the project.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

import jmbs
from experiments.cart_two_poles.cart import FORCE, cart, environment, start_at
from jmbs.jaxext import ask_for_speed
from jmbs.learning import Episode, ModelEnvironment

HORIZON = 500
"""Steps of an episode; members are at random places of theirs, so some begin anew in most steps of a batch."""
MJCF = """
<mujoco>
  <option timestep="{timestep}" integrator="RK4" gravity="0 0 -9.81"><flag contact="disable"/></option>
  <worldbody>
    <body>
      <joint name="rail" type="slide" axis="1 0 0" damping="0.1"/>
      <inertial pos="0 0 0" mass="1" diaginertia="0.01 0.01 0.01"/>
      <body>
        <joint name="hinge1" axis="0 1 0" damping="0.005"/>
        <inertial pos="0 0 0.3" mass="0.5" diaginertia="0.015 0.015 0.0001"/>
        <body pos="0 0 0.6">
          <joint name="hinge2" axis="0 1 0" damping="0.005"/>
          <inertial pos="0 0 0.3" mass="0.5" diaginertia="0.015 0.015 0.0001"/>
        </body>
      </body>
    </body>
  </worldbody>
  <actuator><motor joint="rail" ctrlrange="-{force} {force}" ctrllimited="true"/></actuator>
</mujoco>
"""

Run = Callable[[], Any]


def starts(env: ModelEnvironment, z: Array, rng: np.random.Generator) -> Episode:
    """Episodes at coordinates (members, 6), at random numbers of steps."""
    states = jax.jit(jax.vmap(lambda z: env.model.with_parameters(start_at(z)).initial_state()))(z)
    steps = jnp.asarray(rng.integers(0, HORIZON - 1, len(z)), jnp.int32)
    return Episode(states, steps, jax.random.split(jax.random.key(0), len(z)))


def by_environment(env: ModelEnvironment, episodes: Episode, actions: Array) -> Run:
    """Steps of the environment, whose observations and rewards are kept."""

    def member(given: tuple[Episode, Array]) -> Any:
        def step(episode: Episode, action: Array) -> Any:
            episode, observation, reward, terminated, truncated, _ = env.step(episode, action)
            return episode, (observation, reward, terminated, truncated)

        episode, seen = jax.lax.scan(step, *given)
        return episode.motion, seen

    run = jax.jit(lambda *given: jmbs.map_batch(member, given))
    return lambda: jax.block_until_ready(run(episodes, actions))


def by_steps(env: ModelEnvironment, episodes: Episode, actions: Array) -> Run:
    """The same steps of the model alone, whose last states are kept."""

    def member(given: tuple[Any, Array]) -> Any:
        def held(state: Any, action: Array) -> Any:
            inputs = env.actions.inputs(action)
            step = lambda state, _: (env.model.step(state, inputs, env.dt / env.substeps), None)  # noqa: E731
            return jax.lax.scan(step, state, length=env.substeps)[0], None

        return jax.lax.scan(held, *given)[0]

    run = jax.jit(lambda *given: jmbs.map_batch(member, given))
    return lambda: jax.block_until_ready(run(episodes.motion, actions))


def by_mujoco(env: ModelEnvironment, z: np.ndarray, actions: np.ndarray) -> Run:
    """The same steps of the same model by C MuJoCo's rollout, on one thread."""
    import mujoco
    from mujoco import rollout

    model = mujoco.MjModel.from_xml_string(MJCF.format(timestep=env.dt / env.substeps, force=FORCE))
    data = mujoco.MjData(model)
    first = np.concatenate([np.zeros((len(z), 1)), z], axis=1)
    control = np.repeat(actions, env.substeps, axis=1)
    return lambda: rollout.rollout(model, [data], first, control)


def in_turns(runs: dict[str, Run], repeats: int) -> dict[str, float]:
    """Least seconds of the CPU that each run took."""
    for run in runs.values():
        run()
    seconds = dict.fromkeys(runs, float("inf"))
    for _ in range(repeats):
        for name, run in runs.items():
            began = time.process_time()
            run()
            seconds[name] = min(seconds[name], time.process_time() - began)
    return seconds


def measured(env: ModelEnvironment, size: int, steps: int, repeats: int) -> dict[str, float]:
    """Microseconds per member and step of each way; how far two of them are apart at the end, `difference`."""
    rng = np.random.default_rng(0)
    z = 0.3 * rng.normal(size=(size, 6)) + np.array([0.0, np.pi, 0.0, 0.0, 0.0, 0.0])
    actions = rng.uniform(-10.0, 10.0, (size, steps, 1))
    episodes = starts(env, jnp.asarray(z), rng)
    given = env, episodes, jnp.asarray(actions)
    runs = {"environment": by_environment(*given), "steps": by_steps(*given), "MuJoCo": by_mujoco(env, z, actions)}
    ends = jax.vmap(lambda s: jnp.concatenate([*(s.q[name] for name in ("rail", "hinge1", "hinge2"))]))(runs["steps"]())
    theirs = runs["MuJoCo"]()[0][:, -1, 1:4]
    seconds = in_turns(runs, repeats)
    difference = float(np.median(np.max(np.abs(ends - theirs), axis=1)))
    return {name: 1e6 * s / (size * steps) for name, s in seconds.items()} | {"difference": difference}


def main(argv: list[str] | None = None) -> list[dict[str, float]]:
    """Prints a table, and returns its rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=int, nargs="+", default=[256, 4096], help="members")
    parser.add_argument("--steps", type=int, default=50, help="of the environment in a run")
    parser.add_argument("--substeps", type=int, default=5, help="steps of the method in one of the environment")
    parser.add_argument("--timestep", type=float, default=0.01, help="of the method, s")
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args(argv)
    jax.config.update("jax_enable_x64", True)
    ask_for_speed()
    env = environment(cart(), HORIZON, 0.3, options.timestep * options.substeps, options.substeps)
    print("| batch | environment, us | steps alone, us | overhead | MuJoCo, us | env. steps/s | MuJoCo's | apart |")
    print("|---|---|---|---|---|---|---|---|", flush=True)
    rows = []
    for size in options.batch:
        row = measured(env, size, options.steps, options.repeats)
        ours, alone, theirs = row["environment"], row["steps"], row["MuJoCo"]
        print(
            f"| {size} | {ours:.2f} | {alone:.2f} | {100 * (ours / alone - 1):.0f} % | {theirs:.2f} |"
            f" {1e6 / ours:.3g} | {1e6 / theirs:.3g} | {row['difference']:.1e} |",
            flush=True,
        )
        rows.append(row)
    return rows


if __name__ == "__main__":
    main()
