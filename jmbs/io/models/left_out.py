"""What was left out of a model and changes how it moves, in one line that is not lost among hundreds of notes."""

from __future__ import annotations

import re
from collections.abc import Iterable

CHANGES_THE_MOTION = {
    "ARMATURE OF JOINTS": r"^joint .*: ARMATURE ",
    "LIMITS OF JOINTS": r"^joint .*: (range|limits lower) .*not enforced",
    "CONTACT OF BODIES": r"^(body .*: contact of |pair )",
    "TENDONS": r"^tendon ",
    "ACTUATORS": r"^actuator ",
    "TRANSMISSIONS, WITH THE INERTIA OF THEIR ROTORS": r"^transmission.*: not simulated",
    "FLUID AND WIND": r"^option (density|viscosity|wind) ",
    "GRAVITY COMPENSATION": r"^body .*: gravcomp ",
    "EQUALITIES": r"^equality .*: not simulated",
    "SPRINGS AND DAMPERS BEYOND LINEAR ONES": r"^joint .*: damping or stiffness beyond ",
}
"""Kinds of things, by what their notes look like."""


def left_out(notes: Iterable[str]) -> str:
    """One line that counts what changes the motion and is not simulated; empty where there is nothing."""
    notes = list(notes)
    counts = {kind: sum(bool(re.match(form, note)) for note in notes) for kind, form in CHANGES_THE_MOTION.items()}
    found = [f"{kind} ({count})" for kind, count in counts.items() if count]
    return f"NOT SIMULATED, THOUGH IT CHANGES THE MOTION: {', '.join(found)}" if found else ""
