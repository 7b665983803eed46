"""Particles and thin rods: their laws, their motion as the limit of bodies with little inertia, their parameters."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from library.laws import assert_dirac
from library.random_states import GROUPS, KEYS, assert_close, by_group, gradient, normal, other, sampled
from quick import quick_jit

from jmbs import Mechanism
from jmbs.ephs import Role, role
from jmbs.library.mechanics import Inclusion, ReducedCoupling, ReducedKineticEnergy, ReducedLiePoisson
from jmbs.lie import SE3, pose, quaternion_to_rotation, rotation_from_z
from jmbs.simulation.mechanics import component
from jmbs.simulation.state import State, identity_state, to_internal

MASS, LENGTH, MOMENT, G = 1.2, 0.8, 0.064, 9.81
ARM = 0.5 * LENGTH
AXIS = jnp.array([0.48, -0.6, 0.64])
OBLIQUE = MOMENT * (np.eye(3) - np.outer(AXIS, AXIS))
ROD = jnp.eye(6)[:, 1:].at[:3, :2].set(rotation_from_z(AXIS)[:, :2])
PARTICLE = jnp.eye(6)[:, 3:]
by_iota = pytest.mark.parametrize("iota", [ROD, PARTICLE], ids=["rod", "particle"])


# -- components -------------------------------------------------------------------------------------------------------


@by_group
@by_iota
def test_the_structures_are_skew(group, iota):
    assert_dirac(ReducedCoupling(iota, group))
    if iota.shape[1] == 5:
        assert_dirac(ReducedLiePoisson(iota, group))


@by_group
def test_the_gyroscopic_term_is_the_projected_coadjoint_action(group):
    def sample(key):
        w, p = normal(key, 5), normal(other(key, 1), 5)
        J, _ = ReducedLiePoisson(ROD, group).structure({"p": p})
        return J @ w + ROD.T @ group.ad_dual(ROD @ w, ROD @ p)

    assert_close(sampled(sample), 0.0)


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.name)
def test_a_particle_has_no_gyroscopic_effects_on_the_direct_product(group):
    J, _ = ReducedLiePoisson(PARTICLE, group).structure({"p": jnp.array([1.0, -2.0, 3.0])})
    # On SE(3) the momentum is in body axes, which do not turn.
    assert_close(J, 0.0)


@by_iota
def test_the_whole_velocity_has_no_spin(iota):
    component = Inclusion(iota)
    assert role(component) is Role.TRANSFORMER
    velocity = component.ratio({}) @ normal(KEYS[0], iota.shape[1])
    spin = AXIS @ velocity[:3] if iota.shape[1] == 5 else velocity[:3]
    assert_close(spin, 0.0)
    assert_close(iota.T @ iota, jnp.eye(iota.shape[1]))


@pytest.mark.parametrize("moment", [jnp.asarray(MOMENT), None], ids=["rod", "particle"])
def test_kinetic_energy_of_a_velocity(moment):
    component = ReducedKineticEnergy(jnp.asarray(MASS), moment)
    w = normal(KEYS[0], component.ports["p"].dim)
    momentum = component.state_from_effort({"p": w})
    assert_close(gradient(component, momentum)["p"], w)
    wanted = 0.5 * MASS * w[-3:] @ w[-3:] + (0.0 if moment is None else 0.5 * MOMENT * w[:2] @ w[:2])
    assert_close(component.energy(momentum), wanted)


# -- mechanisms -------------------------------------------------------------------------------------------------------


def state_of(model, bodies, joints) -> State:
    """A state from poses (3, 4) and velocities (angular in body axes, linear in world axes), without an assembly."""
    dae, junction = model.dae, model.dae.plan.junction_of
    state = identity_state(dae)
    for name, (q, omega, v) in bodies.items():
        u = jnp.concatenate([omega, q[:, :3].T @ v if model.layout.body(name).group == SE3 else v])
        if f"{name}/in" in dae.plan.member_of:
            u = component(dae, f"{name}/in").ratio({}).T @ u
        state = state.replace(junction[f"{name}/pe", "q"], q).replace(junction[f"{name}/ke", "p"], u)
    for name, q in joints.items():
        state = state.replace(junction[f"{name}/pe", "q_r"], q)
    for element in model.layout.parts.elements:
        line = component(dae, element.line)
        poses = {port: state[junction[element.line, port]] for port in line.ports if port.startswith("q")}
        state = state.replace(element.length, line.length(poses)[None])
    return state


END = ARM * AXIS
ROTATION = quaternion_to_rotation(jnp.array([0.5, -0.1, 0.7, 0.5]))
SPIN = jnp.array([3.0, -2.0, 4.0])


def towed(group: str, partner: str) -> Mechanism:
    """A rod on a spring with a second body linked to its end, and a load on it: every kind of attachment."""
    m = Mechanism("towed", gravity=[0.3, -0.5, -9.0])
    m.add_body("rod", mass=MASS, inertia=OBLIQUE, kind="rod", group=group)
    inertia = {"particle": None, "rigid": [0.3, 0.5, 0.4]}[partner]
    m.add_body("partner", mass=0.4, inertia=inertia, kind=partner, group=group)
    m.add_joint("link", "spherical", "rod", "partner", parent_frame={"position": np.asarray(END)})
    points = {"point_a": [0.2, 0.1, 0.9], "point_b": np.asarray(-0.7 * END)}
    m.add_spring_damper("tow", "ground", "rod", **points, stiffness=30.0, damping=0.8, length=0.3)
    m.add_spring_damper("tail", "ground", "partner", [1.0, 0.0, 0.0], stiffness=5.0, length=0.2)
    m.add_load("push", "rod", point=np.asarray(0.3 * END), force=[0.4, -0.2, 0.7])
    return m


@functools.cache
def motion(group: str, partner: str):
    """Positions and velocities, their rates, the rate of energy and the account, at a state that meets the link."""
    model = towed(group, partner).compile()
    dae, plan = model.dae, model.dae.plan
    omega, v, r = jnp.cross(AXIS, jnp.array([1.0, 2.0, -1.0])), jnp.array([0.3, 0.5, -0.2]), jnp.array([0.1, 0.4, 0.2])
    bodies = {
        "rod": (pose(ROTATION, r), omega, v),
        "partner": (pose(jnp.eye(3), r + ROTATION @ END), SPIN, v + ROTATION @ jnp.cross(omega, END)),
    }

    def observed(x):
        found, e = {}, dae.efforts(0.0, x)
        for body in model.layout.parts.bodies:
            name, (block, row) = body.name, plan.state_of[body.pose]
            q, u = x[block][row], e[plan.slots[body.velocity]]
            velocity = q[:, :3] @ u[3:] if body.group == SE3 else u[3:]
            found |= {f"{name} r": q[:, 3], f"{name} v": velocity, f"{name} omega": u[:3]}
        return found, jnp.sum(dae.energies(x))

    @quick_jit
    def evaluate(state):
        x = to_internal(dae, state)
        rates = dae.rates(0.0, x)
        (values, _), (moving, energy) = jax.jvp(observed, (x,), (dae.lift(x, rates.velocity),))
        return values, moving, energy, rates.power

    return evaluate(state_of(model, bodies, {"link": ROTATION.T}))


@by_group
def test_first_law(group):
    _, _, energy_rate, power = motion(group.name, "particle")
    assert_close(energy_rate, power.supplied - power.dissipated, 1e-12)
    assert abs(power.supplied) > 0.01 and power.dissipated > 0.01
    assert_close(power.constraint, 0.0)


def test_both_groups_agree():
    found, wanted = motion("SE3", "particle"), motion("SO3xR3", "particle")
    for section in (0, 1):
        for name, value in wanted[section].items():
            assert_close(found[section][name], value, 1e-11)


def test_a_particle_moves_as_any_body_that_is_held_at_its_centre():
    """Whatever inertia and spin: the limit of no inertia is met exactly."""
    found, wanted = motion("SE3", "particle"), motion("SE3", "rigid")
    for name in ("rod r", "rod v", "rod omega", "partner r", "partner v"):
        assert_close(found[0][name], wanted[0][name], 1e-11)
        assert_close(found[1][name], wanted[1][name], 1e-11)
    assert_close(found[0]["partner omega"], 0.0, 0.0)
    assert_close(wanted[0]["partner omega"], SPIN)


# -- a rod pendulum ---------------------------------------------------------------------------------------------------


def pendulum(kind: str, inertia, axis=(0.0, 0.0, 1.0)) -> Mechanism:
    """A rod that hangs by its end from a spherical joint."""
    m = Mechanism("pendulum", gravity=[0.0, 0.0, -G])
    m.add_body("rod", mass=MASS, inertia=inertia, kind=kind)
    m.add_joint("pivot", "spherical", "ground", "rod", child_frame={"position": -ARM * np.asarray(axis)})
    return m


def swinging(model, omega, axis=(0.0, 0.0, 1.0)) -> State:
    """It is at an angle to the vertical, and moves out of the vertical plane."""
    arm = ARM * ROTATION @ jnp.asarray(axis)
    return state_of(model, {"rod": (pose(ROTATION, arm), omega, jnp.cross(ROTATION @ omega, arm))}, {"pivot": ROTATION})


def turning(model, state):
    """The angular velocity of a rod in body axes, its rate, and how its axis accelerates in world axes."""
    dae, plan = model.dae, model.dae.plan
    box = "rod/in" if "rod/in" in plan.member_of else "rod/ke"
    slots, x = plan.slots[plan.junction_of[box, "p"]], to_internal(dae, state)
    velocity = dae.lift(x, dae.rates(0.0, x).velocity)
    u, rate = (value[:3] for value in jax.jvp(lambda x: dae.efforts(0.0, x)[slots], (x,), (velocity,)))
    axis = jnp.array([0.0, 0.0, 1.0])
    return u, rate, ROTATION @ (jnp.cross(u, jnp.cross(u, axis)) + jnp.cross(rate, axis))


@pytest.mark.slow
def test_a_rod_is_the_limit_of_a_body_with_little_inertia_about_its_axis():
    """A spin `s` with moment `epsilon` turns the axis by a moment `epsilon s`: the error is linear in epsilon."""
    model = pendulum("rod", [MOMENT, MOMENT, 0.0]).compile()
    spin, its_rate, wanted = quick_jit(turning)(model, swinging(model, jnp.array([0.4, 2.5, 0.0])))
    thick = pendulum("rigid", [MOMENT, MOMENT, 1e-2]).compile()
    spinning = swinging(thick, jnp.array([0.4, 2.5, 5.0]))
    epsilons = np.array([1e-2, 1e-3, 1e-4, 1e-5])

    def of(epsilon):
        inertia = jnp.diag(jnp.array([MOMENT, MOMENT, 1.0])).at[2, 2].set(epsilon)
        return turning(thick.with_parameters({"rod/inertia": inertia}), spinning)[2]

    errors = np.linalg.norm(quick_jit(jax.vmap(of))(jnp.asarray(epsilons)) - wanted, axis=1)
    # By its momentum about its own axis, across which it turns at a rate of (0.4, 2.5).
    np.testing.assert_allclose(errors, epsilons * 5.0 * np.hypot(0.4, 2.5) / (MOMENT + MASS * ARM**2), rtol=1e-6)
    # The spin, which is no motion of the rod, is nowhere to be seen.
    assert spin[2] == 0.0 and its_rate[2] == 0.0


def test_moment_and_mass_are_parameters_with_derivatives():
    """`omega . domega/dt = work of gravity per second / (moment + mass arm^2)`, the rod along an oblique axis."""
    model = pendulum("rod", OBLIQUE, AXIS).compile()
    parameters = model.parameters()
    assert "rod/inertia" not in parameters
    assert_close(parameters["rod/moment"]["value"], MOMENT)
    omega = jnp.cross(AXIS, jnp.array([1.0, 2.0, -1.0]))
    state = swinging(model, omega, AXIS)
    slots = model.dae.plan.slots[model.dae.plan.junction_of["rod/in", "p"]]

    def speeding_up(values):
        dae = model.with_parameters({"rod/mass": values[0], "rod/moment": values[1]}).dae
        x = to_internal(dae, state)
        velocity = dae.lift(x, dae.rates(0.0, x).velocity)
        u, rate = jax.jvp(lambda x: dae.efforts(0.0, x)[slots], (x,), (velocity,))
        return u[:3] @ rate[:3]

    climbing = ARM * (ROTATION @ jnp.cross(omega, AXIS))[2]
    closed = lambda v: -v[0] * G * climbing / (v[1] + v[0] * ARM**2)  # noqa: E731
    values = jnp.array([MASS, MOMENT])
    found, slope = quick_jit(jax.value_and_grad(speeding_up))(values)
    assert_close(found, closed(values))
    assert_close(slope, jax.grad(closed)(values), 1e-10)
    assert np.all(np.abs(slope) > 0.1)
