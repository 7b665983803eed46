"""Which slow tests run where time does not suffice for all: others for each commit."""

from __future__ import annotations

from tests.conftest import ROOT, place_in_order

FILES = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("test_*.py"))


def order(commit: str) -> list[str]:
    return sorted(FILES, key=lambda file: place_in_order(commit, file))


def test_each_file_comes_early_for_some_commit():
    """Among the first tenth, for one of a hundred; and the order of a commit is the same in every process."""
    orders = [order(f"commit {number}") for number in range(100)]
    early = {file for files in orders for file in files[: len(FILES) // 10]}
    assert early == set(FILES)
    assert order("commit 0") == orders[0] != orders[1]
