"""Laws of the recursions: inverse and forward dynamics cancel, the mass matrix is that of kinetic energy, derivatives
are those of finite differences, batches equal loops, and both ways of factorising agree."""

from __future__ import annotations

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from mechanisms import chain, humanoid
from quick import quick_jit

import jmbs
from jmbs.rigid_body import forward_dynamics, inverse_dynamics, kinematics, mass_matrix
from jmbs.rigid_body.adjoint import linearisation, power_gradient
from jmbs.rigid_body.articulated import articulated_accelerations, articulated_factor, articulated_solve
from jmbs.rigid_body.batches import Inputs
from jmbs.rigid_body.implicit import changes_along_tangents
from jmbs.rigid_body.joints import GeneralJoints
from jmbs.rigid_body.mass_matrix import turned_inertias
from jmbs.rigid_body.tangents import forces_change, motion_change
from jmbs.simulation.formulation import formulation_of

# Operation by operation these are hundreds of programs; each is one.
kinematics, mass_matrix, turned_inertias = map(eqx.filter_jit, (kinematics, mass_matrix, turned_inertias))
articulated_factor, articulated_solve = map(eqx.filter_jit, (articulated_factor, articulated_solve))
articulated_accelerations = eqx.filter_jit(articulated_accelerations)


class Case:
    """A tree with random velocities and forces."""

    def __init__(self, mechanism):
        self.model = jmbs.compile(mechanism)
        self.links, self.q = eqx.filter_jit(self._parts)(self.model, self.model.initial_state())
        assert self.model.tree is not None
        self.tree = self.model.tree.tree
        rng = np.random.default_rng(0)
        n = self.tree.n_velocities
        self.v, self.forces, self.other = (jnp.asarray(rng.normal(size=n)) for _ in range(3))
        self.loads = jnp.asarray(rng.normal(size=(len(self.tree.bodies), 6)))

    @staticmethod
    def _parts(model, state):
        formulation = formulation_of(model)
        return formulation.dae.links, formulation.dae.elements(formulation.start(state))

    def forward(self, v, forces, loads=None):
        return forward_dynamics(self.tree, self.links, self.q, v, forces, self.loads if loads is None else loads)


@pytest.fixture(scope="module")
def robot() -> Case:
    return Case(humanoid())


@pytest.fixture(scope="module")
def pendulum() -> Case:
    case = Case(chain(3, 0.7))
    case.q = (case.q[0] + jnp.asarray([[0.3], [-0.8], [0.5]]),)
    return case


def test_inverse_and_forward_dynamics_cancel(robot):
    @quick_jit
    def there_and_back(links, q):
        dv = forward_dynamics(robot.tree, links, q, robot.v, robot.forces, robot.loads)
        return inverse_dynamics(robot.tree, links, q, robot.v, dv, robot.loads)

    np.testing.assert_allclose(there_and_back(robot.links, robot.q), robot.forces, atol=1e-10)


def test_mass_matrix_is_that_of_kinetic_energy_and_of_inverse_dynamics(robot):
    motion = kinematics(robot.tree, robot.links, robot.q, robot.v, local=True)
    lower = mass_matrix(robot.tree, robot.links, motion, turned_inertias(robot.links, motion))
    M = np.asarray(lower + jnp.tril(lower, -1).T)
    zero = jnp.zeros_like(robot.v)
    force = lambda dv: inverse_dynamics(robot.tree, robot.links, robot.q, zero, dv)  # noqa: E731
    columns = quick_jit(lambda: jax.vmap(force, out_axes=1)(jnp.eye(len(zero))) - force(zero)[:, None])()
    np.testing.assert_allclose(M, columns, atol=1e-12 * np.abs(M).max() * 10)
    body = motion.bodies
    spin = jnp.stack([sum(R * w for R, w in zip(body.rotation[k::3], body.spin, strict=True)) for k in range(3)])
    turning = jnp.einsum("in,nij,jn->", spin, robot.links.inertias(components=False), spin)
    moving = jnp.sum(robot.links.mass * sum(v**2 for v in body.velocity))
    np.testing.assert_allclose(robot.v @ M @ robot.v, turning + moving, rtol=1e-12)


