"""A cart with two poles, hinged one above the other, as an environment: the only force is one along the rail."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

import jmbs
from jmbs.learning import Episode, ModelEnvironment
from jmbs.library.mechanics import SimulationSpec

LENGTH, FORCE = 0.6, 20.0
"""Of a pole, m; the largest on the cart, N."""
DT, SUBSTEPS = 0.04, 2
"""Time from one action to the next, s, and the steps of RK4 in it."""
JOINTS = ("rail", "hinge1", "hinge2")


def cart() -> jmbs.Model:
    """Cart 1 kg, poles 0.5 kg each; upright at zero. The second pole's angle is relative to the first."""
    mechanism = jmbs.Mechanism("cart", gravity=(0.0, 0.0, -9.81))
    mechanism.add_body("cart", 1.0, [0.01] * 3)
    rail = {"axis": (1.0, 0.0, 0.0), "friction": {"viscous": 0.1}}
    mechanism.add_joint("rail", "prismatic", "ground", "cart", actuation=0.0, **rail)
    parent, at = "cart", [0.0, 0.0, 0.0]
    for joint, pole in (("hinge1", "pole1"), ("hinge2", "pole2")):
        mechanism.add_body(pole, 0.5, [0.5 * LENGTH**2 / 12] * 2 + [1e-4])
        hinge = {"axis": (0.0, 1.0, 0.0), "friction": {"viscous": 0.005}}
        mechanism.add_joint(joint, "revolute", parent, pole, at, [0.0, 0.0, -LENGTH / 2], **hinge)
        parent, at = pole, [0.0, 0.0, LENGTH / 2]
    mechanism.set_initial(joints={"hinge1": {"q": [jnp.pi]}})
    mechanism.simulation = SimulationSpec(method="rk4", dt=DT / SUBSTEPS)
    return jmbs.compile(mechanism)


def coordinates(view) -> Float[Array, "6"]:
    """Positions, then rates, of the cart and of both hinges: m, rad, m/s, rad/s."""
    return jnp.concatenate([*(view.q[name] for name in JOINTS), *(view.v[name] for name in JOINTS)])


def start_at(z: Float[Array, "6"]) -> dict[str, Array]:
    """The initial values with these coordinates."""
    q = {f"initial/{name}/q": z[i : i + 1] for i, name in enumerate(JOINTS)}
    return q | {f"initial/{name}/v": z[i + 3 : i + 4] for i, name in enumerate(JOINTS)}


def upright(view) -> Float[Array, ""]:
    """How high the tip is above the lowest that it can be, 0 to 1."""
    a, b = view.q["hinge1"][0], view.q["hinge1"][0] + view.q["hinge2"][0]
    return (2 + jnp.cos(a) + jnp.cos(b)) / 4


def environment(
    model: jmbs.Model, horizon: int, spread: float, dt: float = DT, substeps: int = SUBSTEPS
) -> ModelEnvironment:
    """Episodes that start near to where the poles hang at rest: coordinates off by `spread`, rad, m, ..., rms."""

    def start(key: Array) -> dict[str, Array]:
        off = spread * jax.random.normal(key, (6,), model.dtype)
        return start_at(off.at[1].add(jnp.pi))

    return ModelEnvironment(
        model,
        actions={"rail/actuation": (-FORCE, FORCE)},
        observation=coordinates,
        reward=lambda view, action: upright(view),
        dt=dt,
        substeps=substeps,
        horizon=horizon,
        start=start,
    )


def next_coordinates(env: ModelEnvironment, z: Float[Array, "6"], w: Float[Array, ""]) -> Float[Array, "6"]:
    """Coordinates after a step with the force `FORCE tanh(w)`."""
    state = env.model.with_parameters(start_at(z)).initial_state()
    episode = Episode(state, jnp.zeros((), jnp.int32), jax.random.key(0))
    return env.advance(episode, FORCE * jnp.tanh(w)[None])[1]
