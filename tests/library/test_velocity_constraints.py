"""Constraints on velocities: their rows are velocities, closures integrate them, surfaces in motion do work."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from library.random_states import GROUPS, KEYS, assert_close, by_group, element, normal, other, sampled, states
from quick import quick_jit

from jmbs import Mechanism, load
from jmbs.ephs import ConstantEffort, Role, TableEffort, role
from jmbs.errors import AssemblyError
from jmbs.library.mechanics import Contact, NoSlide, NoSlip, Perpendicular, Roller, SurfaceMotion, TableSpec
from jmbs.lie import SE3, pose, rotation_from_z
from jmbs.simulation import with_inputs
from jmbs.simulation.mechanics import component
from jmbs.simulation.state import identity_state, to_internal

POINT, DIRECTION = jnp.array([0.2, -0.3, 0.5]), jnp.array([1.0, 2.0, -0.5])
ORIGIN, NORMAL, RADIUS = jnp.array([0.1, 0.2, -0.4]), jnp.array([0.3, -0.2, 1.1]), 0.25
BALL = Roller(jnp.asarray(RADIUS), None, ORIGIN, NORMAL)
DISK = Roller(jnp.asarray(RADIUS), jnp.array([0.2, 1.0, -0.3]), ORIGIN, NORMAL)
by_frame = pytest.mark.parametrize("frame", ["body", "world"])
by_roller = pytest.mark.parametrize("roller", [BALL, DISK], ids=["ball", "disk"])
unit = lambda v: v / jnp.linalg.norm(v)  # noqa: E731


def rate_of(function, group, q, u):
    """The rate of a function of the pose."""
    return jax.jvp(function, (q,), (group.lift(q, u),))[1]


# -- components -------------------------------------------------------------------------------------------------------


@by_group
@by_frame
def test_a_row_is_the_negative_velocity_of_the_point(group, frame):
    component = NoSlide(POINT, DIRECTION, None, frame, group)

    def sample(key):
        q, u = element(key, group), normal(other(key, 1), 6)
        along = unit(DIRECTION) if frame == "world" else q[:, :3] @ unit(DIRECTION)
        _, C = component.structure({"q": q})
        return C @ u + along @ rate_of(lambda q: q[:, :3] @ POINT + q[:, 3], group, q, u)

    assert_close(sampled(sample), 0.0)


@by_group
@by_frame
def test_a_surface_adds_its_velocity_at_the_point(group, frame):
    at_rest, moving = (NoSlide(POINT, DIRECTION, origin, frame, group) for origin in (None, ORIGIN))

    def sample(key):
        q, u, twist = element(key, group), normal(KEYS[1], 6), normal(other(key, 1), 6)
        along = unit(DIRECTION) if frame == "world" else q[:, :3] @ unit(DIRECTION)
        x = q[:, :3] @ POINT + q[:, 3]
        surface = along @ (twist[3:] + jnp.cross(twist[:3], x - ORIGIN))
        (_, C), (_, C0) = moving.structure({"q": q}), at_rest.structure({"q": q})
        return C @ jnp.concatenate([u, twist]) - (C0 @ u + surface)

    assert_close(sampled(sample), 0.0)


@by_group
@by_roller
def test_the_contact_row_is_the_rate_of_the_height(group, roller):
    def sample(key):
        q, u = element(key, group), normal(other(key, 1), 6)
        _, C = Contact(roller, group).structure({"q": q})
        return C @ u + rate_of(roller.height, group, q, u)

    assert_close(sampled(sample), 0.0)


@by_roller
def test_the_contact_is_the_lowest_point(roller):
    """No point of the ball, or of the disk's rim, is lower, and it is where the height says."""
    n = unit(NORMAL)

    def sample(key):
        R = element(key, SE3)[:, :3]
        contact = R @ roller.contact(R)
        x, off = normal(other(key, 1), 3), 0.0
        if roller.axis is not None:
            axis = R @ unit(roller.axis)
            x = x - (x @ axis) * axis
            off = contact @ axis
        lower = RADIUS * unit(x)
        height = roller.height(pose(R, ORIGIN - contact))
        return n @ (lower - contact), off, jnp.linalg.norm(contact) - RADIUS, height

    above, *zeros = sampled(sample)
    assert np.all(above > 0)
    for zero in zeros:
        assert_close(zero, 0.0)


@by_group
@by_roller
def test_the_slip_is_the_velocity_of_the_touching_point_in_the_plane(group, roller):
    def sample(key):
        q, u, twist = element(key, group), normal(KEYS[1], 6), normal(other(key, 1), 6)
        contact = roller.contact(q[:, :3])
        x = q[:, :3] @ contact + q[:, 3]
        velocity = rate_of(lambda q: q[:, :3] @ contact + q[:, 3], group, q, u)
        slip = twist[3:] + jnp.cross(twist[:3], x - ORIGIN) - velocity
        _, C = NoSlip(roller, True, group).structure({"q": q})
        _, C0 = NoSlip(roller, False, group).structure({"q": q})
        found = C @ jnp.concatenate([u, twist])
        plane = rotation_from_z(unit(NORMAL))[:, :2]
        return found - plane.T @ slip, C0 - C[:, :6], plane.T @ NORMAL

    for difference in sampled(sample):
        assert_close(difference, 0.0)


