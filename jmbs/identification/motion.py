"""Inverse dynamics along a recorded motion, with the motion as unknown as its samples are noisy.

The joints' coordinates are `q(t) = B(t) c` with a known basis. Samples of angles lie about the curve, samples of
torques about the inverse dynamics along it, so both tell of the coefficients `c`, nuisance unknowns of their recording.
They are eliminated: at given unknowns `c` is where the whitened residuals `r` of all samples of the recording are
least, and what stays of their derivatives is what no change of `c` does, `(1 - A (A^T A)^-1 A^T) dr`, `A = dr/dc`. So
rows and derivatives are those of maximum likelihood with errors in angles and torques.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from jmbs.identification.expressions import Expression
from jmbs.identification.motion_basis import AbstractBasis
from jmbs.identification.output_names import OutputName
from jmbs.identification.places import Place
from jmbs.identification.prediction import fitted_model, sensor_values
from jmbs.identification.transforms import Transform
from jmbs.identification.unknowns import UnknownBlock
from jmbs.linear import solve_definite
from jmbs.programs import cached_jit, quick_to_compile
from jmbs.simulation import Model, forces_along

TORQUE = 2
"""What a channel measures: 0 a coordinate, 1 its rate, 2 the force that moves it."""
MOST_STEPS = 20
SETTLED = 1e-13
"""The curve is found when a step promises less than this part of the squares."""
FIRST_DAMPING = 1e-3
"""Of a step that comes after one which made the squares larger."""


class Shown(NamedTuple):
    """What a channel shows: see TORQUE; of which `joint`, by number; at which `clock` its samples are taken, by number:
    channels of one delay share one."""

    order: int
    joint: int
    clock: int


@dataclasses.dataclass(frozen=True)
class MotionProgram:
    """What is compiled once for all recordings of equal shapes; see `FitProgram`, which does the same by runs.

    **Arguments:** `outputs`, `sensors`, `blocks`, `ties`: see there; `measured`: by channel; `joints`: how many move.
    """

    outputs: tuple[OutputName, ...]
    sensors: tuple[str, ...]
    blocks: tuple[UnknownBlock, ...]
    ties: tuple[tuple[Place, Expression], ...]
    measured: tuple[Shown, ...]
    joints: int
    simulates: ClassVar[bool] = False

    def evaluate(
        self, member: MotionMember, local: Float[Array, " p"], horizon: Array
    ) -> tuple[Float[Array, "c n"], Float[Array, "c n p"]]:
        """See `FitProgram.evaluate`."""
        return _evaluated(self, member, local, horizon, _curve(self, member, local))

    def shown(self, member: MotionMember, local: Float[Array, " p"]) -> Float[Array, "c n"]:
        """See `FitProgram.shown`: what sensors show along the curve."""
        return _curve(self, member, local).shown

    def taken(self, member: MotionMember, local: Float[Array, " p"]) -> Float[Array, " c"]:
        """How many degrees of freedom of each channel's samples the curve takes."""
        return _taken(member, _curve(self, member, local))

    def held_out(self, member: MotionMember) -> MotionMember:
        """See `FitProgram.held_out`: the curve follows the coordinates alone, so torques are predictions."""
        guides = jnp.asarray([float(measured.order != TORQUE) for measured in self.measured], member.times.dtype)
        return dataclasses.replace(member, guides=guides)

    def predicted(
        self, member: MotionMember, local: Float[Array, " p"]
    ) -> tuple[Float[Array, "c n"], Float[Array, "c n p"], Float[Array, "c n"]]:
        """What sensors show along the curve that coordinates and rates tell, its derivative by the unknowns, and its
        standard deviation by the noise of these samples; NaN where a sample of a coordinate or rate is missing."""
        torque = (member.guides == 0)[:, None]
        weights = jnp.where(torque, 1.0, member.weights)
        bare = dataclasses.replace(member, weights=weights, measured=jnp.where(torque, 0.0, member.measured))
        curve = _curve(self, bare, local)
        slopes = _evaluated(self, bare, local, jnp.asarray(jnp.inf, local.dtype), curve)[1]
        deviation = jnp.where(weights > 0, 1.0 / weights, jnp.nan)
        return curve.shown, slopes * deviation[..., None], jnp.sqrt(_spread(curve)) * deviation

    def whitened(
        self, member: MotionMember, local: Float[Array, " p"], horizon: Array, adjoint: str = "forward"
    ) -> Float[Array, "c n"]:
        """See `FitProgram.whitened`."""
        del adjoint
        curve = jax.lax.stop_gradient(curve_of(self, member, jax.lax.stop_gradient(local)))
        return whitened_along(self, member, local, horizon, curve)


