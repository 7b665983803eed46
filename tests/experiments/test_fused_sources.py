"""What a GPU's compiler said of runs as one kernel is within its budget, and how it was counted."""

from __future__ import annotations

import json

import pytest

from experiments.benchmarks import fused_sources
from experiments.benchmarks.fused_sources import MECHANISMS, RESULT, instructions_of_step, kernel_of, program_of

MOST = {"chain of 8": 18_000, "humanoid": 90_000}
"""Instructions of one RK4 step of one member, single precision."""
LINES = {"chain of 8": 800, "Panda": 1500}
"""Of the source: about its statements."""


def test_committed_numbers_are_within_their_budgets():
    rows = json.loads(RESULT.read_text(encoding="utf-8"))["rows"]
    for name, most in MOST.items():
        row = rows[f"{name}, float32, constants, written out"]
        assert 0 < row["instructions a step"] <= most
    assert rows["chain of 8, float32, constants, written out"]["spilled bytes"] == 0


def test_instructions_of_nested_loops(monkeypatch):
    """Those of the stages count four times; short loops and jumps ahead are no loops over steps."""
    monkeypatch.setattr(fused_sources, "LONG", 2)
    listing = """
    .L_steps:
        /*0000*/                   MOV R1, c[0x0][0x28] ;
    .L_stages:
        /*0010*/                   FADD R0, R1, R2 ;
        /*0020*/                   FMUL R0, R1, R2 ;
        /*0030*/              @P0  BRA `(.L_stages) ;
        /*0040*/              @P1  BRA `(.L_end) ;
        /*0050*/                   BRA `(.L_steps) ;
    .L_end:
        /*0060*/                   EXIT ;
    """
    assert instructions_of_step(listing) == (3 + 4 * 3, 7)


def test_the_page_has_a_row_for_each_measurement():
    text = fused_sources.section()
    rows = json.loads(RESULT.read_text(encoding="utf-8"))["rows"]
    assert text.count("\n| ") == len(rows) + 2


@pytest.mark.slow
@pytest.mark.parametrize("name", LINES)
def test_sources_stay_short(name):
    """Without a compiler: more lines are more instructions."""
    program, known = program_of(*MECHANISMS[name], "float32")
    kernel = kernel_of(program, known, "constants, written out")
    assert kernel.source.count("\n") <= LINES[name]
    assert "double" not in kernel.source.split("KERNEL void")[1]
