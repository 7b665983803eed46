"""What `import jmbs` offers: the same names for programs, for type checkers and in `__all__`."""

from __future__ import annotations

import ast
import importlib
import inspect
import subprocess
import sys

import pytest

import jmbs


def test_names_come_from_where_type_checkers_are_told():
    tree = ast.parse(inspect.getsource(jmbs))
    told = {
        alias.name: node.module
        for block in tree.body
        if isinstance(block, ast.If)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert set(told) == set(jmbs.__all__) <= set(dir(jmbs))
    for name, home in told.items():
        assert getattr(jmbs, name) is getattr(importlib.import_module(home), name), name


def test_packages_are_there_without_an_import_of_their_own():
    code = "import jmbs, sys; assert 'jax' not in sys.modules; jmbs.linear.lapack, jmbs.simulation.simulate"
    assert subprocess.run([sys.executable, "-c", code], timeout=120).returncode == 0


def test_what_is_not_there_is_named():
    with pytest.raises(AttributeError, match="module 'jmbs' has no attribute 'simulat'"):
        jmbs.simulat  # noqa: B018
