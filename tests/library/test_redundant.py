"""Systems in redundant coordinates mean their equations, keep the laws, and refuse data that break them."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from library.random_states import assert_close
from library.redundant_systems import M, accelerations, everything
from quick import quick_jit

import jmbs
from jmbs.ephs import Quantity, Rates, System, flatten, pattern, validate_component
from jmbs.errors import ModelError
from jmbs.library.mechanics import ThermalStore
from jmbs.library.redundant import examples, point_masses, redundant_system
from jmbs.library.redundant.damping import damping_matrix
from jmbs.lie import Rn
from jmbs.simulation.inputs import with_inputs
from jmbs.simulation.state import identity_state, to_internal

ZETA, W, FORCE = jnp.array([0.3, -0.2, 0.5]), jnp.array([0.7, -0.4, 0.2, 1.1]), jnp.array([0.6, -0.9])


def rates_of(system: System, inputs=None, **states):
    """The plan and the rates of a system at the given states, constraints met or not."""
    model = with_inputs(jmbs.compile(system), inputs or {})
    return model.dae.plan, rates_at(model, states)


@quick_jit
def rates_at(model: jmbs.Model, states) -> Rates:
    state = identity_state(model.dae)
    for name, value in states.items():
        state = state.replace(name, jnp.asarray(value, float))
    return model.dae.rates(0.0, to_internal(model.dae, state))


# -- meaning ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def full():
    return rates_of(everything(), {"ext": FORCE}, zeta=ZETA, w=W)


def test_boxes_mean_the_equations(full):
    plan, rates = full
    zeta_rate, w_rate, multipliers = accelerations(ZETA, W, FORCE)
    assert_close(rates.velocity[plan.slots["zeta"]], zeta_rate)
    assert_close(rates.velocity[plan.slots["w"]], M @ w_rate)
    assert_close(rates.efforts[plan.slots["w"]], W)
    rows = [plan.batches[b].multipliers[i] for b, i in (plan.member_of["kin"], plan.member_of["con"])]
    assert_close(rates.multipliers[np.concatenate(rows)], multipliers)


def test_power_balance(full):
    plan, rates = full
    stored = rates.efforts[: plan.n_stored] @ rates.velocity
    power = rates.power
    assert_close(stored, power.supplied - power.dissipated + power.constraint)
    assert power.dissipated > 0.1
    assert_close(power.entropy, power.dissipated / 298.15)
    external = rates.efforts[plan.drive_slots["ext"]]
    assert_close(power.supplied, FORCE @ external)


def test_every_box_is_lawful_on_random_states():
    for name, box in everything(regularity=lambda zeta: jnp.cos(zeta[0])).boxes.items():
        validate_component(name, box)


def test_a_float32_model_stays_float32():
    parts = examples.crank(), examples.rod_with_slider()
    model = jmbs.compile(examples.slider_crank(*parts), dtype=np.float32, initial=examples.slider_crank_positions(0.3))
    rates = jax.eval_shape(lambda model: model.dynamics(0.0, model.initial_state()), model)
    assert {leaf.dtype for leaf in jax.tree.leaves(rates)} == {np.dtype(np.float32)}


def test_arrays_of_a_users_module_are_parameters():
    model = jmbs.compile(everything())
    assert {"kin/Z/pitch", "ke/M"} <= set(model.parameters())
    assert float(model.parameters()["kin/Z/pitch"]["value"]) == 0.4


# -- damping ----------------------------------------------------------------------------------------------------------

WEIGHTS = jnp.array([0.5, 2.0, 0.0])


@quick_jit
def damped(w):
    """The matrix, its force and the derivative of that in both modes; the force and its derivative."""
    force = lambda w: WEIGHTS * jnp.tanh(w)  # noqa: E731
    by_matrix = lambda w: damping_matrix(force, w) @ w  # noqa: E731
    return damping_matrix(force, w), by_matrix(w), jax.jacfwd(by_matrix)(w), jax.jacrev(by_matrix)(w), *both(force, w)


def both(force, w):
    return force(w), jax.jacfwd(force)(w)


@pytest.mark.parametrize("w", [[0.3, -1.0, 0.7], [0.0, 0.0, 0.0], [0.0, 0.0, 1.5], [0.0, 1.0, 0.0]])
def test_a_damping_force_as_a_matrix_keeps_value_and_derivative(w):
    D, force, forwards, backwards, wanted, slope = damped(jnp.array(w))
    assert_close(D, D.T)
    assert np.linalg.eigvalsh(D).min() > -1e-12
    assert_close(force, wanted)
    assert_close(forwards, slope)
    assert_close(backwards, slope)


def test_three_ways_to_write_one_damping():
    rates = [
        rates_of(redundant_system(np.eye(2), tau_d=tau), w=[0.4, -0.3])[1]
        for tau in ([0.5, 2.0], np.diag([0.5, 2.0]), lambda zeta, w: jnp.array([0.5, 2.0]) * w)
    ]
    for other in rates[1:]:
        assert_close(other.velocity, rates[0].velocity)
        assert_close(other.power.entropy, rates[0].power.entropy)


def test_damping_heats_a_store_outside():
    inner = redundant_system([[1.0]], tau_d=[2.0], heats_environment=False)
    boxes = {"sled": inner, "store": ThermalStore(3.0, 300.0)}
    interfaces = {name: box.ports for name, box in boxes.items()}
    plan, rates = rates_of(System(pattern(interfaces, {"s": "sled.s store.s"}), boxes), **{"sled/w": [1.5]})
    heat = rates.velocity[plan.slots["s"]] * 300.0
    assert_close(heat, [2.0 * 1.5**2])


# -- singular mass matrices -------------------------------------------------------------------------------------------


def hanging(masses):
    """A point on a track along x, sprung to the origin, from which a second point hangs on a rod."""
    return point_masses(
        masses,
        2,
        c=lambda r: jnp.stack([r[1], jnp.sum((r[2:] - r[:2]) ** 2) - 0.25]),
        V=lambda r: 5.0 * r[0] ** 2 + 9.81 * r[3],
    )


@pytest.mark.slow
def test_a_singular_mass_matrix_is_the_limit_of_regular_ones():
    r, v = jnp.array([0.1, 0.0, 0.4, -0.4]), jnp.array([0.2, 0.0, 0.6, 0.3])
    limit_plan, limit = rates_of(hanging([0.0, 1.0]), zeta=r, p=v[2:])
    assert limit_plan.slots["p"].size == 2
    model = jmbs.compile(hanging([1.0, 1.0]))
    plan, differences = model.dae.plan, []
    for small in (1e-4, 1e-6):
        light = model.with_parameters({"ke/M": jnp.diag(jnp.array([small, small, 1.0, 1.0]))})
        regular = rates_at(light, {"zeta": r, "w": v})
        assert_close(regular.efforts[plan.slots["w"]], limit.efforts[limit_plan.slots["w"]])
        pull = regular.velocity[plan.slots["w"]][2:] - limit.velocity[limit_plan.slots["p"]]
        differences.append(float(np.max(np.abs(pull))))
    assert differences[0] < 1e-2 and differences[1] < 2e-2 * differences[0]


def test_a_mass_matrix_that_is_singular_across_its_axes_equals_the_reduced_system():
    """Only `v_1 + v_2` and `v_3` carry mass; with `v_1 = 2 v_2 = 2 u` the energy is that of `u` and `v_3`."""
    singular = np.array([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 2.0]])
    G = lambda gamma: gamma[0] * jnp.array([[0.0, 0.0, 1.0], [0.0, 0.0, 0.0], [-1.0, 0.0, 0.0]])  # noqa: E731
    full = redundant_system(singular, G=G, A=[1, -2, 0], V=lambda zeta: jnp.sum(zeta**2))
    u, v_3, zeta = 0.7, -0.4, jnp.array([0.2, 0.5, -0.3])
    (vectors,) = (np.array(full.boxes["mass"].directions),)
    plan, rates = rates_of(full, zeta=zeta, p=vectors.T @ np.array([2 * u, u, v_3]))
    assert_close(rates.efforts[plan.slots["w"]], [2 * u, u, v_3])
    embed = np.array([[2.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    reduced = redundant_system(
        embed.T @ singular @ embed,
        Z=embed,
        G=lambda gamma: embed.T @ G(jnp.stack([gamma[0] / 3, gamma[0] / 3, gamma[1]])) @ embed,
        V=lambda zeta: jnp.sum(zeta**2),
    )
    small_plan, small = rates_of(reduced, zeta=zeta, w=[u, v_3])
    assert_close(rates.velocity[plan.slots["zeta"]], small.velocity[small_plan.slots["zeta"]])
    momentum_rate = (
        singular @ embed @ np.linalg.solve(embed.T @ singular @ embed, small.velocity[small_plan.slots["w"]])
    )
    stored_rate = np.linalg.solve(vectors.T @ vectors, vectors.T @ momentum_rate)
    assert_close(rates.velocity[plan.slots["p"]], stored_rate)


@pytest.mark.slow
def test_velocities_without_mass_that_only_damping_fixes():
    plan, rates = rates_of(redundant_system(np.diag([2.0, 0.0]), tau_d=np.array([[1.0, -1.0], [-1.0, 3.0]])), p=[0.6])
    assert_close(rates.efforts[plan.slots["w"]], [0.6, 0.2])
    assert_close(rates.velocity[plan.slots["p"]], [-0.4])


def test_velocities_without_mass_that_nothing_fixes_are_refused():
    with pytest.raises(ModelError, match="junctions/w: found an effort that nothing determines"):
        jmbs.compile(redundant_system(np.diag([1.0, 0.0]), V=lambda zeta: zeta[0] ** 2))


# -- points, ports, interconnection -----------------------------------------------------------------------------------


def test_a_point_on_a_circle_is_the_pendulum():
    mass, length, angle, rate = 1.3, 0.8, 0.6, 1.7
    point = point_masses([mass], 2, c=lambda r: jnp.sum(r**2) - length**2, V=lambda r: mass * 9.81 * r[1])
    along, outward = jnp.array([jnp.cos(angle), jnp.sin(angle)]), jnp.array([jnp.sin(angle), -jnp.cos(angle)])
    plan, rates = rates_of(point, zeta=length * outward, w=length * rate * along)
    reduced = redundant_system([[mass * length**2]], V=lambda phi: -mass * 9.81 * length * jnp.cos(phi[0]))
    small_plan, small = rates_of(reduced, zeta=[angle], w=[rate])
    turning = small.velocity[small_plan.slots["w"]] / (mass * length**2)
    wanted = length * (turning * along - rate**2 * outward)
    assert_close(rates.velocity[plan.slots["w"]] / mass, wanted)


def test_connected_systems_are_one_system_of_the_class():
    """Two parts joined at a port accelerate as the same coordinates with the joint's rows among the constraints."""
    length = 0.1
    joined = examples.slider_crank(examples.crank(0.02, length), examples.rod_with_slider())
    start = examples.slider_crank_positions(0.3)
    w_rod = jnp.array([0.5, -0.4, -3.0])
    states = {**start, "crank/w": [10.0], "rod/w": w_rod}
    plan, rates = rates_of(joined, {"M": 0.5, "F": -2.0}, **states)
    assert plan.n_rows == 3

    one = redundant_system(
        np.block([[np.array([[0.02]]), np.zeros((1, 3))], [np.zeros((3, 1)), ROD]]),
        Z=lambda zeta: jax.scipy.linalg.block_diag(jnp.ones((1, 1)), examples.planar_kinematics(zeta[1:])),
        G=lambda gamma: jax.scipy.linalg.block_diag(jnp.zeros((1, 1)), examples.planar_gyroscopic_matrix(gamma[1:])),
        A=lambda zeta: jnp.concatenate([examples.CrankPin(length)(zeta[:1]), -examples.RodPoint(0.3)(zeta[1:])]).T,
        B={
            "M": [1, 0, 0, 0],
            "F": lambda zeta: jnp.concatenate([jnp.zeros(1), examples.RodPoint(0.0)(zeta[1:])[:, 0]]),
        },
        c=lambda zeta: zeta[2],
    )
    zeta = jnp.concatenate([start["crank/zeta"], start["rod/zeta"]])
    one_plan, wanted = rates_of(one, {"M": 0.5, "F": -2.0}, zeta=zeta, w=jnp.concatenate([jnp.array([10.0]), w_rod]))
    found = [rates.velocity[plan.slots[name]] for name in ("crank/w", "rod/w")]
    assert_close(np.concatenate(found), wanted.velocity[one_plan.slots["w"]])


