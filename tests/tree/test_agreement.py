"""Two roads, one answer: the tree formulation and the reference semantics, on random mechanisms of all joint types.

Accelerations and each body's total constraint wrench agree to a thousand roundings times the condition number of the
saddle matrix that both solve.
"""

from __future__ import annotations

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array
from mechanisms import n_four_bar, random_mechanism, with_motors, with_rotors
from quick import quick_jit

import jmbs
from jmbs.dae import project
from jmbs.ephs import ENTROPY, Quantity, Role, power_port, state_port
from jmbs.library.mechanics import momentum_quantity
from jmbs.library.mechanics.friction import dissipation
from jmbs.lie import SE3, Rn
from jmbs.simulation.formulation import TreeFormulation
from jmbs.simulation.instant import instant
from jmbs.simulation.state import from_internal, to_internal
from jmbs.tree import tree_dae

slow = pytest.mark.slow
TREES = [pytest.param(*case, marks=slow) for case in ((1, 2), (1, 1), (2, 4), (3, 9), (4, 12))]
LOOPS = [pytest.param(*case, marks=slow) for case in ((1, 2, 1), (5, 4, 1), (6, 6, 2))]
MORE_GRADIENTS = (3, 5, 0, False), (5, 4, 1, False), (3, 5, 0, True), (5, 4, 1, True)
GRADIENTS = [pytest.param(*case, marks=slow) for case in ((1, 2, 0, False), (2, 4, 0, False), *MORE_GRADIENTS)]


def agreement(mechanism: jmbs.Mechanism, loops: int, seed: int = 0) -> None:
    model = jmbs.compile(mechanism)
    assert model.tree is not None
    x = to_internal(model.dae, model.initial_state())
    if loops:
        x = _moving(model.dae, x, seed)

    @quick_jit
    def both(model, x):
        dae = model.dae
        formulation = TreeFormulation(tree_dae(dae, model.tree))
        y = formulation.start(from_internal(dae, x))
        velocity = formulation.dae.rates(0.0, y).velocity
        tree, rates = formulation.look(0.0, y, velocity), dae.rates(0.0, x)
        motion = jax.jvp(formulation.reference_state, (y,), (formulation.dae.lift(y, velocity),))[1]
        reference = instant(dae, jnp.zeros(()), x, rates.velocity)
        s = dae.structures(x)
        C = dae.constraint_matrix(0.0, s)
        free = C[:, dae.plan.n_stored :]
        A = dae.compliance(x, C)
        saddle = jnp.block([[jnp.zeros((free.shape[1],) * 2), free.T], [free, -A / jnp.max(jnp.diagonal(A))]])
        flow = lambda at: dae.reduce(s, dae.multiplier_flows(s, at.forces.multipliers))  # noqa: E731
        on_bodies = lambda at: flow(at)[: dae.plan.n_stored]  # noqa: E731
        return (tree, motion, on_bodies(tree)), (reference, dae.lift(x, rates.velocity), on_bodies(reference)), saddle

    (tree, motion, wrenches), (reference, wanted_motion, wanted_wrenches), saddle = both(model, x)
    singular = np.linalg.svd(np.asarray(saddle), compute_uv=False)
    sound = singular[singular > 1e-9 * singular[0]]
    tolerance = 1e3 * np.finfo(np.float64).eps * sound[0] / sound[-1]
    assert tolerance < 1e-5, "an ill-conditioned mechanism tests nothing"
    for found, expected in zip(tree.x, x, strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-9 if loops else 1e-12)
    for found, expected in zip(motion, wanted_motion, strict=True):
        _close(found, expected, tolerance)
    _close(wrenches, wanted_wrenches, tolerance)
    efforts, wanted = (jnp.concatenate(at.efforts) for at in (tree, reference))
    seen = np.setdiff1d(np.arange(len(wanted)), _forces_of_the_tree(model))
    _close(efforts[seen], wanted[seen], tolerance)
    if len(sound) == len(singular):
        _close(tree.forces.multipliers, reference.forces.multipliers, tolerance)


def _forces_of_the_tree(model) -> np.ndarray:
    """The efforts of storages that only the tree knows: gravity's, which the tree formulation does not tell."""
    others, batches = model.tree.others, model.dae.plan.batches
    storages = [b for i, b in enumerate(batches) if b.role is Role.STORAGE and i not in others]
    slots = np.concatenate([b.efforts.ravel() for b in storages])
    return np.setdiff1d(slots, model.tree.body_slots)


def _close(found, wanted, tolerance: float) -> None:
    scale = max(1.0, float(jnp.max(jnp.abs(wanted), initial=0.0)))
    assert float(jnp.max(jnp.abs(found - wanted), initial=0.0)) <= tolerance * scale


def _moving(dae, x, seed: int):
    """A consistent state in motion: random momenta, projected onto the constraints."""
    rng = np.random.default_rng(seed)
    blocks = [
        jnp.asarray(rng.normal(size=value.shape)) if block.from_effort else value
        for block, value in zip(dae.plan.blocks, x, strict=True)
    ]
    step = quick_jit(lambda dae, x: project(dae, 0.0, x)[0])
    x = tuple(blocks)
    for _ in range(3):
        x = step(dae, x)
    return x