class MotionMember(eqx.Module):
    """A recording as arrays, of c channels at n times; see `Member`.

    **Arguments:** `basis` of the curve, whose functions times `mix` (k, k) are orthonormal over the samples; `guides`
    (c,): one for channels that the curve follows, else zero.
    """

    model: Model
    times: Float[Array, " n"]
    measured: Float[Array, "c n"]
    weights: Float[Array, "c n"]
    constants: Float[Array, "c 3"]
    transforms: tuple[Transform, ...]
    fixed: dict[str, Array]
    basis: AbstractBasis
    mix: Float[Array, "k k"]
    guides: Float[Array, " c"]


class Curve(NamedTuple):
    """The curve of a recording: `coefficients` (k, joints), what sensors have `shown` (c, n) along it, `derivatives`
    (c, n, k joints) of the whitened residuals by coefficients, and the `normal` matrix, the sum of their squares over
    the channels that the curve follows."""

    coefficients: Array
    shown: Array
    derivatives: Array
    normal: Array


class _Look(NamedTuple):
    """What there is at some coefficients, see `Curve`; `squares` of the residuals that the curve follows, their
    `gradient` and `normal` matrix."""

    coefficients: Array
    shown: Array
    squares: Array
    derivatives: Array
    gradient: Array
    normal: Array


class _Search(NamedTuple):
    """The best look so far, the coefficients to be tried next and what they promise, `gain`."""

    best: _Look
    tried: Array
    damping: Array
    gain: Array
    count: Array


def _bases(program: MotionProgram, member: MotionMember, delays: list[Array]) -> Float[Array, "clocks 3 n k"]:
    """The basis and its first two derivatives at the times of each clock."""
    clocks = {measured.clock: delay for measured, delay in zip(program.measured, delays, strict=True)}
    return jnp.stack(
        [
            jnp.stack([member.basis.values(member.times - clocks[clock], order) @ member.mix for order in range(3)])
            for clock in range(len(clocks))
        ]
    )


def _shown(
    program: MotionProgram, member: MotionMember, local: Array, coefficients: Array, moved: Float[Array, "n 3 j"]
) -> tuple[Float[Array, "c n"], Array]:
    """What sensors show where coordinates, rates and accelerations of the curve are `moved` at each sample; and the
    bases by clock."""
    model, named, _ = fitted_model(program, member, local)
    known = sensor_values(program.sensors, member.constants, named)
    bases = _bases(program, member, [delay for _, _, delay in known])
    torques: dict[int, Array] = {}
    rows = []
    for (order, joint, clock), (gain, bias, delay) in zip(program.measured, known, strict=True):
        motion = jnp.swapaxes(bases[clock] @ coefficients, 0, 1) + moved
        if order == TORQUE and clock not in torques:
            torques[clock] = forces_along(model, member.times - delay, motion[:, 0], motion[:, 1], motion[:, 2])
        signal = torques[clock] if order == TORQUE else motion[:, order]
        rows.append(gain * signal[:, joint] + bias)
    return jnp.stack(rows), bases


def _still(program: MotionProgram, member: MotionMember) -> Float[Array, "n 3 j"]:
    return jnp.zeros((len(member.times), 3, program.joints), member.times.dtype)


def _residuals(member: MotionMember, shown: Float[Array, "c n"]) -> Float[Array, "c n"]:
    return jnp.where(member.weights > 0, (shown - member.measured) * member.weights, 0.0)


def _look(program: MotionProgram, member: MotionMember, local: Array, coefficients: Array) -> _Look:
    still, size = _still(program, member), 3 * program.joints
    units = jnp.eye(size, dtype=still.dtype).reshape(size, 1, 3, program.joints)
    shown_where = lambda moved: _shown(program, member, local, coefficients, moved)  # noqa: E731
    shown, push, bases = jax.linearize(shown_where, still, has_aux=True)
    slopes = jax.vmap(push)(jnp.broadcast_to(units, (size, *still.shape))) * member.weights
    own = bases[jnp.array([measured.clock for measured in program.measured])]
    slopes = slopes.reshape(3, program.joints, *shown.shape)
    derivatives = jnp.einsum("ojcn,conk->cnkj", slopes, own).reshape(*shown.shape, -1)
    guided = (member.guides[:, None, None] * derivatives).reshape(-1, derivatives.shape[-1])
    rows = (member.guides[:, None] * _residuals(member, shown)).ravel()
    normal = guided.T @ guided + jnp.diag(jnp.repeat(member.basis.idle, program.joints))
    return _Look(coefficients, shown, rows @ rows, derivatives, rows @ guided, normal)


