"""The laws of single components, tried on samples: power, energy and entropy conserved, entropy never destroyed.

A reversible component keeps exergy and entropy, hence energy. With `s` the vector that is one at thermal ports and zero
elsewhere (a change of all temperatures alike) and `f = J e + C^T lambda`, that is

    J = -J^T,    C s = 0,    s^T J e = 0  wherever  C e = 0,         for transformers   A s_in = s_out;

an irreversible one, `f = M e / theta0`, has `M = M^T >= 0` and keeps energy, `M (e + theta0 s) = 0`.
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jmbs.ephs.component import Efforts, Role, role
from jmbs.ephs.interface import ENTROPY
from jmbs.ephs.samples import Samples, samples_of
from jmbs.errors import ModelError
from jmbs.programs import quick_to_compile

LAW_TOLERANCE = 1e-6
"""Relative to the largest entry: loose enough for float32, far below any wrong sign or missing term."""
DECLARE = (
    "finite numbers, or a `domain` that leaves such values out (an attribute of the component, as "
    "{'port.x': (low, high)}; of a system in redundant coordinates, `near`)"
)


def validate_component(path: str, component: Any) -> None:
    """Tries the laws of a component on samples of its domain, see `jmbs.ephs.samples`.

    Raises `ModelError` that names the law, by how much it is broken, and where. Components of jmbs declare
    `lawful_by_construction` instead, see `is_lawful`; their laws are tested once.
    """
    check = {
        Role.REVERSIBLE: _check_reversible,
        Role.TRANSFORMER: _check_transformer,
        Role.IRREVERSIBLE: _check_irreversible,
    }.get(role(component, path))
    if check is not None:
        check(path, component, samples_of(path, component))


def _thermal(component: Any, ports: dict[str, int]) -> Float[np.ndarray, " n"]:
    """The vector `s` over these ports, stacked."""
    parts = [np.full(n, component.ports[p].quantity.name == ENTROPY, float) for p, n in ports.items()]
    return np.concatenate([np.zeros(0), *parts])


def _power_ports(component: Any) -> dict[str, int]:
    return {name: port.dim for name, port in component.ports.items() if port.power}


def _matrices(component: Any, at: Samples) -> list[np.ndarray | None]:
    """`J` and `C`, or `A`, or `M` at all samples, each (n, rows, columns) or None."""
    # Numbers become arrays, as in runs: one program for all their values.
    component = jax.tree.map(lambda leaf: jnp.asarray(leaf) if isinstance(leaf, float) else leaf, component)
    found = _evaluate(component, at.states, at.efforts, at.theta0)
    return [None if matrix is None else np.asarray(matrix) for matrix in found]


@quick_to_compile
def _evaluate(component: Any, states: dict, efforts: dict, theta0: Array) -> list[Array | None]:
    def one(_, x, e, theta0):
        match role(component):
            case Role.REVERSIBLE:
                matrices = component.structure(x)
            case Role.TRANSFORMER:
                matrices = [component.ratio(x)]
            case _:
                matrices = [component.onsager(x, Efforts(e, theta0))]
        return [None if matrix is None else jnp.asarray(matrix) for matrix in matrices]

    return eqx.filter_vmap(one)(jnp.arange(len(theta0)), states, efforts, theta0)


def _require_numbers(path: str, at: Samples, **matrices: np.ndarray | None) -> None:
    for name, matrix in matrices.items():
        bad = [] if matrix is None else np.flatnonzero(~np.all(np.isfinite(matrix), axis=(1, 2)))
        if len(bad):
            raise ModelError(path, f"{name} with entries that are infinite or NaN at {at.place(bad[0])}", DECLARE)


def _require(path: str, at: Samples, broken: np.ndarray, found: str, wanted: str, rounding: float) -> None:
    """Refuses what is `broken` (n,) by more than rounding at some sample; `found` takes the size."""
    worst = int(np.argmax(broken)) if broken.size else 0
    if broken.size and broken[worst] > rounding:
        raise ModelError(path, f"{found.format(size=broken[worst])}, at {at.place(worst)}", wanted)


def _check_reversible(path: str, component: Any, at: Samples) -> None:
    ports = _power_ports(component)
    n, s = sum(ports.values()), _thermal(component, ports)
    J, C = _matrices(component, at)
    if J is not None and J.shape[1:] != (n, n):
        raise ModelError(path, f"J of shape {J.shape[1:]}", f"({n}, {n}), the stacked power ports")
    if C is not None and (C.ndim != 3 or C.shape[2] != n):
        raise ModelError(
            path, f"C of shape {C.shape[1:]}", f"(m, {n}), a row per constraint over the stacked power ports"
        )
    at = at._replace(efforts={})
    _require_numbers(path, at, J=J, C=C)
    if J is not None:
        found = "a Dirac structure whose J is not skew-symmetric: J + J^T is {size:.3g} of its largest entry"
        wanted = "J = -J^T, so that power is conserved"
        _require(path, at, _largest(J + np.swapaxes(J, 1, 2)) / _scale(J), found, wanted, LAW_TOLERANCE)
    where = ", ".join(at.thermal)
    if C is not None:
        found = f"rows of C that make entropy at {where}: {{size:.3g}} of their largest entry"
        wanted = "rows of C that sum to zero over thermal ports, so that entropy is conserved"
        _require(path, at, _largest(C @ s) / _scale(C), found, wanted, LAW_TOLERANCE)
    if J is not None:
        found = f"a reversible structure that makes entropy at {where}: {{size:.3g}} of its largest entry"
        wanted = "flows J e at thermal ports that sum to zero wherever C e = 0, so that entropy is conserved"
        made = J @ s if C is None else _beside(C, J @ s)
        _require(path, at, _largest(made) / _scale(J), found, wanted, LAW_TOLERANCE)


def _beside(C: Float[np.ndarray, "samples m n"], v: Float[np.ndarray, "samples n"]) -> np.ndarray:
    """The parts of vectors that are orthogonal to all rows."""
    C = C.astype(float)
    return v - np.einsum("kij,kj->ki", np.linalg.pinv(C) @ C, v)


def _largest(entries: np.ndarray) -> np.ndarray:
    """The largest magnitude at each sample; zero without entries."""
    return np.abs(entries.reshape(len(entries), -1)).max(axis=1, initial=0.0)


def _scale(entries: np.ndarray) -> np.ndarray:
    return np.maximum(_largest(entries), np.finfo(np.float32).tiny)


def _check_transformer(path: str, component: Any, at: Samples) -> None:
    ports = _power_ports(component)
    output = getattr(component, "output", None)
    if output not in ports:
        raise ModelError(path, f"output {output!r}", f"the name of a power port, one of {sorted(ports)}")
    inputs = {name: n for name, n in ports.items() if name != output}
    (A,) = _matrices(component, at)
    assert A is not None
    wanted = (ports[output], sum(inputs.values()))
    if A.shape[1:] != wanted:
        raise ModelError(path, f"a ratio of shape {A.shape[1:]}", f"{wanted}, output by stacked inputs")
    at = at._replace(efforts={})
    _require_numbers(path, at, ratio=A)
    made = A @ _thermal(component, inputs) - _thermal(component, {output: ports[output]})
    found = f"a transformer that makes entropy at {', '.join(at.thermal)}: {{size:.3g}} of what flows"
    wanted = "a ratio that makes equal changes of all temperatures from equal ones, so that entropy is conserved"
    _require(path, at, _largest(made) / np.maximum(_scale(A), 1.0), found, wanted, LAW_TOLERANCE)


def _check_irreversible(path: str, component: Any, at: Samples) -> None:
    ports = _power_ports(component)
    n = sum(ports.values())
    (M,) = _matrices(component, at)
    assert M is not None
    if M.shape[1:] != (n, n):
        raise ModelError(path, f"M of shape {M.shape[1:]}", f"({n}, {n}), the stacked power ports")
    if not at.thermal:
        found = "an irreversible component without a thermal port"
        raise ModelError(path, found, "an entropy port that takes the heat")
    _require_numbers(path, at, M=M)
    energy = np.concatenate([np.asarray(e) for e in at.efforts.values()], axis=1)
    energy = energy + np.asarray(at.theta0)[:, None] * _thermal(component, ports)
    N, energy, rounding = _in_own_units(M, energy)
    found = "an Onsager matrix that is not symmetric: M - M^T is {size:.3g} of its size"
    difference = _largest(N - np.swapaxes(N, 1, 2)) / _scale(N)
    _require(path, at, difference, found, "M = M^T (reciprocity)", rounding)
    least = np.linalg.eigvalsh(0.5 * (N + np.swapaxes(N, 1, 2)))[:, 0] / _scale(N)
    found = "an Onsager matrix with a negative eigenvalue: entropy is destroyed, {size:.3g} of the matrix's size"
    _require(path, at, -least, found, "M non-negative (second law)", rounding)
    found = "an Onsager structure that does not conserve energy: {size:.3g} of what is exchanged is made"
    made = _largest(np.einsum("kij,kj->ki", N, energy)) / (_scale(N) * _scale(energy))
    _require(path, at, made, found, "M (e + theta0 on thermal ports) = 0", rounding)


def _in_own_units(
    M: Float[np.ndarray, "samples n n"], energy: Float[np.ndarray, "samples n"]
) -> tuple[np.ndarray, np.ndarray, float]:
    """`(N, w, rounding)`: `M` and the efforts `e + theta0 s` in units in which the diagonal of `M` is one, and how far
    what is zero may be from it. Entries of velocities and temperatures, decades apart, come to one scale.

    Diagonal entries whose power is below rounding, as those of friction across the motion, keep units of that size.
    """
    epsilon = np.finfo(M.dtype).eps if np.issubdtype(M.dtype, np.floating) else np.finfo(float).eps
    diagonal = np.abs(np.diagonal(M, axis1=1, axis2=2))
    power = (energy**2 * diagonal).max(axis=1, initial=0.0, keepdims=True)
    floor = np.sqrt(epsilon) * np.divide(power, energy**2, out=np.zeros_like(energy), where=energy != 0)
    size = np.sqrt(np.maximum(diagonal, floor))
    size = np.where(size > 0, size, 1.0)
    return M / (size[:, :, None] * size[:, None, :]), energy * size, max(LAW_TOLERANCE, 10 * float(np.sqrt(epsilon)))