def test_articulated_bodies_factorise_the_mass_matrix(robot):
    motion = kinematics(robot.tree, robot.links, robot.q, robot.v, local=True)
    lower = mass_matrix(robot.tree, robot.links, motion, turned_inertias(robot.links, motion))
    M = lower + jnp.tril(lower, -1).T
    inertia = turned_inertias(robot.links, motion)
    factor = articulated_factor(robot.tree, robot.links, motion, inertia)
    solution = articulated_solve(robot.tree, factor, robot.forces)
    np.testing.assert_allclose(M @ solution, robot.forces, atol=1e-10)
    at_once, twists, _ = articulated_accelerations(robot.tree, robot.links, motion, robot.forces, inertia)
    np.testing.assert_allclose(at_once, solution, rtol=1e-10)
    moved = kinematics(robot.tree, robot.links, robot.q, solution, local=True).bodies
    np.testing.assert_allclose(twists, (moved.spin, moved.velocity), atol=1e-10 * float(jnp.max(jnp.abs(solution))))


def test_velocities_and_accelerations_are_the_rates_of_poses(robot):
    """Along a path through the joints' groups, with the velocities that it has there."""
    tree, step = robot.tree, 1e-5

    @quick_jit
    def at(s):
        moved = []
        for group, element in zip(tree.groups, robot.q, strict=True):
            xi = s * robot.v[group.velocities] + 0.5 * s**2 * robot.other[group.velocities]
            moved.append(jax.vmap(lambda q, xi, space=group.space: space.compose(q, space.exp(xi)))(element, xi))
        return kinematics(tree, robot.links, tuple(moved), robot.v + s * robot.other, robot.other).bodies

    bodies, before, after = (at(s) for s in jnp.array([0.0, -step, step]))
    for rate, of in (("velocity", "position"), ("acceleration", "velocity"), ("spin_rate", "spin")):
        for k in range(3):
            difference = (getattr(after, of)[k] - getattr(before, of)[k]) / (2 * step)
            np.testing.assert_allclose(getattr(bodies, rate)[k], difference, atol=1e-6)


def test_motions_in_components_and_in_arrays_agree(robot):
    of = functools.partial(kinematics, robot.tree, robot.links, robot.q, robot.v, robot.other)
    walked, arrays = of(), of(components=False)
    stacked = [np.stack(x, axis=1).reshape(y.shape) for x, y in zip(walked.bodies, arrays.bodies, strict=True)]
    for a, b in zip(stacked, arrays.bodies, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-11)
    for a, b in zip(walked.columns, arrays.columns, strict=True):
        np.testing.assert_allclose(np.stack(a, axis=1), b, atol=1e-11)


def test_a_batch_is_a_loop(robot):
    vs = jnp.stack([robot.v, robot.other, robot.v - robot.other])
    masses = jnp.stack([robot.links.mass * k for k in (1.0, 1.1, 0.9)])

    def run(v, mass):
        links = eqx.tree_at(lambda tree: tree.mass, robot.links, mass)
        return forward_dynamics(robot.tree, links, robot.q, v, robot.forces, robot.loads)

    together = quick_jit(jax.vmap(run))(vs, masses)
    alone = quick_jit(run)
    for k in range(3):
        np.testing.assert_allclose(together[k], alone(vs[k], masses[k]), rtol=1e-9, atol=1e-9)


