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
from jmbs.identification.problem import Experiment, FitProblem
from jmbs.identification.steps import capacity_of
from jmbs.identification.transforms import Transform
from jmbs.identification.unknowns import UnknownBlock
from jmbs.programs import cached_jit
from jmbs.simulation import Model
from jmbs.tree import Layout

SEGMENTS = 10
"""Windows of a recording where the study does not say how many."""
SHORTEST = ORDER + 2
"""Steps of a window, at least."""


class WindowStates(NamedTuple):
    """What decides how a mechanism moves on: `blocks`, of each joint its q and its v, of each free body its pose and
    velocities, and the states of other components, where they stand and how many coordinates they have; `outputs`,
    their values (n,) as sensors see them; `entries`, how many are each block's. Where they are `constrained`, by loops,
    gears or otherwise, assembly starts from them."""

    blocks: tuple[UnknownBlock, ...]
    outputs: tuple[OutputName, ...]
    entries: tuple[int, ...]
    constrained: bool

    @property
    def owners(self) -> list[tuple[str, str]]:
        """Of each block whose it is, and what: `q`, `v`, `position`, ... or `state`."""
        return [(o.owner, o.kind) for o in (self.outputs[first] for first in np.cumsum([0, *self.entries[:-1]]))]

    @property
    def keys(self) -> list[str]:
        """Of each block what it is."""
        return [key for _, key in self.owners]

    @property
    def sizes(self) -> list[int]:
        """Of each block how many coordinates it has."""
        return [block.size for block in self.blocks]

    def by_block(self, values: np.ndarray) -> list[np.ndarray]:
        """Values (n, ...) of a state, cut by blocks."""
        return np.split(values, np.cumsum(self.entries)[:-1])


class Window(NamedTuple):
    """A part of a recording: a `member` of its program, whose last channels are its states; of these there are two
    samples, at the window's end and at its begin, numbered `end` and `begin`."""

    member: Member
    end: int

    @property
    def begin(self) -> int:
        """See `Window`."""
        return self.end + 1


class WindowedRecording(NamedTuple):
    """An experiment cut into windows. All have the same `program`, whose last unknowns are the state that a window
    starts from; what this holds, say `states`."""

    experiment: Experiment
    windows: tuple[Window, ...]
    program: FitProgram
    states: WindowStates

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
    program: FitProgram, states: WindowStates, member: Member, local: Float[Array, " p"]
) -> tuple[Float[Array, " n"], Float[Array, "n p"]]:
    def values(vector):
        value = values_at_start(fitted_model(program, member, vector)[0], states, member.start)
        return value, value

    slope, value = jax.jacfwd(values, has_aux=True)(local)
    return value, slope


def values_at_start(model: Model, states: WindowStates, t: Float[Array, ""]) -> Float[Array, " n"]:
    """The values of the state that a run starts from at a time, s; pure."""
    state = model.initial_state()
    view = model.view(state, t)
    found = [state[owner] if key == "state" else getattr(view, key)[owner] for owner, key in states.owners]
    return jnp.concatenate([value.reshape(-1) for value in found])


def window_states(model: Model) -> WindowStates:
    """What decides how a mechanism moves on. Raises `ModelError` where something else decides too."""
    tree, layout = _tree_of(model), model.layout
    constrained = bool(tree.other_rows.size)
    guess = {"q": "guess"} if constrained else {}
    parts = [
        (name, key, f"{name}/{guess.get(key, key)}", f"{name}/{key}", shapes[key], shapes["v"])
        for name in layout.joints
        for shapes in (layout.initial_shapes("joints", name),)
        for key in ("q", "v")
    ]
    parts += [
        (name, key, f"{name}/{key}", f"{name}/{key}", shape, (3,))
        for name in _free_bodies(tree)
        for key, shape in layout.initial_shapes("bodies", name).items()
    ]
    shapes = dict(layout.state_shapes)
    parts += [
        (name, "state", name, f"states/{name}", shapes[name], shapes[name]) for name in _other_states(model, tree)
    ]
    blocks, outputs, entries = [], [], []
    for owner, key, path, output, shape, coordinates in parts:
        places = [list(place) for place in np.ndindex(shape)]
        if not places:
            continue
        names = tuple(f"windows/{owner}/{key}{place}" for place in places)
        blocks.append(UnknownBlock(names, Place(f"initial/{path}", f"initial/{path}"), int(np.prod(coordinates))))
        outputs += [parse_output(model, f"{output}{place if place else ''}") for place in places]
        entries.append(len(places))
    return WindowStates(tuple(blocks), tuple(outputs), tuple(entries), constrained)


def _tree_of(model: Model) -> Layout:
    """The layout of a model whose motion goes on from the states of its parts. Raises `ModelError` for another."""
    wanted = "others; shooting with a growing horizon takes all"
    if model.tree is None:
        found = "which is no mechanism of joints and free bodies"
    elif model.layout.parts.motions:
        found = "which has prescribed motions"
    elif moving := _states_of_parts(model) & model.initial.get("states", {}).keys():
        found = f"whose joint or body starts from initial/states/{min(moving)}"
    elif model.tree.other_rows.size and not set(_free_bodies(model.tree)) <= model.initial.get("bodies", {}).keys():
        found = "whose constraints bind free bodies of which no start is given"
    else:
        return model.tree
    raise ModelError("estimator/method", f"multiple_shooting of {model.name}, {found}", wanted)


def _free_bodies(layout: Layout) -> list[str]:
    """Bodies that no joint leads to."""
    return [layout.tree.bodies[body] for body in layout.tree.free_bodies]


def _states_of_parts(model: Model) -> set[str]:
    """States that joints, bodies and what acts between them say."""
    parts = model.layout.parts
    joints = {name for joint in parts.joints for name in (joint.coordinates, joint.rotor) if name is not None}
    return joints | {element.length for element in parts.elements}


def _other_states(model: Model, tree: Layout) -> list[str]:
    """Names of the states of components beside joints, bodies and the environment."""
    known = _states_of_parts(model)
    blocks = [block for block in tree.blocks[: len(tree.kept)] if not block.environment]
    return [name for block in blocks for name in block.junctions if name not in known]


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
    program, states = e.run, window_states(e.member.model)
    shown = tuple(name for block in states.blocks for name in block.names)
    # What is said of the start of the recording does not hold at the starts of windows.
    ties = tuple((place, expression) for place, expression in program.ties if not place.base.startswith("initial/"))
    fixed = {path: value for path, value in e.member.fixed.items() if not path.startswith("initial/")}
    blocks, model = program.blocks, e.member.model
    if states.constrained:
        blocks = tuple(b._replace(place=None) if _is_initial(b.place) else b for b in blocks)
        model = dataclasses.replace(model, initial={**model.initial, "joints": {}})
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


def _member(whole: Member, states: WindowStates, begin: float, end: float, places: np.ndarray, most: int) -> Member:
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