@pytest.mark.parametrize(("seed", "bodies"), TREES)
def test_trees(seed, bodies):
    agreement(random_mechanism(seed, bodies), 0)
    jax.clear_caches()


class Magnet(eqx.Module):
    """A bar magnet on a body, in a field that weakens with height."""

    moment: Array

    def energy(self, pose):
        return -3.0 * (pose[:, :3] @ self.moment)[2] * jnp.exp(-pose[2, 3])


@slow
@pytest.mark.parametrize("loops", [0, 1])
def test_potentials_of_bodies(loops):
    mechanism = random_mechanism(5, 4, loops)
    for name in list(mechanism.bodies)[1:3]:
        law = Magnet(jnp.asarray([0.3, 0.5, -0.2]))
        mechanism.bodies[name] = dataclasses.replace(mechanism.bodies[name], potential=law)
    agreement(mechanism, loops)


class Bar(eqx.Module):
    """A bar without mass between two bodies, as long as `length` and the sine of a turn."""

    length: float

    def gap(self, pose, other):
        d = pose[:, 3] - other[:, 3]
        return jnp.stack([jnp.sqrt(d @ d) - self.length - 0.1 * pose[0, 1]])


class Skate(eqx.Module):
    def rate(self, pose, velocity, other, other_velocity):
        return (other[:, :3].T @ pose[:, :3] @ velocity[3:] - other_velocity[:3])[:1]


@slow
@pytest.mark.parametrize("law", [Bar, Skate])
def test_constraints_between_bodies(law):
    mechanism = random_mechanism(7, 4)
    first, _, other, *_ = mechanism.bodies
    start = jmbs.compile(mechanism).initial_state()
    d = start[f"{first}/q"][:, 3] - start[f"{other}/q"][:, 3]
    args = [float(jnp.linalg.norm(d)) - 0.1 * float(start[f"{first}/q"][0, 1])] if law is Bar else []
    mechanism.add_constraint("c", law(*args), first, other=other)
    for given in mechanism.initial_joints.values():
        given["v"] = None
    agreement(mechanism, 1)


@pytest.mark.parametrize(("seed", "bodies", "loops"), LOOPS)
def test_loops(seed, bodies, loops):
    agreement(random_mechanism(seed, bodies, loops), loops, seed)
    jax.clear_caches()


@slow
@pytest.mark.parametrize(("seed", "bodies"), [(1, 2), (2, 4), (3, 9)])
def test_trees_with_rotors(seed, bodies):
    mechanism = with_rotors(random_mechanism(seed, bodies), seed)
    layout = mechanism.compile().tree
    assert layout is not None and layout.rotors is not None and not layout.other_rows.size
    agreement(mechanism, 0)
    jax.clear_caches()


@slow
@pytest.mark.parametrize("only", ["j", "loop", ""])
def test_loops_with_rotors(only):
    """Rotors on joints of the tree are the tree's; where one is on a loop joint all of that kind stay couplings."""
    mechanism = with_rotors(random_mechanism(5, 4, 1), 5, only)
    cut = [name for name in mechanism.joints if name.startswith("loop")]
    mechanism.simulation = dataclasses.replace(mechanism.simulation, cut_joints=tuple(cut))
    layout = mechanism.compile().tree
    assert layout is not None and bool(layout.general_rows.size) == (only != "j")
    agreement(mechanism, 1, 5)
    jax.clear_caches()


@slow
@pytest.mark.parametrize(
    ("seed", "bodies", "loops", "only", "inside"),
    [(6, 2, 0, "", True), (2, 4, 0, "", True), (9, 6, 1, "j", True), (9, 6, 1, "", False)],
)
def test_motors_on_joints(seed, bodies, loops, only, inside):
    """Rotors of motors on joints of the tree are the tree's; where one is on a loop joint, all stay couplings."""
    mechanism = with_motors(random_mechanism(seed, bodies, loops), only)
    cut = [name for name in mechanism.joints if name.startswith("loop")]
    mechanism.simulation = dataclasses.replace(mechanism.simulation, cut_joints=tuple(cut))
    layout = mechanism.compile().tree
    assert layout is not None and (layout.rotors is not None) == inside == (not layout.general_rows.size)
    agreement(mechanism, loops, seed)
    jax.clear_caches()


def test_a_rotor_beside_an_armature_stays_a_coupling():
    mechanism = with_motors(with_rotors(random_mechanism(2, 4), only="j2"), "j2")
    layout = mechanism.compile().tree
    assert layout is not None and layout.rotors is None and layout.general_rows.size


class Loss(eqx.Module):
    """A user's loss along random directions of a port."""

    root: Array
    quantity: Quantity = eqx.field(static=True)

    @property
    def ports(self):
        return {"p": power_port(self.quantity.space, self.quantity.name), "s": power_port(Rn(1), ENTROPY)}

    def onsager(self, x, e):
        return dissipation(self.root @ self.root.T, e["p"], e.temperature("s"))


