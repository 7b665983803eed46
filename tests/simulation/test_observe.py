"""What is gathered for all names at once is what each name's own states, efforts and rows say; its cost is constant."""

from __future__ import annotations

from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from mechanisms import humanoid
from quick import quick_jit
from zoo import MECHANISMS

import jmbs
from jmbs.ephs import StateView
from jmbs.library.mechanics import closure_gap
from jmbs.lie import SE3
from jmbs.simulation.formulation import formulation_of
from jmbs.simulation.instant import Forces, Instant
from jmbs.simulation.observation_plan import observation_plan
from jmbs.simulation.observe import observe

CONFIGS = Path(__file__).parents[2] / "configs"
ZOO = ("chain mixed", "tree", "loose mixed", "four_bar direct")
SHIPPED = ("rolling_disk", "sliding_rod", "motor_slider_crank", "rlc")
"""Constraints beyond joints, a reduced body, thermal stores and a motor, no mechanism at all."""


def model_named(name: str) -> jmbs.Model:
    return jmbs.compile(MECHANISMS[name]() if name in ZOO else jmbs.load(CONFIGS / f"{name}.yaml"))


def random_instant(model: jmbs.Model):
    """A random state, and efforts and multipliers that no equations were asked for."""
    plan = model.dae.plan
    keys = iter(jax.random.split(jax.random.key(3), len(plan.blocks) + 4))
    normal = lambda *shape: jax.random.normal(next(keys), shape)  # noqa: E731
    x = tuple(
        jax.vmap(block.space.exp)(0.3 * normal(len(block.junctions), block.space.dim)).astype(model.dtype)
        for block in plan.blocks
    )
    return Instant(x, (normal(plan.n_efforts),), Forces(*(normal(plan.n_rows) for _ in range(3))))


def one_by_one(model: jmbs.Model, instant: Instant) -> dict[str, dict[str, jax.Array]]:
    """The same by looking up one name after the other."""
    x, (efforts,), forces = instant
    dae, plan, layout, view = model.dae, model.dae.plan, model.layout, StateView(model.dae.plan, x, efforts)
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
    found["reaction"] = {n: forces.multipliers[rows[n]] for n in layout.joints}
    found["multipliers"] = {n: forces.multipliers[rows[n]] for n, _, _ in layout.constraints}
    found["constraint_position"] = {n: jnp.max(jnp.abs(gaps[r])) for n, r in rows.items()}
    found["constraint_velocity"] = {n: jnp.max(jnp.abs(forces.violation[r])) for n, r in rows.items()}
    return found


@pytest.mark.parametrize("name", [*ZOO, *SHIPPED])
def test_all_at_once_is_one_by_one(name):
    model = model_named(name)
    seen, alone = quick_jit(lambda at: (observe(model, observation_plan(model), at), one_by_one(model, at)))(
        random_instant(model)
    )
    for field, wanted in alone.items():
        assert set(seen[field]) == set(wanted), field
        for key, value in wanted.items():
            np.testing.assert_allclose(seen[field][key], value, rtol=1e-12, atol=1e-12, err_msg=f"{field} of {key}")


def test_other_states_have_velocities_for_momenta():
    model = model_named("motor_slider_crank")
    instant = random_instant(model)
    seen = quick_jit(lambda at: observe(model, observation_plan(model), at))(instant)
    view = StateView(model.dae.plan, instant.x, *instant.efforts)
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
        traced = jax.jit(lambda at, model=model: observe(model, observation_plan(model), at))
        lowered = traced.lower(random_instant(model))
        counts.append((lowered.as_text().count(" = "), len(jax.tree.leaves(lowered.out_info))))
    assert counts[0] == counts[1]


def test_what_is_not_read_is_not_in_the_program():
    """Joint coordinates and rates of a tree need no motion of bodies, in time or in what is compiled."""
    model = jmbs.compile(humanoid())
    formulation, plan = eqx.filter_jit(formulation_of)(model), observation_plan(model)
    y = jax.eval_shape(lambda: formulation.start(model.initial_state()))

    def size(*names):
        seen = lambda y: observe(model, plan, formulation.look(0.0, y, None))  # noqa: E731
        return jax.jit(lambda y: [seen(y)[name].array for name in names]).lower(y).as_text().count(" = ")

    assert size("q", "v") < size("position") / 2