@by_group
def test_the_row_of_perpendicular_directions_is_the_rate_of_the_sine(group):
    component = Perpendicular(DIRECTION, NORMAL, group)

    def sample(key):
        q, u = element(key, group), normal(other(key, 1), 6)
        _, C = component.structure({"q": q})
        sine = unit(NORMAL) @ q[:, :3] @ unit(DIRECTION)
        return C @ u + rate_of(component.sine, group, q, u), component.sine(q) - sine

    for difference in sampled(sample):
        assert_close(difference, 0.0)


CONSTRAINTS = {
    **{f"no slide {g.name}": NoSlide(POINT, DIRECTION, ORIGIN, "body", g) for g in GROUPS},
    "contact": Contact(DISK),
    "no slip": NoSlip(DISK, True),
    "perpendicular": Perpendicular(DIRECTION, NORMAL),
}


@pytest.mark.parametrize("name", CONSTRAINTS)
def test_constraints_conserve_power(name):
    constraint = CONSTRAINTS[name]
    assert role(constraint) is Role.REVERSIBLE
    n = sum(p.dim for p in constraint.ports.values() if p.power)

    def sample(key):
        J, C = constraint.structure(states(constraint, key))
        assert J is None
        e, multipliers = normal(key, n), normal(other(key, 1), C.shape[0])
        e = e - jnp.linalg.pinv(C) @ (C @ e)
        return e @ (C.T @ multipliers)

    assert_close(sampled(sample), 0.0)


def test_a_disk_that_lies_flat_gives_finite_numbers_and_no_regularity():
    flat = Roller(jnp.asarray(RADIUS), jnp.array([0.0, 0.0, 1.0]), jnp.zeros(3), jnp.array([0.0, 0.0, 1.0]))
    q = SE3.identity()
    rows, slope = jax.jvp(lambda q: Contact(flat).structure({"q": q})[1], (q,), (SE3.lift(q, jnp.ones(6)),))
    assert np.all(np.isfinite(rows)) and np.all(np.isfinite(slope))
    assert flat.regularity(q) == 0.0
    assert_close(DISK.regularity(SE3.identity()), jnp.linalg.norm(jnp.cross(unit(DISK.axis), unit(NORMAL))))


# -- mechanisms -------------------------------------------------------------------------------------------------------


def turntable(group: str = "SE3", **plane) -> Mechanism:
    m = Mechanism("turntable", gravity=[0.0, 0.0, -9.81])
    m.add_body("ball", mass=0.5, inertia=[0.002, 0.002, 0.002], group=group)
    m.add_constraint("table", "rolling", "ball", radius=0.1, plane=plane)
    return m


def observed(model, t=0.3):
    """Acceleration of the centre, rate of energy, account and multipliers of a ball at (0.4, 0.1)."""
    dae, junction = model.dae, model.dae.plan.junction_of
    drive = dae.drives["table/plane"].effort(jnp.asarray(t))
    r, omega_z = jnp.array([0.4, 0.1, 0.1]), 0.7
    v = jnp.array([0.2, -0.3, 0.0])
    surface = drive[3:] + jnp.cross(drive[:3], r)
    # The touching point has the velocity of the table: v - radius omega x z = surface.
    omega = jnp.array([surface[1] - v[1], v[0] - surface[0], 0.0]) / 0.1 + jnp.array([0.0, 0.0, omega_z])
    u = jnp.concatenate([omega, v])
    state = identity_state(dae).replace(junction["ball/pe", "q"], pose(jnp.eye(3), r))
    state = state.replace(junction["ball/ke", "p"], u)

    @quick_jit
    def evaluate(dae, state):
        x = to_internal(dae, state)
        rates = dae.rates(t, x)
        energy = lambda x: jnp.sum(dae.energies(x))  # noqa: E731
        momentum = lambda x: x[dae.plan.state_of["ball/p"][0]][0]  # noqa: E731
        tangent = dae.lift(x, rates.velocity)
        _, energy_rate = jax.jvp(energy, (x,), (tangent,))
        _, force = jax.jvp(momentum, (x,), (tangent,))
        places = [dae.plan.member_of[f"table/{box}"] for box in ("slip", "contact")]
        multipliers = jnp.concatenate([rates.multipliers[dae.plan.batches[b].multipliers[i]] for b, i in places])
        return u, force, energy_rate, rates.power, rates.violation, multipliers, surface

    return evaluate(dae, state)


@by_group
def test_a_ball_on_a_turntable(group):
    """`dv/dt = 2/7 Omega x v` for a uniform ball, and the table's work is what it supplies."""
    rate = 3.5
    u, force, energy_rate, power, violation, multipliers, surface = observed(
        turntable(group.name, angular_velocity=[0.0, 0.0, rate]).compile()
    )
    if group == SE3:
        force = force.at[3:].add(jnp.cross(u[:3], 0.5 * u[3:]))
    assert_close(violation, 0.0)
    acceleration = 2 / 7 * rate * jnp.array([-u[4], u[3], 0.0])
    assert_close(force[3:], 0.5 * acceleration)
    assert_close(multipliers, 0.5 * acceleration + jnp.array([0.0, 0.0, 0.5 * 9.81]))
    assert_close(power.supplied, multipliers @ surface)
    assert_close(energy_rate, power.supplied)
    assert abs(power.supplied) > 0.01


