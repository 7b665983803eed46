"""Recordings cut into windows that each start from a state of their own, for multiple shooting."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jmbs.errors import ModelError
from jmbs.identification.interpolation import ORDER
from jmbs.identification.output_names import OutputName, parse_output
from jmbs.identification.places import Place
from jmbs.identification.prediction import FitProgram, Member, fitted_model, residual_and_jacobian
from jmbs.identification.problem import Experiment, FitProblem, capacity_of
from jmbs.identification.transforms import Transform
from jmbs.identification.unknowns import UnknownBlock
from jmbs.programs import cached_jit
from jmbs.simulation import Model

SEGMENTS = 10
"""Windows of a recording where the study does not say how many."""
SHORTEST = ORDER + 2
"""Steps of a window, at least."""


class JointStates(NamedTuple):
    """The states of joints: `blocks`, the q and the v of each, where they stand and how many coordinates they have;
    `outputs`, their values (n,) as sensors see them; `entries`, how many are each block's. Where joints close `loops`,
    assembly starts from these q and v."""

    blocks: tuple[UnknownBlock, ...]
    outputs: tuple[OutputName, ...]
    entries: tuple[int, ...]
    loops: bool

    @property
    def owners(self) -> list[tuple[str, str]]:
        """Of each block its joint, and whether it is a `q` or a `v`."""
        return [(o.owner, o.kind) for o in (self.outputs[first] for first in np.cumsum([0, *self.entries[:-1]]))]

    @property
    def keys(self) -> list[str]:
        """Of each block whether it is a `q` or a `v`."""
        return [key for _, key in self.owners]

    @property
    def sizes(self) -> list[int]:
        """Of each block how many coordinates it has."""
        return [block.size for block in self.blocks]

    def by_block(self, values: np.ndarray) -> list[np.ndarray]:
        """Values (n, ...) of a state, cut by blocks."""
        return np.split(values, np.cumsum(self.entries)[:-1])


class Window(NamedTuple):
    """A part of a recording: a `member` of its program, whose last channels are the states of joints; of these there
    are two samples, at the window's end and at its begin, numbered `end` and `begin`."""

    member: Member
    end: int

    @property
    def begin(self) -> int:
        """See `Window`."""
        return self.end + 1


