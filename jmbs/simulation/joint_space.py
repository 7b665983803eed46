"""A model in joint coordinates, as robotics writes it: `M(q) dv + b(q, v) = forces`.

Velocities are those of the spanning tree's joints, and of bodies that no joint leads to, in the order of
`velocity_names`. Joints that close loops, and other constraints, count in `forward_dynamics` only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from jmbs.ephs import ReferenceDAE
from jmbs.errors import ModelError
from jmbs.programs import quick_to_compile
from jmbs.rigid_body import inverse_dynamics, kinematics, mass_matrix, turned_inertias
from jmbs.simulation.arguments import require_state
from jmbs.simulation.formulation import TreeFormulation
from jmbs.tree import Layout, TreeDAE, tree_dae

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
    require_state(model, state)
    return _mass_matrix(model.dae, _layout(model), state)


@quick_to_compile
def _mass_matrix(dae: ReferenceDAE, layout: Layout, state: State) -> Float[Array, "n n"]:
    tree, y = _tree_state(dae, layout, state)
    motion = kinematics(layout.tree, tree.links, tree.elements(y), y[-1][0], local=True)
    lower = mass_matrix(layout.tree, tree.links, motion, turned_inertias(tree.links, motion))
    return lower + jnp.tril(lower, -1).T


def joint_space_inverse_dynamics(model: Model, t: Any, state: State, rates: Any) -> Float[Array, " n"]:
    """Generalised forces, N m or N, that give the velocities these `rates`, beside all forces that the model has."""
    require_state(model, state)
    layout, rates, wanted = _layout(model), jnp.asarray(rates, model.dtype), (len(velocity_names(model)),)
    if rates.shape != wanted:
        raise ModelError("rates", f"shape {rates.shape}", f"shape {wanted}, see velocity_names")
    return _inverse_dynamics(model.dae, layout, jnp.asarray(t, model.dtype), state, rates)


@quick_to_compile
def _inverse_dynamics(dae: ReferenceDAE, layout: Layout, t: Array, state: State, rates: Array) -> Float[Array, " n"]:
    tree, y = _tree_state(dae, layout, state)
    forces, loads = tree.forces(t, y)
    return inverse_dynamics(layout.tree, tree.links, tree.elements(y), y[-1][0], rates, loads) - forces


def joint_space_forward_dynamics(model: Model, t: Any, state: State) -> Float[Array, " n"]:
    """Rates of the velocities, rad/s^2 or m/s^2, under the model's own forces and constraints."""
    require_state(model, state)
    return _forward_dynamics(model.dae, _layout(model), jnp.asarray(t, model.dtype), state)


@quick_to_compile
def _forward_dynamics(dae: ReferenceDAE, layout: Layout, t: Array, state: State) -> Float[Array, " n"]:
    tree, y = _tree_state(dae, layout, state)
    return tree.rates(t, y).dv


def _layout(model: Model) -> Layout:
    if model.tree is None:
        raise ModelError(model.name, f"no tree formulation, since {model.without_tree}", "a mechanism with a tree")
    return model.tree


def _tree_state(dae: ReferenceDAE, layout: Layout, state: State) -> tuple[TreeDAE, tuple[Array, ...]]:
    formulation = TreeFormulation(tree_dae(dae, layout))
    return formulation.dae, formulation.start(state)
