"""One study, whose program all tests of sweeps share."""

from __future__ import annotations

import pytest
from swept_oscillators import CONFIG, STUDY

import jmbs
from jmbs.io import sweep_of
from jmbs.sweeping import SweepStudy


@pytest.fixture(scope="package")
def study() -> SweepStudy:
    """Ten oscillators, in chunks of four."""
    return sweep_of({**STUDY, "model": CONFIG})


@pytest.fixture(scope="package")
def kept(study: SweepStudy):
    """What is kept of them, without a store."""
    return jmbs.sweep(study)
