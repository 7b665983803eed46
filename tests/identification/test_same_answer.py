"""The same answer on one thread and on two, and in any order of recordings."""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from recorded_pendulums import study

from jmbs.identification import Fit, fit_study

CLOSE = 1e-9
TESTS = Path(__file__).parents[1]
SCRIPT = """
import json, sys
import jax
jax.config.update("jax_enable_x64", True)
from recorded_pendulums import study
from jmbs.identification import fit_study
fit = fit_study(study(("free", "driven", "test"), noise="estimate"))
errors = [one.standard_error for one in fit.parameters.values()]
shown = fit.heldout["test"]["q"].predicted.tolist()
print(json.dumps({"estimates": [one.estimate for one in fit.parameters.values()], "errors": errors, "shown": shown}))
"""


def on_threads(count: int) -> dict[str, np.ndarray]:
    """A fit in a process of its own, whose libraries may use so many threads."""
    flags = f"--xla_cpu_multi_thread_eigen={'true' if count > 1 else 'false'} intra_op_parallelism_threads={count}"
    limits = {name: str(count) for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NPROC")}
    paths = os.pathsep.join([str(TESTS), str(TESTS.parent), os.environ.get("PYTHONPATH", "")])
    given = {**os.environ, **limits, "XLA_FLAGS": flags, "PYTHONPATH": paths}
    cores = sorted(os.sched_getaffinity(0))[:count]
    code = f"import os; os.sched_setaffinity(0, {cores}){SCRIPT}"
    run = subprocess.run([sys.executable, "-c", code], env=given, capture_output=True, text=True, timeout=900)
    assert run.returncode == 0, run.stderr
    return {name: np.array(values) for name, values in json.loads(run.stdout.splitlines()[-1]).items()}


@pytest.mark.slow
def test_on_one_thread_and_on_two():
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("one core")
    one, two = on_threads(1), on_threads(2)
    for name, values in one.items():
        np.testing.assert_allclose(two[name], values, rtol=CLOSE, atol=CLOSE * np.max(np.abs(values)))


def numbers(fit: Fit) -> dict[str, tuple[float, ...]]:
    """Estimates, errors and intervals by name."""
    return {name: (one.estimate, one.standard_error, *one.interval) for name, one in fit.parameters.items()}  # pyright: ignore


@pytest.mark.slow
@pytest.mark.parametrize("noise", ["estimate", 2e-3])
def test_in_any_order_of_recordings(noise):
    given = study(("free", "driven", "test"), noise=noise)
    fits = [fit_study(dataclasses.replace(given, data=order)) for order in itertools.permutations(given.data)]
    first = numbers(fits[0])
    for fit in fits[1:]:
        assert fit.chi2_per_degree == pytest.approx(fits[0].chi2_per_degree, rel=CLOSE)
        for name, values in numbers(fit).items():
            np.testing.assert_allclose(values, first[name], rtol=CLOSE)
