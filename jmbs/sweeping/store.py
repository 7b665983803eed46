"""Where results of a sweep go: a Zarr store on disk, which survives any kill, or arrays in memory.

A store is made as a whole under another name and renamed. Of each chunk all variables are written, each by a file that
is renamed when it is complete, and the members' status last: a chunk whose members have a status is finished, all
others are to be run. A chunk of members is a chunk of each Zarr array, so processes that write different ones meet
nowhere, and what a kill left half done is written again by the same numbers.
"""

from __future__ import annotations

import abc
import contextlib
import os
import secrets
import shutil
import warnings
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from filelock import FileLock, Timeout

from jmbs.errors import ModelError
from jmbs.files import reason
from jmbs.sweeping.layout import (
    CHUNK,
    FINGERPRINT,
    OPEN,
    STATUS,
    STORE_SCHEMA,
    SweepLayout,
    dataset_arrays,
    empty,
)
from jmbs.sweeping.shards import Shard

if TYPE_CHECKING:
    import xarray as xr

EXTRA = "pip install 'jmbs[sweep]'"


class AbstractSweepStore(abc.ABC):
    """Takes chunks of results."""

    @abc.abstractmethod
    def write(self, start: int, arrays: Mapping[str, np.ndarray], statuses: list[str]) -> None:
        """Writes variables and statuses of members from `start` on."""

    @abc.abstractmethod
    def statuses(self) -> np.ndarray:
        """Names of the statuses of all members, words (members,)."""

    @abc.abstractmethod
    def dataset(self) -> xr.Dataset:
        """What there is, labelled."""


class MemoryStore(AbstractSweepStore):
    """Keeps all in memory."""

    def __init__(self, layout: SweepLayout):
        self._layout = layout
        self._arrays = {name: empty(layout, name) for name in layout.variables}

    def write(self, start: int, arrays: Mapping[str, np.ndarray], statuses: list[str]) -> None:
        for name, array in {**arrays, STATUS: np.array(statuses, dtype=object)}.items():
            self._arrays[name][start : start + len(statuses)] = array

    def statuses(self) -> np.ndarray:
        return self._arrays[STATUS]

    def dataset(self) -> xr.Dataset:
        import xarray as xr

        variables, coordinates, attributes = dataset_arrays(self._layout, self._arrays)
        return xr.Dataset(variables, coordinates, attributes)


class ZarrStore(AbstractSweepStore):
    """A group of Zarr arrays, format 3, in a folder; see above."""

    def __init__(self, path: Path):
        self._path = path
        self._group = _zarr(path).open_group(str(path), mode="r+", zarr_format=3, use_consolidated=False)
        self._members: dict[str, Any] = dict(self._group.arrays())

    def write(self, start: int, arrays: Mapping[str, np.ndarray], statuses: list[str]) -> None:
        part = slice(start, start + len(statuses))
        for name, array in arrays.items():
            put(self._members[name], part, array)
        put(self._members[STATUS], part, np.array(statuses, dtype=object))

    def statuses(self) -> np.ndarray:
        return np.asarray(self._members[STATUS][:])

    def dataset(self) -> xr.Dataset:
        import xarray as xr

        return xr.open_zarr(str(self._path))

    def remove_partial(self, chunks: Iterable[int]) -> None:
        """Removes what a kill has left half written of these chunks."""
        for name in self._members:
            folder = self._path / name / "c"
            for chunk in chunks:
                for partial in (*folder.glob(f"{chunk}.*.partial"), *(folder / str(chunk)).rglob("*.partial")):
                    partial.unlink(missing_ok=True)


def put(array: Any, part: slice, values: np.ndarray) -> None:
    """Writes a chunk of a Zarr array: Zarr writes another file and renames it."""
    array[part] = values


def _zarr(path: Path) -> Any:
    try:
        import zarr
    except ImportError:
        raise ModelError(str(path), "no package zarr, which writes stores", EXTRA) from None
    return zarr


