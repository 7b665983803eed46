"""The tree formulation of a system: joint coordinates along a spanning tree, everything else as constraints and ports.

It means what the reference semantics means, and reads its parameters from there. Bodies and the tree's joints are
solved by recursion; loop joints, loads, springs, circuits and whatever else is there stay on the reference semantics,
take the bodies' velocities as efforts and give flows.

    M(q) dv + b(q, v) = forces - J^T lambda,      d/dt r(t, y) = 0,      r = J v + ...

Here is what all trees have; what is constrained beside the tree's own joints makes them one class or another
(`tree_of.py`).
"""

from __future__ import annotations

import abc
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jmbs.arrays import total
from jmbs.constraints import Split
from jmbs.ephs import ConstantFlow, Power, ReferenceDAE, TableFlow
from jmbs.jaxext import entries_at, sums_at
from jmbs.lie import lift_blocks, retract_blocks
from jmbs.rigid_body import Links, TreeMotion, joint_rates, kinematics, poses_of
from jmbs.spatial import scale, symmetric_times, transposed_times
from jmbs.tree.alone import Alone
from jmbs.tree.friction import friction_forces
from jmbs.tree.layout import Layout
from jmbs.tree.springs import spring_forces

Own = tuple[Array, ...]
"""A state of the tree formulation: one array `(n, *space.shape)` per block of the layout."""


class TreeRates(NamedTuple):
    """Left-trivialised `velocity` of the tree's state, the account as in `jmbs.ephs.Rates`; rates `dv` of the tree's
    velocities."""

    velocity: Float[Array, " n"]
    power: Power
    dv: Float[Array, " n_v"]