def _first_coefficients(program: MotionProgram, member: MotionMember, local: Array) -> Float[Array, "k j"]:
    """Those of the samples of coordinates and rates alone, which depend linearly on them."""
    size = len(member.basis.idle)
    nothing = jnp.zeros((size, program.joints), member.times.dtype)
    _, named, _ = fitted_model(program, member, local)
    known = sensor_values(program.sensors, member.constants, named)
    bases = _bases(program, member, [delay for _, _, delay in known])
    normal = [jnp.diag(member.basis.idle)] * program.joints
    rhs = [nothing[:, 0]] * program.joints
    for i, (measured, (gain, bias, _)) in enumerate(zip(program.measured, known, strict=True)):
        if measured.order != TORQUE:
            rows = member.weights[i][:, None] * gain * bases[measured.clock, measured.order]
            normal[measured.joint] = normal[measured.joint] + rows.T @ rows
            rhs[measured.joint] = rhs[measured.joint] + (member.weights[i] * (member.measured[i] - bias)) @ rows
    return solve_definite(jnp.stack(normal), jnp.stack(rhs)[..., None])[..., 0].T


def curve_of(program: MotionProgram, member: MotionMember, local: Float[Array, " p"]) -> Curve:
    """The curve at local unknowns, by Gauss and Newton's method from that through the coordinates' samples; steps that
    would make the squares larger are damped. A function of its arguments alone; pure."""
    first = _first_coefficients(program, member, local)

    def unsettled(at: _Search) -> Bool[Array, ""]:
        return (at.gain > SETTLED * at.best.squares) & (at.count < MOST_STEPS)

    def advance(at: _Search) -> _Search:
        tried = _look(program, member, local, at.tried)
        better = tried.squares <= at.best.squares
        best = jax.tree.map(lambda a, b: jnp.where(better, a, b), tried, at.best)
        eased = jnp.where(at.damping > FIRST_DAMPING, at.damping / 10, 0.0)
        damping = jnp.where(better, eased, 10 * at.damping + FIRST_DAMPING)
        damped = best.normal + damping * jnp.diag(jnp.diag(best.normal))
        change = -solve_definite(damped, best.gradient[:, None])[:, 0]
        tried_next = best.coefficients + change.reshape(best.coefficients.shape)
        return _Search(best, tried_next, damping, -best.gradient @ change, at.count + 1)

    # Nothing is better than no look at all, and what is no number is worse.
    size, dtype = first.size, first.dtype
    nowhere = _Look(
        jnp.full_like(first, jnp.nan),
        jnp.full_like(member.measured, jnp.nan),
        jnp.asarray(jnp.inf, dtype),
        jnp.zeros((*member.measured.shape, size), dtype),
        jnp.zeros(size, dtype),
        jnp.eye(size, dtype=dtype),
    )
    none = jnp.zeros((), dtype)
    search = _Search(nowhere, first, none, jnp.asarray(jnp.inf, dtype), jnp.zeros((), int))
    # The first look is at the first coefficients whatever is promised.
    search = jax.lax.while_loop(lambda at: (at.count == 0) | unsettled(at), advance, search)
    best = search.best
    return Curve(best.coefficients, best.shown, best.derivatives, best.normal)


def whitened_along(
    program: MotionProgram, member: MotionMember, local: Float[Array, " p"], horizon: Array, curve: Curve
) -> Float[Array, "c n"]:
    """Residuals near the curve of `local`, less what a change of it takes of them: nothing at the curve, but all that
    it takes of their derivatives; pure."""
    shown, _ = _shown(program, member, local, curve.coefficients, _still(program, member))
    residual = _residuals(member, shown)
    pulled = jnp.einsum("cnk,cn,c->k", curve.derivatives, residual, member.guides)
    change = solve_definite(curve.normal, pulled[:, None])[:, 0]
    return jnp.where(member.times <= horizon, residual - curve.derivatives @ change, 0.0)


def spread_of(curve: Curve) -> Float[Array, "c n"]:
    """The variance of what sensors show along a curve, of which its samples tell, over that of the noise; pure."""
    rows = curve.derivatives.reshape(-1, len(curve.normal))
    return jnp.sum(rows.T * solve_definite(curve.normal, rows.T), axis=0).reshape(curve.shown.shape)


def taken_by(member: MotionMember, curve: Curve) -> Float[Array, " c"]:
    """How many degrees of freedom of each channel's samples a curve takes; pure."""
    return member.guides * jnp.sum(spread_of(curve), axis=1)


_curve = quick_to_compile(curve_of, repeated=True)
_taken = cached_jit(taken_by)
_spread = cached_jit(spread_of)


@quick_to_compile(repeated=True)
def _evaluated(
    program: MotionProgram, member: MotionMember, local: Array, horizon: Array, curve: Curve
) -> tuple[Array, Array]:
    def twice(vector):
        residual = whitened_along(program, member, vector, horizon, curve)
        return residual, residual

    jacobian, residual = jax.jacfwd(twice, has_aux=True)(local)
    return residual, jacobian
