"""One way to compare with a reference: the achieved error is recorded, then held against the tolerance."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest


@pytest.fixture
def within(request) -> Callable[..., None]:
    """`within(quantity, error, tolerance)`: both may be arrays; `pytest --junitxml=FILE` keeps what was achieved."""

    def check(quantity: str, error, tolerance) -> None:
        error, tolerance = np.broadcast_arrays(np.abs(np.asarray(error, float)), np.asarray(tolerance, float))
        worst = np.argmax(error / tolerance) if np.isfinite(error).all() else np.argmin(np.isfinite(error))
        achieved = f"{error.flat[worst]:.2e} (tolerance {tolerance.flat[worst]:.0e})"
        request.node.user_properties.append((quantity, achieved))
        assert (error <= tolerance).all(), f"{quantity}: {error.flat[worst]:.3g}, wanted {tolerance.flat[worst]:.3g}"

    return check
