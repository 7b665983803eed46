"""Arrays over named axes: what files and pictures read of a result."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np


class LabelledArray(NamedTuple):
    """An array, the names of its axes, and what is said of it: `units`, `long_name`."""

    dims: tuple[str, ...]
    values: np.ndarray
    attrs: Mapping[str, str]


@dataclass(frozen=True)
class LabelledArrays:
    """Variables, coordinates and attributes by name.

    It is read as an `xarray.Dataset` is, of which it has what a command needs that only writes and draws: importing
    xarray takes longer than either.
    """

    data_vars: Mapping[str, LabelledArray]
    coords: Mapping[str, LabelledArray]
    attrs: Mapping[str, Any]

    def __getitem__(self, name: str) -> LabelledArray:
        return self.data_vars[name] if name in self.data_vars else self.coords[name]

    def __contains__(self, name: str) -> bool:
        return name in self.data_vars or name in self.coords

    def __iter__(self) -> Iterator[str]:
        return iter(self.data_vars)

    @property
    def sizes(self) -> dict[str, int]:
        """The length of each axis."""
        variables = (*self.coords.values(), *self.data_vars.values())
        return {dim: size for one in variables for dim, size in zip(one.dims, np.shape(one.values), strict=True)}