def test_a_batch_of_batches_is_a_loop(pendulum):
    case = pendulum
    run = lambda v, forces: case.forward(v, forces)  # noqa: E731
    vs, forces = jnp.stack([case.v, case.other]), jnp.stack([case.forces, -case.forces])
    nested = quick_jit(jax.vmap(jax.vmap(run, in_axes=(None, 0)), in_axes=(0, None)))(vs, forces)
    np.testing.assert_allclose(nested[1, 0], quick_jit(run)(vs[1], forces[0]), rtol=1e-9, atol=1e-9)


def test_first_derivatives(pendulum):
    """Forward and reverse mode against central differences, with respect to everything that is differentiable."""
    case, step = pendulum, 1e-6

    def run(scale, angle, v, forces, loads):
        links = eqx.tree_at(lambda tree: tree.mass, case.links, case.links.mass * scale)
        return forward_dynamics(case.tree, links, (case.q[0] + angle[:, None],), v, forces, loads) @ case.other

    at = (jnp.ones(3), jnp.zeros(3), case.v, case.forces, case.loads)
    gradient = quick_jit(jax.grad(run, argnums=(0, 1, 2, 3, 4)))(*at)
    rng = np.random.default_rng(1)
    along = tuple(jnp.asarray(rng.normal(size=x.shape)) for x in at)
    value = sum(jnp.sum(g * d) for g, d in zip(gradient, along, strict=True))
    forwards = quick_jit(lambda at: jax.jvp(run, at, along))
    shifted, forward = lambda s: forwards(tuple(x + s * d for x, d in zip(at, along, strict=True))), forwards(at)[1]
    np.testing.assert_allclose(forward, value, rtol=1e-11)
    np.testing.assert_allclose((shifted(step)[0] - shifted(-step)[0]) / (2 * step), value, rtol=1e-7)


@pytest.mark.slow
def test_second_derivatives(pendulum):
    case, step = pendulum, 1e-5
    run = lambda v: case.forward(v, case.forces) @ case.other  # noqa: E731
    both = quick_jit(jax.jacfwd(lambda v: 2 * (jax.grad(run)(v),), has_aux=True))
    hessian, d = both(case.v)[0], case.other
    after, before = (both(case.v + s * d)[1] for s in (step, -step))
    np.testing.assert_allclose(hessian @ d, (after - before) / (2 * step), rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(hessian, hessian.T, atol=1e-10 * float(jnp.abs(hessian).max()))


@pytest.mark.slow
def test_derivatives_of_batches(pendulum):
    case = pendulum
    gradient = jax.grad(lambda v: case.forward(v, case.forces) @ case.other)
    vs = jnp.stack([case.v, case.other])
    alone = quick_jit(gradient)(vs[1])
    np.testing.assert_allclose(quick_jit(jax.vmap(gradient))(vs)[1], alone, rtol=1e-9)
    total = jax.grad(lambda vs: jnp.sum(jax.vmap(lambda v: case.forward(v, case.forces) @ case.other)(vs)))
    np.testing.assert_allclose(quick_jit(total)(vs)[1], alone, rtol=1e-9)


@pytest.fixture(scope="module")
def mixed() -> Case:
    """A ball joint, one with twists that change, a rigid one, hinges and a slide, in a tree with a branch."""
    mechanism = jmbs.Mechanism("mixed", gravity=(0.0, 0.0, -9.81))
    below, above = {"position": [0.0, 0.1, -0.3]}, {"position": [0.1, 0.0, 0.4]}
    joints = ("spherical", "ground"), ("universal", "a"), ("revolute", "b"), ("fixed", "a"), ("prismatic", "d")
    for name, (kind, parent) in zip("abcde", joints, strict=True):
        mechanism.add_body(name, mass=1.3, inertia=[0.1, 0.2, 0.25])
        axes = {"axis": [1.0, 0.0, 0.0], "axis2": [0.0, 1.0, 0.0]} if kind == "universal" else {}
        mechanism.add_joint(f"to_{name}", kind, parent, name, below, above, **axes)
    return Case(mechanism)


@pytest.mark.parametrize(
    ("case", "varied"),
    [("pendulum", True), *(pytest.param("mixed", varied, marks=pytest.mark.slow) for varied in (True, False))],
)
def test_derivatives_by_hand_are_those_of_inverse_dynamics(case, varied, request):
    """On both ways through the tree, with derivatives by joints' parameters (`varied`) and without.

    Those by elements are said along their groups only, so that is where they are compared.
    """
    case = request.getfixturevalue(case)

    @quick_jit
    def along_groups(derivatives):
        by_links, by_q, *others = derivatives
        along = lambda space, q, g: jax.vjp(functools.partial(space.lift, q), jnp.zeros(space.dim))[1](g)[0]  # noqa: E731
        each = zip(case.tree.groups, case.q, by_q, strict=True)
        by_q = [jax.vmap(functools.partial(along, group.space))(q, g) for group, q, g in each]
        return by_links, by_q, *others

    def power(links, q, v, loads):
        return case.other @ inverse_dynamics(case.tree, links, q, v, case.forces, loads)

    @quick_jit
    def by_hand(links, q, v, loads):
        at = linearisation(case.tree, links, q, v, case.forces, (varied,) * len(q), local=True)
        return power_gradient(case.tree, links, at, loads, case.other)

    at = case.links, case.q, case.v, case.loads
    expected = quick_jit(jax.grad(power, argnums=(0, 1, 2, 3)))(*at)
    nothing = lambda links: eqx.tree_at(lambda x: x.joints, links, ())  # noqa: E731
    found, wanted = along_groups(by_hand(*at)), along_groups(expected)
    if not varied:
        found, wanted = ((nothing(x[0]), *x[1:]) for x in (found, wanted))
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-11 * float(jnp.max(jnp.abs(b), initial=1.0)))


