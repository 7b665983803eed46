"""What is gathered for all names at once is what each name's own states, efforts and rows say; its cost is constant."""

from __future__ import annotations

from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from mechanisms import humanoid
from quick import forward_dynamics, quick_jit
from zoo import MECHANISMS

import jmbs
from jmbs.ephs import StateView
from jmbs.errors import ModelError
from jmbs.library.mechanics import closure_gap
from jmbs.lie import SE3
from jmbs.simulation.formulation import formulation_of
from jmbs.simulation.inputs import with_inputs
from jmbs.simulation.instant import Forces, Instant
from jmbs.simulation.motion_view import MotionView
from jmbs.simulation.observation_plan import observation_plan
from jmbs.simulation.observe import observe

RANDOM = np.random.default_rng(3)
CONFIGS = Path(__file__).parents[2] / "configs"
ZOO = ("chain mixed", "tree", "loose mixed", "four_bar direct")
SLOW = ("four_bar direct",)
"""Its kinds of parts are in the others."""
SHIPPED = ("rolling_disk", "sliding_rod", "motor_slider_crank", "rlc")
"""Constraints beyond joints, a reduced body, thermal stores and a motor, no mechanism at all."""


def model_named(name: str) -> jmbs.Model:
    return jmbs.compile(MECHANISMS[name]() if name in ZOO else jmbs.load(CONFIGS / f"{name}.yaml"))


def random_instant(model: jmbs.Model):
    """A random state, and efforts and multipliers that no equations were asked for."""
    plan = model.dae.plan
    normal = lambda *shape: RANDOM.normal(size=shape)  # noqa: E731
    steps = [0.3 * normal(len(block.junctions), block.space.dim) for block in plan.blocks]
    exps = [jax.vmap(block.space.exp) for block in plan.blocks]
    x = quick_jit(lambda steps: tuple(exp(step) for exp, step in zip(exps, steps, strict=True)))(steps)
    return Instant(x, (normal(plan.n_efforts),), Forces(*(normal(plan.n_rows) for _ in range(4))))


SEEN_BY_NAME = "q", "v", "position", "quaternion", "angular_velocity", "velocity"


def one_by_one(model: jmbs.Model, instant: Instant) -> dict[str, dict[str, jax.Array]]:
    """The same by looking up one name after the other."""
    x, (efforts,), forces = instant
    dae, plan, layout, view = model.dae, model.dae.plan, model.layout, StateView(model.dae.plan, x, efforts)
    found = {key: {} for key in ("position", "quaternion", "angular_velocity", "velocity", "q", "v")}
    for body in layout.parts.bodies:
        name, group = body.name, body.group
        box = f"{name}/in" if f"{name}/in" in plan.member_of else f"{name}/ke"
        pose, u = view.state(f"{name}/pe", "q"), view.effort(box, "p")
        found["position"][name] = pose[:, 3]
        found["quaternion"][name] = SE3.to_coordinates(pose)[3:]
        found["angular_velocity"][name] = u[:3]
        found["velocity"][name] = pose[:, :3] @ u[3:] if group == SE3 else u[3:]
    for entry in layout.coordinates:
        block, row = plan.state_of[plan.junction_of[f"{entry.joint}/pe", "q_r"]]
        found["q"][entry.joint] = plan.blocks[block].space.to_coordinates(x[block][row])
        found["v"][entry.joint] = view.effort(f"{entry.joint}/hc", "p_r")
    found["temperature"] = {n: dae.reference_temperature + view.effort(n, "s")[0] for n in layout.parts.stores}
    paths = {n: (f"{n}/hc",) for n in layout.joints} | {c.name: c.components for c in layout.parts.constraints}
    rows = {
        n: np.concatenate([plan.batches[b].multipliers[i] for b, i in map(plan.member_of.get, boxes)])
        for n, boxes in paths.items()
    }
    gaps = dae.closures(x, closure_gap)
    found["reaction"] = {n: forces.multipliers[rows[n]] for n in layout.joints}
    found["multipliers"] = {n: forces.multipliers[rows[n]] for n in (c.name for c in layout.parts.constraints)}
    found["constraint_position"] = {n: jnp.max(jnp.abs(gaps[r])) for n, r in rows.items()}
    found["constraint_velocity"] = {n: jnp.max(jnp.abs(forces.violation[r])) for n, r in rows.items()}
    return found


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] * (n in SLOW)) for n in (*ZOO, *SHIPPED)])
def test_all_at_once_is_one_by_one(name):
    model = model_named(name)
    seen, alone = quick_jit(lambda at: (observe(model, observation_plan(model), at), one_by_one(model, at)))(
        random_instant(model)
    )
    for field, wanted in alone.items():
        assert set(seen[field]) == set(wanted), field
        for key, value in wanted.items():
            np.testing.assert_allclose(seen[field][key], value, rtol=1e-12, atol=1e-12, err_msg=f"{field} of {key}")


@pytest.mark.parametrize("name", ["chain mixed", "sliding_rod"])
def test_what_drives_see_by_names_is_what_trajectories_show(name):
    model = model_named(name)
    parts = model.layout.parts

    def both(at):
        view = MotionView(StateView(model.dae.plan, at.x, *at.efforts), parts)
        return observe(model, observation_plan(model), at), {key: dict(getattr(view, key)) for key in SEEN_BY_NAME}

    seen, viewed = quick_jit(both)(random_instant(model))
    for key, values in viewed.items():
        for entry, value in values.items():
            if value.size:
                np.testing.assert_allclose(seen[key][entry], value, rtol=1e-12, atol=1e-12, err_msg=f"{key} of {entry}")


def test_drives_of_nested_systems_use_the_names_of_their_own():
    inner = jmbs.Mechanism("inner")
    inner.add_body("arm", mass=1.0, inertia=[0.1, 0.1, 0.1])
    inner.add_joint("hinge", "revolute", "ground", "arm", axis=[0, 1, 0], child_frame=[0, 0, 0.5])
    inner.connect("held", ["hinge.p_r"], flow=lambda t, view: -4.0 * view.q["hinge"] + view.position["arm"][:1])
    outer = jmbs.Mechanism("outer")
    outer.add_system("deep", inner.system())
    rates = []
    for mechanism, path in ((inner, "hinge"), (outer, "deep/hinge")):
        mechanism.set_initial(joints={path: {"q": [0.3]}})
        model = jmbs.compile(mechanism)
        rates.append(forward_dynamics(model, model.initial_state()))
    np.testing.assert_allclose(*rates, rtol=1e-14)
    wrong = with_inputs(jmbs.compile(inner), {"hinge/actuation": lambda t, view: view.v["hings"]})
    with pytest.raises(ModelError, match="view: found no joint 'hings', .*the nearest known is hinge"):
        forward_dynamics(wrong, wrong.initial_state())


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
