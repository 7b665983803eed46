"""How long a fit's fixed steps may be: so long that what they get wrong is small beside the noise of the sensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import jax
import numpy as np

from jmbs.errors import ModelError
from jmbs.identification.output_names import OutputName
from jmbs.identification.study import Recording, table_times
from jmbs.lie import quaternion_to_rotation
from jmbs.simulation import Model, simulate

MOVES = 0.1
"""By how much the errors of the steps may move an estimate, in standard errors: the root of their sum of squares over
all samples of a channel, in standard deviations of these, is an upper bound of that."""
ROUNDING = 100
"""What is always allowed beside the largest value, in units of the precision of the model's numbers."""
RELATIVE = 1e-5
"""What it may be beside the largest value, of what is not looked at itself (accelerations, reactions)."""
LOOKED = 41
"""Times at which two runs are compared."""
LONGEST, SHORTEST = 1 / 60, 1 / 200_000
"""Steps, beside the length of a recording."""


def fixed_method(model: Model) -> str:
    """The method of a fit's fixed steps: RK4, or the model's own if that is implicit."""
    method = str(model.settings.method)
    return method if method.startswith(("kvaerno", "implicit")) else "rk4"


def chosen_step(
    recording: Recording,
    model: Model,
    outputs: Mapping[str, OutputName],
    weights: Mapping[str, np.ndarray],
    longest: float | None = None,
) -> tuple[float, int]:
    """The step, s, for a recording, and how many runs told: by halving, of the model as it is, until that changes
    little.

    **Arguments:** `weights` by channel, one over the standard deviation of each sample; `longest`, s, what is tried
    first; None: what inputs that are tables want, so that their kinks lie on the ends of steps.

    Raises `ModelError` where no step is short enough.
    """
    if model.settings.dt is not None:
        return float(model.settings.dt), 0
    span = float(np.max(recording.ts)) - model.settings.t0
    step = _longest(recording, span) if longest is None else longest
    ts = _looked_at(recording, model, step)
    before, runs = _seen(ts, model, outputs, weights, step), 1
    while step > SHORTEST * span:
        runs += 1
        after = _seen(ts, model, outputs, weights, step / 2)
        # What halving changes is nearly the whole error of a method of fourth order.
        if _agree(before, after):
            return step, runs
        step, before = step / 2, after
    wanted = "a motion that steps can follow; is the model at the start sound?"
    raise ModelError(f"recordings/{recording.name}", "an error of steps that stays above the noise", wanted)


def is_coarse(
    recording: Recording, model: Model, outputs: Mapping[str, OutputName], weights: Mapping[str, np.ndarray]
) -> bool:
    """Whether the step that the model gives is too long beside the noise; `weights` as of `chosen_step`."""
    step = model.settings.dt
    assert step is not None
    ts = _looked_at(recording, model, step)
    return not _agree(*(_seen(ts, model, outputs, weights, part * step) for part in (1.0, 0.5)))


def _agree(before: Sequence[tuple[np.ndarray, float]], after: Sequence[tuple[np.ndarray, float]]) -> bool:
    """Whether two runs differ by less than is allowed, as long as both of them last."""
    for (a, allowed), (b, _) in zip(after, before, strict=True):
        lasting = np.all(np.isfinite(a) & np.isfinite(b), axis=1)
        if lasting.sum() < 2 or np.sqrt(np.mean((a - b)[lasting] ** 2)) > allowed:
            return False
    return True


def shortest_of(recording: Recording, model: Model, step: float, knots: int) -> float:
    """The shortest step that comes to the recording's end with so many knots, no longer than `step`: what a program of
    more knots makes of them. Kinks of tables stay on the ends of steps; a step that the model gives stays too."""
    if model.settings.dt is not None:
        return step
    span, spacing = float(np.max(recording.ts)) - model.settings.t0, _spacing(recording)
    if not np.isfinite(spacing):
        return min(step, span / (knots - 1))
    within = np.floor((knots - 1) * spacing / span * (1 + 1e-9))
    return min(step, spacing / within) if within > 0 else step


def _spacing(recording: Recording) -> float:
    """Between the times of the densest table among the inputs, s; infinite without one."""
    tables = [table_times(value) for value in recording.inputs.values()]
    return min((float(np.median(np.diff(times))) for times in tables if times is not None), default=np.inf)


def _longest(recording: Recording, span: float) -> float:
    """A part of the recording's length, or what the spacing of its inputs is a multiple of."""
    spacing, longest = _spacing(recording), LONGEST * span
    return spacing / np.ceil(spacing / longest) if np.isfinite(spacing) else longest


def _looked_at(recording: Recording, model: Model, step: float) -> np.ndarray:
    """LOOKED times to the end of the recording or beyond, whole steps apart, so that these are as long as they say."""
    start = model.settings.t0
    steps = np.ceil((float(np.max(recording.ts)) - start) / step / (LOOKED - 1) * (1 - 1e-9))
    return start + steps * step * np.arange(LOOKED)


def _seen(
    ts: np.ndarray,
    model: Model,
    outputs: Mapping[str, OutputName],
    weights: Mapping[str, np.ndarray],
    step: float,
) -> list[tuple[np.ndarray, float]]:
    """What is compared, at LOOKED times, each with the error that is allowed of it."""
    run = simulate(model, ts=ts, dt=step, solver=fixed_method(model), audit=False, until={}, throw=False)
    shown = []
    for name, output in outputs.items():
        owner, allowed = output.owner, MOVES / float(np.linalg.norm(weights[name]))
        if output.kind in ("q", "v", "position", "velocity", "angular_velocity"):
            shown.append((getattr(run, output.kind)[owner][(slice(None), *output.index)][:, None], allowed))
        elif output.kind == "gyro":
            shown.append((run.angular_velocity[owner], allowed))
        elif output.kind == "point":
            turned = np.asarray(jax.vmap(quaternion_to_rotation)(run.quaternion[owner])) @ np.asarray(output.point)
            shown.append((run.position[owner] + turned, allowed))
        else:
            every = [*run.v.values(), *run.velocity.values(), *run.angular_velocity.values()]
            shown += [(values, RELATIVE * max(float(np.nanmax(np.abs(values))), 1e-12)) for values in every]
    return [(values := np.asarray(shows), max(allowed, _rounding(values))) for shows, allowed in shown]


def _rounding(values: np.ndarray) -> float:
    largest = float(np.max(np.abs(values), initial=0.0, where=np.isfinite(values)))
    return ROUNDING * float(np.finfo(values.dtype).eps) * largest