@pytest.mark.slow
@pytest.mark.parametrize("varied", [False, True])
def test_derivatives_along_rotations(varied):
    """First and second derivatives of a spherical joint with a hinge behind it, against central differences.

    Where the joint stands on its body depends on the variables as well (`varied`), or not.
    """
    mechanism = jmbs.Mechanism("two", gravity=(0.0, 0.0, -9.81))
    for name in ("upper", "lower"):
        mechanism.add_body(name, mass=1.3, inertia=[0.1, 0.2, 0.25])
    mechanism.add_joint("ball", "spherical", "ground", "upper", None, {"position": [0.1, 0.0, 0.4]})
    hinge = {"position": [0.0, 0.1, -0.3]}
    mechanism.add_joint("hinge", "revolute", "upper", "lower", hinge, {"position": [0.0, 0.0, 0.2]}, axis=[0, 1, 0])
    case = Case(mechanism)

    def at(xi):
        moved = []
        for group, element in zip(case.tree.groups, case.q, strict=True):
            step = xi[group.velocities]
            moved.append(jax.vmap(lambda q, x, space=group.space: space.compose(q, space.exp(x)))(element, step))
        links = case.links
        if varied:
            places = lambda links: [j.after for j in links.joints if isinstance(j, GeneralJoints)]  # noqa: E731
            links = eqx.tree_at(places, links, replace_fn=lambda x: x.at[:, 9:].add(xi[0] - xi[1]))
        return forward_dynamics(case.tree, links, tuple(moved), case.v, case.forces, case.loads) @ case.other

    gradient, hessian = quick_jit(jax.grad(at)), quick_jit(jax.hessian(at))
    here, step = 0.3 * case.forces, 1e-5
    value = quick_jit(at)
    unit = np.eye(4)
    differences = [(value(here + step * e) - value(here - step * e)) / (2 * step) for e in unit]
    np.testing.assert_allclose(gradient(here), differences, rtol=1e-6, atol=1e-6)
    differences = [(gradient(here + step * e) - gradient(here - step * e)) / (2 * step) for e in unit]
    np.testing.assert_allclose(hessian(here), differences, rtol=1e-6, atol=1e-5)


