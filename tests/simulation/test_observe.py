"""What is gathered for all names at once is what each name's own states, efforts and rows say; its cost is constant."""

from __future__ import annotations

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from mechanisms import humanoid
from quick import quick_jit
from zoo import MECHANISMS

import jmbs
from jmbs.ephs import Power, Rates, StateView
from jmbs.library.mechanics import closure_gap
from jmbs.lie import SE3
from jmbs.simulation.formulation import formulation_of
from jmbs.simulation.instant import Instant
from jmbs.simulation.observation_plan import observation_plan
from jmbs.simulation.observe import observe
from jmbs.simulation.state import to_internal

CONFIGS = Path(__file__).parents[2] / "configs"
ZOO = ("chain mixed", "tree", "loose mixed", "four_bar direct")
SHIPPED = ("rolling_disk", "sliding_rod", "motor_slider_crank", "rlc")
"""Constraints beyond joints, a reduced body, thermal stores and a motor, no mechanism at all."""


def model_named(name: str) -> jmbs.Model:
    return jmbs.compile(MECHANISMS[name]() if name in ZOO else jmbs.load(CONFIGS / f"{name}.yaml"))


def random_instant(model: jmbs.Model):
    """A random state, and efforts, multipliers and rates that no equations were asked for."""
    plan = model.dae.plan
    keys = iter(jax.random.split(jax.random.key(3), len(plan.blocks) + 5))
    normal = lambda *shape: jax.random.normal(next(keys), shape)  # noqa: E731
    x = tuple(
        jax.vmap(block.space.exp)(0.3 * normal(len(block.junctions), block.space.dim)).astype(model.dtype)
        for block in plan.blocks
    )
    power = Power(*jnp.zeros(4), normal(len(plan.irreversible)))
    rates = Rates(jnp.zeros(plan.n_stored), normal(plan.n_efforts), normal(plan.n_rows), normal(plan.n_rows), power)
    return x, Instant((rates.efforts,), rates, normal(plan.n_rows))


def one_by_one(model: jmbs.Model, x, rates: Rates) -> dict[str, dict[str, jax.Array]]:
    """The same by looking up one name after the other."""
    dae, plan, layout, view = model.dae, model.dae.plan, model.layout, StateView(model.dae.plan, x, rates.efforts)
    found = {key: {} for key in ("position", "quaternion", "angular_velocity", "velocity", "q", "v")}
    for name, group, box in zip(layout.bodies, layout.groups, layout.velocity_boxes, strict=True):
        pose, u = view.state(f"{name}/pe", "q"), view.effort(box, "p")
        found["position"][name] = pose[:, 3]
        found["quaternion"][name] = SE3.to_coordinates(pose)[3:]
        found["angular_velocity"][name] = u[:3]
        found["velocity"][name] = pose[:, :3] @ u[3:] if group == SE3 else u[3:]
    for entry in layout.coordinates:
        block, row = plan.state_of[plan.junction_of[f"{entry.joint}/pe", "q_r"]]
        found["q"][entry.joint] = plan.blocks[block].space.to_coordinates(x[block][row])
        found["v"][entry.joint] = view.effort(f"{entry.joint}/hc", "p_r")
    found["temperature"] = {n: dae.reference_temperature + view.effort(n, "s")[0] for n in layout.stores}
    paths = {n: (f"{n}/hc",) for n in layout.joints} | {n: boxes for n, boxes, _ in layout.constraints}
    rows = {
        n: np.concatenate([plan.batches[b].multipliers[i] for b, i in map(plan.member_of.get, boxes)])
        for n, boxes in paths.items()
    }
    gaps = dae.closures(x, closure_gap)
    found["reaction"] = {n: rates.multipliers[rows[n]] for n in layout.joints}
    found["multipliers"] = {n: rates.multipliers[rows[n]] for n, _, _ in layout.constraints}
    found["constraint_position"] = {n: jnp.max(jnp.abs(gaps[r])) for n, r in rows.items()}
    found["constraint_velocity"] = {n: jnp.max(jnp.abs(rates.violation[r])) for n, r in rows.items()}
    found["production"] = {path: rates.power.production[i] for i, path in enumerate(plan.irreversible)}
    return found


@pytest.mark.parametrize("name", [*ZOO, *SHIPPED])
def test_all_at_once_is_one_by_one(name):
    model = model_named(name)
    x, instant = random_instant(model)
    seen, alone = quick_jit(
        lambda x, at: (observe(model, observation_plan(model), x, at), one_by_one(model, x, at.rates))
    )(x, instant)
    for field, wanted in alone.items():
        assert set(seen[field]) == set(wanted), field
        for key, value in wanted.items():
            np.testing.assert_allclose(seen[field][key], value, rtol=1e-12, atol=1e-12, err_msg=f"{field} of {key}")


def test_other_states_have_velocities_for_momenta():
    model = model_named("motor_slider_crank")
    x, instant = random_instant(model)
    seen = quick_jit(lambda x, at: observe(model, observation_plan(model), x, at))(x, instant)
    view = StateView(model.dae.plan, x, instant.rates.efforts)
    np.testing.assert_array_equal(seen["states"]["motor/i"], view.effort("motor/inductor", "phi"))


def chain(length: int) -> jmbs.Model:
    """Hinged links with springs between every second, friction, and a ball joint at the end."""
    m = jmbs.Mechanism("chain")
    last = "ground"
    for i in range(length):
        m.add_body(f"link{i}", mass=1.0, inertia=[0.1, 0.1, 0.02])
        kind = {"type": "revolute", "axis": [0, 1, 0]} if i < length - 1 else {"type": "spherical"}
        m.add_joint(f"joint{i}", parent=last, child=f"link{i}", friction={"viscous": 0.1}, **kind)
        m.add_spring_damper(f"band{i}", "ground", f"link{i}", (0, 0, 1), (0, 0, 0), stiffness=1.0)
        last = f"link{i}"
    return jmbs.compile(m)


def test_the_traced_program_does_not_grow_with_the_mechanism():
    counts = []
    for length in (4, 9):
        model = chain(length)
        traced = jax.jit(lambda x, at, model=model: observe(model, observation_plan(model), x, at))
        lowered = traced.lower(*random_instant(model))
        counts.append((lowered.as_text().count(" = "), len(jax.tree.leaves(lowered.out_info))))
    assert counts[0] == counts[1]


def test_what_is_not_read_is_not_in_the_program():
    """Joint coordinates and rates of a tree need no motion of bodies, in time or in what is compiled."""
    model = jmbs.compile(humanoid())
    formulation, plan = formulation_of(model), observation_plan(model)
    y = formulation.start(to_internal(model.dae, model.initial_state()))

    def size(*names):
        seen = lambda y: observe(model, plan, *formulation.look(0.0, y, audit=False))  # noqa: E731
        return jax.jit(lambda y: [seen(y)[name].array for name in names]).lower(y).as_text().count(" = ")

    assert size("q", "v") < size("position") / 2
