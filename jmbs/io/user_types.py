"""Makes the objects that a config names as `package.module:Name`."""

from __future__ import annotations

import importlib
from typing import Any

from jmbs.errors import ModelError
from jmbs.library.mechanics import nearest


def _first_line(error: BaseException) -> str:
    lines = str(error).splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


def make_user_object(path: str, type_name: str, parameters: dict[str, Any] | None) -> Any:
    """`Name(**parameters)` from `package.module:Name`.

    Whatever the user's module or class raises becomes a `ModelError` below `path`.
    """
    module_name, _, class_name = type_name.partition(":")
    if not all(part.isidentifier() for part in (*module_name.split("."), class_name)):
        raise ModelError(f"{path}/type", type_name, "package.module:Name")
    try:
        module = importlib.import_module(module_name)
    except Exception as error:  # a user's module may fail in any way
        found = f"{type_name}, whose module cannot be imported ({_first_line(error)})"
        raise ModelError(f"{path}/type", found, "package.module:Name of an importable module") from error
    if not hasattr(module, class_name):
        public = [word for word in vars(module) if not word.startswith("_")]
        found = f"{type_name}, but {module_name} has no {class_name}"
        raise ModelError(f"{path}/type", found, f"a name in that module{nearest(class_name, public)}")
    try:
        return getattr(module, class_name)(**(parameters or {}))
    except Exception as error:  # so may the making of an object
        found = f"values that {type_name} refuses ({_first_line(error)})"
        raise ModelError(f"{path}/parameters", found, f"parameters that {class_name} takes") from error
