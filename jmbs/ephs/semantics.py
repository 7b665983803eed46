"""The reference semantics: the differential-algebraic equation that a flattened system means.

With `x` the states of all storages, `e_S = dH(x)` their efforts, `e_A` the efforts at junctions without storage and
`lambda` the multipliers of all constraint rows,

    xdot = f_outer - (flows into the other components),      0 = the same balance at junctions without storage,   (i)
    0 = C_A e_A + C_S e_S + c_t.                                                                                  (ii)

In a *kinematic* system the rows (ii) alone fix `e_A` (every mechanism of bodies and joints): `e_A` is their
least-squares solution, and `(de_A/dt, lambda)` solve (i) together with the time derivative of (ii), which is taken by
JVP and not by hand. Any other system goes through `jmbs.ephs.general`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jmbs.ephs.component import Role
from jmbs.ephs.evaluate import (
    ReferenceConditions,
    by_port,
    each,
    energy_gradient,
    onsager,
    thermal_mask,
    transformer_rows,
)
from jmbs.ephs.general import solve_general
from jmbs.ephs.interface import ENTROPY, VOLUME
from jmbs.ephs.output_view import OutputView
from jmbs.ephs.plan import Batch, ClosureBatch, Plan
from jmbs.ephs.rates import Known, Power, Rates, State, Structure
from jmbs.ephs.view import PortView, StateView
from jmbs.jaxext import entries_at, sums_at, sums_of_parts, with_entries
from jmbs.lie import lift_blocks, retract_blocks
from jmbs.linear import least_squares, saddle_solver, sparse_matrix


class ReferenceDAE(eqx.Module):
    """A flattened system as a pure function of time and state; a pytree whose arrays are the components' parameters."""

    components: tuple[Any, ...]
    drives: dict[str, Any]
    reference_temperature: Float[Array, ""]
    plan: Plan = eqx.field(static=True)
    kinematic: bool = eqx.field(static=True, default=True)
    reference_pressure: Float[Array, ""] | None = None

    @property
    def reference_conditions(self) -> ReferenceConditions:
        """Of the environment, as components receive them beside their efforts."""
        return ReferenceConditions(self.reference_temperature, self.reference_pressure)

    # -- structure ------------------------------------------------------------------------------------------------

    def structures(self, x: State, only: Collection[int] | None = None) -> Structure:
        """Evaluates `structure` and `ratio` of all components at a state, or of the batches `only`."""
        parts = [
            self._structure(batch, component, x) if only is None or i in only else (None, None, None)
            for i, (batch, component) in enumerate(zip(self.plan.batches, self.components, strict=True))
        ]
        J, C, A = (tuple(part[k] for part in parts) for k in range(3))
        return Structure(J, C, A)

    def _structure(self, batch: Batch, component: Any, x: State) -> tuple[Array | None, Array | None, Array | None]:
        """`(J, C, A)` of a batch; None for what its components do not have."""
        dtype = self.reference_temperature.dtype
        if batch.role is Role.REVERSIBLE:
            found = each(batch, lambda comp, s: comp.structure(s), component, batch.states(x))
            j, c = (None if matrix is None else matrix.astype(dtype) for matrix in found)
            return j, c, None
        if batch.role is not Role.TRANSFORMER:
            return None, None, None
        a = each(batch, lambda comp, s: comp.ratio(s), component, batch.states(x))
        a = a.astype(dtype)
        return (None, transformer_rows(batch, component, a), None) if batch.level == 0 else (None, None, a)

    def stored_efforts(self, x: State, only: Collection[int] | None = None) -> Float[Array, " stored"]:
        """`e_S = dH(x)`, left-trivialised; zero at the environment, `theta - theta0` at thermal stores, `pi0 - p` at
        volumes where the environment has a pressure.

        With `only`, of the storages in these batches; zero elsewhere.
        """
        parts = []
        for i, (batch, component) in enumerate(zip(self.plan.batches, self.components, strict=True)):
            if batch.role is Role.STORAGE and (only is None or i in only):
                gradient = each(batch, energy_gradient(batch), component, batch.states(x))
                for port in batch.ports:
                    value = gradient[port.name]
                    if port.quantity == ENTROPY:
                        value = value - self.reference_temperature
                    if port.quantity == VOLUME and self.reference_pressure is not None:
                        value = value + self.reference_pressure
                    parts.append((value, port.efforts))
        return self._sums(parts, self.plan.n_stored)

    def _sums(self, parts: Sequence[tuple[Array, np.ndarray]], size: int) -> Float[Array, " size"]:
        """The sums of arrays at places of their entries."""
        return sums_of_parts(parts, size, self.reference_temperature.dtype)

    def expand(
        self, t, s: Structure, e_stored: Array, e_free: Array, prescribed: bool = True
    ) -> Float[Array, " efforts"]:
        """All efforts from those at storages and the unknown ones: prescribed efforts, then transformers in order.

        With `prescribed=False` the linear part, for changes of efforts.
        """
        plan = self.plan
        e = jnp.concatenate([e_stored, e_free, jnp.zeros(plan.n_efforts - plan.n_stored - plan.n_free, e_stored.dtype)])
        for port, drive in self.drives.items():
            if prescribed and _prescribes(drive) and port not in plan.driven_rows:
                e = with_entries(e, plan.drive_slots[port], drive.effort(t))
        for i in plan.levels:
            batch, ratio = plan.batches[i], s.A[i]
            if ratio is not None:
                given = jnp.einsum("noi,ni->no", ratio, entries_at(e, batch.inputs))
                e = with_entries(e, batch.outputs.ravel(), given.ravel())
        return e

    def reduce(self, s: Structure, f: Float[Array, " efforts"]) -> Float[Array, " efforts"]:
        """The transpose of `expand`: flows at outputs of transformers handed back to their inputs."""
        for i in reversed(self.plan.levels):
            batch, ratio = self.plan.batches[i], s.A[i]
            if ratio is not None:
                back = jnp.einsum("noi,no->ni", ratio, entries_at(f, batch.outputs))
                f = f + sums_at(back.ravel(), batch.inputs.ravel(), len(f))
        return f

    def rows(self, t, s: Structure, e: Array) -> Float[Array, " rows"]:
        """The constraint rows (ii): the velocity-level violation."""
        parts = [
            (jnp.einsum("nmp,np->nm", C, entries_at(e, batch.efforts)), batch.multipliers)
            for batch, C in zip(self.plan.batches, s.C, strict=True)
            if C is not None
        ]
        for port, row in self.plan.driven_rows.items():
            parts.append((self.drives[port].effort(t) - entries_at(e, self.plan.drive_slots[port]), row))
        return self._sums(parts, self.plan.n_rows)

    def efforts(self, t, x: State) -> Float[Array, " efforts"]:
        """All efforts at a state."""
        if not self.kinematic:
            return self._general_rates(t, x).efforts
        s, e_stored = self.structures(x), self.stored_efforts(x)
        return self.expand(t, s, e_stored, self.free_efforts(t, s, e_stored, self.constraint_matrix(t, s)))

    def violation(self, t, x: State) -> Float[Array, " rows"]:
        """The rows (ii) at a state, with the best free efforts."""
        return self.rows(t, self.structures(x), self.efforts(t, x))

    def residuals(self, t, x: State) -> tuple[Array, Array]:
        """The rows, and their residuals at position level, see `closures`; both `(rows,)`."""
        return self.violation(t, x), self.closures(x, t=t)

    def multiplier_flows(self, s: Structure, multipliers: Array) -> Float[Array, " efforts"]:
        """Flows `C^T lambda` into the constraint components, not yet reduced."""
        parts = [
            (jnp.einsum("nmp,nm->np", C, entries_at(multipliers, batch.multipliers)), batch.efforts)
            for batch, C in zip(self.plan.batches, s.C, strict=True)
            if C is not None
        ]
        for port, row in self.plan.driven_rows.items():
            parts.append((-entries_at(multipliers, row), self.plan.drive_slots[port]))
        return self._sums(parts, self.plan.n_efforts)

    def reversible_flows(self, s: Structure, e: Array) -> Float[Array, " efforts"]:
        """Flows `J e` into the reversible components, not yet reduced."""
        parts = [
            (jnp.einsum("npq,nq->np", J, entries_at(e, batch.efforts)), batch.efforts)
            for batch, J in zip(self.plan.batches, s.J, strict=True)
            if J is not None
        ]
        return self._sums(parts, self.plan.n_efforts)

    def irreversible_flows(
        self, x: State, e: Array, only: Collection[int] | None = None
    ) -> tuple[Float[Array, " efforts"], Array, Array]:
        """Flows into irreversible components, power they take from non-thermal ports, entropy that each produces.

        With `only`, of those in these batches.
        """
        parts, dissipated, entropy = [], jnp.zeros((), e.dtype), [jnp.zeros(0, e.dtype)]
        for i, (batch, component) in enumerate(zip(self.plan.batches, self.components, strict=True)):
            if batch.role is not Role.IRREVERSIBLE or (only is not None and i not in only):
                continue
            efforts = entries_at(e, batch.efforts)
            matrix = onsager(batch, self.reference_conditions)
            M = each(batch, matrix, component, batch.states(x), efforts)
            flow = jnp.einsum("npq,nq->np", M, efforts) / self.reference_temperature
            thermal = jnp.asarray(thermal_mask(batch))
            dissipated = dissipated + jnp.sum(jnp.where(thermal, 0.0, efforts * flow))
            entropy.append(-jnp.sum(jnp.where(thermal, flow, 0.0), axis=1))
            parts.append((flow, batch.efforts))
        return self._sums(parts, self.plan.n_efforts), dissipated, jnp.concatenate(entropy)

    def outer_flows(self, t, x: State, e: Array) -> tuple[Float[Array, " efforts"], Float[Array, ""]]:
        """Flows given by drives, and their power."""
        parts, power = [], jnp.zeros((), e.dtype)
        view = StateView(self.plan, x, e, self.output_view(x, e))
        for port, drive in self.drives.items():
            if not _prescribes(drive):
                slot = self.plan.drive_slots[port]
                flow = drive.flow(t, PortView(view, slot))
                parts.append((flow, slot))
                power = power + flow @ entries_at(e, slot)
        return self._sums(parts, self.plan.n_efforts), power

    def output_view(self, x: State, e: Float[Array, " efforts"]) -> OutputView:
        """The outputs of components at a state and all efforts."""
        return OutputView(self.plan, self.components, self.reference_conditions, x, e)

    # -- dynamics -------------------------------------------------------------------------------------------------

    def constraint_matrix(self, t, s: Structure) -> Float[Array, "rows efforts"]:
        """`(C_S, C_A)`: how stored and free efforts enter the rows (ii), transformers eliminated."""
        n_stored, n = self.plan.n_stored, self.plan.n_stored + self.plan.n_free
        dtype = self.reference_temperature.dtype

        def rows(z: Array) -> Array:
            return self.rows(t, s, self.expand(t, s, z[:n_stored], z[n_stored:]))

        _, push = jax.linearize(rows, jnp.zeros(n, dtype))
        return sparse_matrix(push, self.plan.seen_by_rows, dtype)

    def compliance(
        self, x: State, C: Float[Array, "rows efforts"], which: tuple[int, ...] | None = None
    ) -> Float[Array, "rows rows"]:
        """`A = C_S H C_S^T`, `H` the Hessian of energy: `A lambda` is how fast multipliers reduce the rows.

        With `which`, the part that the states of these blocks have in it.
        """
        plan = self.plan
        which = plan.constrained_blocks if which is None else which
        if not which:
            return jnp.zeros((C.shape[0], C.shape[0]), C.dtype)
        slots = np.concatenate([np.arange(plan.blocks[i].slots.start, plan.blocks[i].slots.stop) for i in which])
        _, push = jax.linearize(lambda part: self.stored_efforts(_replaced(x, which, part))[slots], _pick(x, which))
        basis = np.zeros((len(slots), plan.n_stored))
        basis[np.arange(len(slots)), slots] = 1.0
        hessian = jax.vmap(lambda v: push(_pick(self.lift(x, v), which)), out_axes=1)(jnp.asarray(basis, C.dtype))
        C_S = C[:, slots]
        return C_S @ hessian @ C_S.T

    def free_efforts(self, t, s: Structure, e_stored: Array, C: Array) -> Float[Array, " free"]:
        """`e_A` from the rows (ii) in the least-squares sense."""
        plan = self.plan
        if plan.n_free == 0:
            return jnp.zeros(0, e_stored.dtype)
        offset = C[:, : plan.n_stored] @ e_stored
        if any(_prescribes(drive) for drive in self.drives.values()):
            zeros = jnp.zeros_like(e_stored), jnp.zeros(plan.n_free, e_stored.dtype)
            offset = offset + self.rows(t, s, self.expand(t, s, *zeros))
        C_A = C[:, plan.n_stored :]
        return -least_squares(C_A, offset)

    def known(self, t, x: State) -> Known:
        """What there is at `(t, x)` before multipliers are found; of a kinematic system."""
        return self._known(t, x, self.structures(x), self.stored_efforts(x))

    def _known(self, t, x: State, s: Structure, e_stored: Array) -> Known:
        C = self.constraint_matrix(t, s)
        e_free = self.free_efforts(t, s, e_stored, C)
        e = self.expand(t, s, e_stored, e_free)
        flow, account = self._given_flows(t, x, s, e)
        return Known(C, e, flow, account, self.rows(t, s, e))

    def rates(self, t, x: State, stabilisation: Array | None = None) -> Rates:
        """The right-hand side at `(t, x)`.

        **Arguments:** `stabilisation`: added to the derivative of the rows (Baumgarte), one entry per row.
        """
        if not self.kinematic:
            return self._general_rates(t, x)
        t, plan = jnp.asarray(t, self.reference_temperature.dtype), self.plan
        if plan.n_rows == 0:
            s = self.structures(x)
            _, e, flow, account, violation = self._known(t, x, s, self.stored_efforts(x))
            power = self.with_prescribed(_power(account, jnp.zeros((), e.dtype)), s, e, flow, violation)
            return Rates(-flow[: plan.n_stored], e, violation, violation, power)
        (s, e_stored), derivative = jax.linearize(lambda x: (self.structures(x), self.stored_efforts(x)), x)
        C, e, flow, account, violation = self._known(t, x, s, e_stored)
        velocity = -flow[: plan.n_stored]

        def rows_at(t, s, e_stored):
            e_free = e[plan.n_stored : plan.n_stored + plan.n_free]
            return self.rows(t, s, self.expand(t, s, e_stored, e_free))

        along = (jnp.ones_like(t), *derivative(self.lift(x, velocity)))
        _, drift = jax.jvp(rows_at, (t, s, e_stored), along)
        drift = drift + self.transport(e, violation)
        drift = drift if stabilisation is None else drift + stabilisation
        balance = -flow[plan.n_stored : plan.n_stored + plan.n_free]
        solve = saddle_solver(self.compliance(x, C), C[:, plan.n_stored :])
        _, multipliers = solve(balance, -drift)
        power = _power(account, -(multipliers @ violation))
        velocity = velocity + self.impulse(C, multipliers)
        return Rates(velocity, e, multipliers, violation, self.with_prescribed(power, s, e, flow, multipliers))

    def transport(self, e: Array, violation: Float[Array, " rows"]) -> Float[Array, " rows"]:
        """What components whose rows refer to moving axes add to their rates, by `transport(e, rows)`.

        Linear in the violation: it changes nothing on the constraints, but how errors drift beside them.
        """
        parts = []
        for batch, component in zip(self.plan.batches, self.components, strict=True):
            if hasattr(component, "transport"):
                of_one = lambda comp, e, rows, batch=batch: comp.transport(by_port(batch, e), rows)  # noqa: E731
                own = entries_at(e, batch.efforts), entries_at(violation, batch.multipliers)
                parts.append((each(batch, of_one, component, *own), batch.multipliers))
        return self._sums(parts, self.plan.n_rows)

    def impulse(self, C: Array, multipliers: Array) -> Float[Array, " stored"]:
        """The change of the states, trivialised, that multipliers cause."""
        return -(multipliers @ C[:, : self.plan.n_stored])

    def _given_flows(self, t, x, s, e) -> tuple[Array, tuple[Array, Array, Array]]:
        """Reduced flows without multipliers (out of storages, so minus `xdot`), with supplied, dissipated, entropy."""
        irreversible, dissipated, entropy = self.irreversible_flows(x, e)
        outer, supplied = self.outer_flows(t, x, e)
        flow = self.reduce(s, self.reversible_flows(s, e) + irreversible - outer)
        return flow, (supplied, dissipated, entropy)

    def with_prescribed(self, power: Power, s, e, flow, multipliers) -> Power:
        """Adds the power of prescribed efforts: the flow that the balance asks for times the effort."""
        supplied = power.supplied
        if any(_prescribes(drive) for drive in self.drives.values()):
            flow = flow + self.reduce(s, self.multiplier_flows(s, multipliers))
        for port, drive in self.drives.items():
            if _prescribes(drive):
                slot = self.plan.drive_slots[port]
                taken = multipliers[self.plan.driven_rows[port]] if port in self.plan.driven_rows else flow[slot]
                supplied = supplied + taken @ e[slot]
        return power._replace(supplied=supplied)

    def general_equations(self, t, x: State, z: Array) -> tuple[Array, tuple[Any, Any, Any, Any, Any]]:
        """Balances at free junctions and constraint rows for `z = (e_A, lambda)`; and what they are made of."""
        plan, s, e_free, multipliers = self.plan, self.structures(x), z[: self.plan.n_free], z[self.plan.n_free :]
        e = self.expand(t, s, self.stored_efforts(x), e_free)
        given, account = self._given_flows(t, x, s, e)
        flow = given + self.reduce(s, self.multiplier_flows(s, multipliers))
        residual = jnp.concatenate([flow[plan.n_stored : plan.n_stored + plan.n_free], self.rows(t, s, e)])
        return residual, (flow, given, e, s, account)

    def general_residual_and_rate(self) -> tuple[Callable, Callable]:
        """The equations `(t, x, z)` of those unknowns, and the ambient rate of the states that they give."""

        def residual(t, x, z):
            return self.general_equations(t, x, z)[0]

        def rate(t, x, z):
            return self.lift(x, -self.general_equations(t, x, z)[1][0][: self.plan.n_stored])

        return residual, rate

    def general_unknowns(self, t, x: State) -> Float[Array, " unknowns"]:
        """`z = (e_A, lambda)` of a system whose rows alone do not fix the free efforts."""
        residual, rate = self.general_residual_and_rate()
        return solve_general(residual, rate, t, x, self.plan.n_free + self.plan.n_rows)

    def _general_rates(self, t, x: State) -> Rates:
        plan, t = self.plan, jnp.asarray(t, self.reference_temperature.dtype)
        z = self.general_unknowns(t, x)
        residual, (flow, given, e, s, account) = self.general_equations(t, x, z)
        multipliers, violation = z[plan.n_free :], residual[plan.n_free :]
        power = _power(account, -(multipliers @ violation))
        power = self.with_prescribed(power, s, e, given, multipliers)
        return Rates(-flow[: plan.n_stored], e, multipliers, violation, power)

    # -- states ---------------------------------------------------------------------------------------------------

    def lift(self, x: State, velocity: Float[Array, " stored"]) -> State:
        """Ambient tangents of all blocks from the trivialised velocity."""
        return lift_blocks(self.plan.blocks, x, velocity)

    def retract(self, x: State, step: Float[Array, " stored"], which: Collection[int] | None = None) -> State:
        """`x exp(step)`, block by block; of the blocks `which` only, if given."""
        return retract_blocks(self.plan.blocks, x, step, which)

    def energies(self, x: State) -> Float[Array, " storages"]:
        """Energy of every storage, J, in the order of `Plan.storages`."""
        values = [jnp.zeros(0, self.reference_temperature.dtype)]
        for batch, component in zip(self.plan.batches, self.components, strict=True):
            if batch.role is Role.STORAGE:
                values.append(each(batch, lambda c, s: c.energy(s), component, batch.states(x)))
        return jnp.concatenate(values)

    def closures(
        self, x: State, gap: Callable | None = None, only: np.ndarray | None = None, t: Any = None
    ) -> Float[Array, " rows"]:
        """Position-level residuals on the rows that have one, zero elsewhere; their rate is `rows`.

        **Arguments:** `gap`: by the function `residual` of a closure (see `jmbs.ephs.Closure`), None or a function of
        its parts, states and residual for what to give instead; `only`: rows that are wanted, others being zero;
        `t`: when, s, which closures with drives ask for.
        """
        parts, rows = [jnp.zeros(0, self.reference_temperature.dtype)], [np.zeros(0, int)]
        for group in self.plan.closures_by_residual(only):
            given = [self._of_closure(closure, x, t) for closure in group]
            pairs = zip(group, given, strict=True)
            errors = jnp.concatenate([eqx.filter_vmap(closure.error)(*own) for closure, own in pairs])
            residuals = jax.vmap(group[0].residual)(errors)
            change = None if gap is None else gap(group[0].residual)
            if change is not None:
                ends = np.cumsum([len(closure.names) for closure in group])[:-1]
                split = zip(given, jnp.split(residuals, ends), strict=True)
                residuals = jnp.concatenate([eqx.filter_vmap(change)(*own, r) for own, r in split])
            parts.append(residuals.ravel())
            rows += [closure.multipliers.ravel() for closure in group]
        return sums_at(jnp.concatenate(parts), np.concatenate(rows), self.plan.n_rows)

    def _of_closure(self, closure: ClosureBatch, x: State, t: Any) -> tuple[Any, ...]:
        """The parts and states of the closures of one kind, and where their drives are."""
        take = lambda rows: lambda leaf: entries_at(leaf, rows) if eqx.is_array(leaf) else leaf  # noqa: E731
        parts = tuple(jax.tree.map(take(members), self.components[b]) for b, members in closure.parts)
        states = tuple(entries_at(x[b], rows) for b, rows in closure.states)
        if not closure.drives:
            return parts, states
        if t is None:
            raise ValueError(f"closures of prescribed motions ({closure.names[0]}) are asked for without a time")
        t = jnp.asarray(t, self.reference_temperature.dtype)
        return parts, states, jnp.stack([self.drives[port].target(t) for port in closure.drives])

    @property
    def with_domain(self) -> list[tuple[Batch, Any]]:
        """The components, each with its batch, whose coordinates end somewhere: those with a `regularity(x)`."""
        pairs = zip(self.plan.batches, self.components, strict=True)
        return [(b, c) for b, c in pairs if getattr(c, "regularity", None) is not None]

    @property
    def has_domain(self) -> bool:
        """Whether any coordinates end somewhere."""
        return bool(self.with_domain)

    def energy(self, x: State) -> Float[Array, ""]:
        """Energy of all storages, J."""
        return jnp.sum(self.energies(x))

    def regularity(self, x: State) -> Float[Array, ""]:
        """The least of the components' `regularity(x)`: positive inside their coordinates' domains; 1 without any."""
        least = jnp.ones((), self.reference_temperature.dtype)
        for batch, component in self.with_domain:
            values = each(batch, lambda c, s: c.regularity(s), component, batch.states(x))
            least = jnp.minimum(least, jnp.min(values))
        return least


def _power(account: tuple[Array, Array, Array], constraint: Array) -> Power:
    supplied, dissipated, production = account
    return Power(supplied, dissipated, jnp.sum(production), constraint, production)


def _pick(x: State, which: tuple[int, ...]) -> tuple[Array, ...]:
    return tuple(x[i] for i in which)


def _replaced(x: State, which: tuple[int, ...], part: tuple[Array, ...]) -> State:
    new = dict(zip(which, part, strict=True))
    return tuple(new.get(i, q) for i, q in enumerate(x))


def _prescribes(drive) -> bool:
    return not hasattr(drive, "flow")
