"""Makes the objects that a config names as `package.module:Name`.

What is named is looked up and looked at before it is called: it must be a class of what its place in the config wants,
or a function that says it returns one. Nothing else is called while a config is read.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from jmbs.ephs import Environment, Role, System
from jmbs.errors import ModelError
from jmbs.io.modules_beside import import_beside
from jmbs.library.mechanics import nearest


class UserKind(NamedTuple):
    """**Arguments:** `fits(named)`: whether calling what was named makes such an object; `wanted`: in words."""

    fits: Callable[[Any], bool]
    wanted: str


def _declares(cls: type, name: str) -> bool:
    return hasattr(cls, name) or any(name in getattr(base, "__annotations__", {}) for base in cls.__mro__)


def _is_system(named: Any) -> bool:
    if inspect.isfunction(named):
        return _is_system(_returned(named))
    if not inspect.isclass(named):
        return False
    if issubclass(named, System | Environment):
        return True
    return _declares(named, "ports") and any(callable(getattr(named, role.value, None)) for role in Role)


def _returned(function: Callable) -> Any:
    """What a function is declared to return."""
    declared = getattr(function, "__annotations__", {}).get("return")
    if isinstance(declared, str) and declared.rpartition(".")[2] == System.__name__:
        return System  # also where it is imported for type checkers alone
    try:
        return inspect.get_annotations(function, eval_str=True).get("return")
    except Exception:  # a name that only type checkers know
        return None


def _has_energy(named: Any) -> bool:
    return inspect.isclass(named) and callable(getattr(named, "energy", None))


JOINT = UserKind(lambda x: inspect.isclass(x) and _declares(x, "inclusion"), "a class with group and inclusion")
CONSTRAINT = UserKind(
    lambda x: inspect.isclass(x) and (_declares(x, "gap") or _declares(x, "rate")),
    "a class with gap(pose, other), or with rate(pose, velocity, other, other_velocity)",
)
FORCE = UserKind(lambda x: inspect.isclass(x) and _declares(x, "wrench"), "a class with wrench(t, pose, velocity)")
FUNCTION = UserKind(
    lambda x: inspect.isclass(x) and any("__call__" in vars(base) for base in x.__mro__),
    "a class whose objects are functions of time",
)
LAW = UserKind(_has_energy, "a class with energy(q) in J")
POTENTIAL = UserKind(_has_energy, "a class with energy(pose) in J")
FRICTION = UserKind(
    lambda x: inspect.isclass(x) and callable(getattr(x, "damping", None)), "a class with damping(v) in N m s/rad"
)
SYSTEM = UserKind(
    _is_system,
    "a class with ports and one of energy, structure, ratio, onsager, or a function declared to return a System",
)


def _first_line(error: BaseException) -> str:
    lines = str(error).splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


def make_user_object(path: str, type_name: str, parameters: dict[str, Any] | None, kind: UserKind, folder: Path) -> Any:
    """`Name(**parameters)` from `package.module:Name`, if that makes an object of the kind.

    Modules are looked for in `folder`, where the config is, before they are where Python finds them.
    Whatever the user's module or class raises becomes a `ModelError` below `path`, `SystemExit` too.
    """
    module_name, _, class_name = type_name.partition(":")
    if not all(part.isidentifier() for part in (*module_name.split("."), class_name)):
        raise ModelError(f"{path}/type", type_name, "package.module:Name")
    try:
        module = import_beside(folder, module_name)
    except (Exception, SystemExit) as error:  # a user's module may fail in any way
        found = f"{type_name}, whose module cannot be imported ({_first_line(error)})"
        raise ModelError(f"{path}/type", found, "package.module:Name of an importable module") from error
    if not hasattr(module, class_name):
        public = [word for word in vars(module) if not word.startswith("_")]
        found = f"{type_name}, but {module_name} has no {class_name}"
        raise ModelError(f"{path}/type", found, f"a name in that module{nearest(class_name, public)}")
    named = getattr(module, class_name)
    if not kind.fits(named):
        raise ModelError(f"{path}/type", f"{type_name}, a {type(named).__name__}, which was not called", kind.wanted)
    try:
        return named(**(parameters or {}))
    except (Exception, SystemExit) as error:  # so may the making of an object
        found = f"values that {type_name} refuses ({_first_line(error)})"
        raise ModelError(f"{path}/parameters", found, f"parameters that {class_name} takes") from error
