"""A horizon that grows: over long times a motion that is far off is compared with another turn, over short ones not."""

from __future__ import annotations

FIRST, GROWTH, STAGES = 1 / 24, 1.5, 8
PARTS = (*(FIRST * GROWTH**i for i in range(STAGES)), 1.0)
"""Of what is measured, one after the other."""