class Swirl(eqx.Module):
    """A user's force across the velocity of a body, larger the farther it is."""

    root: Array

    @property
    def ports(self):
        momentum = momentum_quantity(SE3)
        return {"p": power_port(momentum.space, momentum.name), "q": state_port(SE3, "pose")}

    def structure(self, x):
        return (self.root - self.root.T) * (1 + x["q"][0, 3] ** 2), None


@slow
@pytest.mark.parametrize("kind", ["joint", "body", "swirl"])
@pytest.mark.parametrize(("seed", "bodies", "loops"), [(2, 4, 0), (5, 4, 1)])
def test_a_component_of_a_user_at_a_random_port(seed, bodies, loops, kind):
    """What the tree does not know is evaluated by the reference semantics, in both formulations alike."""
    mechanism, rng = random_mechanism(seed, bodies, loops), np.random.default_rng(seed)
    turning = [name for name, spec in mechanism.joints.items() if spec.dimension]
    name = str(rng.choice(turning if kind == "joint" else list(mechanism.bodies)))
    port = "p_r" if kind == "joint" else "p"
    quantity = mechanism.system().boxes[name].ports[port].quantity
    root = jnp.asarray(rng.normal(size=(quantity.space.dim,) * 2))
    mechanism.add_system("mine", Swirl(root) if kind == "swirl" else Loss(root, quantity))
    mechanism.connect("acts", ["mine.p", f"{name}.{port}"])
    if kind == "swirl":
        mechanism.connect("sees", ["mine.q", f"{name}.q"])
    else:
        mechanism.connect("heats", ["mine.s", "environment.s"])
    agreement(mechanism, loops, seed)
    jax.clear_caches()


@slow
def test_rows_in_blocks():
    """Windows side by side, whose rows form a block tridiagonal matrix; they are redundant, too."""
    mechanism = n_four_bar(5)
    layout = mechanism.compile().tree
    assert layout is not None and layout.rows.blocks.shape == (5, 5)
    agreement(mechanism, 5)
    jax.clear_caches()


@slow
def test_loops_in_single_precision():
    ends = []
    for dtype in ("float32", "float64"):
        model = jmbs.compile(n_four_bar(1), dtype=dtype)
        trajectory = jmbs.simulate(model, ts=[0.0, 0.05], dt=5e-3, solver="rk4", formulation="tree")
        assert trajectory.q["foot0"].dtype == dtype
        ends.append(np.asarray(trajectory.q["foot0"])[-1])
    np.testing.assert_allclose(*ends, rtol=1e-4)
    jax.clear_caches()


@pytest.mark.parametrize(("seed", "bodies", "loops", "rotors"), GRADIENTS)
def test_gradients(seed, bodies, loops, rotors):
    """Of the rates with respect to masses, inertias, friction, rotors and gravity, the bodies' velocities held.

    Joints of one freedom have motors where none has an armature.
    """
    mechanism = random_mechanism(seed, bodies, loops)
    model = jmbs.compile(with_rotors(mechanism, seed, "j") if rotors else with_motors(mechanism, "j"))
    assert model.tree is not None
    x = to_internal(model.dae, model.initial_state())
    state = from_internal(model.dae, _moving(model.dae, x, seed) if loops else x)
    kinds = ("mass", "inertia", "friction/viscous", "gravity", "armature")
    values = {path: entry["value"] for path, entry in model.parameters().items() if path.endswith(kinds)}
    rng = np.random.default_rng(seed)
    weights = [jnp.asarray(rng.normal(size=block.shape)) for block in x]

    @quick_jit
    def both(values):
        def weighted(values, tree: bool):
            changed = model.with_parameters(values)
            if tree:
                formulation = TreeFormulation(tree_dae(changed.dae, model.tree))
                y = formulation.start(state)
                along = formulation.dae.lift(y, formulation.dae.rates(0.0, y).velocity)
                motion = jax.jvp(formulation.reference_state, (y,), (along,))[1]
            else:
                x = to_internal(changed.dae, state)
                motion = changed.dae.lift(x, changed.dae.rates(0.0, x).velocity)
            return sum(jnp.sum(w * rate) for w, rate in zip(weights, motion, strict=True))

        return jax.grad(weighted)(values, True), jax.grad(weighted)(values, False)

    tree, reference = both(values)
    size = max(float(jnp.max(jnp.abs(value))) for value in reference.values())
    whole = lambda value: value + value.T  # noqa: E731
    for path, value in reference.items():
        # Of an inertia only the symmetric part has a meaning.
        np.testing.assert_allclose(whole(tree[path]), whole(value), rtol=0, atol=1e-9 * size, err_msg=path)
    jax.clear_caches()


@slow
@pytest.mark.parametrize(("seed", "bodies", "loops"), [(7, 25, 0), (8, 40, 0), (9, 12, 2), (10, 18, 3)])
def test_large(seed, bodies, loops):
    agreement(random_mechanism(seed, bodies, loops), loops, seed)
    jax.clear_caches()
