"""Refuses wrong models when they are built: what makes a flattened system meaningless, by path."""

from __future__ import annotations

import jax
import numpy as np

from jmbs.ephs.component import Efforts, Role, is_lawful, role
from jmbs.ephs.flatten import FlatJunction, FlatSystem
from jmbs.ephs.interface import ENTROPY
from jmbs.errors import ModelError

STATEFUL = (Role.STORAGE, Role.ENVIRONMENT)
SAMPLES = 3
LAW_TOLERANCE = 1e-6
"""Relative to the largest entry: loose enough for float32, far below any wrong sign or missing term."""


def validate(flat: FlatSystem) -> None:
    """Checks junctions (`validate_junctions`) and the laws of components (`validate_component`)."""
    for junction in flat.junctions:
        validate_junction(flat, junction)
    for path, component in flat.components.items():
        if not is_lawful(component):
            validate_component(path, component)


def validate_junction(flat: FlatSystem, junction: FlatJunction) -> None:
    """Raises `ModelError` for a junction that has no meaning.

    Two storages or environments, a state port without storage, a thermal port with neither store nor environment.
    """
    path = f"junctions/{junction.name}"
    roles = {pair: role(flat.components[pair[0]], pair[0]) for pair in junction.ports}
    stateful = [pair for pair, r in roles.items() if r in STATEFUL]
    names = [".".join(pair) for pair in junction.ports]
    if len(stateful) > 1:
        found = " and ".join(".".join(pair) for pair in stateful)
        raise ModelError(path, f"{found}, each holding the state", "one storage or environment at most")
    if stateful:
        return
    for component, port in junction.ports:
        if not flat.components[component].ports[port].power:
            raise ModelError(path, f"state port {component}.{port} without a storage", "a storage that has the state")
    if junction.quantity.name == ENTROPY:
        raise ModelError(path, f"thermal ports {names} with neither store nor environment", "one of them")


def validate_component(path: str, component: object) -> None:
    """Checks skewness of a Dirac structure and symmetry, sign and energy of an Onsager structure on random states.

    Raises `ModelError`. Components of jmbs declare `lawful_by_construction` instead, see `is_lawful`; their laws are
    tested once.
    """
    kind = role(component, path)
    if kind not in (Role.REVERSIBLE, Role.TRANSFORMER, Role.IRREVERSIBLE):
        return
    key = jax.random.key(0)
    for sample in range(SAMPLES):
        x = _random_states(component, jax.random.fold_in(key, sample))
        if kind is Role.REVERSIBLE:
            _check_dirac(path, component, x)
        elif kind is Role.TRANSFORMER:
            _check_transformer(path, component, x)
        else:
            _check_onsager(path, component, x, jax.random.fold_in(key, 100 + sample))


def _power_ports(component) -> dict[str, int]:
    return {name: port.dim for name, port in component.ports.items() if port.power}


def _random_states(component, key):
    states = {}
    for i, (name, port) in enumerate(component.ports.items()):
        space = port.quantity.space
        states[name] = space.exp(0.5 * jax.random.normal(jax.random.fold_in(key, i), (space.dim,)))
    return states


def _check_numbers(path: str, **matrices) -> None:
    for name, matrix in matrices.items():
        if matrix is not None and not np.all(np.isfinite(np.asarray(matrix))):
            raise ModelError(path, f"{name} with entries that are infinite or NaN", "finite numbers")


def _check_dirac(path: str, component, x) -> None:
    n = sum(_power_ports(component).values())
    J, C = component.structure(x)
    _check_numbers(path, J=J, C=C)
    if J is not None:
        J = np.asarray(J)
        if J.shape != (n, n):
            raise ModelError(path, f"J of shape {J.shape}", f"({n}, {n}), the stacked power ports")
        if np.abs(J + J.T).max(initial=0.0) > LAW_TOLERANCE * max(np.abs(J).max(initial=0.0), 1e-300):
            raise ModelError(
                path, "a Dirac structure whose J is not skew-symmetric", "J = -J^T, so that power is conserved"
            )
    if C is not None and (np.ndim(C) != 2 or np.shape(C)[1] != n):
        raise ModelError(
            path, f"C of shape {np.shape(C)}", f"(m, {n}), a row per constraint over the stacked power ports"
        )


def _check_transformer(path: str, component, x) -> None:
    ports = _power_ports(component)
    output = getattr(component, "output", None)
    if output not in ports:
        raise ModelError(path, f"output {output!r}", f"the name of a power port, one of {sorted(ports)}")
    ratio = component.ratio(x)
    _check_numbers(path, ratio=ratio)
    shape = np.shape(ratio)
    wanted = (ports[output], sum(ports.values()) - ports[output])
    if shape != wanted:
        raise ModelError(path, f"a ratio of shape {shape}", f"{wanted}, output by stacked inputs")


def _check_onsager(path: str, component, x, key) -> None:
    ports = _power_ports(component)
    theta0 = jax.numpy.asarray(300.0)
    efforts = {p: jax.random.normal(jax.random.fold_in(key, i), (d,)) for i, (p, d) in enumerate(ports.items())}
    M = np.asarray(component.onsager(x, Efforts(efforts, theta0)))
    _check_numbers(path, M=M)
    n = sum(ports.values())
    if M.shape != (n, n):
        raise ModelError(path, f"M of shape {M.shape}", f"({n}, {n}), the stacked power ports")
    scale = max(np.abs(M).max(initial=0.0), 1e-300)
    if np.abs(M - M.T).max(initial=0.0) > LAW_TOLERANCE * scale:
        raise ModelError(path, "an Onsager matrix that is not symmetric", "M = M^T (reciprocity)")
    if np.linalg.eigvalsh(0.5 * (M + M.T)).min(initial=0.0) < -LAW_TOLERANCE * scale:
        raise ModelError(path, "an Onsager matrix with a negative eigenvalue", "M non-negative (second law)")
    thermal = [name for name in ports if component.ports[name].quantity.name == ENTROPY]
    if not thermal:
        raise ModelError(
            path, "an irreversible component without a thermal port", "an entropy port that takes the heat"
        )
    energy = np.concatenate([np.asarray(e) + (300.0 if name in thermal else 0.0) for name, e in efforts.items()])
    if np.abs(M @ energy).max() > LAW_TOLERANCE * scale * np.abs(energy).max() * n:
        raise ModelError(
            path, "an Onsager structure that does not conserve energy", "M (e + theta0 on thermal ports) = 0"
        )
