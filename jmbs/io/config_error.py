"""The error of a wrong config: one line with the file, the path inside it, what was found and what was wanted."""

from __future__ import annotations

from pathlib import Path

from jmbs.errors import ModelError, message_of, printable


class ConfigError(ModelError):
    """A config file, or a file that it names, is wrong.

    **Arguments:**

    - `file`: the config file.
    - `path`: where in it, as names joined by `/`; empty for the file as a whole.
    - `found`, `wanted`: as in `ModelError`.
    - `others`: how many more mistakes were seen at the same time.
    """

    def __init__(self, file: Path, path: str, found: object, wanted: str, others: int = 0):
        super().__init__(path, found, wanted)
        self.file = file
        self.others = others
        more = f" (and {others} more error{'s' if others > 1 else ''})" if others else ""
        self.args = (f"{printable(file)}: {message_of(path, found, wanted, more)}",)