class WindowedRecording(NamedTuple):
    """An experiment cut into windows. All have the same `program`, whose last unknowns are the state of joints that a
    window starts from; what this holds, say `states`."""

    experiment: Experiment
    windows: tuple[Window, ...]
    program: FitProgram
    states: JointStates

    def first_state(self, local: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The values (n,) of the state that the recording starts from, and their derivative (n, p)."""
        member = self.experiment.member
        at = jnp.asarray(local, member.model.dtype)
        value, slope = _first_state(self.experiment.run, self.states, member, at)
        return np.asarray(value, float), np.asarray(slope, float)

    def run(
        self, window: Window, local: np.ndarray, start: tuple[Transform, ...], coordinates: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Residuals (c, n) of a window, and their derivative (c, n, p + k) by the unknowns and its start's coordinates.

        **Arguments:** `start`: the transforms to it, by block of the state.
        """
        member = dataclasses.replace(window.member, transforms=(*window.member.transforms, *start))
        vector = np.concatenate([local, coordinates])
        at, always = (jnp.asarray(array, member.model.dtype) for array in (vector, np.inf))
        residual, slope = residual_and_jacobian(self.program, member, at, always)
        return np.asarray(residual, float), np.asarray(slope, float)


@cached_jit
def _first_state(
    program: FitProgram, states: JointStates, member: Member, local: Float[Array, " p"]
) -> tuple[Float[Array, " n"], Float[Array, "n p"]]:
    def values(vector):
        model = fitted_model(program, member, vector)[0]
        if states.loops:
            view = model.view(model.initial_state(), member.start)
            found = [getattr(view, key)[joint] for joint, key in states.owners]
        else:
            found = [initial_value(model, block) for block in states.blocks]
        value = jnp.concatenate(found)
        return value, value

    slope, value = jax.jacfwd(values, has_aux=True)(local)
    return value, slope


def initial_value(model: Model, block: UnknownBlock) -> Array:
    """The q or v that a joint starts with: what is given, else neutral or none."""
    assert block.place is not None
    name, _, key = block.place.base.removeprefix("initial/").rpartition("/")
    given = model.initial.get("joints", {}).get(name, {})
    if key == "v":
        return jnp.asarray(given.get("v", jnp.zeros(block.size, model.dtype)))
    group = model.layout.joint(name).group
    neutral = group.to_coordinates(group.identity(model.dtype))
    return jnp.asarray(given.get("q", given.get("guess", neutral)))


def joint_states(model: Model) -> JointStates:
    """What decides how a mechanism of joints moves on. Raises `ModelError` where something else decides too."""
    blocks, outputs, entries = [], [], []
    if model.tree is None or not _is_of_joints(model):
        found = f"multiple_shooting of {model.name}, which has constraints, free bodies or states besides joints'"
        raise ModelError("estimator/method", found, "joints alone; shooting with a growing horizon takes all")
    loops = model.tree.only_loops is not None
    for joint in model.layout.joints:
        sizes = model.layout.initial_shapes("joints", joint)
        for key in ("q", "v"):
            (n,), (coordinates,) = sizes[key], sizes["v"]
            if not n:
                continue
            path = f"initial/{joint}/{'guess' if loops and key == 'q' else key}"
            names = tuple(f"windows/{joint}/{key}[{i}]" for i in range(n))
            blocks.append(UnknownBlock(names, Place(path, path), coordinates))
            outputs += [parse_output(model, f"{joint}/{key}[{i}]") for i in range(n)]
            entries.append(n)
    return JointStates(tuple(blocks), tuple(outputs), tuple(entries), loops)


def _is_of_joints(model: Model) -> bool:
    """Whether the states of joints, some of which may close loops, are all that a model has."""
    tree = model.tree
    if tree is None or (tree.other_rows.size and tree.only_loops is None):
        return False
    if not all(all(group.names) for group in tree.tree.groups):
        return False
    parts = model.layout.parts
    of_joints = {joint.coordinates for joint in parts.joints} | {element.length for element in parts.elements}
    blocks = tree.blocks[: len(tree.kept)]
    if of_joints & model.initial.get("states", {}).keys():
        return False
    return all(block.environment or of_joints >= set(block.junctions) for block in blocks)


def cut(problem: FitProblem) -> list[WindowedRecording]:
    """The recordings that are fitted, cut into as many windows as the study says, on ends of steps, of equally many
    steps where recordings share a program. Raises `ModelError`."""
    asked = problem.study.estimator.segments
    wanted = SEGMENTS if asked is None else asked
    if wanted < 2:
        raise ModelError("estimator/segments", str(wanted), "2 or more")
    steps = {}
    for e in problem.training:
        span = float(np.max(e.recording.ts)) - float(e.member.start)
        steps[e.recording.name] = max(int(np.ceil(span / float(e.member.step) * (1 - 1e-9))), 1)
    lengths = {name: int(np.ceil(count / wanted)) for name, count in steps.items()}
    cuts = []
    for e in problem.training:
        own = steps[e.recording.name]
        length = max(lengths[other.recording.name] for other in problem.training if other.program == e.program)
        if length < SHORTEST:
            found = f"{wanted} of recording {e.recording.name}, whose run has {own} steps"
            raise ModelError("estimator/segments", found, f"windows of {SHORTEST} steps or more")
        cuts.append((e, length, _samples_by_window(e, length, int(np.ceil(own / length)))))
    most = {
        e.recording.name: max(
            len(places) for other, _, chosen in cuts if other.program == e.program for places in chosen
        )
        for e, _, _ in cuts
    }
    return [_windowed(e, length, chosen, most[e.recording.name] + 2) for e, length, chosen in cuts]


def _samples_by_window(e: Experiment, length: int, count: int) -> list[np.ndarray]:
    """Which times of a recording lie in each window."""
    start, step = float(e.member.start), float(e.member.step)
    begins = start + length * step * np.arange(count)
    seen = np.any(np.asarray(e.member.weights) > 0, axis=0)
    window = np.searchsorted(begins, np.asarray(e.member.times) + 1e-9 * step, side="right") - 1
    return [np.flatnonzero(seen & (window == k)) for k in range(count)]


def _windowed(e: Experiment, length: int, chosen: list[np.ndarray], most: int) -> WindowedRecording:
    program, states = e.run, joint_states(e.member.model)
    shown = tuple(f"windows/{o.owner}/{o.kind}[{o.index[0]}]" for o in states.outputs)
    # What is said of the start of the recording does not hold at the starts of windows.
    ties = tuple((place, expression) for place, expression in program.ties if not place.base.startswith("initial/"))
    fixed = {path: value for path, value in e.member.fixed.items() if not path.startswith("initial/")}
    blocks, model = program.blocks, e.member.model
    if states.loops:
        blocks = tuple(b._replace(place=None) if _is_initial(b.place) else b for b in blocks)
        model = dataclasses.replace(model, initial={"joints": {}})
    of_windows = FitProgram(
        (*program.outputs, *states.outputs),
        (*program.sensors, *shown),
        (*blocks, *states.blocks),
        ties,
        capacity_of(length + 1),
        program.method,
    )
    start, spacing = float(e.member.start), length * float(e.member.step)
    windows = []
    for k, places in enumerate(chosen):
        member = _member(e.member, states, start + k * spacing, start + (k + 1) * spacing, places, most)
        member = dataclasses.replace(member, knots=jnp.asarray(length + 1), model=model, fixed=fixed)
        windows.append(Window(member, len(places)))
    return WindowedRecording(e, tuple(windows), of_windows, states)


def _is_initial(place: Place | None) -> bool:
    return place is not None and place.base.startswith("initial/")


def _member(whole: Member, states: JointStates, begin: float, end: float, places: np.ndarray, most: int) -> Member:
    """The samples of a window, then those of the states at its end and its begin."""
    n, dtype = len(states.outputs), whole.times.dtype
    sensors = whole.weights.shape[0]
    times = np.full(most, end)
    times[: len(places)], times[len(places) + 1] = np.asarray(whole.times)[places], begin
    measured, weights = np.zeros((sensors + n, most)), np.zeros((sensors + n, most))
    measured[:sensors, : len(places)] = np.asarray(whole.measured)[:, places]
    weights[:sensors, : len(places)] = np.asarray(whole.weights)[:, places]
    weights[sensors:, len(places) : len(places) + 2] = 1.0
    constants = np.concatenate([np.asarray(whole.constants), np.tile([1.0, 0.0, 0.0], (n, 1))])
    arrays = [jnp.asarray(a, dtype) for a in (begin, times, measured, weights, constants)]
    start, times_, measured_, weights_, constants_ = arrays
    return dataclasses.replace(
        whole, start=start, times=times_, measured=measured_, weights=weights_, constants=constants_
    )
