"""Rotors of joints, `armature`: a diagonal of the mass matrix, in all that is made of it, and its derivatives."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from quick import quick_jit

import jmbs
from jmbs.simulation.state import to_internal

ARMATURE = {"shoulder": [0.3], "wrist": [0.0, 0.02]}
VELOCITIES = np.array([1.0, -2.0, 0.7])
PATHS = [f"{joint}/armature" for joint in ARMATURE]


def arm() -> jmbs.Mechanism:
    """A hinge, then a universal joint of whose axes one has a rotor."""
    m = jmbs.Mechanism("arm")
    rng = np.random.default_rng(2)
    back, front = {"position": [-0.2, 0.0, 0.05]}, {"position": [0.2, 0.1, 0.0]}
    ends = {"shoulder": ("revolute", "upper"), "wrist": ("universal", "lower")}
    parent = "ground"
    for name, (kind, body) in ends.items():
        axes = {"axis": [0, 1, 0]} | ({"axis2": [0.3, 0, 1]} if kind == "universal" else {})
        m.add_body(body, mass=rng.uniform(0.5, 2.0), inertia=[0.02, 0.03, 0.015])
        m.add_joint(name, kind, parent, body, front, back, armature=ARMATURE[name], **axes)
        parent = body
    m.set_initial(joints={"shoulder": {"q": [0.4]}, "wrist": {"q": [0.5, -0.3]}})
    m.set_initial(joints={name: {"v": v} for name, v in zip(ends, np.split(VELOCITIES, [1]), strict=True)})
    return m


@pytest.fixture(scope="module")
def model():
    return arm().compile()


def test_they_are_a_diagonal_of_the_mass_matrix(model):
    """`M = M_bodies + diag(a)`, `M dv + b = 0` with a bias `b` of the bodies alone; so gradients are known too.

    Of `w dv` it is `-(M^-1 w)_i dv_i` by `a_i`. `1/2 <v | M v>` is the energy of the storages that are kinetic.
    """
    state, w = model.initial_state(), jnp.asarray(np.random.default_rng(1).normal(size=3))
    wrist = model.parameters()["wrist/armature"]["value"]
    assert model.tree.rotors is not None and not model.tree.other_rows.size

    def all_of(scale):
        values = {f"{name}/armature": scale * jnp.asarray(a) for name, a in ARMATURE.items()}

        def pushed(values):
            dv = model.with_parameters(values).forward_dynamics(0.0, state)
            return w @ dv, dv

        (_, dv), gradient = jax.value_and_grad(pushed, has_aux=True)(values)
        changed = model.with_parameters(values)
        bias = changed.inverse_dynamics(0.0, state, jnp.zeros(3))
        energies = changed.dae.energies(to_internal(changed.dae, state))
        gradient = jnp.concatenate([gradient[path] for path in PATHS])
        return changed.mass_matrix(state), dv, bias, energies, gradient

    M, dv, bias, energies, gradient = quick_jit(jax.vmap(all_of))(jnp.asarray([1.0, 3.0]))
    armature = np.concatenate(list(ARMATURE.values()))
    assert [joint for joint, _ in model.velocity_names] == ["shoulder", "wrist", "wrist"]
    np.testing.assert_allclose(wrist, ARMATURE["wrist"])
    np.testing.assert_allclose(M[1] - M[0], 2 * np.diag(armature), atol=1e-13)
    np.testing.assert_allclose(bias[1], bias[0], atol=1e-13)
    for i in range(2):
        np.testing.assert_allclose(M[i] @ dv[i], -bias[i], atol=1e-11)
        wanted = np.where(armature > 0, -np.linalg.solve(M[i], w) * dv[i], 0.0)
        np.testing.assert_allclose(gradient[i], wanted, atol=1e-9 * np.max(np.abs(wanted)))
    kinetic = np.array([path.endswith(("/ke", "/ri")) for path in model.dae.plan.storages])
    np.testing.assert_allclose(
        energies[:, kinetic].sum(axis=1), 0.5 * (np.asarray(M) @ VELOCITIES) @ VELOCITIES, rtol=1e-12
    )
