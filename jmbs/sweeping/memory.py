"""How many members go into a chunk: what a chunk takes is counted from shapes, then measured on the program itself."""

from __future__ import annotations

import math
import os

import jax

from jmbs.compiler import on_cpu
from jmbs.errors import ModelError
from jmbs.simulation import PIECE
from jmbs.sweeping.program import ChunkProgram, MemberProgram

BUDGET = 2**28
"""Bytes that a chunk's program may take on a CPU, and its results beside those of the chunk before, which are being
written."""
SHARE = 0.5
"""Of an accelerator's free memory."""
MOST, CHUNKS = 4096, 10
"""Members of a chunk on a CPU, where more are no quicker; and in how many chunks small sweeps are made there at least,
so that a kill loses little and progress shows."""


def program_for(member: MemberProgram, chunk: int | None) -> ChunkProgram:
    """The compiled program of a sweep: of `chunk` members, or of as many as fit the memory.

    Raises `ModelError` where a chunk does not fit this machine.
    """
    if chunk is not None:
        return _refused(member.compiled(chunk))
    allowed, devices = _allowed(), len(jax.devices())
    program = member.compiled(first_chunk(member.study.members, member.member_bytes, allowed, devices, on_cpu()))
    while program.bytes > allowed and program.chunk > 1:
        fewer = int(program.chunk * min(0.9 * allowed / program.bytes, 0.5))
        program = member.compiled(_whole_pieces(max(1, fewer), PIECE * devices))
    return _refused(program)


def first_chunk(members: int, member_bytes: int, allowed: float, devices: int, on_cpu: bool) -> int:
    """As many members as fit the bytes that are allowed, by what goes in and out of each, computed and being written.

    On a CPU whole pieces for each device where there are enough, up to `MOST`, and a tenth of the sweep.
    """
    fitting = max(1, int(min(members, allowed / (3 * member_bytes))))
    if not on_cpu:
        return fitting
    unit = PIECE * devices
    tenth = -(-members // (CHUNKS * unit)) * unit
    return _whole_pieces(min(fitting, tenth, max(MOST, unit)), unit)


def _whole_pieces(chunk: int, unit: int) -> int:
    """The largest multiple of the unit that is no more than a chunk; the chunk itself where that is smaller."""
    return chunk - chunk % unit if chunk >= unit else chunk


def _refused(program: ChunkProgram) -> ChunkProgram:
    there = _memory()
    if program.bytes > there:
        found = f"{program.chunk} members at a time, about {program.bytes / 1e9:.3g} GB"
        raise ModelError("chunk", found, f"what fits this machine's memory of {there / 1e9:.3g} GB")
    return program


def _allowed() -> float:
    return BUDGET if on_cpu() else SHARE * _memory()


def _memory() -> float:
    """Bytes of the devices' memory, infinite where that cannot be told."""
    if not on_cpu():
        devices = [device.memory_stats() or {} for device in jax.local_devices()]
        return sum(stats.get("bytes_limit", math.inf) - stats.get("bytes_in_use", 0) for stats in devices)
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):
        return math.inf
