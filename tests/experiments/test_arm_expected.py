"""Fits of the arm, as committed, against least squares of the linearised model in plain numpy with the same noise."""

from __future__ import annotations

import pytest
from pytest import approx

from experiments.arm_payload import expected


@pytest.mark.slow
def test_fits_spread_as_exact_estimators_do(tmp_path):
    """The motion is that of an independent recursion, and so are derivatives."""
    table = expected.main(tmp_path)
    assert len(table) == 15
    for row in table.values():
        assert row["spread_of_fits"] == approx(row["spread"], rel=2e-3)
        assert row["correlation_with_fits"] > 0.9999
