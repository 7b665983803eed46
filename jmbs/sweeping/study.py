"""What a sweep is: a model, what varies in it, what is kept, and how many members at a time."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from jmbs.errors import ModelError
from jmbs.library.mechanics import count, known_seed, show
from jmbs.simulation import Model, run_times
from jmbs.sweeping.designs import DESIGNS, SAMPLED, AbstractDesign, GridDesign, ListDesign, Spread
from jmbs.sweeping.distributions import distribution
from jmbs.sweeping.keep import Keep, nothing_twice, parse_keep
from jmbs.sweeping.quantities import variable
from jmbs.sweeping.varied import Varied, varied_paths

RESERVED = {
    "member": "an axis",
    "time": "an axis",
    "status": "the members' status",
    "failure_time": "times of failures",
    "event_time": "times of events",
}
"""Names of variables that every sweep has."""


@dataclasses.dataclass(frozen=True, eq=False)
class SweepStudy:
    """**Arguments:** `design` of the members' values, by path; `chunk`: members at a time, None for what fits memory;
    `source`: what was said, as plain values."""

    model: Model
    varied: tuple[Varied, ...]
    design: AbstractDesign
    keep: Keep
    name: str
    seed: int
    chunk: int | None
    source: Mapping[str, Any]

    @property
    def members(self) -> int:
        """How many there are."""
        return self.design.members

    def times(self) -> tuple[np.ndarray, np.ndarray]:
        """Times (T,) that a member's run saves, s, and which of them series have: those they ask for, and the last.

        The last one alone where no more is needed. Raises `ModelError` where series and reductions do not fit.
        """
        settings, every = self.model.settings, self.keep.every
        if settings.t1 is None:
            raise ModelError("simulation/t1", "nothing, here or in the model", "the end time, s")
        if not self.keep.series and not self.keep.reductions:
            return np.array([settings.t1]), np.arange(1)
        own = every if every is not None and not self.keep.reductions else settings.save_every
        times = np.asarray(run_times(settings, None, None, own, None, self.model.dtype).ts)
        if every is None or not self.keep.reductions or not self.keep.series:
            return times, np.arange(len(times))
        assert settings.save_every is not None
        stride = round(every / settings.save_every)
        if stride < 1 or abs(stride * settings.save_every - every) > 1e-9 * every:
            wanted = f"a multiple of simulation.save_every, {settings.save_every:g} s, at which reductions look"
            raise ModelError("keep/series/every", f"{every:g}", wanted)
        return times, np.unique([*range(0, len(times), stride), len(times) - 1])

    def variable_of(self, path: str) -> str:
        """The name of the variable that holds the values of a varied path."""
        return variable(path)

    def fingerprint(self) -> str:
        """Of all that decides the members' results: what was said, the model with its tables, and listed values."""
        said = {key: value for key, value in self.source.items() if key not in ("name", "chunk", "model")}
        settings = dataclasses.asdict(self.model.settings)
        digest = hashlib.sha256(json.dumps([said, settings], sort_keys=True, default=str).encode())
        digest.update(self.model.config_json.encode())
        bare = self.model.config_json == "{}"
        leaves = jax.tree.leaves(self.model if bare else self.model.dae.drives)
        arrays = [leaf for leaf in leaves if hasattr(leaf, "dtype")]
        if isinstance(self.design, ListDesign):
            arrays += list(self.design.columns.values())
        for array in arrays:
            digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()


def make_study(
    model: Model,
    *,
    vary: Mapping[str, Any],
    keep: Mapping[str, Any],
    design: str = "grid",
    members: int | None = None,
    columns: Mapping[str, np.ndarray] | None = None,
    seed: int = 0,
    name: str = "sweep",
    chunk: int | None = None,
    source: Mapping[str, Any] | None = None,
) -> SweepStudy:
    """The study of these parts, checked.

    **Arguments:** `vary`: path to a distribution, see `KINDS`; of a list (`design` file) none, but `columns`, path to
    values (members,); `keep` as in a study's file; `design`: one of `DESIGNS`; `members`: how many, of sampled designs.

    Raises `ModelError`.
    """
    if design not in DESIGNS:
        raise ModelError("design", show(design), f"one of {', '.join(DESIGNS)}")
    paths = list(vary if columns is None else columns)
    if not paths:
        raise ModelError("vary", "nothing", "paths of what varies, and how")
    seed, varied = known_seed(seed), varied_paths(model, paths)
    made = _listed(varied, columns) if columns is not None else _designed(varied, vary, design, members, seed)
    parsed = parse_keep(model, keep)
    nothing_twice(parsed, RESERVED | {variable(path): "a varied path" for path in paths})
    if chunk is not None:
        chunk = min(count("chunk", chunk), made.members)
    study = SweepStudy(model, varied, made, parsed, name, seed, chunk, source or {})
    study.times()
    return study


def _designed(
    varied: tuple[Varied, ...], vary: Mapping[str, Any], design: str, members: int | None, seed: int
) -> AbstractDesign:
    distributions = {}
    for entry in varied:
        try:
            distributions[entry.path] = distribution(vary[entry.path])
            distributions[entry.path].shaped(entry.shape)
        except ModelError as error:
            place = f"vary/{entry.path}/{error.path}" if error.path else f"vary/{entry.path}"
            raise ModelError(place, error.found, error.wanted) from None
    spread = Spread(distributions, {entry.path: entry.shape for entry in varied})
    if design == "grid":
        grid = GridDesign(spread)
        if members is not None:
            raise ModelError("members", show(members), f"none: the grid has {grid.members}")
        count("vary", grid.members, "a grid of members")
        return grid
    if design not in SAMPLED:
        raise ModelError("vary", "distributions", "file: a table with one column per path, for the design file")
    if members is None:
        raise ModelError("members", "nothing", f"how many, for a design {design}")
    return SAMPLED[design](spread, count("members", members), seed)


def _listed(varied: tuple[Varied, ...], columns: Mapping[str, np.ndarray]) -> ListDesign:
    shaped = {}
    for entry in varied:
        column = np.asarray(columns[entry.path], dtype=np.float64)
        if int(np.prod(entry.shape)) != int(np.prod(column.shape[1:])):
            raise ModelError(f"vary/{entry.path}", "one column", f"a column for each entry, as {entry.path}[0]")
        shaped[entry.path] = column.reshape(len(column), *entry.shape)
    return ListDesign(shaped)