@pytest.mark.slow
def test_derivatives_of_batches_with_shared_parameters(mixed):
    """Masses and joints that all members share, elements and velocities that they do not."""
    case = mixed
    vs = jnp.stack([case.v, case.other])

    def run(links, q, v):
        return forward_dynamics(case.tree, links, q, v, case.forces, case.loads) @ case.other

    @quick_jit
    @functools.partial(jax.grad, argnums=(0, 1, 2))
    def together(links, q, vs):
        return jnp.sum(jax.vmap(run, in_axes=(None, None, 0))(links, q, vs))

    alone = quick_jit(jax.grad(run, argnums=(0, 1, 2)))
    parts = [alone(case.links, case.q, v) for v in vs]
    expected = jax.tree.map(jnp.add, parts[0][:2], parts[1][:2])
    found = together(case.links, case.q, vs)
    for a, b in zip(jax.tree.leaves(found), [*jax.tree.leaves(expected), [p[2] for p in parts]], strict=True):
        np.testing.assert_allclose(a, jnp.asarray(b), atol=1e-10 * float(jnp.max(jnp.abs(jnp.asarray(b)), initial=1.0)))


@pytest.mark.parametrize("case", ["pendulum", pytest.param("robot", marks=pytest.mark.slow)])
def test_derivatives_forwards_by_hand_are_those_of_inverse_dynamics(case, request):
    """Along a change of everything: parameters, elements, velocities, forces and loads."""
    case, rng = request.getfixturevalue(case), np.random.default_rng(1)
    inputs = Inputs(case.links, case.q, case.v, case.forces, case.loads)
    changes = jax.tree.map(lambda x: jnp.asarray(rng.normal(size=x.shape)), inputs)

    @quick_jit
    def both(inputs, changes, dv):
        force = lambda at: inverse_dynamics(case.tree, at.links, at.q, at.v, dv, at.loads) - at.forces  # noqa: E731
        along = changes_along_tangents(case.tree, inputs, tuple(jax.tree.leaves(changes)))
        motions = [motion_change(case.tree, inputs, dv, along, local=local) for local in (True, False)]
        by_hand = [forces_change(case.tree, inputs, dv, along, motion)[0] for motion in motions]
        return jax.jvp(force, (inputs,), (jax.tree.unflatten(jax.tree.structure(inputs), along),))[1], *by_hand

    wanted, *found = both(inputs, changes, case.other)
    for x in found:
        np.testing.assert_allclose(x, wanted, atol=1e-11 * np.abs(wanted).max())


@pytest.mark.parametrize(
    ("case", "order"),
    [("pendulum", 1), *(pytest.param(case, 2, marks=pytest.mark.slow) for case in ("pendulum", "robot"))],
)
def test_rates_and_their_change_together_are_those_apart(case, order, request):
    """Along a change of everything, in the first derivative or in both."""
    case, rng = request.getfixturevalue(case), np.random.default_rng(1)
    inputs = Inputs(case.links, case.q, case.v, case.forces, case.loads)
    changes = jax.tree.map(lambda x: jnp.asarray(rng.normal(size=x.shape)), inputs)

    def derivatives(forward_only):
        def rates(s):
            at = jax.tree.map(lambda x, dx: x + s * dx, inputs, changes)
            return forward_dynamics(case.tree, at.links, at.q, at.v, at.forces, at.loads, forward_only)

        first = lambda s: jax.jvp(rates, (s,), (1.0,))[1]  # noqa: E731
        return rates(0.0), *(jax.jvp(first, (0.0,), (1.0,)) if order == 2 else [first(0.0)])

    found, wanted = (quick_jit(functools.partial(derivatives, only))() for only in (True, False))
    for x, y in zip(found, wanted, strict=True):
        np.testing.assert_allclose(x, y, atol=1e-10 * np.abs(y).max())
