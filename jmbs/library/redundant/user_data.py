"""What can be wrong with a user's mass matrix and functions, refused when the system is built.

Laws of functions are checked on samples: coordinates near a given point, velocities and momenta of order one.
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from jmbs.errors import ModelError
from jmbs.library.mechanics import checks
from jmbs.library.redundant.components import SPREAD, Directions, Function, evaluate

SAMPLES = 3
LAW_TOLERANCE = 1e-5
"""Relative to the largest entry: loose enough for float32, far below any wrong sign or missing term."""
RANK_TOLERANCE = 1e-6


def mass_matrix(M: Any) -> np.ndarray:
    """The mass matrix (n, n), exactly symmetric. Raises `ModelError`."""
    wanted = "a symmetric non-negative matrix, not zero"
    matrix = checks.array("M", M, None, wanted)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not np.any(matrix):
        raise ModelError("M", f"shape {matrix.shape}" if np.any(matrix) else "zero", wanted)
    matrix = checks.symmetric("M", M, matrix, wanted)
    least = np.linalg.eigvalsh(_unit_diagonal(matrix))[0] if np.all(np.diag(matrix) >= 0) else -1.0
    if least < -checks.MATRIX_TOLERANCE:
        raise ModelError("M", f"{checks.show(matrix)}, with a negative eigenvalue", wanted)
    return matrix


def massive_part(M: np.ndarray) -> tuple[np.ndarray, Directions]:
    """`(M_r, U)` with `M = U M_r U^T` and `M_r` (r, r) regular, r the rank of `M`.

    Coordinates without any mass are left out; if what remains is singular too, `U` holds eigenvectors.
    """
    kept = np.flatnonzero(np.any(M != 0, axis=1))
    M_r, U = M[np.ix_(kept, kept)], np.eye(len(M))[:, kept]
    rank = int(np.sum(np.linalg.eigvalsh(_unit_diagonal(M_r)) > checks.MATRIX_TOLERANCE))
    if rank < len(kept):
        values, vectors = np.linalg.eigh(M_r)
        M_r, U = np.diag(values[-rank:]), U @ vectors[:, -rank:]
    return M_r, tuple(tuple(float(entry) for entry in row) for row in U)


def _unit_diagonal(matrix: np.ndarray) -> np.ndarray:
    """The matrix in units in which its diagonal is one: kilograms and inertias on one scale."""
    size = np.sqrt(np.diag(matrix))
    size = np.where(size > 0, size, 1.0)
    return matrix / np.outer(size, size)


def read(path: str, data: Any, *samples: np.ndarray) -> tuple[Any, np.ndarray]:
    """The data as a field of a component, and their values (samples, ...) at the samples. Raises `ModelError`.

    **Arguments:** `samples`: one array (samples, size) per argument of the function.
    """
    takes = " and ".join(f"{array.shape[1]} numbers" for array in samples)
    wanted = f"finite numbers, or a function of {takes} that gives them"
    if not callable(data):
        field = checks.array(path, data, None, wanted)
        return field, np.stack([field] * len(samples[0]))
    field: Any = data if isinstance(data, eqx.Module) else Function(data)
    try:
        values = [np.asarray(field(*map(jnp.asarray, arguments)), float) for arguments in zip(*samples, strict=True)]
    except Exception as error:  # whatever the user's function raises
        raise ModelError(path, f"{type(error).__name__}: {error}", wanted) from error
    for arguments, value in zip(zip(*samples, strict=True), values, strict=True):
        if not np.all(np.isfinite(value)):
            raise ModelError(path, f"{checks.show(value)} at {checks.show(arguments[0])}", wanted)
    return field, np.stack(values)


def require_shape(path: str, values: np.ndarray, shapes: list[tuple[int | None, ...]], wanted: str) -> None:
    """Refuses values (samples, *shape) whose shape is none of the `shapes`; None stands for any size."""

    def fits(shape: tuple[int | None, ...]) -> bool:
        found = values.shape[1:]
        return len(shape) == len(found) and all(s in (None, size) for s, size in zip(shape, found, strict=True))

    if not any(fits(shape) for shape in shapes):
        raise ModelError(path, f"shape {values.shape[1:]}", wanted)


def require_skew(values: np.ndarray) -> None:
    """Refuses gyroscopic matrices (samples, n, n) that are not skew."""
    defect = np.abs(values + np.swapaxes(values, 1, 2)).max(initial=0.0)
    if defect > LAW_TOLERANCE * np.abs(values).max(initial=0.0):
        raise ModelError("G", "a matrix that is not skew-symmetric", "G = -G^T, so that gyroscopic forces do no work")


def require_constant_rank(values: np.ndarray) -> None:
    """Refuses rows (samples, m, n) whose rank differs between samples."""
    ranks = [int(np.linalg.matrix_rank(A, tol=RANK_TOLERANCE * np.abs(A).max(initial=1e-300))) for A in values]
    if len(set(ranks)) > 1:
        raise ModelError("A", f"rows of rank {ranks[0]} at near and {max(ranks)} around it", "rows of constant rank")


def require_dissipative(values: np.ndarray, w: np.ndarray) -> None:
    """Refuses damping that feeds power in: matrices (samples, n, n), or forces (samples, n) at velocities `w`."""
    if values.ndim == 3:
        scale = np.abs(values).max(initial=0.0)
        if np.abs(values - np.swapaxes(values, 1, 2)).max(initial=0.0) > LAW_TOLERANCE * scale:
            found = "a damping matrix that is not symmetric"
            raise ModelError("tau_d", found, "D = D^T; forces without power belong to G")
        least = np.linalg.eigvalsh(values).min(initial=0.0)
    else:
        power = np.sum(values * w, axis=1)
        scale, least = np.abs(values * w).max(initial=0.0), power.min(initial=0.0)
    if least < -LAW_TOLERANCE * scale:
        raise ModelError("tau_d", "damping that feeds power in", "<tau_d | w> >= 0 (second law)")


def require_rate(path: str, X: Any, kinematics: Any, port: Any, zeta: np.ndarray) -> None:
    """Refuses a port's position whose rate, `X' Z w`, is not the port's velocity."""
    for at in map(jnp.asarray, zeta):
        slope = jax.jacfwd(lambda x: jnp.asarray(X(x), float).reshape(-1))(at)
        Z = evaluate(kinematics.Z, (kinematics.n_positions, kinematics.n), at)
        rate, velocity = np.asarray(slope @ Z), np.asarray(port.ratio({"zeta": at}))
        if np.abs(rate - velocity).max() > LAW_TOLERANCE * max(np.abs(rate).max(), np.abs(velocity).max()):
            raise ModelError(
                path, f"a position with the rate {checks.show(rate)} w", f"that of B: {checks.show(velocity)} w"
            )


def require_rest(field: Any, zeta: np.ndarray, n: int) -> None:
    """Refuses a damping force that does not vanish, or has no finite derivative, at rest."""
    at_rest = lambda w: jnp.asarray(field(jnp.asarray(zeta), w), float)  # noqa: E731
    rest = jnp.zeros(n)
    force, slope = np.asarray(at_rest(rest)), np.asarray(jax.jacfwd(at_rest)(rest))
    if not np.all(force == 0) or not np.all(np.isfinite(slope)):
        found = f"the force {checks.show(force)} with the derivative {checks.show(slope)} at rest"
        raise ModelError("tau_d", found, "no force and a finite derivative where w = 0")


def samples(near: Any, n_positions: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Coordinates (SAMPLES + 1, n_positions), the first at `near` (None: zero), and velocities (SAMPLES + 1, n)."""
    centre = np.zeros(n_positions)
    if near is not None:
        centre = checks.vector("near", near, n_positions, f"{n_positions} coordinates")
    random = np.random.default_rng(0)
    steps = SPREAD * random.standard_normal((SAMPLES + 1, n_positions))
    steps[0] = 0.0
    return centre + steps, random.standard_normal((SAMPLES + 1, n))
