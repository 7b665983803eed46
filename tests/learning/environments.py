"""A pendulum that is driven, as an environment whose programs are small."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp

import jmbs
from jmbs.learning import ModelEnvironment
from jmbs.library.mechanics import SimulationSpec


def pendulum(precision: str = "float64") -> jmbs.Model:
    """A rod that hangs on a driven hinge; explicit Euler, so that programs compile soon."""
    mechanism = jmbs.Mechanism("pendulum", gravity=(0.0, 0.0, -9.81))
    mechanism.add_body("rod", mass=1.0, inertia=[0.1, 0.1, 0.01])
    hinge = {"child_frame": [0.0, 0.0, 0.5], "axis": (0.0, 1.0, 0.0), "friction": {"viscous": 0.1}}
    mechanism.add_joint("hinge", "revolute", "ground", "rod", actuation=0.0, **hinge)
    mechanism.set_initial(joints={"hinge": {"q": [0.5]}})
    mechanism.simulation = SimulationSpec(method="euler", dt=0.01, precision=precision)
    return jmbs.compile(mechanism)


def observation(view):
    q = view.q["hinge"]
    return jnp.concatenate([jnp.sin(q), jnp.cos(q), view.v["hinge"]])


def reward(view, action):
    return -jnp.sum(view.q["hinge"] ** 2) - 0.01 * jnp.sum(action**2)


def fallen(view):
    return jnp.abs(view.q["hinge"][0]) > 1.0


def start(key):
    q, v = jax.random.uniform(key, (2, 1), minval=-0.5, maxval=0.5)
    return {"initial/hinge/q": q, "initial/hinge/v": v}


def environment(precision: str = "float64", **changes) -> ModelEnvironment:
    """The pendulum, whose episodes end after four steps or beyond one radian."""
    settings = {"dt": 0.05, "substeps": 2, "horizon": 4, "terminated": fallen, "start": start, "failure_reward": -7.0}
    functions = {"observation": observation, "reward": reward, "actions": {"hinge/actuation": (-2.0, 2.0)}}
    return ModelEnvironment(pendulum(precision), **(settings | functions | changes))


def episodes(env: ModelEnvironment, count: int):
    """Starts of that many episodes."""
    return eqx.filter_jit(eqx.filter_vmap(env.reset))(jax.vmap(jax.random.key)(jnp.arange(count)))
