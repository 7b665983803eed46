"""Sizes of text, estimated: the font that a reader's browser takes is not known, so a wide one is assumed."""

from __future__ import annotations

NAME_SIZE, PATH_SIZE, PORT_SIZE = 13.0, 10.0, 11.0
"""Font sizes (px): of a box's name, of the path before it, of a port's name."""
LINE_HEIGHT = 1.25
NARROW, WIDE = set("fijlrt.,:;'|!/()[] 1"), set("mwMWGOQ@%")


def width(text: str, size: float) -> float:
    """Width of a text (px) in a sans-serif font of that size, rather too large than too small."""
    return size * sum(0.40 if letter in NARROW else 0.92 if letter in WIDE else 0.64 for letter in text)


def name_lines(name: str) -> tuple[str, str]:
    """A box's name as two lines of text: the path before its last name (may be empty), and that name."""
    path, slash, last = name.rpartition("/")
    return path + slash, last
