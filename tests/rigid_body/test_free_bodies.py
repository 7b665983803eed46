"""Bodies that no joint connects accelerate as the recursion says, one velocity after the other."""

from __future__ import annotations

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rigid_body.test_dynamics import Case

import jmbs
from jmbs.rigid_body import articulated, forward_dynamics
from jmbs.rigid_body.free_bodies import FreeFactor, are_free, free_factor
from jmbs.rigid_body.kinematics import kinematics
from jmbs.rigid_body.mass_matrix import turned_inertias


def bodies(joint: str | None = None) -> jmbs.Mechanism:
    """Two bodies without symmetry, perhaps one joint."""
    mechanism = jmbs.Mechanism("bodies")
    inertias = {"a": [2.0, 0.3, -0.1, 3.0, 0.2, 4.0], "b": [0.02, 0.001, 0.002, 0.01, -0.002, 0.02]}
    for mass, (name, (xx, xy, xz, yy, yz, zz)) in zip((1.7, 0.3), inertias.items(), strict=True):
        mechanism.add_body(name, mass, [[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    if joint is not None:
        mechanism.add_joint("joint", joint, "a", "b", parent_frame=[0.1, 0.2, 0.3])
    quaternions = {"a": [0.5, 0.5, -0.5, 0.5], "b": [0.8, 0.0, 0.6, 0.0]}
    mechanism.set_initial(
        bodies={name: {"quaternion": q} for name, q in quaternions.items() if name == "a" or not joint}
    )
    return mechanism


@pytest.mark.parametrize("wrench", [False, True], ids=["forces", "wrenches"])
def test_they_accelerate_as_the_recursion_says(wrench, monkeypatch):
    case = Case(bodies())
    assert are_free(case.tree, case.links)
    rng = np.random.default_rng(1)
    needed = tuple(tuple(jnp.asarray(rng.normal(size=(3, 2)))) for _ in range(2)) if wrench else None
    several = jnp.asarray(rng.normal(size=(12, 5)))

    def found() -> tuple:
        kin = kinematics(case.tree, case.links, case.q, case.v, local=True)
        inertia = turned_inertias(case.links, kin)
        rates, twists, factor = articulated.articulated_accelerations(
            case.tree, case.links, kin, case.forces, inertia, needed
        )
        other = articulated.articulated_factor(case.tree, case.links, kin, inertia)
        solved = [articulated.articulated_solve(case.tree, f, several) for f in (factor, other)]
        return isinstance(factor, FreeFactor), rates, twists, *solved

    by_themselves, *direct = eqx.filter_jit(found)()
    monkeypatch.setattr(articulated, "are_free", lambda *_: False)
    by_recursion, *eliminated = eqx.filter_jit(lambda: found())()
    assert by_themselves and not by_recursion
    for a, b in zip(direct, eliminated, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


@pytest.mark.slow
def test_batches_have_their_derivatives():
    """Of velocities, forces and parameters alone, by both modes."""
    case = Case(bodies())
    vectors, factors = jnp.asarray(np.random.default_rng(2).normal(size=(4, 12))), jnp.linspace(0.5, 2.0, 4)

    def weighted(links, v, forces):
        return forward_dynamics(case.tree, links, case.q, v, forces, case.loads) @ case.other

    def of_mass(factor):
        return weighted(eqx.tree_at(lambda x: x.mass, case.links, factor * case.links.mass), case.v, case.forces)

    def of_inertia(factor):
        return weighted(eqx.tree_at(lambda x: x.inertia, case.links, factor * case.links.inertia), case.v, case.forces)

    of_velocity, of_forces = lambda v: weighted(case.links, v, case.forces), lambda f: weighted(case.links, case.v, f)
    for function, x in ((of_velocity, vectors), (of_forces, vectors), (of_mass, factors), (of_inertia, factors)):
        found = jax.jit(jax.vmap(jax.grad(function)))(x)
        wanted = jax.jit(functools.partial(jax.lax.map, jax.jacfwd(function)))(x)
        np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-12)


def test_grains_have_an_inverse_in_float32():
    case = Case(bodies())
    small = eqx.tree_at(lambda x: x.inertia, case.links, 1e-14 * case.links.inertia)
    small = jax.tree.map(lambda x: x.astype(jnp.float32), small)
    motion = eqx.filter_jit(kinematics)(case.tree, small, case.q, case.v, local=True)
    found = jnp.stack(free_factor(small, motion).inertia)
    wanted = jnp.linalg.inv(small.inertias(components=False).astype(jnp.float64))
    np.testing.assert_allclose(found[0], wanted[:, 0, 0], rtol=1e-4)
    np.testing.assert_allclose(found[4], wanted[:, 1, 2], rtol=1e-4)


def test_a_joint_makes_a_tree_of_them():
    case = Case(bodies("revolute"))
    assert not are_free(case.tree, case.links)