def test_a_plane_that_speeds_up_drags_the_ball_along():
    """`dv/dt = 2/7 a` under a belt of acceleration `a`, given as a table, or as a function by an input."""
    belt = lambda t: jnp.stack([0.5 + 2.0 * t, -1.0 * t, 0.0 * t])  # noqa: E731
    times = np.array([0.0, 0.2, 1.0])
    table = (times, np.stack([belt(jnp.asarray(t)) for t in times]))
    by_table = turntable(velocity=TableSpec(*table)).compile()
    assert isinstance(by_table.dae.drives["table/plane"].velocity, TableEffort)
    for model in (by_table, with_inputs(by_table, {"table/plane/velocity": belt})):
        u, force, energy_rate, power, violation, *_ = observed(model)
        force = force.at[3:].add(jnp.cross(u[:3], 0.5 * u[3:]))
        assert_close(violation, 0.0)
        assert_close(force[3:], 0.5 * 2 / 7 * jnp.array([2.0, -1.0, 0.0]))
        assert_close(energy_rate, power.supplied)


def test_surface_motion_is_a_twist():
    drive = SurfaceMotion(ConstantEffort(jnp.array([0.0, 0.0, 2.0])), ConstantEffort(jnp.array([1.0, 0.0, 0.0])))
    assert_close(drive.effort(0.0), [0.0, 0.0, 2.0, 1.0, 0.0, 0.0])


def about_x(angle: float) -> list[float]:
    return [float(np.cos(angle / 2)), float(np.sin(angle / 2)), 0.0, 0.0]


LEAN = 0.4


@pytest.fixture(scope="module")
def disk():
    """A thin disk that leans, with its orientation and angular velocity given."""
    m = Mechanism("disk", gravity=[0.0, 0.0, -9.81])
    m.add_body("disk", mass=1.5, inertia=[0.015, 0.03, 0.015])
    m.add_constraint("floor", "rolling", "disk", radius=0.2, axis=[0, 1, 0])
    m.set_initial(bodies={"disk": {"quaternion": about_x(LEAN), "angular_velocity": [0.3, 5.0, -0.7]}})
    return m.compile()


def test_assembly_puts_a_disk_on_its_plane_and_lets_it_roll(disk):
    state = disk.initial_state()
    q = state[disk.dae.plan.junction_of["disk/pe", "q"]]
    assert_close(q[2, 3], 0.2 * np.cos(LEAN), 1e-9)
    x = to_internal(disk.dae, state)
    assert_close(disk.dae.violation(0.0, x), 0.0)
    u = disk.dae.efforts(0.0, x)[disk.dae.plan.slots["disk/p"]]
    contact = component(disk.dae, "floor/contact").roller.contact(q[:, :3])
    assert_close(u[:3], [0.3, 5.0, -0.7], 1e-9)
    assert_close(u[3:], -jnp.cross(u[:3], contact), 1e-9)
    assert {"floor/radius", "floor/axis", "floor/plane/point", "floor/plane/normal"} <= disk.parameters().keys()


def test_a_disk_that_lies_flat_is_refused_when_assembled(disk):
    with pytest.raises(AssemblyError, match="singularity"):
        disk.with_parameters({"initial/disk/quaternion": about_x(np.pi / 2)}).initial_state()


def test_given_velocities_that_a_constraint_forbids_are_refused():
    m = Mechanism("skate")
    m.add_body("skate", mass=1.0, inertia=[0.1, 0.1, 0.1])
    m.add_constraint("edge", "no_slide", "skate", direction=[0, 1, 0])
    m.set_initial(bodies={"skate": {"velocity": [1.0, 0.5, 0.0], "angular_velocity": [0.0, 0.0, 0.0]}})
    with pytest.raises(AssemblyError, match="initial/bodies/skate"):
        m.compile().initial_state()


def test_a_config_gives_a_plane_a_table(tmp_path):
    (tmp_path / "belt.csv").write_text("t,x,y,z\n0.0,0.0,0.0,0.0\n2.0,4.0,2.0,0.0\n")
    (tmp_path / "belt.yaml").write_text(
        "schema: jmbs/1\nbodies: {ball: {mass: 0.5, inertia: [0.002, 0.002, 0.002]}}\n"
        "constraints:\n  belt:\n    type: rolling\n    body: ball\n    radius: 0.1\n"
        "    plane: {point: [0, 0, 0.5], velocity: {table: belt.csv, columns: [x, y, z]}}\n"
    )
    drive = load(tmp_path / "belt.yaml").system().drives["belt/plane"]
    assert_close(drive.effort(jnp.asarray(0.5)), [0.0, 0.0, 0.0, 1.0, 0.5, 0.0])
