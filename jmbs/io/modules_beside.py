"""Python modules beside a config, which its types may come from.

They are imported with the config's folder first on `sys.path`, which afterwards is as it was. Two configs in two
folders may call different modules the same: each gets its own, and the same one whenever it is read.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.machinery
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

_read: dict[Path, dict[str, ModuleType]] = {}
"""By folder what was imported from it, by name."""


def import_beside(folder: Path, name: str) -> ModuleType:
    """The module `name` from the folder, or from where Python finds it if the folder does not have it.

    The standard library and jmbs are never looked for there. Raises what the module raises.
    """
    folder = folder.resolve()
    package = name.partition(".")[0]
    if not _has(folder, package):
        return importlib.import_module(name)
    with _first_on_path(folder, package):
        return importlib.import_module(name)


def _has(folder: Path, package: str) -> bool:
    if not _may_be_there(package):
        return False
    importlib.invalidate_caches()  # files may be as new as the folder's last listing
    found = importlib.machinery.PathFinder.find_spec(package, [str(folder)])
    # A folder without `__init__.py` can be anything, so it counts only where nothing else has the name.
    return found is not None and (found.origin is not None or _is_unknown(package))


def _may_be_there(package: str) -> bool:
    return package != "jmbs" and package not in sys.stdlib_module_names


def _is_unknown(package: str) -> bool:
    if any(package in modules for modules in _read.values()):
        return True
    try:
        return importlib.util.find_spec(package) is None
    except ValueError:  # a module that says nothing of where it comes from
        return False


@contextlib.contextmanager
def _first_on_path(folder: Path, package: str) -> Iterator[None]:
    """Lets imports find what is in a folder, and leaves other folders' modules of the same names as they were."""
    own = _read.setdefault(folder, {})
    theirs = {path.stem for path in folder.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    theirs = {name for name in theirs | {package} if _may_be_there(name)}
    hidden = {
        name: module
        for name, module in sys.modules.items()
        if name.partition(".")[0] in theirs and own.get(name) is not module and not _is_from(folder, module)
    }
    for name in hidden:
        del sys.modules[name]
    sys.modules.update(own)
    before, place = set(sys.modules), str(folder)
    sys.path.insert(0, place)
    try:
        yield
    finally:
        sys.path.remove(place)
        own |= {name: sys.modules[name] for name in set(sys.modules) - before if _is_from(folder, sys.modules[name])}
        sys.modules.update(hidden)


def _is_from(folder: Path, module: ModuleType) -> bool:
    """Whether a module's code stands in the folder or below it."""
    spec = getattr(module, "__spec__", None)
    places = [getattr(spec, "origin", None), *(getattr(module, "__path__", None) or ())]
    return any(isinstance(place, str) and Path(place).is_relative_to(folder) for place in places)


def files_beside(folder: Path) -> list[Path]:
    """Files in the folder or below it of all modules that were imported from there."""
    folder = folder.resolve()
    named = (getattr(module, "__file__", None) for module in _read.get(folder, {}).values())
    return sorted({Path(name) for name in named if name is not None})
