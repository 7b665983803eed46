"""Progress of a run: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys

import diffrax


def progress_meter(wanted: bool) -> diffrax.AbstractProgressMeter:
    """The meter: diffrax's bar when standard error is a terminal, its text lines when it is not."""
    if not wanted:
        return diffrax.NoProgressMeter()
    if sys.stderr.isatty():
        return diffrax.TqdmProgressMeter()
    return diffrax.TextProgressMeter(minimum_increase=0.1)
