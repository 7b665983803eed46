"""How many members go into a chunk."""

from __future__ import annotations

import pytest

from jmbs.simulation import PIECE
from jmbs.sweeping.memory import MOST, first_chunk


@pytest.mark.parametrize("members", [1, 100, 1000, 100_000, 10**7])
@pytest.mark.parametrize("member_bytes", [8, 10_000, 10**9])
@pytest.mark.parametrize("devices", [1, 2, 96])
def test_a_chunk_fits_and_has_whole_pieces(members, member_bytes, devices):
    allowed = 2**28
    for on_cpu in (True, False):
        chunk = first_chunk(members, member_bytes, allowed, devices, on_cpu)
        assert 1 <= chunk and (chunk == 1 or 3 * chunk * member_bytes <= allowed)
        assert not on_cpu or chunk <= max(MOST, PIECE * devices)
        assert not on_cpu or chunk < PIECE * devices or chunk % (PIECE * devices) == 0
        assert chunk <= members
    unknown = first_chunk(members, member_bytes, float("inf"), devices, False)
    assert unknown == members, "where nobody knows how much memory there is"


def test_small_sweeps_have_several_chunks():
    """So that progress shows and a kill loses little."""
    assert first_chunk(5000, 100, 2**28, 2, True) == 512
