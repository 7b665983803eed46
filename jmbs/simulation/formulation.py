"""The two formulations of a model as simulation uses them: a state of their own, rates, projection, observation.

Users always see one kind of state, that of the reference semantics. A run turns it into its formulation's own, moves
that, and turns saved states back.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from jmbs.dae import ACCOUNT, StateManifold, project
from jmbs.ephs import ReferenceDAE, imbalance
from jmbs.errors import ModelError
from jmbs.jaxext import entries_across, entries_at
from jmbs.simulation.instant import Forces, Instant, instant
from jmbs.simulation.state import State, to_internal, with_velocities
from jmbs.tree import TreeDAE, efforts_at, seen, stored_with, tree_dae
from jmbs.tree import project as project_tree

if TYPE_CHECKING:
    from jmbs.simulation.model import Model

FORMULATIONS = ("tree", "absolute")


class AbsoluteFormulation(eqx.Module):
    """One pose per body, all joints as constraints: the reference semantics themselves."""

    dae: ReferenceDAE

    @property
    def reference(self) -> ReferenceDAE:
        """The reference semantics of the system."""
        return self.dae

    def with_reference(self, dae: ReferenceDAE) -> AbsoluteFormulation:
        """The same of a system that is driven otherwise."""
        return AbsoluteFormulation(dae)

    @property
    def manifold(self) -> StateManifold:
        """Where the state and the account live."""
        return StateManifold(self.dae.plan.blocks, self.dae.plan.n_stored)

    def start(self, state: State) -> tuple[Array, ...]:
        """This formulation's state at a user's."""
        return to_internal(self.dae, state)

    def reference_state(self, y: tuple[Array, ...]) -> tuple[Array, ...]:
        """The state of the reference semantics."""
        return y

    def users_blocks(self, y: tuple[Array, ...]) -> tuple[Array, ...]:
        """The blocks of a user's state."""
        return with_velocities(self.dae.plan, y, (self.dae.stored_efforts(y),))

    def look(self, t, y: tuple[Array, ...], velocity: Float[Array, " n"] | None) -> Instant:
        """What the equations say at a state; with its `velocity` also what the audit needs."""
        return instant(self.dae, t, y, velocity)

    @property
    def is_constrained(self) -> bool:
        """Whether a state may miss constraints."""
        return self.dae.kinematic and self.dae.plan.n_rows > 0

    def residual(self, t, y: tuple[Array, ...]) -> Float[Array, ""]:
        """By how much it does, of position and velocity, m, rad, m/s or rad/s."""
        return _largest(*self.dae.residuals(t, y))

    def inconsistency(self, t, y: tuple[Array, ...], state: State, first: Instant) -> Float[Array, ""]:
        """By how much a user's state differs from this formulation's `y`, which looks like `first`."""
        del state, first
        return jnp.zeros((), t.dtype) if self.dae.kinematic else imbalance(self.dae, t, y)

    @staticmethod
    def projected(dae: ReferenceDAE, t, y: tuple[Array, ...]) -> tuple[tuple[Array, ...], Array]:
        """`y` moved onto the constraints, and the energy that this added, J."""
        return project(dae, t, y)


class TreeFormulation(eqx.Module):
    """Joint coordinates along a spanning tree, the rest as constraints and couplings."""

    dae: TreeDAE

    @property
    def reference(self) -> ReferenceDAE:
        """See `AbsoluteFormulation`."""
        return self.dae.reference

    def with_reference(self, dae: ReferenceDAE) -> TreeFormulation:
        """See `AbsoluteFormulation`."""
        return TreeFormulation(dataclasses.replace(self.dae, reference=dae))

    @property
    def manifold(self) -> StateManifold:
        """See `AbsoluteFormulation`."""
        return StateManifold(self.dae.layout.blocks, self.dae.layout.n)

    def start(self, state: State) -> tuple[Array, ...]:
        """See `AbsoluteFormulation`."""
        kept = self.dae.layout.kept
        blocks = to_internal(self.dae.reference, state, kept)
        return self.dae.start(tuple(blocks[i] for i in kept), *self._bodies(state.blocks))

    def _bodies(self, blocks: tuple[Array, ...]) -> tuple[Float[Array, "bodies 3 4"], Float[Array, "bodies 6"]]:
        """Poses and velocities of all bodies in a user's state."""
        (pose, poses), (momentum, momenta) = self.dae.layout.poses, self.dae.layout.momenta
        return entries_at(blocks[pose], poses), entries_at(blocks[momentum], momenta)

    def reference_state(self, y: tuple[Array, ...]) -> tuple[Array, ...]:
        """See `AbsoluteFormulation`."""
        return self.dae.expanded(y)[0]

    def users_blocks(self, y: tuple[Array, ...]) -> tuple[Array, ...]:
        """See `AbsoluteFormulation`."""
        x, twist = self.dae.expanded(y)
        return with_velocities(self.dae.reference.plan, x, (stored_with(self.dae, x, twist, y[-1][0]),))

    def look(self, t, y: tuple[Array, ...], velocity: Float[Array, " n"] | None) -> Instant:
        """See `AbsoluteFormulation`."""
        if velocity is not None:
            whole = seen(self.dae, t, y, velocity)
            forces = Forces(whole.multipliers, whole.violation, whole.singular_values, whole.lengths)
            return Instant(whole.x, whole.efforts, forces)
        return Instant(*efforts_at(self.dae, t, y), None)

    @property
    def is_constrained(self) -> bool:
        """See `AbsoluteFormulation`."""
        return self.dae.layout.other_rows.size > 0

    def residual(self, t, y: tuple[Array, ...]) -> Float[Array, ""]:
        """See `AbsoluteFormulation`."""
        return _largest(*self.dae.residuals(t, y, self.dae.motion(y)))

    def inconsistency(self, t, y: tuple[Array, ...], state: State, first: Instant) -> Float[Array, ""]:
        """See `AbsoluteFormulation`."""
        del t
        layout = self.dae.layout
        pose, twist = self._bodies(state.blocks)
        block, rows = layout.poses
        parts = [pose - entries_at(first.x[block], rows), twist - entries_across(first.efforts, layout.body_slots)]
        if layout.rotors is not None:
            parts += [state.blocks[block] - rates for block, rates in layout.rotors.held(y[-1][0]).items()]
        return _largest(*parts)

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

    def apply(t, y, field) -> Any:
        x, account = y
        moved, work = formulation.projected(field.dae, t, x)
        return moved, account.at[ACCOUNT.index("projection_work")].add(work) if audit else account

    return apply


def _largest(*arrays: Array) -> Float[Array, ""]:
    return jnp.max(jnp.abs(jnp.concatenate([a.ravel() for a in arrays])), initial=0.0)
