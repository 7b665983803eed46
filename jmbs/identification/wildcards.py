"""Unknowns that are asked for together: `hinge/friction/*` is every parameter below `hinge/friction`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from jmbs.errors import ModelError
from jmbs.identification.output_names import parse_index
from jmbs.library.mechanics import nearest
from jmbs.simulation import Model, parameter_paths

ALL_BELOW = "/*"
_T = TypeVar("_T")


def by_single_path(models: Iterable[Model], parameters: Mapping[str, _T]) -> dict[str, _T]:
    """What is said of `<path>/*` said of each parameter below the path, in the order of the models.

    Those that are named themselves, or an entry of them, are left out. Raises `ModelError` where there is none.
    """
    models = list(models)
    named = {parse_index(path.strip())[0] for path in parameters if not path.endswith(ALL_BELOW)}
    found: dict[str, _T] = {}
    for path, given in parameters.items():
        if not path.endswith(ALL_BELOW):
            found[path] = given
            continue
        known = list(dict.fromkeys(name for model in models for name in parameter_paths(model)))
        below = [name for name in known if name.startswith(path[:-1])]
        if not below:
            parents = dict.fromkeys(name.rpartition("/")[0] + ALL_BELOW for name in known if "/" in name)
            raise ModelError(f"parameters/{path}", "no parameter below it", f"a known path{nearest(path, parents)}")
        found |= {name: given for name in below if name not in named | found.keys()}
    return found
