"""Kernels of compiled programs are counted with the rounds of their loops; the table says what the file does."""

from __future__ import annotations

import json

import filelock
import numpy as np
import pytest

from experiments.benchmarks import cuda_kernels, fused_on_device
from experiments.benchmarks.cases import Case

PROGRAM = r"""HloModule jit_f, is_scheduled=true

%body (p: (f32[], s64[])) -> (f32[], s64[]) {
  %fusion.1 = f32[8]{0} fusion(%p), kind=kLoop, calls=%fused
  ROOT %copy.2 = (f32[], s64[]) copy(%fusion.1)
}

%condition (p: (f32[], s64[])) -> pred[] {
  ROOT %compare = pred[] compare(%p, %p), direction=LT
}

ENTRY %main (x: f32[8]) -> f32[8] {
  %x = f32[8]{0} parameter(0)
  %ptx_call = f32[8]{0} custom-call(%x), backend_config={kernel_data = ".version 8.3\0A.entry f(\22\22)", name = "one"}
  %while.1 = (f32[], s64[]) while(%x), condition=%condition, body=%body, backend_config={"known_trip_count":{"n":"20"}}
  %while.2 = (f32[], s64[]) while(%x), condition=%condition, body=%body
  ROOT %fusion = f32[8]{0} fusion(%ptx_call), kind=kLoop, calls=%fused
}
"""


def test_loops_count_as_often_as_they_go_round():
    found = cuda_kernels.launches(PROGRAM)
    assert found == {"custom-call": 1, "fusion": 1 + 20 + 1, "copy": 20 + 1, "unknown": 1}


def test_kernels_of_ours_are_found():
    assert cuda_kernels.kernels_in(PROGRAM) == ['.version 8.3\n.entry f("")']


GOALS = {"run": 5, "reverse gradient": 15}


def test_runs_launch_few_kernels():
    programs = json.loads(cuda_kernels.RESULT.read_text(encoding="utf-8"))["programs"]
    assert {name.split(",")[0] for name in programs} == {"chain8", "humanoid", "panda", "geared_panda", "four_bar2"}
    for name, row in programs.items():
        assert row["kernels"] <= GOALS[name.split(", ")[1]], name
        assert "unknown" not in row["launches"], name


@pytest.mark.slow
@pytest.mark.parametrize("kind", cuda_kernels.KINDS.values())
def test_the_script_for_a_device_runs_on_a_cpu(kind, tmp_path):
    case = Case("chain", 1, batch=3, steps=5, derivative=kind)
    lock = filelock.FileLock(tmp_path / "lock")
    found = fused_on_device.measured("jmbs", case, lock, fused_on_device.reference(case))
    assert found["difference"] < 1e-12 and np.isfinite(found["steps_per_second"])
