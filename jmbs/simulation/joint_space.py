"""A model in joint coordinates, as robotics writes it: `M(q) dv + b(q, v) = forces`.

Velocities are those of the spanning tree's joints, and of bodies that no joint leads to, in the order of
`velocity_names`. Joints that close loops, and other constraints, count in `forward_dynamics` only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from jmbs.errors import ModelError
from jmbs.multibody import TreeDAE, inverse_dynamics, kinematics, mass_matrix, tree_dae, turned_inertias
from jmbs.simulation.arguments import require_state
from jmbs.simulation.formulation import TreeFormulation

if TYPE_CHECKING:
    from jmbs.simulation.model import Model
    from jmbs.simulation.state import State

TWIST = ("omega_x", "omega_y", "omega_z", "velocity_x", "velocity_y", "velocity_z")


def velocity_names(model: Model) -> list[tuple[str, str]]:
    """Joint (or free body) and name of each velocity; a free body's are its twist in body axes."""
    tree = _layout(model).tree
    own = {entry.joint: entry.v_names for entry in model.layout.coordinates}
    names: list[tuple[str, str]] = [("", "")] * tree.n_velocities
    for group in tree.groups:
        for joint, body, places in zip(group.names, group.bodies, group.velocities, strict=True):
            entries = own[joint] if joint and len(places) else TWIST
            for place, entry in zip(places, entries, strict=False):
                names[place] = (joint or tree.bodies[body], entry)
    return names


def joint_space_mass_matrix(model: Model, state: State) -> Float[Array, "n n"]:
    """`M(q)`, kg, kg m or kg m^2."""
    dae, y = _tree_state(model, state)
    motion = kinematics(dae.layout.tree, dae.links, dae.elements(y), y[-1][0], local=True)
    lower = mass_matrix(dae.layout.tree, dae.links, motion, turned_inertias(dae.links, motion))
    return lower + jnp.tril(lower, -1).T


def joint_space_inverse_dynamics(model: Model, t: Any, state: State, rates: Any) -> Float[Array, " n"]:
    """Generalised forces, N m or N, that give the velocities these `rates`, beside all forces that the model has."""
    dae, y = _tree_state(model, state)
    forces, loads = dae.forces(jnp.asarray(t, model.dtype), y)
    rates = jnp.asarray(rates, model.dtype)
    if rates.shape != forces.shape:
        raise ModelError("rates", f"shape {rates.shape}", f"shape {forces.shape}, see velocity_names")
    return inverse_dynamics(dae.layout.tree, dae.links, dae.elements(y), y[-1][0], rates, loads) - forces


def joint_space_forward_dynamics(model: Model, t: Any, state: State) -> Float[Array, " n"]:
    """Rates of the velocities, rad/s^2 or m/s^2, under the model's own forces and constraints."""
    dae, y = _tree_state(model, state)
    return dae.rates(jnp.asarray(t, model.dtype), y).dv


def _layout(model: Model) -> Any:
    if model.tree is None:
        raise ModelError(model.name, f"no tree formulation, since {model.without_tree}", "a mechanism with a tree")
    return model.tree


def _tree_state(model: Model, state: State) -> tuple[TreeDAE, tuple[Array, ...]]:
    require_state(model, state)
    formulation = TreeFormulation(tree_dae(model.dae, _layout(model)))
    return formulation.dae, formulation.start(state)