class TreeDAE(eqx.Module):
    """The tree formulation; offers to solvers what `ReferenceDAE` offers, on a state of its own.

    **Arguments:** `reference`: the same system; made from it (see `tree_dae`): `links`, the tree's parameters, and
    `splits` of loop joints by group, None where their tangent is not constant. `forward_only`: derivatives are taken
    in forward mode only.
    """

    reference: ReferenceDAE
    links: Links
    splits: tuple[Split | None, ...]
    layout: Layout = eqx.field(static=True)
    forward_only: bool = eqx.field(static=True)

    @property
    def dtype(self):
        """The floating dtype of all arrays."""
        return self.reference.reference_temperature.dtype

    @property
    def alone(self) -> Alone | None:
        """`Layout.alone`, where all drives are simple; else None."""
        return self.layout.alone if len(self.simple_drives) == len(self.reference.drives) else None

    @property
    def simple_drives(self) -> tuple[str, ...]:
        """See the function of this name."""
        return simple_drives(self.reference, self.layout)

    # -- states ---------------------------------------------------------------------------------------------------

    def start(self, kept: Own, poses: Float[Array, "bodies 3 4"], twists: Float[Array, "bodies 6"]) -> Own:
        """The tree's state from the blocks that stay, and from poses and velocities (body axes) of its bodies."""
        layout = self.layout
        roots = [g.bodies for g, s in zip(layout.tree.groups, layout.sources, strict=True) if not s.constraints]
        placed = (*kept, *((poses[roots[0]],) if roots else ()))
        return (*placed, joint_rates(layout.tree, self.links, self.elements(placed), poses, twists)[None])

    def motion(self, y: Own, dv: Array | None = None) -> TreeMotion:
        """How bodies move, with rates `dv` of the velocities if given; in arrays."""
        return kinematics(self.layout.tree, self.links, self.elements(y), y[-1][0], dv, components=False)

    def expanded(self, y: Own, motion: TreeMotion | None = None) -> tuple[tuple[Array, ...], Float[Array, "bodies 6"]]:
        """The state of the reference semantics, and the bodies' velocities in body axes; `motion`: see there."""
        layout, links = self.layout, self.links
        body = (self.motion(y) if motion is None else motion).bodies
        pose, R = poses_of((body.rotation, body.position)), body.rotation
        spin, velocity = transposed_times(R, body.spin), transposed_times(R, body.velocity)
        momentum = symmetric_times(links.inertias(False), spin), scale(links.mass, velocity)
        x: dict[int, Array] = dict(zip(layout.kept, y, strict=False))
        for (block, rows), value in ((layout.poses, pose), (layout.momenta, jnp.concatenate(momentum, axis=1))):
            x[block] = entries_at(value, np.argsort(rows))
        if layout.rotors is not None:
            x |= layout.rotors.held(links.rotor_momentum(y[-1][0]))
        twist = jnp.concatenate([spin, velocity], axis=1)
        return tuple(x[i] for i in range(len(self.reference.plan.blocks))), twist

    def elements(self, y: Own) -> tuple[Array, ...]:
        """Joint elements by group."""
        return tuple(entries_at(y[s.block], s.rows) for s in self.layout.sources)

    def lift(self, y: Own, velocity: Float[Array, " n"]) -> Own:
        """Ambient tangents of all blocks from the trivialised velocity."""
        return lift_blocks(self.layout.blocks, y, velocity)

    def retract(self, y: Own, step: Float[Array, " n"]) -> Own:
        """`y exp(step)`, block by block."""
        return retract_blocks(self.layout.blocks, y, step)

    # -- dynamics -------------------------------------------------------------------------------------------------

    @abc.abstractmethod
    def rates(self, t, y: Own, stabilisation: Array | None = None) -> TreeRates:
        """The right-hand side; `stabilisation` is added to the derivative of the constraint rows beyond the tree."""

    @abc.abstractmethod
    def forces(self, t, y: Own) -> tuple[Float[Array, " n_v"], Float[Array, "bodies 6"] | None]:
        """All generalised forces but those of constraints, and wrenches on bodies in their axes (None if none acts)."""

    def simple_forces(self, t, v: Float[Array, " n_v"]) -> tuple[Array, Array, tuple[Array, Array]]:
        """Forces that need velocities and time alone, entropy production of friction; supplied, dissipated power."""
        friction = friction_forces(self.reference, self.layout.friction, v)
        forces, supplied = -friction.forces, jnp.zeros((), self.dtype)
        for port in self.simple_drives:
            velocities = self.layout.driven[port]
            force = self.reference.drives[port].flow(t, None)
            forces = forces + sums_at(force.ravel(), velocities.ravel(), len(v))
            supplied = supplied + total(force * entries_at(v, velocities))
        return forces, friction.production, (supplied, friction.dissipated)

    def own_forces(self, t, y: Own) -> tuple[Array, Array, tuple[Array, Array]]:
        """The same with the forces of joint springs."""
        forces, production, power = self.simple_forces(t, y[-1][0])
        if self.layout.springs:
            forces = forces + spring_forces(self.reference, self.layout.springs, y, forces.size)
        return forces, production, power

    def velocity(self, v: Array, dv: Array, production: Array, kept: Array) -> Float[Array, " n"]:
        """The trivialised velocity of the tree's state from its parts; `kept`: rates of the blocks that stay."""
        return entries_at(jnp.concatenate([v, dv, production, kept]), self.layout.velocity_source)

    # -- constraints ----------------------------------------------------------------------------------------------

    @abc.abstractmethod
    def residuals(self, t, y: Own, motion: TreeMotion | None = None) -> tuple[Array, Array]:
        """The constraint rows beyond the tree, and their residuals at position level, zero where there are none; both
        `(rows,)`. Of loop joints, where nothing but them and gears constrains, those normal to their tangents;
        `motion`: as in `expanded`."""

    @abc.abstractmethod
    def projected(self, t, y: Own) -> Own:
        """`y` on the constraints beyond the tree, of which there are some; nearest in the mass metric."""

    def energy(self, y: Own) -> Float[Array, ""]:
        """Energy of all storages, J."""
        return total(self.reference.energies(self.expanded(y)[0]))

    @property
    def has_domain(self) -> bool:
        """See `ReferenceDAE.has_domain`."""
        return self.reference.has_domain

    def regularity(self, y: Own) -> Float[Array, ""]:
        """See `ReferenceDAE.regularity`."""
        if not self.has_domain:
            return jnp.ones((), self.dtype)
        return self.reference.regularity(self.expanded(y)[0])


def simple_drives(reference: ReferenceDAE, layout: Layout) -> tuple[str, ...]:
    """Ports whose drives are forces on the tree's velocities that look at time alone."""
    drives = reference.drives
    return tuple(port for port in layout.driven if port in drives and is_simple(drives[port]))


def is_simple(drive: Any) -> bool:
    """Whether a drive is a flow that looks at time alone."""
    return isinstance(drive, ConstantFlow | TableFlow)
