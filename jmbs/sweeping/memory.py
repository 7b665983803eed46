"""How many members go into a chunk: what a chunk takes is counted from shapes, then measured on the program itself."""

from __future__ import annotations

import math
import os
from collections.abc import Callable

import jax

from jmbs.compiler import has_kernels
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
    allowed = _allowed()
    program = member.compiled(_guess(member, allowed))
    while program.bytes > allowed and program.chunk > 1:
        fewer = int(program.chunk * min(0.9 * allowed / program.bytes, 0.5))
        program = member.compiled(_whole_pieces(max(1, fewer), math.floor))
    return _refused(program)


def _guess(member: MemberProgram, allowed: float) -> int:
    """As many as fit by what goes in and out, computed and being written."""
    fitting = _whole_pieces(max(1, int(allowed / (3 * member.member_bytes))), math.floor)
    members = member.study.members
    if not has_kernels():
        return min(fitting, members)
    wanted = _whole_pieces(-(-members // CHUNKS), math.ceil)
    return min(fitting, wanted, MOST, members)


def _whole_pieces(chunk: int, rounded: Callable[[float], int]) -> int:
    """So many that each device takes whole pieces, where there are enough for that."""
    unit = PIECE * len(jax.devices())
    return max(1, rounded(chunk / unit)) * unit if chunk >= unit or rounded is math.ceil else chunk


def _refused(program: ChunkProgram) -> ChunkProgram:
    there = _memory()
    if program.bytes > there:
        found = f"{program.chunk} members at a time, about {program.bytes / 1e9:.3g} GB"
        raise ModelError("chunk", found, f"what fits this machine's memory of {there / 1e9:.3g} GB")
    return program


def _allowed() -> float:
    return BUDGET if has_kernels() else SHARE * _memory()


def _memory() -> float:
    """Bytes of the devices' memory, infinite where that cannot be told."""
    if not has_kernels():
        devices = [device.memory_stats() or {} for device in jax.local_devices()]
        return sum(stats.get("bytes_limit", math.inf) - stats.get("bytes_in_use", 0) for stats in devices)
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):
        return math.inf
