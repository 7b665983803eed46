"""What is wrong, or may be, with recordings and with what is asked of them."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Finding:
    """One thing found.

    **Arguments:** `code`: which kind, see `docs/identification.md`; `severity`: `error` or `warning`; `message`: where,
    what was found and what was wanted; `recording`, `channel`: whose, if of one; `rows`: of the file's data, from 1.
    """

    code: str
    severity: str
    message: str
    recording: str | None = None
    channel: str | None = None
    rows: tuple[int, ...] = ()
