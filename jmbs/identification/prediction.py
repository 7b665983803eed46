"""The program of a fit: what the sensors of one recording show at a vector of unknowns, and its derivative."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Protocol

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from jmbs.identification.expressions import Expression
from jmbs.identification.interpolation import ORDER, REACH, at_times
from jmbs.identification.output_names import OutputName, parse_index
from jmbs.identification.outputs import needs_audit, needs_rates, signal
from jmbs.identification.places import Place, place_of, with_places
from jmbs.identification.steps import capacity_of
from jmbs.identification.study import SENSOR_KEYS
from jmbs.identification.transforms import Transform
from jmbs.identification.unknowns import UnknownBlock, by_name, values_of
from jmbs.programs import cached_jit
from jmbs.simulation import Model, parameter_value, simulate

ONE_STEP = 1e12
"""A step, s, so long that there is one from each knot to the next."""
FINER = 4
"""How many times closer than its samples a recording's motion may be looked at in one run."""


@dataclasses.dataclass(frozen=True)
class FitProgram:
    """What is compiled once for all recordings of equal shapes.

    **Arguments:** `outputs`: by channel; `sensors`: their names; `blocks` of the unknowns; `ties`: where, and the
    expression; `knots`: how many steps' ends there may be; `method`: of the run.
    """

    outputs: tuple[OutputName, ...]
    sensors: tuple[str, ...]
    blocks: tuple[UnknownBlock, ...]
    ties: tuple[tuple[Place, Expression], ...]
    knots: int
    method: str
    simulates: ClassVar[bool] = True

    def evaluate(
        self, member: Member, local: Float[Array, " p"], horizon: Array
    ) -> tuple[Float[Array, "c n"], Float[Array, "c n p"]]:
        """See `residual_and_jacobian`."""
        return residual_and_jacobian(self, member, local, horizon)

    def shown(self, member: Member, local: Float[Array, " p"]) -> Float[Array, "c n"]:
        """See `predict`."""
        return self.shown_at(member, local, np.asarray(member.times))[:, : len(member.times)]

    def shown_at(self, member: Member, local: Float[Array, " p"], times: np.ndarray) -> Float[Array, "c n"]:
        """The same at other times, s, `FINER` times as many as samples at most, and at the last of them again."""
        padded = np.pad(times, (0, FINER * len(member.times) - len(times)), mode="edge")
        # Runs that are compared have steps half as long as the fit's: for them alone no program is compiled.
        knots = 2 * max(self.knots, capacity_of((int(member.knots) + 1) // 2))
        program = dataclasses.replace(self, knots=knots)
        return prediction(program, member, local, jnp.asarray(padded, member.times.dtype))

    def taken(self, member: Member, local: Float[Array, " p"]) -> Float[Array, " c"]:
        """Degrees of freedom of each channel's samples that nuisance unknowns take: there are none."""
        del local
        return jnp.zeros(len(self.sensors), member.model.dtype)

    def held_out(self, member: Member) -> Member:
        """The arrays of a recording that is not fitted."""
        return member

    def whitened(
        self, member: Member, local: Float[Array, " p"], horizon: Array, adjoint: str = "forward"
    ) -> Float[Array, "c n"]:
        """See `whitened`."""
        return whitened(self, member, local, horizon, adjoint)


class Member(eqx.Module):
    """A recording as arrays, of c channels at n times.

    **Arguments:** `model` with its inputs; `start`, `step` (s) of the run; `knots`, the ends of its steps with the
    start; `times` (n,); `measured` (c, n); `weights` (c, n), one over the standard deviation of a sample, zero where
    there is none; `constants` (c, 3): gain, bias and delay where they are known; `transforms` of the unknowns, in the
    order of the blocks; `fixed`: values by path that hold in this recording whatever is unknown.
    """

    model: Model
    start: Float[Array, ""]
    step: Float[Array, ""]
    knots: Int[Array, ""]
    times: Float[Array, " n"]
    measured: Float[Array, "c n"]
    weights: Float[Array, "c n"]
    constants: Float[Array, "c 3"]
    transforms: tuple[Transform, ...]
    fixed: dict[str, Array]


class HasUnknowns(Protocol):
    """What programs know of unknowns: `blocks` and `ties`, see `FitProgram`."""

    @property
    def blocks(self) -> tuple[UnknownBlock, ...]: ...
    @property
    def ties(self) -> tuple[tuple[Place, Expression], ...]: ...


class HasModel(Protocol):
    """What members know of their model: `model`, `transforms` and `fixed`, see `Member`."""

    @property
    def model(self) -> Model: ...
    @property
    def transforms(self) -> tuple[Transform, ...]: ...
    @property
    def fixed(self) -> dict[str, Array]: ...


@cached_jit
def end_of_part(times: Float[Array, " n"], weights: Float[Array, "c n"], part: Float[Array, ""]) -> Float[Array, ""]:
    """The end, s, of a part of what is measured at `times`, where `weights` are not zero: of all of it from one on."""
    seen = jnp.any(weights > 0, axis=0) | ~jnp.any(weights > 0)
    first = jnp.min(times, where=seen, initial=jnp.inf)
    last = jnp.max(times, where=seen, initial=-jnp.inf)
    return jnp.where(part < 1, first + part * (last - first), last)


def fitted_model(
    program: HasUnknowns, member: HasModel, local: Float[Array, " p"]
) -> tuple[Model, dict[str, Array], Any]:
    """The model at local coordinates, all values by name, and how far centres of mass have moved; pure."""
    values = values_of(member.transforms, program.blocks, local)
    named = by_name(program.blocks, values)
    placed = {b.place: v for b, v in zip(program.blocks, values, strict=True) if b.place is not None}
    model, tied, moved = with_ties(member.model, placed, program.ties, named, member.fixed)
    return model, named | tied, moved


def with_ties(
    model: Model,
    placed: Mapping[Place, Float[Array, " n"]],
    ties: Iterable[tuple[Place, Expression]],
    named: Mapping[str, Any],
    fixed: Mapping[str, Array] | None = None,
) -> tuple[Model, dict[str, Array], dict[str, Array]]:
    """The model with values at places and what is tied to them, in an order in which each follows from those before,
    and with those that are `fixed` by path; the tied ones by path, and how far centres of mass have moved; pure. An
    expression's paths are looked up by name, else in the model. All is set at once: what is allowed of one may depend
    on the other."""
    found: dict[str, Array] = {}
    placed, fixed = dict(placed), fixed or {}
    for place, expression in ties:
        known = {path: value for path, value in {**named, **found}.items() if parse_index(path)[0] not in fixed}
        asks = any(path not in known for path in expression.names)
        found[place.path] = value_of(expression, with_places(model, placed, fixed)[0] if asks else model, known)
        placed[place] = jnp.reshape(found[place.path], 1)
    whole, moved = with_places(model, placed, fixed)
    return whole, found, moved


def value_of(expression: Expression, model: Model, named: Mapping[str, Any]) -> Array:
    """An expression's value where its paths have these values by name, or else the model's; pure."""
    return jnp.asarray(
        expression({path: named[path] if path in named else _own(model, path) for path in expression.names})
    )


def _own(model: Model, path: str) -> Array:
    place = place_of(model, path)
    value = parameter_value(model, place.base)
    return value.reshape(()) if place.index is None else value[place.index]


def sensor_values(
    sensors: Sequence[str], constants: Float[Array, "c 3"], named: Mapping[str, Array]
) -> list[tuple[Array, Array, Array]]:
    """By channel gain, bias and delay (s): what is unknown by name, else the constant."""
    found = []
    for sensor, constant in zip(sensors, constants, strict=True):
        known = zip(SENSOR_KEYS, constant, strict=True)
        gain, bias, delay = [jnp.asarray(named.get(f"sensors/{sensor}/{key}", value)) for key, value in known]
        found.append((gain, bias, delay))
    return found


def predict(
    program: FitProgram,
    member: Member,
    local: Float[Array, " p"],
    adjoint: str = "forward",
    horizon: Any = jnp.inf,
    times: Float[Array, " n"] | None = None,
) -> Float[Array, "c n"]:
    """What the sensors show at times up to `horizon`, s, without noise; pure. NaN after a failure of the run.

    **Arguments:** `times`, s: by default those of the samples; `adjoint`: see `simulate`. With `forward` the run ends
    where nothing later is asked for, with others it has as many steps as the program's knots allow.
    """
    model, named, moved = fitted_model(program, member, local)
    audit = any(needs_audit(output) for output in program.outputs)
    sensors = sensor_values(program.sensors, member.constants, named)
    known, most = member.knots, program.knots
    times = member.times if times is None else times
    if adjoint == "forward":
        known = known_knots(program, member, [delay for _, _, delay in sensors], horizon)
        # The first step leads from the start to itself; what an audit says of a saved time comes with the one after.
        most = known + int(audit)
    run = simulate(
        model,
        t0=member.start,
        ts=member.start + member.step * jnp.arange(program.knots, dtype=member.step.dtype),
        dt=ONE_STEP,
        max_steps=most,
        solver=program.method,
        adjoint=adjoint,
        audit=audit,
        until={},
        throw=False,
    )
    shown = []
    for output, (gain, bias, delay) in zip(program.outputs, sensors, strict=True):
        knots = signal(output, model, run, member.step, moved, known)
        shown.append(gain * at_times(member.start, member.step, knots, times - delay, known) + bias)
    return jnp.stack(shown)


def known_knots(program: FitProgram, member: Member, delays: Iterable[Array], horizon: Any) -> Int[Array, ""]:
    """How many knots of a recording show the same at times up to `horizon`, s, as all of them."""
    latest = jax.lax.stop_gradient(jnp.max(jnp.stack([jnp.asarray(horizon - delay) for delay in delays])))
    reach = REACH * (1 + any(needs_rates(output) for output in program.outputs)) + 1
    wanted = jnp.floor((latest - member.start) / member.step) + reach
    all_of_them = member.knots.astype(wanted.dtype)
    # Without times that are known, all.
    wanted = jnp.where(wanted < all_of_them, wanted, all_of_them)
    return jnp.maximum(wanted, ORDER).astype(member.knots.dtype)


def whitened(
    program: FitProgram, member: Member, local: Float[Array, " p"], horizon: Array, adjoint: str = "forward"
) -> Float[Array, "c n"]:
    """Residuals over standard deviations at times up to `horizon`, s, zero elsewhere; pure."""
    seen = (member.weights > 0) & (member.times <= horizon)
    predicted = jnp.where(seen, predict(program, member, local, adjoint, horizon), 0.0)
    return jnp.where(seen, (predicted - member.measured) * member.weights, 0.0)


@cached_jit
def residual_and_jacobian(
    program: FitProgram, member: Member, local: Float[Array, " p"], horizon: Array
) -> tuple[Float[Array, "c n"], Float[Array, "c n p"]]:
    """Whitened residuals of a recording and their derivative by its unknowns, in one run with p tangents."""

    def twice(vector):
        residual = whitened(program, member, vector, horizon)
        return residual, residual

    jacobian, residual = jax.jacfwd(twice, has_aux=True)(local)
    return residual, jacobian


@cached_jit
def prediction(
    program: FitProgram, member: Member, local: Float[Array, " p"], times: Float[Array, " n"]
) -> Float[Array, "c n"]:
    """See `predict`."""
    return predict(program, member, local, times=times)