@contextlib.contextmanager
def alone(path: Path, shard: Shard) -> Iterator[None]:
    """Holds a shard of a store, so that nobody runs it twice at a time; nobody is held back where files have no locks.

    Raises `ModelError` where another process has it.
    """
    place = path.absolute()
    place.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(place.with_name(f".{place.name}.{shard.number}-of-{shard.count}.lock"), timeout=0)
    try:
        with contextlib.suppress(NotImplementedError):
            lock.acquire()
        yield
    except Timeout:
        found = "a store that another process is writing this shard of"
        raise ModelError(str(path), found, "one process for each shard") from None
    finally:
        if lock.is_locked:
            with contextlib.suppress(OSError):
                os.unlink(lock.lock_file)
            lock.release()


def stored_attributes(path: Path) -> dict[str, Any] | None:
    """Attributes of the store at a path, None where there is nothing. Raises `ModelError` for what is no store."""
    if not os.path.lexists(path):
        _require_zarr_and_place(path)
        return None
    zarr = _zarr(path)
    try:
        group = zarr.open_group(str(path), mode="r", zarr_format=3, use_consolidated=False)
        attributes = dict(group.attrs)
    except Exception:  # of many kinds, whatever stands there
        attributes = {}
    if attributes.get("schema") != STORE_SCHEMA:
        raise ModelError(str(path), "something that is no store of a sweep", "a new place, or a store to --resume")
    return attributes


def _require_zarr_and_place(path: Path) -> None:
    _zarr(path)
    above = next(folder for folder in path.absolute().parents if os.path.lexists(folder))
    if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
        raise ModelError(str(path), f"{above}, which cannot be written to", "a place for the store")


def refuse_other(path: Path, attributes: Mapping[str, Any], fingerprint: str, chunk: int | None) -> None:
    """Refuses the store of another study. Raises `ModelError`."""
    if attributes[FINGERPRINT] != fingerprint:
        found = "the store of another study, or of this one before it or its model was changed"
        raise ModelError(str(path), found, "the same study, or a new store")
    if chunk is not None and chunk != attributes[CHUNK]:
        raise ModelError("chunk", f"{chunk}, beside a store of {attributes[CHUNK]} at a time", "the same, or auto")


def make_store(path: Path, layout: SweepLayout) -> bool:
    """Makes a store with all metadata and coordinates, as a whole; whether it did: another process may be quicker.

    Raises `ModelError` where it cannot be written.
    """
    partial = path.absolute().parent / f".{path.name}.{secrets.token_hex(4)}.{os.getpid()}.partial"
    try:
        partial.parent.mkdir(parents=True, exist_ok=True)
        _fill(partial, layout)
        try:
            os.rename(partial, path)
        except OSError:
            if not path.is_dir():
                raise
            return False
        return True
    except OSError as error:
        raise ModelError(str(path), reason(error), "a place for the store") from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _fill(path: Path, layout: SweepLayout) -> None:
    zarr = _zarr(path)
    group = zarr.create_group(str(path), zarr_format=3, attributes=layout.attributes)
    chunk = layout.attributes[CHUNK]
    for name, one in layout.variables.items():
        shape = (layout.members, *one.shape)
        how = {"shape": shape, "chunks": (chunk, *(max(size, 1) for size in one.shape)), "dimension_names": one.dims}
        if one.dtype is None:
            group.create_array(name, dtype="str", fill_value=OPEN, attributes=one.attributes, **how)
        else:
            group.create_array(name, dtype=one.dtype, fill_value=np.nan, attributes=one.attributes, **how)
    for name, (values, attributes) in layout.coordinates.items():
        words = values.dtype.kind == "U"
        how = {"shape": values.shape, "chunks": values.shape, "dimension_names": (name,), "attributes": attributes}
        array = group.create_array(name, dtype="str" if words else values.dtype, **how)
        array[:] = values.astype(object) if words else values
    with warnings.catch_warnings():
        # Format 3 does not specify it yet; xarray looks for it and warns where there is none.
        warnings.simplefilter("ignore", UserWarning)
        zarr.consolidate_metadata(str(path), zarr_format=3)


def unfinished(statuses: np.ndarray, chunk: int, chunks: Iterable[int]) -> list[int]:
    """Those of the chunks whose members have no status yet."""
    return [number for number in chunks if statuses[number * chunk] == OPEN]
