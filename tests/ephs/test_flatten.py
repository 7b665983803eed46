"""Nesting changes names only: however a model is boxed up and in whatever order, its flattening means the same."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from quick import quick_jit

from jmbs.ephs import System, flatten, pattern, reference_dae
from jmbs.library.mechanics.body import rigid_body
from jmbs.library.mechanics.friction import viscous_friction
from jmbs.library.mechanics.joint import JointPotential, Offset, joint, joint_closure, relative_momentum
from jmbs.library.oscillator import damped_oscillator, oscillator
from jmbs.lie import Revolute

SAMPLES = 3


def system(boxes, junctions, outer=(), closures=()):
    return System(pattern({name: box.ports for name, box in boxes.items()}, junctions, outer), boxes, {}, closures)


def junction_sets(flat, rename=lambda path: path):
    """Junctions as what they join, whatever they are called."""
    return {(j.quantity, frozenset((rename(path), port) for path, port in j.ports), j.outer) for j in flat.junctions}


# -- the two bodies joined by a hinge ---------------------------------------------------------------------------------


def parts():
    inertia = [jnp.diag(jnp.array(d)) for d in ([0.3, 0.5, 0.4], [0.2, 0.25, 0.3])]
    gravity = jnp.array([0.0, 0.3, -9.81])
    motion = Revolute(jnp.array([0.2, 0.4, 1.0]))
    half = np.sqrt(0.5)
    hinge = joint(
        motion,
        Offset(jnp.array([0.3, 0.0, 0.1]), jnp.array([half, half, 0.0, 0.0])),
        Offset(jnp.array([-0.2, 0.1, 0.0]), jnp.array([half, 0.0, 0.0, half])),
        JointPotential(jnp.array([3.0]), jnp.array([0.2]), motion.group),
        viscous_friction([0.7], relative_momentum(motion.group)),
    )
    return {"b1": rigid_body(2.0, inertia[0], gravity), "b2": rigid_body(1.5, inertia[1], gravity), "hinge": hinge}


WIRING = {
    "p1": "b1.p hinge.p1",
    "p2": "b2.p hinge.p2",
    "q1": "b1.q",
    "q2": "b2.q",
    "p_r": "hinge.p_r",
}


def two_bodies():
    return system(parts(), WIRING, closures=(joint_closure("hinge", "b1", "b2"),))


def wrapped():
    """The same, twice in a box of its own."""
    once = system({"whole": two_bodies()}, {})
    return system({"outer": once}, {})


def regrouped():
    """The hinge and the first body in one box, everything under other names and in another order."""
    boxes = parts()
    inner = {"joint": boxes["hinge"], "first": boxes["b1"]}
    arm = system(
        inner, {"r": "joint.p_r", "x": "joint.p1 first.p", "y": "joint.p2", "z": "first.q"}, {"tip": "y", "z?": "z"}
    )
    outer = {"a_second": boxes["b2"], "the_arm": arm}
    closures = (joint_closure("the_arm/joint", "the_arm/first", "a_second"),)
    return system(outer, {"u": "the_arm.z", "v": "a_second.q", "w": "a_second.p the_arm.tip"}, closures=closures)


NAMES = {"the_arm/joint": "hinge", "the_arm/first": "b1", "a_second": "b2"}


def rename_wrapped(path: str) -> str:
    return path.removeprefix("outer/whole/")


def rename_regrouped(path: str) -> str:
    for theirs, ours in NAMES.items():
        if path.startswith(f"{theirs}/"):
            return ours + path.removeprefix(theirs)
    return path


def test_the_two_bodies_flatten_to_their_boxes_and_junctions():
    flat = flatten(two_bodies())
    body, hinge = ("pe", "pkc", "ke", "lp"), ("hc", "o1", "o2", "pe", "pkc", "mf", "env")
    assert set(flat.components) == {
        *(f"{name}/{box}" for name in ("b1", "b2") for box in body),
        *(f"hinge/{box}" for box in hinge),
    }
    assert len(flat.components) == 4 + 4 + 7
    joined = {
        "b1/q": "b1/pe.q b1/pkc.q",
        "b2/q": "b2/pe.q b2/pkc.q",
        "b1/p": "b1/pkc.p b1/ke.p b1/lp.p hinge/o1.p",
        "b2/p": "b2/pkc.p b2/ke.p b2/lp.p hinge/o2.p",
        "hinge/q_r": "hinge/pe.q_r hinge/pkc.q_r hinge/hc.q_r",
        "p_r": "hinge/pkc.p_r hinge/mf.p_r hinge/hc.p_r",
        "hinge/p_j1": "hinge/o1.pj hinge/hc.p_j1",
        "hinge/p_j2": "hinge/o2.pj hinge/hc.p_j2",
        "hinge/s": "hinge/mf.s hinge/env.s",
    }
    found = {j.name: {".".join(pair) for pair in j.ports} for j in flat.junctions}
    assert found == {name: set(ports.split()) for name, ports in joined.items()}
    assert all(j.outer == () for j in flat.junctions)


@pytest.mark.parametrize("build, rename", [(wrapped, rename_wrapped), (regrouped, rename_regrouped)])
def test_boxing_up_changes_names_only(build, rename):
    flat, nested = flatten(two_bodies()), flatten(build())
    assert {rename(path) for path in nested.components} == set(flat.components)
    assert junction_sets(nested, rename) == junction_sets(flat)
    for path, component in nested.components.items():
        assert eqx.tree_equal(component, flat.components[rename(path)])


def test_paths_are_kept_as_names():
    flat = flatten(wrapped())
    assert all(path.startswith("outer/whole/") for path in flat.components)
    assert [closure.name for closure in flat.closures] == ["outer/whole/hinge"]
    closure = flat.closures[0]
    assert closure.constraint == "outer/whole/hinge/hc"
    assert set(closure.parts) | {path for path, _ in closure.states} <= set(flat.components)
    assert flat.junction_of("outer/whole/b1/ke", "p").name == "outer/whole/b1/p"


def canonical_states(dae, rename):
    """Junctions that have a state, in an order that does not depend on their names: by the ports that meet there."""
    ports = {}
    for (path, port), junction in dae.plan.junction_of.items():
        ports.setdefault(junction, []).append((rename(path), port))
    return sorted(dae.plan.state_of, key=lambda j: min(ports[j]))


def evaluate(built, rename=lambda path: path):
    """Velocities and efforts of all states, closures and account at random states, in canonical order."""
    dae = reference_dae(flatten(built), 300.0, jnp.float64)
    names = canonical_states(dae, rename)
    spaces = {name: dae.plan.blocks[b].space for name, (b, _) in dae.plan.state_of.items()}

    @quick_jit
    @eqx.filter_vmap(in_axes=(None, 0))
    def at(dae, steps):
        state = {name: spaces[name].exp(step) for name, step in steps.items()}
        x = tuple(jnp.stack([state[n] for n in block.junctions]) for block in dae.plan.blocks)
        rates = dae.rates(0.0, x)
        select = lambda vector: [vector[dae.plan.slots[n]] for n in names]  # noqa: E731
        energies = dict(zip(map(rename, dae.plan.storages), dae.energies(x), strict=True))
        return select(rates.velocity), select(rates.efforts), dae.closures(x), rates.power, energies

    rng = np.random.default_rng(1)
    return at(dae, {name: rng.normal(size=(SAMPLES, spaces[name].dim)) for name in names})


def assert_equal(one, other):
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-11 * (1 + np.abs(b).max(initial=0.0)))


@pytest.mark.slow
def test_boxing_up_keeps_the_rates():
    assert_equal(evaluate(regrouped(), rename_regrouped), evaluate(two_bodies()))


def test_the_order_of_boxes_and_junctions_does_not_matter():
    forwards = two_bodies()
    boxes = dict(reversed(forwards.boxes.items()))
    wiring = {name: " ".join(reversed(ports.split())) for name, ports in reversed(WIRING.items())}
    backwards = system(boxes, wiring, closures=forwards.closures)
    one, other = flatten(forwards), flatten(backwards)
    # The same lists in the same order: whatever is computed from them is bitwise equal.
    assert list(one.components) == list(other.components)
    assert one.junctions == other.junctions
    assert one.closures == other.closures
    plans = [reference_dae(flat, 300.0, jnp.float64).plan for flat in (one, other)]
    assert plans[0].state_of == plans[1].state_of
    assert all(np.array_equal(plans[0].slots[name], slots) for name, slots in plans[1].slots.items())


# -- the oscillator ---------------------------------------------------------------------------------------------------


def strip(path: str) -> str:
    return path.rsplit("/", 1)[-1]


def doubly_nested():
    box = oscillator(2.0, 3.0)
    around = damped_oscillator(2.0, 3.0, 0.5).boxes
    shell = system({"osc": box}, {"p": "osc.p"}, ["p"])
    shell = system({"shell": shell, "mf": around["mf"]}, {"p": "shell.p mf.p_r", "s": "mf.s"}, ["s"])
    return system({"machine": shell, "env": around["env"]}, {"heat": "machine.s env.s"})


OSCILLATORS = {
    "nested": lambda: damped_oscillator(2.0, 3.0, 0.5, nested=True),
    "doubly nested": doubly_nested,
}


@pytest.fixture(scope="module")
def flat_oscillator_rates():
    return evaluate(damped_oscillator(2.0, 3.0, 0.5, nested=False))


@pytest.mark.parametrize("name", OSCILLATORS)
def test_the_nested_oscillator_is_the_flat_one(name, flat_oscillator_rates):
    flat, nested = flatten(damped_oscillator(2.0, 3.0, 0.5, nested=False)), flatten(OSCILLATORS[name]())
    assert {strip(path) for path in nested.components} == set(flat.components) == {"pe", "ke", "pkc", "mf", "env"}
    assert junction_sets(nested, strip) == junction_sets(flat)
    assert_equal(evaluate(OSCILLATORS[name](), strip), flat_oscillator_rates)


def test_the_oscillator_obeys_its_equation():
    dae = reference_dae(flatten(damped_oscillator(2.0, 3.0, 0.5)), 300.0, jnp.float64)
    q, p = 0.7, -1.2
    values = {"osc/q": q, "osc/p": p, "s": 0.0}
    junction = {"osc/q": ("osc/pe", "q"), "osc/p": ("osc/ke", "p"), "s": ("env", "s")}
    states = {dae.plan.junction_of[junction[name]]: value for name, value in values.items()}
    x = tuple(jnp.array([[states[name]] for name in block.junctions]) for block in dae.plan.blocks)
    rates = quick_jit(dae.rates)(0.0, x)
    velocity = {name: rates.velocity[dae.plan.slots[dae.plan.junction_of[pair]]][0] for name, pair in junction.items()}
    u = p / 2.0
    assert velocity["osc/q"] == pytest.approx(u, rel=1e-14)
    assert velocity["osc/p"] == pytest.approx(-3.0 * q - 0.5 * u, rel=1e-14)
    assert velocity["s"] == pytest.approx(0.5 * u * u / 300.0, rel=1e-14)
    assert rates.power.dissipated == pytest.approx(0.5 * u * u, rel=1e-14)
    assert rates.power.entropy == pytest.approx(0.5 * u * u / 300.0, rel=1e-14)
