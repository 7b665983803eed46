"""Swing a cart with two poles up: motion and feedback by derivatives of the simulation, from ten random starts."""

from __future__ import annotations

import argparse
import json
import time
from functools import partial
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from cart import DT, FORCE, LENGTH, cart, environment, next_coordinates
from jaxtyping import Array, Float
from matplotlib.figure import Figure
from optimise import Plan, first_plan, rounds

from jmbs.jaxext import ask_for_quick_compiling

HERE = Path(__file__).parent
HANG = np.array([0.0, np.pi, 0.0, 0.0, 0.0, 0.0])
ROUNDS, ENOUGH = 25, 1e-3
"""Rounds between two looks at the cost, and the part of it below which its fall ends the optimisation."""
SOLVED = 0.95
"""Of the episodes on which a policy is tried, how many must end upright."""


class Policy(eqx.Module):
    """Feedback about a planned motion, then about the goal.

    **Arguments:** the motion `z` (H + 1, 6), its actions `w` (H,), gains `K` (H, 6) along it and `hold` (6,) after it.
    """

    z: Float[Array, "H+1 6"]
    w: Float[Array, " H"]
    K: Float[Array, "H 6"]
    hold: Float[Array, "6"]

    def __call__(self, z: Float[Array, "6"], step: Array) -> Float[Array, "1"]:
        """The force, N, at coordinates `z` in a step of this number."""
        i = jnp.minimum(step, len(self.w) - 1)
        swing = self.w[i] + self.K[i] @ (z - self.z[i])
        turn = 2 * jnp.pi * jnp.round(self.z[-1] / (2 * jnp.pi)) * jnp.array([0.0, 1.0, 1.0, 0.0, 0.0, 0.0])
        w = jnp.where(step < len(self.w), swing, self.hold @ (z - turn))
        return FORCE * jnp.tanh(w)[None]


def planned(improve: Any, plan: Plan, most: int) -> tuple[Plan, int]:
    """The plan improved until its cost hardly falls, and how many rounds that took."""
    done, before = 0, float("inf")
    while done < most and not (done >= 4 * ROUNDS and before - float(plan.cost) < ENOUGH * before):
        before = float(plan.cost)
        plan, done = improve(plan, ROUNDS)[0], done + ROUNDS
    return plan, done


def gains(improve: Any, plan: Plan) -> Array:
    """Those of the feedback about a plan (H, 6), not regularised."""
    return improve(plan._replace(damping=jnp.zeros(())), 1)[1]


def holding_gain(improve: Any, horizon: int) -> Array:
    """That which keeps the poles upright (6,): the first of a plan that stands still at the goal."""
    nothing = jnp.zeros(())
    return gains(improve, Plan(jnp.zeros((horizon + 1, 6)), jnp.zeros(horizon), nothing, nothing))[0]


def rollout(env: Any, policy: Policy, keys: Array, steps: int) -> tuple[Array, Array]:
    """Coordinates (members, steps + 1, 6) and forces (members, steps) of episodes under the policy."""

    def one(key: Array) -> tuple[Array, Array]:
        first = env.reset(key)

        def step(carry, number):
            episode, z = carry
            force = policy(z, number)
            episode, z, *_ = env.step(episode, force)
            return (episode, z), (z, force[0])

        z0 = env.observe(first)
        _, (z, force) = jax.lax.scan(step, (first, z0), jnp.arange(steps))
        return jnp.concatenate([z0[None], z]), force

    return jax.vmap(one)(keys)


def is_up(z: Float[Array, "members steps 6"], last: int) -> np.ndarray:
    """By member whether both poles were within 0.1 rad of upright, and the cart within 1 m, for the last steps."""
    z = np.asarray(z[:, -last:])
    absolute = np.stack([z[..., 1], z[..., 1] + z[..., 2]], axis=-1)
    off = np.abs((absolute + np.pi) % (2 * np.pi) - np.pi)
    return np.all(off < 0.1, axis=(1, 2)) & np.all(np.abs(z[..., 0]) < 1.0, axis=1)


