"""Every exported name exists, once; packages say what they export and modules what they are for."""

from __future__ import annotations

import ast
import importlib

import pytest
from source_tree import is_package, modules, tree

PACKAGES = [module for module in modules() if is_package(module)]


def re_exports(package: str) -> list[str]:
    """Names exported by the idiom `from x import name as name`, which importing the package checks."""
    return [
        alias.name
        for node in tree(package).body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.asname == alias.name
    ]


@pytest.mark.parametrize("package", PACKAGES)
def test_exported_names_exist(package: str):
    module = importlib.import_module(package)
    exported = list(getattr(module, "__all__", [])) + re_exports(package)
    assert not [name for name in exported if not hasattr(module, name)]
    assert len(set(exported)) == len(exported)


@pytest.mark.parametrize("package", PACKAGES)
def test_packages_hide_what_they_only_use(package: str):
    """A name that a package's `__init__` imports is exported, by `__all__` or by `as`: readers see what is meant."""
    exported = set(getattr(importlib.import_module(package), "__all__", [])) | set(re_exports(package))
    imported = {
        alias.asname or alias.name
        for node in tree(package).body
        if isinstance(node, ast.ImportFrom) and node.module != "__future__"
        for alias in node.names
    }
    assert not {name for name in imported - exported if not name.startswith("_")}


@pytest.mark.parametrize("module", [name for name in modules() if not name.endswith("__main__")])
def test_modules_import_and_say_their_purpose(module: str):
    assert (importlib.import_module(module).__doc__ or "").strip(), f"{module} wants a docstring of one sentence"