ROD = np.array(examples.planar_mass_matrix(1.2, 0.12, 0.03))


def test_a_ports_quantity_is_that_of_joints_unless_told_otherwise():
    system = redundant_system(np.eye(2), B={"a": [1, 0], "b": np.eye(2)}, quantities={"a": Quantity(Rn(1), "line")})
    assert system.ports["a"].quantity.name == "line"
    assert str(system.ports["b"].quantity) == "(R2, relative_momentum_R2)"


def test_flattening_names_what_is_there():
    assert set(flatten(everything()).components) == {"pe", "ke", "kin", "gyr", "con", "res", "env", "b_ext"}
    assert set(flatten(redundant_system(np.eye(2))).components) == {"pe", "ke", "kin"}


# -- refusals ---------------------------------------------------------------------------------------------------------

REFUSED = {
    "M is not square": ({"M": [[1, 0]]}, "M: found shape"),
    "M is zero": ({"M": [[0]]}, "M: found zero"),
    "M is not symmetric": ({"M": [[1, 2], [0, 5]]}, "M: found .*symmetric"),
    "M has a negative eigenvalue": ({"M": [[1, 2], [2, 1]]}, "M: found .*negative eigenvalue"),
    "M has a negative entry": ({"M": [[1, 0], [0, -1e-3]]}, "M: found .*negative eigenvalue"),
    "M is not made of numbers": ({"M": [["a"]]}, "M: found"),
    "Z has another size": ({"Z": np.eye(3), "n_positions": 2}, r"Z: found shape \(3, 3\), wanted \(2, 2\)"),
    "Z is missing": ({"n_positions": 3}, "Z: found nothing, for 3 coordinates and 2 velocities"),
    "n_positions is no number": ({"n_positions": "three"}, "n_positions: found .* wanted a positive whole number"),
    "Z fails": ({"Z": lambda zeta: zeta[[0, "x"]]}, "Z: found TypeError"),
    "Z is not finite": ({"Z": lambda zeta: jnp.eye(2) / zeta[0]}, "Z: found .* wanted finite numbers"),
    "G is not skew": ({"G": lambda gamma: jnp.outer(gamma, gamma)}, "G: found a matrix that is not skew"),
    "G has another size": ({"G": np.zeros((3, 3))}, r"G: found shape \(3, 3\)"),
    "A has another size": ({"A": [[1, 0, 0]]}, r"A: found shape \(1, 3\), wanted \(m, 2\)"),
    "A changes its rank": ({"A": lambda zeta: zeta, "near": [0, 0]}, "A: found rows of rank 0 at near and 1 around"),
    "B has another size": ({"B": {"x": np.ones((3, 1))}}, r"B/x: found shape \(3, 1\), wanted \(2, k\)"),
    "B takes a junction's name": ({"B": {"zeta": [1, 0]}}, "B/zeta: found the name zeta"),
    "B has a malformed name": ({"B": {"a b": [1, 0]}}, "B/a b"),
    "quantity of no port": ({"quantities": {"y": Quantity(Rn(1), "y")}}, "quantities/y: found no such port"),
    "quantity of another size": (
        {"B": {"x": [1, 0]}, "quantities": {"x": Quantity(Rn(2), "y")}},
        "quantities/x: found .* wanted one of dimension 1",
    ),
    "c is no function": ({"c": [1.0]}, "c: found .* wanted a function of zeta"),
    "c is a matrix": ({"c": lambda zeta: jnp.eye(2)}, r"c: found shape \(2, 2\)"),
    "V is no number": ({"V": lambda zeta: zeta}, "V: found shape"),
    "tau_d feeds power in": ({"tau_d": lambda zeta, w: -w}, "tau_d: found damping that feeds power in"),
    "tau_d is negative": ({"tau_d": [1.0, -1.0]}, "tau_d: found damping that feeds power in"),
    "tau_d is not symmetric": ({"tau_d": [[1, 1], [0, 1]]}, "tau_d: found a damping matrix that is not symmetric"),
    "tau_d acts at rest": ({"tau_d": lambda zeta, w: jnp.ones(2)}, "tau_d: found the force"),
    "tau_d is not smooth at rest": (
        {"tau_d": lambda zeta, w: jnp.sign(w) * jnp.sqrt(jnp.abs(w))},
        "tau_d: found the force .* wanted no force and a finite derivative",
    ),
    "tau_d has another size": ({"tau_d": [1.0]}, "tau_d: found shape"),
    "regularity is no number": ({"regularity": lambda zeta: zeta}, "regularity: found shape"),
    "near has another size": ({"near": [0.0]}, "near: found"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case):
    data, message = REFUSED[case]
    with pytest.raises(ModelError, match=message):
        redundant_system(**{"M": np.eye(2)} | data)


@pytest.mark.parametrize(
    "arguments, message",
    [
        (([-1.0],), "masses: found"),
        (([1.0], 4), "dimension: found 4"),
    ],
)
def test_refused_points(arguments, message):
    with pytest.raises(ModelError, match=message):
        point_masses(*arguments)


def test_points_have_their_own_kinematics():
    with pytest.raises(ModelError, match="Z: found .* wanted no Z"):
        point_masses([1.0], Z=np.eye(3))
