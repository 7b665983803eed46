"""Projection of positions and velocities onto the constraints, nearest in the mass metric.

A position error is removed by the motion that an impulse would cause in unit time, a velocity error by an impulse:
both solve the saddle system of the accelerations with another right-hand side, so a step needs one matrix.
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp

from jmbs.arrays import total
from jmbs.linear import saddle_solver


@eqx.filter_jit
def project(dae, t, x):
    """`x` moved onto the constraints, to second order in the violation: one Newton step of each kind.

    Returns the state and the energy that the correction added, J.
    """
    if dae.plan.n_rows == 0:
        return x, jnp.zeros((), dae.reference_temperature.dtype)
    s = dae.structures(x)
    C = dae.constraint_matrix(t, s)
    A, B = dae.compliance(x, C), C[:, dae.plan.n_stored :]
    before = total_energy(dae, x)
    solve = saddle_solver(A, B)
    moved = _correct_positions(dae, t, x, s, C, solve)
    moved = _correct_velocities(dae, t, moved, C, solve)
    return moved, total_energy(dae, moved) - before


def _correct_positions(dae, t, x, s, C, solve):
    free, impulse = solve(jnp.zeros(dae.plan.n_free, C.dtype), -dae.closures(x, t=t))
    momentum_change = dae.impulse(C, impulse)
    _, effort_change = jax.jvp(dae.stored_efforts, (x,), (dae.lift(x, momentum_change),))
    efforts = dae.expand(0.0, s, effort_change, free, prescribed=False)
    motion = -dae.reduce(s, dae.reversible_flows(s, efforts))[: dae.plan.n_stored]
    return dae.retract(x, motion, dae.plan.configuration_blocks)


def _correct_velocities(dae, t, x, C, solve):
    # Free efforts may be any: the solve corrects them too, so the rows are evaluated with them at zero.
    s, zero = dae.structures(x), jnp.zeros(dae.plan.n_free, C.dtype)
    rows = dae.rows(t, s, dae.expand(t, s, dae.stored_efforts(x), zero))
    _, impulse = solve(zero, -rows)
    return dae.retract(x, dae.impulse(C, impulse), dae.plan.constrained_blocks)


def total_energy(dae, x):
    """Energy of all storages, J."""
    return total(dae.energies(x))
