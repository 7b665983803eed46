"""Derivatives forwards of what joints that close loops add to the equations of a tree, see `jmbs.rigid_body.tangents`.

At the joint's frame and in the second body's axes, with the twists `V_1`, `V_2` of both bodies, the rates `A_1`, `A_2`
of these, what the bodies' displacements differ in, `eta`, and a shift `s` of the frame in the second body,

    dV_1 = dV_1 as seen from the first body + (eta - s) x V_1,      dV_2 = dV_2 as seen from the second - s x V_2,

and likewise for the rates. Rows are functions of these and of the joint's normals; what the joint transmits is at rest
in its frame, and moves with it. Derived in `docs/derivations/loops.md`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jmbs.constraints.loop_joints import Gap, LoopJoints, Loops, drift, ends, transmitted_by
from jmbs.jaxext import all_entries_at, evaluated_once, sums_at
from jmbs.rigid_body import (
    Column,
    MotionChange,
    crossed,
    crossed_twists,
    difference,
    entries_of,
    select,
    total_twist,
    twists_about_origin,
    wrench_sum,
)
from jmbs.spatial import Vector, add, cross, power, subtract, times, transposed_times


class LoopChange(NamedTuple):
    """What loop joints add: the `wrenches` on bodies about the origin that these need beside, and how they change; the
    change of the `rows` (m,)."""

    wrenches: tuple[Column, Column]
    rows: Float[Array, "m *b"]


class _FrameChange(NamedTuple):
    """At the joint's frame, in the second body's axes: twists of both bodies, their rates (None where velocities alone
    are looked at), and changes of all of these."""

    twists: tuple[Column, Column]
    rates: tuple[Column, Column] | None
    d_twists: tuple[Column, Column]
    d_rates: tuple[Column, Column] | None


def loop_change(
    change: MotionChange,
    loops: Loops,
    joints: LoopJoints,
    efforts: Float[Array, "k *b"] | None,
    multipliers: Float[Array, "m *b"],
    given: Any,
) -> LoopChange:
    """See `LoopChange`: with multipliers held, and `efforts` at the joints' rates.

    **Arguments:** `given`: changes of the joints' parameters, efforts and drift, as `LoopInputs` has them; None for
    none.
    """
    bodies = loops.bodies
    V, A = twists_about_origin(change.kin)
    with_rates = change.acceleration is not None
    of_bodies = V, change.velocity, change.eta, *((A, change.acceleration) if with_rates else ())
    first, second = (_of_ends(of_bodies, bodies[:, end]) for end in (0, 1))
    at_second = ends(change.kin.bodies, bodies)[1]
    shift = None if given.joints.place is None else entries_of(given.joints.place, 3)
    d_normal, d_inverse = (
        None if column[0] is None else (entries_of(column[0], 3), entries_of(column[1], 3))
        for column in (given.joints.normal, given.joints.inverse)
    )

    def at_frame(place: Vector, first, second) -> _FrameChange:
        p = add(at_second.position, times(at_second.rotation, place))

        def own(twist: Column) -> Column:
            w, v = twist
            return tuple(transposed_times(at_second.rotation, x) for x in (w, add(v, cross(w, p))))  # type: ignore[return-value]

        one, two = [own(x) for x in first], [own(x) for x in second]
        moved = difference(one[2], two[2])
        moved = moved if shift is None else (moved[0], subtract(moved[1], shift))

        def changes(k: int, dk: int) -> tuple[Column, Column]:
            d_one = total_twist(one[dk], crossed_twists(moved, one[k]))
            if shift is None:
                return d_one, two[dk]
            w, v = two[k]
            return d_one, (two[dk][0], subtract(two[dk][1], cross(shift, w)))

        rates = (one[3], two[3]) if with_rates else None
        return _FrameChange((one[0], two[0]), rates, changes(0, 1), changes(3, 4) if with_rates else None)

    at = evaluated_once(at_frame, joints.place, first, second)
    rows = _rows_change(at, loops, joints, d_normal)
    transmitted, d_transmitted = _transmitted(loops, joints, d_normal, d_inverse, efforts, given.efforts, multipliers)

    def at_ends(place: Vector, transmitted: Column, d_transmitted: Column, eta: Column) -> tuple[Column, Column]:
        p = add(at_second.position, times(at_second.rotation, place))

        def about_origin(wrench: Column) -> Column:
            torque, force = (times(at_second.rotation, x) for x in wrench)
            return add(torque, cross(p, force)), force

        wrench, along = about_origin(transmitted), eta
        if shift is not None:
            along = eta[0], add(eta[1], times(at_second.rotation, shift))
        return wrench, wrench_sum(about_origin(d_transmitted), crossed(along, wrench))

    wrenches = evaluated_once(at_ends, joints.place, transmitted, d_transmitted, second[2])
    count, (one, two) = len(change.kin.bodies.position[0]), bodies.T
    on_bodies = jax.tree.map(lambda x: sums_at(x, one, count) - sums_at(x, two, count), wrenches)
    return LoopChange(on_bodies, rows if given.drift is None else rows + given.drift)


def _of_ends(entries: Any, bodies: np.ndarray) -> Any:
    """Entries of bodies; zero for the ground."""
    found, on = all_entries_at(entries, np.maximum(bodies, 0)), bodies >= 0
    return found if on.all() else jax.tree.map(lambda x: select(on, x, jnp.zeros_like(x)), found)


def _rows_change(at: _FrameChange, loops: Loops, joints: LoopJoints, d_normal: Column | None) -> Array:
    """How the rows, or where there are no rates the velocities along them, change."""

    def rows(twists: tuple[Column, Column], rates: tuple[Column, Column] | None, normal: Column) -> Array:
        gap = difference(*twists)
        if rates is None:
            return power(normal, all_entries_at(gap, loops.rows))
        (spin, velocity), (angular, linear) = twists[1], difference(*rates)
        at_rest = angular, add(linear, cross(gap[0], velocity))
        return drift(Gap(gap, at_rest, spin), loops, joints._replace(normal=normal))

    normal = joints.normal
    still = jax.tree.map(jnp.zeros_like, normal) if d_normal is None else d_normal
    pair = lambda *x: jax.jvp(rows, x[:3], x[3:])[1]  # noqa: E731
    return evaluated_once(pair, at.twists, at.rates, normal, at.d_twists, at.d_rates, still)


def _transmitted(
    loops: Loops,
    joints: LoopJoints,
    d_normal: Column | None,
    d_inverse: Column | None,
    efforts: Array | None,
    d_efforts: Array | None,
    multipliers: Array,
) -> tuple[Column, Column]:
    """What joints transmit, as in `less_transmitted`, and how that changes where multipliers are held."""
    transmitted = transmitted_by(loops, joints, efforts, multipliers)
    d_joints = joints._replace(normal=d_normal, inverse=d_inverse)
    changes = [] if d_normal is None else [transmitted_by(loops, d_joints, None, multipliers)]
    if efforts is not None:
        changes += [] if d_inverse is None else [transmitted_by(loops, d_joints, efforts, None)]
        changes += [] if d_efforts is None else [transmitted_by(loops, joints, d_efforts, None)]
    nothing = jax.tree.map(jnp.zeros_like, transmitted)
    return transmitted, wrench_sum(*changes) if changes else nothing
