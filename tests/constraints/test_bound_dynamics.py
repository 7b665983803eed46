"""Trees that gears bind, by their own equations and by those of any constraint: values, slopes, gradients, batches."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from quick import quick_jit

import jmbs
from jmbs.simulation.formulation import formulation_of
from jmbs.tree import TreeWithGears, TreeWithLoops, tree_dae
from jmbs.tree.constrained_rates import coupled_rates
from jmbs.tree.projection import coupled_projection

CHANGED = ("mass", "inertia", "ratio", "coefficients", "child_frame/position", "stiffness", "viscous")
MEMBERS = 2


def geared() -> jmbs.Mechanism:
    """An arm of three hinges on a spring and a slide beside it; a gear, a relation of three, and both once more."""
    m = jmbs.Mechanism("geared", gravity=(0.0, 0.0, -9.81))
    front, back = {"position": [0.3, 0.0, 0.1]}, {"position": [-0.2, 0.0, 0.0]}
    parent = "ground"
    for i in (1, 2, 3):
        m.add_body(f"link{i}", mass=1.0 / i, inertia=[0.02, 0.03, 0.01])
        more = {"spring": {"stiffness": 4.0}} if i == 1 else {"friction": {"viscous": 0.1}}
        m.add_joint(f"hinge{i}", "revolute", parent, f"link{i}", front, back, axis=[0.0, 1.0, 0.1 * i], **more)
        parent = f"link{i}"
    m.add_body("rack", mass=0.7, inertia=[0.01, 0.01, 0.01])
    m.add_joint("slide", "prismatic", "ground", "rack", axis=[0.0, 0.0, 1.0])
    for again in ("", "_again"):
        m.add_constraint(f"pinion{again}", "gear", joint="slide", driver="hinge1", ratio=0.2)
        joints = {"hinge1": [1.0], "hinge2": [-0.5], "hinge3": [2.0]}
        m.add_constraint(f"differential{again}", "gear", joints=joints)
    return m


def tied() -> jmbs.Mechanism:
    """The same with a spring and damper between two points, and a user's force."""
    m = geared()
    m.add_spring_damper("tie", "ground", "link3", [0.5, 0.0, 0.3], [0.0, 0.2, 0.1], stiffness=20.0, damping=0.3)
    m.add_force("drag", "rack", lambda t, pose, velocity: -0.1 * velocity * jnp.abs(velocity))
    return m


def tied_loop() -> jmbs.Mechanism:
    """The same with a strut from the third link to the ground, which closes a loop."""
    m = tied()
    m.add_body("strut", mass=0.4, inertia=[0.01, 0.02, 0.02])
    ends = [{"position": [x, 0.0, 0.0]} for x in (-0.4, 0.4)]
    m.add_joint("foot", "spherical", "ground", "strut", {"position": [0.4, 0.1, -0.5]}, ends[0])
    m.add_joint("head", "spherical", "link3", "strut", {"position": [0.2, 0.0, 0.1]}, ends[1])
    m.simulation = dataclasses.replace(m.simulation, cut_joints=("head",))
    m.set_initial(joints={"hinge1": {"v": [0.8]}})
    return m


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "kind", "alone"),
    [
        (geared, TreeWithGears, True),
        (tied, TreeWithGears, False),
        (tied_loop, TreeWithLoops, False),
    ],
)
def test_rates_and_projections_are_those_of_the_general_equations(make, kind, alone):
    """Beside the constraints too; rows that say the same twice."""
    rng = np.random.default_rng(0)
    model = jmbs.compile(make())
    layout = model.tree
    entries = {p: jnp.asarray(e["value"]) for p, e in model.parameters().items() if p.endswith(CHANGED)}
    assert any(p.endswith("ratio") for p in entries) and any(p.endswith("coefficients") for p in entries)
    # What rows say twice must change as one.
    line = {p: jnp.asarray(rng.normal(size=np.shape(x))) for p, x in entries.items() if "_again" not in p}
    line |= {p: line[p.replace("_again", "")] for p in entries if "_again" in p}
    formulation = formulation_of(model)
    assert isinstance(formulation.dae, kind) and (formulation.dae.alone is not None) == alone
    y = formulation.start(model.initial_state())
    # Loops that are open have accelerations that differ by as much.
    away = 0.0 if layout.loops else 1.0
    steps = away * jnp.asarray(rng.normal(size=(MEMBERS, layout.n)))
    along = jnp.asarray(rng.normal(size=(MEMBERS, layout.n)))

    def values(entries, step, own: bool, forward_only: bool):
        dae = tree_dae(model.with_parameters(entries).dae, layout)
        dae = dataclasses.replace(dae, forward_only=forward_only)
        # On the constraints, with which the redundant rows are consistent.
        moved = dae.projected(0.0, dae.retract(y, step))
        off = dae.retract(moved, 0.01 * step)
        rates = dae.rates(0.0, moved) if own else coupled_rates(dae, jnp.zeros(()), moved, None)
        back = dae.projected(0.0, off) if own else coupled_projection(dae, 0.0, off)
        return jnp.concatenate([jnp.ravel(x) for x in jax.tree.leaves((rates, back))])

    def slopes(own: bool, forward_only: bool = False):
        def of_member(step, direction):
            function = lambda entries, step: values(entries, step, own, forward_only)  # noqa: E731
            return jax.jvp(function, (entries, step), (line, direction))

        return of_member

    def gradient(step, direction):
        value, slope = slopes(True)(step, direction)
        weights = jnp.cos(jnp.arange(len(value)))
        by_entries, by_step = jax.grad(lambda e, s: weights @ values(e, s, True, False), argnums=(0, 1))(entries, step)
        pairs = zip(jax.tree.leaves((by_entries, by_step)), jax.tree.leaves((line, direction)), strict=True)
        return weights @ slope, sum(jnp.vdot(a, b) for a, b in pairs)

    wanted = quick_jit(lambda *x: jax.lax.map(lambda x: slopes(False)(*x), x))(steps, along)
    for forward_only in (False, True):
        found = quick_jit(jax.vmap(slopes(True, forward_only)))(steps, along)
        for a, b in zip(found, wanted, strict=True):
            assert np.all(np.isfinite(b))
            np.testing.assert_allclose(a, b, rtol=0, atol=1e-8 * np.max(np.abs(b)))
    forwards, backwards = quick_jit(jax.vmap(gradient))(steps, along)
    np.testing.assert_allclose(backwards, forwards, rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("links", [1, 3])
def test_gradients_of_a_batch_are_those_of_its_members(links):
    """Weights and coefficients that all share; more velocities than sums have terms written out."""
    m = geared()
    for i in range(links):
        m.add_body(f"free{i}", mass=1.0, inertia=[0.02, 0.03, 0.01])
    model = jmbs.compile(m)
    state, coefficients = model.initial_state(), jnp.asarray([1.0, -0.5, 2.0])

    def first(mass, coefficients):
        both = {f"differential{again}/coefficients": coefficients for again in ("", "_again")}
        return model.with_parameters({"link1/mass": mass, **both}).forward_dynamics(0.0, state)[0]

    masses = jnp.asarray([0.8, 1.3])
    slopes = [
        quick_jit(jax.vmap(of(first, argnums=(0, 1)), (0, None)))(masses, coefficients) for of in (jax.grad, jax.jacfwd)
    ]
    for found, wanted in zip(*slopes, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-10)
    alone = quick_jit(lambda mass: jax.grad(first)(mass, coefficients))
    np.testing.assert_allclose(slopes[0][0], [alone(mass) for mass in masses], rtol=1e-10)
