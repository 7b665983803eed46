"""Derivations name the functions that compute their equations."""

from __future__ import annotations

import functools
import importlib
import re

import pytest
from documents import DOCS
from source_tree import modules

PAGES = sorted((DOCS / "derivations").glob("*.md"))
NAME = re.compile(r"(?<![\w./])([a-z_]+)((?:\.(?!md\b)\w+)+)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_functions_that_are_named_are_there(page):
    """As `module.function`, the module by the last part of its name."""
    by_stem: dict[str, list[str]] = {}
    for module in modules():
        by_stem.setdefault(module.rpartition(".")[2], []).append(module)
    found = [(stem, path) for stem, path in NAME.findall(page.read_text("utf-8")) if stem in by_stem]
    missing = [stem + path for stem, path in found if not any(is_there(module, path) for module in by_stem[stem])]
    assert not missing
    assert found or page.stem == "README"


def is_there(module: str, path: str) -> bool:
    try:
        functools.reduce(getattr, path.strip(".").split("."), importlib.import_module(module))
    except AttributeError:
        return False
    return True


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_equations_are_numbered_in_order(page):
    """`(A1)`, `(A2)`, at the beginning of their lines."""
    numbers = re.findall(r"^    \(([A-Z])(\d+)\)", page.read_text("utf-8"), flags=re.MULTILINE)
    assert [int(number) for _, number in numbers] == list(range(1, len(numbers) + 1)) and len(dict(numbers)) <= 1
    assert numbers
