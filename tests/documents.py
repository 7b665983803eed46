"""Runs the code blocks of a page of the documentation, so that what readers copy works."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent.parent / "docs"


def run_examples(page: str) -> dict[str, Any]:
    """The names that the python blocks of `docs/<page>` leave behind, run in their order."""
    text = (DOCS / page).read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    names: dict[str, Any] = {}
    for block in blocks:
        exec(compile(block, page, "exec"), names)
    return names