def draw(z: np.ndarray, force: np.ndarray, first: np.ndarray, steps: int, target: Path) -> None:
    """Above the poles every third step of one swing-up; below angles of all members, and the force of one."""
    figure = Figure(figsize=(9, 8.5), layout="constrained")
    panels = figure.subplot_mosaic(
        [["poles", "poles"], ["angles", "angles"], ["force", "cart"]], height_ratios=(3, 2, 2)
    )
    poles, angles = panels["poles"], panels["angles"]
    for i in range(0, steps + 1, 2):
        x, a, b = first[i, 0], first[i, 1], first[i, 1] + first[i, 2]
        xs = np.cumsum([x, LENGTH * np.sin(a), LENGTH * np.sin(b)])
        ys = np.cumsum([0.0, LENGTH * np.cos(a), LENGTH * np.cos(b)])
        shade = figure_colour(i / steps)
        poles.plot(xs[:2], ys[:2], color=shade, lw=1.4)
        poles.plot(xs[1:], ys[1:], color=shade, lw=1.4)
        poles.plot(xs[2], ys[2], "o", color=shade, ms=3)
        poles.plot(xs[0], 0.0, "s", color=shade, ms=5)
    poles.axhline(0.0, color="0.7", lw=0.8, zorder=0)
    poles.set(aspect="equal", xlabel="along the rail (m)", ylabel="height (m)")
    poles.set_title(f"every {2 * DT:.2f} s of the first {steps * DT:.1f} s, from dark to light", fontsize=10)
    t = DT * np.arange(z.shape[1])
    for member in z:
        angles.plot(t, member[:, 1], color="tab:blue", lw=0.5, alpha=0.5)
        angles.plot(t, member[:, 1] + member[:, 2], color="tab:orange", lw=0.5, alpha=0.5)
        panels["cart"].plot(t, member[:, 0], color="0.3", lw=0.5, alpha=0.5)
    for row in force:
        panels["force"].plot(t[:-1], row, color="0.3", lw=0.5, alpha=0.5)
    turns = np.arange(np.floor(z[..., 1:3].min() / np.pi), np.ceil(z[..., 1:2].max() / np.pi) + 2)
    angles.plot([], [], color="tab:blue", label="lower pole")
    angles.plot([], [], color="tab:orange", label="upper pole")
    angles.set(yticks=turns * np.pi, yticklabels=[f"{int(n)} pi" for n in turns])
    angles.set(xlabel="time (s)", ylabel="angle from upright (rad)")
    angles.legend(frameon=False)
    panels["force"].set(xlabel="time (s)", ylabel="force (N)")
    panels["cart"].set(xlabel="time (s)", ylabel="cart (m)")
    figure.savefig(target, dpi=80)


def figure_colour(part: float) -> tuple[float, float, float, float]:
    """From dark to light as time goes on."""
    from matplotlib import colormaps

    return colormaps["viridis"](0.95 * part)


def main(argv: list[str] | None = None) -> dict[str, Any]:
    """Runs the experiment, writes `result.json` and `figures/`, and returns what `result.json` holds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=HERE, help="where result.json and figures/ go")
    parser.add_argument("--seeds", type=int, default=10, help="how many random seeds")
    parser.add_argument("--horizon", type=float, default=4.0, help="s, of the planned motion")
    parser.add_argument("--after", type=float, default=4.0, help="s, for which the poles are held upright then")
    parser.add_argument("--members", type=int, default=64, help="starts on which policies are tried, twice")
    parser.add_argument(
        "--spread", type=float, default=0.05, help="of these starts about rest, rad, m, rad/s, m/s, rms"
    )
    parser.add_argument("--attempts", type=int, default=3, help="first motions of a seed, at most")
    parser.add_argument("--most", type=int, default=500, help="rounds of the optimisation, at most")
    options = parser.parse_args(argv)
    jax.config.update("jax_enable_x64", True)
    ask_for_quick_compiling()

    last = round(2.0 / DT)
    horizon, steps = round(options.horizon / DT), round((options.horizon + options.after) / DT)
    env = environment(cart(), steps + 1, options.spread)
    step = partial(next_coordinates, env)
    begin = jax.jit(lambda key: first_plan(step, jnp.asarray(HANG), key, horizon))
    improve = jax.jit(lambda plan, count: rounds(step, plan, count))
    trial = eqx.filter_jit(lambda policy, keys: rollout(env, policy, keys, steps))
    clock = time.process_time()
    plan, hold = begin(jax.random.key(0)), holding_gain(improve, horizon)
    keys = jax.random.split(jax.random.key(0), options.members)
    jax.block_until_ready(trial(Policy(plan.z, plan.w, jnp.zeros((horizon, 6)), hold), keys))
    result: dict[str, Any] = {"compile_cpu_seconds": time.process_time() - clock, "seeds": []}
    print(result, flush=True)

    shown = None
    for seed in range(options.seeds):
        clock, wall = time.process_time(), time.perf_counter()
        trained, tested = (jax.random.split(jax.random.key(number + seed), options.members) for number in (1000, 2000))
        found = []
        for attempt in range(options.attempts):
            plan, done = planned(improve, begin(jax.random.key(100 * seed + attempt)), options.most)
            policy = Policy(plan.z, plan.w, gains(improve, plan), hold)
            up = is_up(trial(policy, trained)[0], last)
            found.append((float(up.mean()), policy, done, float(plan.cost)))
            if up.all():
                break
        _, policy, _, cost = max(found, key=lambda one: one[0])
        spent = {"cpu_seconds": time.process_time() - clock, "wall_seconds": time.perf_counter() - wall}
        z, force = trial(policy, tested)
        up, work = float(is_up(z, last).mean()), {"attempts": len(found), "rounds": sum(one[2] for one in found)}
        result["seeds"].append({"seed": seed, **work, "cost": cost, **spent, "up": up})
        print(result["seeds"][-1], flush=True)
        if shown is None or (up, -cost) > shown[0]:
            shown = (up, -cost), np.asarray(z), np.asarray(force)
    result["solved"] = sum(entry["up"] >= SOLVED for entry in result["seeds"])
    (options.out / "result.json").write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    (options.out / "figures").mkdir(parents=True, exist_ok=True)
    assert shown is not None
    _, z, force = shown
    draw(z, force, z[0], horizon, options.out / "figures" / "swing_up.png")
    return result


if __name__ == "__main__":
    main()
