"""The two formulations of a model as simulation uses them: a state of their own, rates, projection, observation.

Users always see one kind of state, that of the reference semantics. A run turns it into its formulation's own, moves
that, and turns saved states back.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from jmbs.dae import ACCOUNT, StateManifold, project
from jmbs.ephs import ReferenceDAE, imbalance
from jmbs.errors import ModelError
from jmbs.multibody import TreeDAE, effort_parts, geometry_of, others, seen, tree_dae
from jmbs.multibody import project as project_tree
from jmbs.simulation.instant import Instant, instant

if TYPE_CHECKING:
    from jmbs.simulation.model import Model

FORMULATIONS = ("tree", "absolute")


class AbsoluteFormulation(eqx.Module):
    """One pose per body, all joints as constraints: the reference semantics themselves."""

    dae: ReferenceDAE

    @property
    def manifold(self) -> StateManifold:
        """Where the state and the account live."""
        return StateManifold(self.dae.plan.blocks, self.dae.plan.n_stored)

    def start(self, x: tuple[Array, ...]) -> tuple[Array, ...]:
        """This formulation's state at a state of the reference semantics."""
        return x

    def reference_state(self, y: tuple[Array, ...]) -> tuple[Array, ...]:
        """The state of the reference semantics."""
        return y

    def look(self, t, y: tuple[Array, ...], audit: bool) -> tuple[tuple[Array, ...], Instant]:
        """The state of the reference semantics, and what the equations say there."""
        return y, instant(self.dae, t, y, audit)

    def inconsistency(self, t, x: tuple[Array, ...]) -> Float[Array, ""]:
        """By how much a state violates constraints of position and velocity, m, rad, m/s or rad/s."""
        if not self.dae.kinematic:
            return imbalance(self.dae, t, x)
        return (
            _largest(self.dae.closures(x), self.dae.violation(t, x))
            if self.dae.plan.n_rows
            else jnp.zeros_like(self.dae.reference_temperature)
        )

    @staticmethod
    def projected(dae: ReferenceDAE, t, y: tuple[Array, ...]) -> tuple[tuple[Array, ...], Array]:
        """`y` moved onto the constraints, and the energy that this added, J."""
        return project(dae, t, y)


class TreeFormulation(eqx.Module):
    """Joint coordinates along a spanning tree, the rest as constraints and couplings."""

    dae: TreeDAE

    @property
    def manifold(self) -> StateManifold:
        """See `AbsoluteFormulation`."""
        return StateManifold(self.dae.layout.blocks, self.dae.layout.n)

    def start(self, x: tuple[Array, ...]) -> tuple[Array, ...]:
        """See `AbsoluteFormulation`."""
        return self.dae.start(x)

    def reference_state(self, y: tuple[Array, ...]) -> tuple[Array, ...]:
        """See `AbsoluteFormulation`."""
        return self.dae.expanded(y)[0]

    def look(self, t, y: tuple[Array, ...], audit: bool) -> tuple[tuple[Array, ...], Instant]:
        """See `AbsoluteFormulation`."""
        if not audit:
            geometry = geometry_of(self.dae, y)
            free = jnp.zeros(0, self.dae.dtype)
            if self.dae.layout.free_slots.size:
                free = others(self.dae, t, geometry).free
            return geometry.x, Instant(effort_parts(self.dae, t, geometry, free), None, None)
        whole = seen(self.dae, t, y)
        return whole.x, Instant((whole.rates.efforts,), whole.rates, whole.singular_values)

    def inconsistency(self, t, x: tuple[Array, ...]) -> Float[Array, ""]:
        """See `AbsoluteFormulation`."""
        y = self.dae.start(x)
        slots = self.dae.layout.body_slots
        moving = self.dae.reference.stored_efforts(x, tuple(s.batch for s in self.dae.layout.energies))[slots]
        parts = [self.dae.reference.closures(x), moving - self.dae.expanded(y)[1]]
        return _largest(*parts, self.dae.violation(t, y)) if self.dae.coupled else _largest(*parts)

    @staticmethod
    def projected(dae: TreeDAE, t, y: tuple[Array, ...]) -> tuple[tuple[Array, ...], Array]:
        """See `AbsoluteFormulation`."""
        return project_tree(dae, t, y)


def formulation_of(model: Model, name: str | None = None) -> AbsoluteFormulation | TreeFormulation:
    """The formulation that a run shall use: the one asked for, else the tree where there is one.

    Raises `ModelError` where a tree is asked for and there is none.
    """
    name = resolved_formulation(model, name)
    return (
        TreeFormulation(tree_dae(model.dae, model.tree))
        if name == "tree" and model.tree
        else AbsoluteFormulation(model.dae)
    )


def resolved_formulation(model: Model, name: str | None = None) -> str:
    """ "tree" or "absolute"; see `formulation_of`."""
    if name is None:
        return "tree" if model.tree is not None else "absolute"
    if name not in FORMULATIONS:
        raise ModelError("simulation/formulation", repr(name), " or ".join(FORMULATIONS))
    if name == "tree" and model.tree is None:
        raise ModelError("simulation/formulation", "tree", f"absolute, since {model.without_tree}")
    return name


@functools.cache
def projection(formulation: type[AbsoluteFormulation] | type[TreeFormulation], audit: bool):
    """The solver's projection of `(state, account)`: the energy that it adds goes to the account."""

    def apply(t, y, dae) -> Any:
        x, account = y
        moved, work = formulation.projected(dae, t, x)
        return moved, account.at[ACCOUNT.index("projection_work")].add(work) if audit else account

    return apply


def _largest(*arrays: Array) -> Float[Array, ""]:
    return jnp.max(jnp.abs(jnp.concatenate([jnp.zeros(1, arrays[0].dtype), *(a.ravel() for a in arrays)])))
