"""Initial states from partial data: completed, or refused with what could not be met."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from quick import closures, quick_jit

import jmbs
from jmbs import AssemblyError, Mechanism
from jmbs.ephs import ConstantEffort, Environment, System, pattern, power_port
from jmbs.library.mechanics.friction import viscous_friction
from jmbs.library.motor import SHAFT, Rotor
from tests.conftest import ROOT


def two_links(bent: bool = False, **initial) -> Mechanism:
    mechanism = Mechanism()
    for name in ("a", "b"):
        mechanism.add_body(name, mass=1.0, inertia=[0.01, 0.02, 0.02])
    far, near = {"position": [0.5, 0, 0]}, {"position": [-0.5, 0, 0]}
    mechanism.add_joint("j1", "revolute", "ground", "a", child_frame=near, axis=[0, 1, 0])
    elbow = {**far, "quaternion": [np.cos(0.5), 0.0, np.sin(0.5), 0.0]} if bent else far
    mechanism.add_joint("j2", "universal", "a", "b", elbow, near, axis=[0, 1, 0], axis2=[0, 0, 1])
    mechanism.set_initial(**initial)
    return mechanism


def assembled(mechanism):
    model = jmbs.compile(mechanism)
    return model, model.initial_state()


def test_joint_values_place_the_bodies():
    model, state = assembled(two_links(joints={"j1": {"q": [0.3], "v": [2.0]}, "j2": {"q": [0.1, -0.4]}}))
    assert np.max(np.abs(closures(model, state))) < 1e-15
    np.testing.assert_allclose(state["a/q"][:, 3], [0.5 * np.cos(0.3), 0.0, -0.5 * np.sin(0.3)], atol=1e-15)
    # The second joint's rates are not given: they stay zero and b moves with a.
    np.testing.assert_allclose(state["a/p"][1], 2.0, atol=1e-12)
    spin = state["b/q"][:, :3] @ state["b/p"][:3]
    np.testing.assert_allclose(spin, [0.0, 2.0, 0.0], atol=1e-12)


def test_a_body_given_places_its_joints():
    first, s1 = assembled(two_links(joints={"j1": {"q": [0.3]}, "j2": {"q": [0.1, -0.4]}}))
    b = first.initial_state()["b/q"]
    given = {"position": b[:, 3], "quaternion": jmbs.lie.rotation_to_quaternion(b[:, :3])}
    _, s2 = assembled(two_links(bodies={"b": given}))
    np.testing.assert_allclose(s2["b/q"], b, atol=1e-12)
    np.testing.assert_allclose(s2["a/q"], s1["a/q"], atol=1e-9)


def test_contradictions_are_refused_with_names():
    with pytest.raises(AssemblyError, match=r"(joints/j1|initial/bodies/a).*misses by"):
        assembled(two_links(joints={"j1": {"q": [0.3]}}, bodies={"a": {"position": [0.5, 0.1, 0.0]}}))


@pytest.mark.slow
def test_joint_velocity_that_a_body_contradicts_is_refused():
    with pytest.raises(AssemblyError, match="initial/bodies/a"):
        assembled(
            two_links(joints={"j1": {"q": [0.3], "v": [1.0]}}, bodies={"a": {"angular_velocity": [0.0, 3.0, 0.0]}})
        )


@pytest.mark.slow
def test_a_loop_that_cannot_close_is_refused():
    mechanism = two_links()
    mechanism.add_joint("j3", "spherical", "ground", "b", {"position": [5.0, 0, 0]}, {"position": [0.5, 0, 0]})
    with pytest.raises(AssemblyError, match="wanted data that all joints"):
        assembled(mechanism)


def forwards(function):
    """As `jax.value_and_grad` of a number, in forward mode."""
    return lambda x: jax.jvp(function, (x,), (jnp.ones_like(x),))


@pytest.mark.slow
@pytest.mark.parametrize("mode", [jax.value_and_grad, forwards])
def test_a_loop_closes_and_gradients_run_through_it(mode):
    # Bent at the start, since a stretched pair of links cannot tell which way to fold.
    mechanism = two_links(bent=True)
    mechanism.add_joint("j3", "spherical", "ground", "b", {"position": [1.2, 0, 0]}, {"position": [0.5, 0, 0]})
    model, state = assembled(mechanism)
    assert np.max(np.abs(closures(model, state))) < 1e-14

    def height(x):
        moved = model.with_parameters({"j3/parent_frame/position": [x, 0.0, 0.0]})
        from jmbs.simulation.assembly import assemble

        return assemble(moved, jnp.zeros(()))[0]["b/q"][2, 3]

    at, h = quick_jit(mode(height)), 1e-5
    (before, _), (_, slope), (after, _) = (at(x) for x in 1.2 + jnp.array([-h, 0.0, h]))
    np.testing.assert_allclose(slope, (after - before) / (2 * h), rtol=1e-7)


# -- branches ---------------------------------------------------------------------------------------------------------

BARS = {"crank": 0.15, "coupler": 0.45, "rocker": 0.4}


def four_bar(**joints) -> Mechanism:
    """Ground 0.5 m; joints A, B, C along the loop, and D between ground and rocker."""
    mechanism = Mechanism("four_bar", gravity=(0.0, 0.0, 0.0))
    near, far = ({name: [sign * length / 2, 0, 0] for name, length in BARS.items()} for sign in (-1, 1))
    for name in BARS:
        mechanism.add_body(name, mass=1.0, inertia=[0.01, 0.01, 0.01])
    z = {"axis": (0, 0, 1)}
    mechanism.add_joint("A", "revolute", "ground", "crank", child_frame=near["crank"], **z)
    mechanism.add_joint("B", "revolute", "crank", "coupler", far["crank"], near["coupler"], **z)
    mechanism.add_joint("D", "revolute", "ground", "rocker", [0.5, 0, 0], near["rocker"], **z)
    mechanism.add_joint("C", "revolute", "coupler", "rocker", far["coupler"], far["rocker"], **z)
    mechanism.set_initial(joints={name: {"q": q} for name, q in joints.items()})
    return mechanism


def angles(model, state) -> dict[str, float]:
    return {joint.name: float(state[joint.coordinates][0]) for joint in model.layout.parts.joints}


ROCKER = {-2.2: -2.3029711169829747, 1.7: 1.7177185312694974}


@pytest.mark.parametrize("guess", ROCKER)
def test_a_guess_chooses_the_branch_and_gives_way(guess):
    model, state = assembled(four_bar(A=[1.0], D=jmbs.guess([guess])))
    q = angles(model, state)
    assert q["A"] == 1.0 and q["D"] == pytest.approx(ROCKER[guess], abs=1e-12)
    assert max(abs(q["B"]), abs(q["C"])) < np.pi
    assert "branch:" not in model.describe()
    moved = model.with_parameters({"initial/D/guess": [next(other for other in ROCKER if other != guess)]})
    assert angles(model, moved.initial_state())["D"] != pytest.approx(q["D"], abs=1.0)


@pytest.mark.slow
def test_a_loop_closes_near_to_where_its_joints_start_and_says_so():
    model, state = assembled(four_bar(A=[1.0]))
    q = angles(model, state)
    assert q["D"] == pytest.approx(ROCKER[1.7], abs=1e-12)
    assert f"branch: assembly chose B {q['B']:.6g}, D {q['D']:.6g}, C {q['C']:.6g}; a guess of q" in model.describe()
    run = jmbs.simulate(model, t1=0.01, dt=0.01, solver="rk4", save_every=0.01, audit=False)
    assert set(run.labels.assembled) == {"B", "C", "D"}
    given = jmbs.simulate(model, state=state, t1=0.01, dt=0.01, solver="rk4", save_every=0.01, audit=False)
    assert not given.labels.assembled


@pytest.mark.slow
def test_a_slider_crank_of_which_only_the_crank_is_given():
    """It started with its pin at 197 rad, on the other branch."""
    mechanism = jmbs.load(ROOT / "configs" / "slider_crank.yaml")
    wanted = {name: float(entry["q"][0]) for name, entry in mechanism.initial_joints.items()}
    mechanism.initial_joints.clear()
    mechanism.set_initial(joints={"bearing": {"q": [1.0]}})
    model, state = assembled(mechanism)
    assert angles(model, state) == pytest.approx(wanted, abs=1e-12)


def test_coordinates_that_contradict_each_other_are_named():
    with pytest.raises(AssemblyError) as caught:
        assembled(four_bar(A=[1.0], D=[-2.2]))
    message = str(caught.value)
    assert "an assembly that misses by" in message and "0.0" in message and " m (" in message
    assert "one of initial/joints/A/q, initial/joints/D/q left out, or given as a guess" in message


@pytest.mark.slow
def test_a_rate_that_a_loop_does_not_allow_is_named():
    mechanism = four_bar(A=[1.0])
    mechanism.set_initial(joints={"A": {"v": [1.0]}, "D": {"v": [5.0]}})
    pattern = r"initial/joints/(A|D): found an assembly that misses by \S+ rad/s .*one of initial/joints/A/v, .*/D/v"
    with pytest.raises(AssemblyError, match=pattern):
        assembled(mechanism)


@pytest.mark.slow
def test_drives_that_contradict_each_other_are_named():
    """A joint alone was reported that misses."""
    mechanism = four_bar(A=[1.0])
    mechanism.connect("first", ["A.p_r"], effort=1.0)
    mechanism.connect("second", ["D.p_r"], effort=5.0)
    with pytest.raises(AssemblyError, match=r"joints/B: .* m/s \(.*one of inputs/first, inputs/second left out"):
        assembled(mechanism)


@pytest.mark.parametrize("value", [jmbs.guess([0.1, 0.2]), {"guess": "x"}, jmbs.guess(None)])
def test_a_guess_of_the_wrong_kind_is_refused(value):
    with pytest.raises(jmbs.ModelError, match="initial/joints/D/q/guess: .*1 finite number"):
        four_bar(D=value)


class Along(eqx.Module):
    """How fast a body moves along a belt, as a row; without the port `slip` it does not."""

    slips: bool = eqx.field(static=True)

    @property
    def ports(self):
        return {name: power_port(SHAFT.space, SHAFT.name) for name in ("body", "belt", "slip")[: 2 + self.slips]}

    def structure(self, x):
        del x
        return None, jnp.array([[1.0, -1.0, -1.0]])[:, : 2 + self.slips]


def test_friction_does_not_spread_the_speed_of_a_drive():
    """What rubs on a driven belt starts at rest, though a row binds it to the belt; what sticks to it does not."""
    boxes = {"wheel": Rotor(2.0), "gear": Rotor(0.5), "slides": Along(True), "sticks": Along(False)}
    boxes |= {"friction": viscous_friction([0.5], SHAFT), "env": Environment()}
    junctions = {"wheel": "wheel.shaft slides.body", "gear": "gear.shaft sticks.body", "s": "friction.s env.s"}
    junctions |= {"slip": "slides.slip friction.p_r", "belt": "slides.belt sticks.belt"}
    wiring = pattern({name: box.ports for name, box in boxes.items()}, junctions, outer=["belt"])
    _, state = assembled(System(wiring, boxes, {"belt": ConstantEffort(jnp.array([2.0]))}))
    np.testing.assert_allclose([state["wheel"][0], state["gear"][0]], [0.0, 2.0], atol=1e-12)


def test_an_element_without_length_is_named():
    """Between points that are one goes no line, along which its force would be."""
    made = jmbs.Mechanism("pendulum")
    made.add_body("bob", mass=1.0, inertia=[0.1, 0.1, 0.1])
    made.add_joint("pivot", "revolute", "ground", "bob", axis=[0, 1, 0])
    made.add_spring_damper("spring", "ground", "bob", stiffness=3.0)
    with pytest.raises(AssemblyError, match="elements/spring: found two points at the same place"):
        made.compile().initial_state()


# -- what assembly chooses --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [jax.jacfwd, pytest.param(jax.jacrev, marks=pytest.mark.slow)])
def test_free_coordinates_of_a_gear_move_least(mode):
    """By `(s, t) = c (offset - r) / |c|^2`, whose derivative by the coefficients `c` is known."""
    mechanism = Mechanism("train")
    for name in "abc":
        mechanism.add_body(name, mass=1.0, inertia=[0.1, 0.1, 0.1])
    for joint, body in zip("rst", "abc", strict=True):
        mechanism.add_joint(joint, "revolute", "ground", body, axis=(0, 1, 0))
    mechanism.add_constraint("gear", "gear", joints={"r": 1.0, "s": 2.0, "t": -0.5}, offset=0.1)
    mechanism.set_initial(joints={"r": {"q": [0.5]}})
    model = mechanism.compile()

    def found(c):
        state = model.with_parameters({"gear/coefficients": c}).initial_state()
        return jnp.stack([state[model.layout.joint(name).coordinates][0] for name in "st"])

    def wanted(c):
        return c[1:] * (0.1 - 0.5 * c[0]) / (c[1:] @ c[1:])

    both = quick_jit(lambda c: (found(c), mode(found)(c)))
    for one, other in zip(
        both(jnp.array([1.0, 2.0, -0.5])),
        (f(jnp.array([1.0, 2.0, -0.5])) for f in (wanted, jax.jacfwd(wanted))),
        strict=True,
    ):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-12)


@pytest.mark.slow
def test_a_loop_of_guesses_moves_least_with_exact_derivatives_of_two_orders():
    """Against differences; a crank a little farther on moves more."""
    guesses = {"A": -1.0, "B": 1.2, "C": 1.0}
    model = four_bar(**{name: jmbs.guess([value]) for name, value in guesses.items()}).compile()

    def angles(given):
        changed = {
            "D/parent_frame/position": jnp.stack([given[0], given[0] * 0, given[0] * 0]),
            "initial/A/guess": given[1:],
        }
        state = model.with_parameters(changed).initial_state()
        return jnp.stack([state[model.layout.joint(name).coordinates][0] for name in "ABCD"])

    def seen(given):
        found = angles(given)
        return found[0] + 2.0 * found[3] ** 2

    at, h = jnp.array([0.5, -1.0]), 1e-5
    value, slope = (quick_jit(jax.vmap(function)) for function in (seen, jax.grad(seen)))
    around = at + h * jnp.concatenate([jnp.eye(2), -jnp.eye(2)])
    difference = lambda values: (values[:2] - values[2:]) / (2 * h)  # noqa: E731
    np.testing.assert_allclose(slope(at[None])[0], difference(value(around)), rtol=1e-7)
    np.testing.assert_allclose(quick_jit(jax.hessian(seen))(at), difference(slope(around)), rtol=1e-6, atol=1e-8)

    def motion(given):
        moved = given - jnp.array([*guesses.values(), 0.0])
        return jnp.sum((moved / jnp.array([0.1, 0.1, 0.1, 1.0])) ** 2)

    q = quick_jit(angles)(at)
    for step in (-0.01, 0.01):
        held = four_bar(
            A=[float(q[0]) + step], **{name: jmbs.guess([float(q[i])]) for i, name in enumerate("ABCD") if i}
        )
        other, state = assembled(held)
        near = jnp.array([state[other.layout.joint(name).coordinates][0] for name in "ABCD"])
        assert np.max(np.abs(near - q)) < 0.1 and motion(near) > motion(q)


def test_loops_of_guesses_close_in_single_precision():
    """The rounding of what is free must not be taken for motion: half of them did not close."""
    model = four_bar(**{name: jmbs.guess([1.0]) for name in "ABC"}).compile(dtype="float32")

    def start(guesses):
        given = {f"initial/{name}/guess": guesses[i : i + 1] for i, name in enumerate("ABC")}
        return model.dae.closures(model.with_parameters(given).initial_state().blocks)

    guesses = jnp.asarray(np.random.default_rng(0).uniform(-3, 3, (60, 3)), "float32")
    assert np.max(np.abs(quick_jit(jax.vmap(start))(guesses))) < 1e-5
