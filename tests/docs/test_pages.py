"""The code blocks of every page of the documentation run as they stand."""

from __future__ import annotations

import pytest
from documents import DOCS, run_examples

FAST = ("drawing.md", "papers.md")
TESTED_ELSEWHERE = ("components/thermal.md", "components/electric.md", "components/motor.md")
"""Beside the laws of their components, with a look at what they print."""
PAGES = sorted(str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md") if "```python" in page.read_text("utf-8"))


def pages():
    left = [page for page in PAGES if page not in TESTED_ELSEWHERE]
    return [pytest.param(page, marks=() if page in FAST else pytest.mark.slow) for page in left]


@pytest.mark.parametrize("page", pages())
def test_examples_run(page, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_examples(page)
    assert "nan" not in capsys.readouterr().out
