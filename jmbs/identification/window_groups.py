"""Windows, or whole recordings, as arrays that one program serves, and what each of them costs at a vector."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from jmbs.identification.prediction import FitProgram, Member, end_of_part, fitted_model
from jmbs.identification.problem import Experiment, FitProblem
from jmbs.identification.transforms import LinearTransform, RotationTransform, Transform
from jmbs.identification.window_starts import coordinates_of, first_starts, scales_of, transforms_at
from jmbs.identification.windows import WindowedRecording, WindowStates, cut, values_at_start
from jmbs.programs import cached_jit


class Stack(eqx.Module):
    """Members (w,): the leaves that all have in `shared`, the others in `own` (w, ...), None where the other has it."""

    shared: Any
    own: Any

    def __getitem__(self, k: Any) -> Any:
        """One of them; pure."""
        return eqx.combine(self.shared, jax.tree.map(lambda leaf: leaf[k], self.own))


class Starts(eqx.Module):
    """The states that windows (w,) start from, and how they meet where the next one starts.

    **Arguments:** `states`: what they are; `run`, `recordings` (r,): the program and members of the whole recordings,
    `where` (r, p): their unknowns, for the first window of each; `of` (w,): whose a window is; `first`, `last` (w,);
    `transforms` (w,) from coordinates at `places` (w, k); `scales` (w, blocks); `end` (w,): the sample at its end;
    `weights` (w, n): what a gap between its end and the next start counts.
    """

    states: WindowStates = eqx.field(static=True)
    run: FitProgram = eqx.field(static=True)
    recordings: Stack
    where: Int[Array, "r p"]
    of: Int[Array, " w"]
    first: Array
    last: Array
    transforms: Any
    places: Int[Array, "w k"]
    scales: Float[Array, "w blocks"]
    end: Int[Array, " w"]
    weights: Float[Array, "w n"]


class WindowGroup(eqx.Module):
    """Windows (w,) that one program serves: its `members`, `local` (w, p), where their unknowns stand in the vector,
    and the states that they `start` from, None of whole recordings."""

    program: FitProgram = eqx.field(static=True)
    members: Stack
    local: Int[Array, "w p"]
    starts: Starts | None

    @property
    def size(self) -> int:
        """How many windows."""
        return len(self.local)


class _Piece(NamedTuple):
    """A window before it is an array: its program and member, and of which recording it is."""

    program: FitProgram
    member: Member
    local: np.ndarray
    windowed: WindowedRecording | None
    number: int


def groups_of(problem: FitProblem) -> tuple[list[WindowGroup], np.ndarray]:
    """The training recordings of a study, in windows where it says how many `segments`, and the first coordinates (k,)
    of the states that these start from, which stand behind the unknowns of the study. Raises `ModelError`."""
    if problem.study.estimator.segments is None:
        alike = lambda e: [other.member for other in problem.training if other.run == e.run]  # noqa: E731
        pieces = [_Piece(_with_room(e.run, alike(e)), e.member, e.local, None, 0) for e in problem.training]
        return [_group(kind, {}) for kind in _kinds(pieces)], np.zeros(0)
    pieces, begun, first, place = [], {}, [np.zeros(0)], len(problem.unknowns.first)
    for windowed in cut(problem):
        states, values = windowed.states, first_starts(problem, windowed)
        scales = scales_of(states, values[1:] or values)
        transforms = [transforms_at(states, value, scales) for value in values]
        coordinates = [coordinates_of(states, t, value) for t, value in zip(transforms, values, strict=True)]
        # The first window starts where the unknowns say; it has no coordinates and looks where those of the next are.
        places = place + len(coordinates[0]) * np.maximum(np.arange(len(values)) - 1, 0)[:, None]
        begun[id(windowed)] = scales, transforms, places + np.arange(len(coordinates[0]))
        first += coordinates[1:]
        place += len(coordinates[0]) * (len(values) - 1)
        program = _with_room(windowed.program, [window.member for window in windowed.windows])
        for k, window in enumerate(windowed.windows):
            pieces.append(_Piece(program, window.member, windowed.experiment.local, windowed, k))
    z = jnp.asarray(np.concatenate([problem.unknowns.first, *first]), problem.study.model.dtype)
    return [with_information(_group(kind, begun), z) for kind in _kinds(pieces)], np.concatenate(first)


def _with_room(program: FitProgram, members: Sequence[Member]) -> FitProgram:
    """The program with room for the steps of its members and few more: reverse mode takes as many as there is room."""
    wanted = max(int(member.knots) for member in members)
    return dataclasses.replace(program, knots=min(1 << (wanted - 1).bit_length(), program.knots))


def _kinds(pieces: Sequence[_Piece]) -> list[list[_Piece]]:
    """Those that can be one batch, together."""
    found: list[tuple[Any, list[_Piece]]] = []
    for piece in pieces:
        leaves, structure = jax.tree.flatten(piece.member)
        shapes = [(np.shape(leaf), leaf.dtype) if hasattr(leaf, "dtype") else leaf for leaf in leaves]
        kind = piece.program, structure, shapes, len(piece.local)
        same = next((members for other, members in found if other == kind), None)
        if same is None:
            found.append((kind, [piece]))
        else:
            same.append(piece)
    return [members for _, members in found]


def stacked(members: Sequence[Any]) -> Stack:
    """Trees of equal structure and shapes as one; what is equal in all is kept once."""
    columns = list(zip(*(jax.tree.leaves(member) for member in members), strict=True))
    structure = jax.tree.structure(members[0])
    equal = [all(_equal(column[0], leaf) for leaf in column[1:]) for column in columns]
    shared = [column[0] if same else None for column, same in zip(columns, equal, strict=True)]
    own = [None if same else jnp.stack(column) for column, same in zip(columns, equal, strict=True)]
    return Stack(*(jax.tree.unflatten(structure, leaves) for leaves in (shared, own)))


def _equal(one: Any, other: Any) -> bool:
    return one is other or bool(np.array_equal(one, other, equal_nan=eqx.is_inexact_array_like(one)))


def _group(pieces: Sequence[_Piece], begun: dict[int, Any]) -> WindowGroup:
    members = stacked([piece.member for piece in pieces])
    local = jnp.asarray(np.stack([piece.local for piece in pieces]))
    return WindowGroup(pieces[0].program, members, local, _starts(pieces, begun))


def _starts(pieces: Sequence[_Piece], begun: dict[int, Any]) -> Starts | None:
    windows = [(piece.windowed, piece.number) for piece in pieces if piece.windowed is not None]
    if not windows:
        return None
    recordings = list({id(windowed): windowed for windowed, _ in windows}.values())
    whole: list[Experiment] = [windowed.experiment for windowed in recordings]
    order = {id(windowed): i for i, windowed in enumerate(recordings)}
    of = [begun[id(windowed)] for windowed, _ in windows]
    states, dtype = recordings[0].states, whole[0].member.times.dtype
    # All arrays: a scale among them is a number of Python.
    transforms = [
        jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype), o[1][k]) for o, (_, k) in zip(of, windows, strict=True)
    ]
    return Starts(
        states,
        whole[0].run,
        stacked([e.member for e in whole]),
        jnp.asarray(np.stack([e.local for e in whole])),
        jnp.asarray([order[id(windowed)] for windowed, _ in windows]),
        jnp.asarray([k == 0 for _, k in windows]),
        jnp.asarray([k == len(windowed.windows) - 1 for windowed, k in windows]),
        jax.tree.map(lambda *leaves: jnp.stack(leaves), *transforms),
        jnp.asarray(np.stack([o[2][k] for o, (_, k) in zip(of, windows, strict=True)])),
        jnp.asarray(np.array([o[0] for o in of]), dtype),
        jnp.asarray([windowed.windows[k].end for windowed, k in windows]),
        jnp.zeros((len(windows), len(states.outputs)), dtype),
    )


def costs(
    group: WindowGroup,
    z: Float[Array, " k"],
    chosen: Int[Array, " b"],
    loss: str,
    scale: float,
    part: Float[Array, ""] | None = None,
) -> Float[Array, " b"]:
    """What chosen windows cost at a vector: half the sums of their samples' (robust) squared residuals over standard
    deviations, and of their gaps; pure. `part`: of each that is looked at, from its first sample; None: all."""
    begins = _first_values(group, z)

    def one(k: Array) -> Array:
        rows, end = _run(group, z, k, begins, 0.0, "auto", part)
        gaps = jnp.zeros((), z.dtype) if group.starts is None else jnp.sum(_gap(group.starts, z, k, end) ** 2)
        return 0.5 * (jnp.sum(robust_squares(rows**2, loss, scale)) + gaps)

    return jax.vmap(one)(chosen)


def robust_squares(square: Float[Array, "*shape"], loss: str, scale: float) -> Float[Array, "*shape"]:
    """The loss of squares, see `robust_cost`; pure."""
    share = square / scale**2
    if loss == "huber":
        return scale**2 * jnp.where(share <= 1, share, 2 * jnp.sqrt(jnp.maximum(share, 1.0)) - 1)
    return scale**2 * jnp.log1p(share) if loss == "cauchy" else square


def _first_values(group: WindowGroup, z: Float[Array, " k"]) -> Float[Array, "r n"] | None:
    """By recording the values of the state that it starts from."""
    starts = group.starts
    if starts is None:
        return None

    def one(i: Array) -> Array:
        member = starts.recordings[i]
        return values_at_start(fitted_model(starts.run, member, z[starts.where[i]])[0], starts.states, member.start)

    return jax.vmap(one)(jnp.arange(len(starts.where)))


def _run(
    group: WindowGroup,
    z: Float[Array, " k"],
    k: Array,
    begins: Array | None,
    shift: Array | float,
    adjoint: str,
    part: Array | None = None,
) -> tuple[Float[Array, "c n"], Float[Array, " s"]]:
    """Whitened residuals of a window's samples, and the values of the state at its end, none of a whole recording.

    **Arguments:** `shift` (k,): how far its start is moved in its coordinates.
    """
    member, local = group.members[k], z[group.local[k]]
    horizon = jnp.asarray(jnp.inf, z.dtype) if part is None else end_of_part(member.times, member.weights, part)
    starts = group.starts
    if starts is None or begins is None:
        return group.program.whitened(member, local, horizon, adjoint), jnp.zeros(0, z.dtype)
    value = jnp.where(starts.first[k], begins[starts.of[k]], _start_value(starts, z, k))
    transforms, coordinates = _near(starts, value, starts.scales[k])
    member = dataclasses.replace(member, transforms=(*member.transforms, *transforms))
    rows = group.program.whitened(member, jnp.concatenate([local, coordinates + shift]), horizon, adjoint)
    n = len(starts.states.outputs)
    return rows[:-n], rows[-n:, starts.end[k]]


def _start_value(starts: Starts, z: Float[Array, " k"], k: Array) -> Float[Array, " n"]:
    """The values of the state that a window starts from by its own coordinates."""
    transforms = jax.tree.map(lambda leaf: leaf[k], starts.transforms)
    pieces = jnp.split(z[starts.places[k]], np.cumsum([block.size for block in starts.states.blocks])[:-1])
    return jnp.concatenate([t.values(piece) for t, piece in zip(transforms, pieces, strict=True)])


def _near(
    starts: Starts, value: Float[Array, " n"], scales: Float[Array, " blocks"]
) -> tuple[tuple[Transform, ...], Float[Array, " k"]]:
    """Transforms to states near a value, and the coordinates at which they take it; pure."""
    parts = jnp.split(value, np.cumsum(starts.states.entries)[:-1])
    transforms, coordinates = [], []
    for block, part, scale in zip(starts.states.blocks, parts, scales, strict=True):
        if block.size == len(part):
            transforms.append(LinearTransform(part, jnp.full(len(part), scale)))
            coordinates.append(part / scale)
        else:
            transforms.append(RotationTransform(part))
            coordinates.append(jnp.zeros(block.size, value.dtype))
    return tuple(transforms), jnp.concatenate(coordinates)


def _gap(starts: Starts, z: Float[Array, " k"], k: Array, end: Float[Array, " n"]) -> Float[Array, " n"]:
    """By how much the end of a window misses the start of the next, weighted; zero of the last one."""
    following = jnp.minimum(k + 1, len(starts.of) - 1)
    value, signs = _start_value(starts, z, following), []
    parts = [jnp.split(array, np.cumsum(starts.states.entries)[:-1]) for array in (end, value)]
    for block, one, other in zip(starts.states.blocks, *parts, strict=True):
        # Of a quaternion also the other one of nearly the same rotation.
        turned = (block.size < len(one)) & (jnp.sum(one[-4:] * other[-4:]) < 0)
        quaternion = np.arange(len(one)) >= len(one) - 4
        signs.append(jnp.where(turned & quaternion, -1.0, 1.0))
    weights = jnp.where(starts.last[k], 0.0, starts.weights[k])
    return weights * (jnp.concatenate(signs) * end - value)


@cached_jit
def with_information(group: WindowGroup, z: Float[Array, " k"]) -> WindowGroup:
    """The group whose gaps count what the samples of a window say of its start, as in multiple shooting."""
    starts = group.starts
    assert starts is not None
    begins, blocks = _first_values(group, z), starts.states.blocks
    cuts = np.cumsum([block.size for block in blocks])[:-1]

    def said(k: Array) -> Array:
        shift = jnp.zeros(starts.places.shape[1], z.dtype)
        slope = jax.jacfwd(lambda moved: _run(group, z, k, begins, moved, "forward")[0])(shift)
        return jnp.sum(jnp.where(jnp.isfinite(slope), slope, 0.0) ** 2, axis=(0, 1))

    squares = jax.vmap(said)(jnp.arange(group.size))
    inner, count = jnp.where(starts.first, 0.0, 1.0), len(starts.where)
    whole = jax.ops.segment_sum(inner[:, None] * squares, starts.of, count)
    mean = whole / jnp.maximum(jax.ops.segment_sum(inner, starts.of, count), 1.0)[:, None]
    pieces = [jnp.max(piece, axis=1) for piece in jnp.split(jnp.sqrt(mean), cuts, axis=1)]
    by_block = jnp.maximum(jnp.stack(pieces, axis=1), 1.0)[starts.of] / starts.scales
    weights = jnp.repeat(by_block, np.asarray(starts.states.entries), axis=1)
    return dataclasses.replace(group, starts=dataclasses.replace(starts, weights=weights))
