"""Multibody systems in redundant coordinates, and point masses in Cartesian ones, built from the boxes beside.

    zetadot = Z(zeta) w,   0 = c(zeta),   0 = A(zeta) w,   w_ext = B(zeta)^T w
    M wdot = -Z^T dV - Z^T c'^T lambda - A^T mu - G(M w) w - tau_d(zeta, w) + B F

The class of 001, equations (8), with `F = -tau_ext`: a force on an external port that does work `<F | w_ext>` on the
system.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import ArrayLike

from jmbs.ephs import Closure, Environment, Quantity, System, as_it_is, pattern
from jmbs.errors import ModelError
from jmbs.library.mechanics import checks
from jmbs.library.mechanics.body import relative_momentum
from jmbs.library.redundant import user_data
from jmbs.library.redundant.components import (
    CoordinateDomain,
    ExternalVelocity,
    Function,
    GyroscopicForces,
    Kinematics,
    MassiveVelocity,
    NoPotentialEnergy,
    PotentialEnergy,
    QuadraticKineticEnergy,
    VelocityConstraint,
    position_gap,
)
from jmbs.library.redundant.damping import Damping
from jmbs.lie import Rn

Numbers = ArrayLike | Sequence
Data = Numbers | Callable[..., Any]
JUNCTIONS = ("zeta", "w", "p", "s")


def redundant_system(
    M: Numbers,
    Z: Data | None = None,
    G: Data | None = None,
    A: Data | None = None,
    B: Data | Mapping[str, Data] | None = None,
    c: Callable[..., Any] | None = None,
    V: Callable[..., Any] | None = None,
    tau_d: Data | None = None,
    *,
    n_positions: int | None = None,
    quantities: Mapping[str, Quantity] | None = None,
    positions: Mapping[str, Callable[..., Any]] | None = None,
    regularity: Callable[..., Any] | None = None,
    near: Numbers | None = None,
    heats_environment: bool = True,
) -> System:
    """A system in redundant coordinates `zeta` (n_positions,) and velocities `w` (n,); see the module's docstring.

    **Arguments:** each an array or a function; an equinox module as a function keeps its arrays as parameters.

    - `M`: mass matrix (n, n), symmetric non-negative. Where it is singular, constraints must fix the velocities that
      have no mass.
    - `Z`: kinematics (n_positions, n), of `zeta`; None: the identity.
    - `G`: gyroscopic matrix (n, n), skew, of the momentum `Gamma = M w` (n,).
    - `A`: rows (m, n) of velocity constraints, of `zeta`.
    - `B`: by port name, matrices (n, k) or (n,), of `zeta`; a single one is the port `ext`.
    - `c`: position constraints (k,), of `zeta`. `V`: potential energy in J, of `zeta`.
    - `tau_d`: damping coefficients (n,) or matrix (n, n), or a function of `(zeta, w)` that gives the force (n,) or a
      symmetric non-negative matrix `D` (n, n), `tau_d = D w`.
    - `n_positions`: number of coordinates, needed where a function `Z` changes it; default n.
    - `quantities`: of ports, by name; default that of a joint's actuation port of the same dimension.
    - `positions`: of ports, by name, functions of `zeta` (k,) whose rate the port's velocity is: `X' Z = B^T`. Ports
      with positions that meet are joined in position too: the gap is met at the start, held by the projection and
      reported.
    - `regularity`: a function of `zeta`, positive where the coordinates are regular and zero at their singularity; a
      run that comes there ends with a status.
    - `near`: coordinates (n_positions,) near which functions have meaning and are checked; the rank of `A` there must
      be the rank around it. Default: checked around zero when the system is built, widely when it is compiled.
    - `heats_environment`: damping heats a box `env`; with False there is an outer thermal port `s`.

    States: `zeta`, and `w`, given as velocities (`p` where `M` is singular: the velocities that carry mass).
    Boxes: `pe`, `ke`, `kin`, and as needed `mass`, `gyr`, `con`, `res`, `env`, `b_<port>`, `domain`.

    Raises `ModelError` for data of a wrong shape or against their law, with the argument's name as path.
    """
    mass = user_data.mass_matrix(M)
    n = len(mass)
    if n_positions is None:
        n_positions = n if Z is None or callable(Z) else len(np.atleast_1d(Z))
    if not isinstance(n_positions, int) or n_positions < 1:
        raise ModelError("n_positions", checks.show(n_positions), "a positive whole number")
    zeta, w = user_data.samples(near, n_positions, n)
    M_r, directions = user_data.massive_part(mass)
    boxes: dict[str, Any] = {
        "ke": QuadraticKineticEnergy(M_r, len(M_r)),
        "kin": _kinematics(Z, c, zeta, n),
        "pe": _potential(V, zeta),
    }
    if len(M_r) < n:
        boxes["mass"] = MassiveVelocity(directions)
    if G is not None:
        boxes["gyr"] = _gyroscopic_forces(G, w @ mass, directions)
    if A is not None:
        boxes["con"] = _velocity_constraint(A, zeta, n, near is not None)
    if tau_d is not None:
        boxes["res"] = _damping(tau_d, zeta, w)
        if heats_environment:
            boxes["env"] = Environment()
    if regularity is not None:
        boxes["domain"] = _domain(regularity, zeta)
    ports = B if isinstance(B, Mapping) else {} if B is None else {"ext": B}
    boxes |= _external_ports(ports, zeta, n, quantities or {})
    for name, X in (positions or {}).items():
        boxes[f"b_{name}"] = _with_position(name, X, boxes, zeta)
    if near is not None:
        place = tuple(map(float, zeta[0]))
        boxes = {k: dataclasses.replace(box, near=place) if hasattr(box, "near") else box for k, box in boxes.items()}
    return _connected(boxes, ports, regular=len(M_r) == n, closed=c is not None)


def point_masses(masses: Numbers, dimension: int = 3, **data: Any) -> System:
    """Point masses in Cartesian coordinates: `zeta` are their positions one after the other (m), `w` their velocities.

    The class of 001, section 3: `Z` is the identity and there are no gyroscopic forces.

    **Arguments:** `masses` (k,) kg, zero allowed where constraints carry the point; `dimension` of space, 1 to 3;
    `data`: `A`, `B`, `c`, `V`, `tau_d` and so on, see `redundant_system`. Raises `ModelError`.
    """
    given = checks.array("masses", masses, None, "one non-negative number per point, kg")
    if given.ndim != 1 or given.size == 0 or np.any(given < 0):
        raise ModelError("masses", checks.show(given), "one non-negative number per point, kg")
    if dimension not in (1, 2, 3):
        raise ModelError("dimension", checks.show(dimension), "1, 2 or 3")
    for name in ("M", "Z", "G", "n_positions"):
        if name in data:
            raise ModelError(name, checks.show(data[name]), f"no {name}: that of point masses is known")
    return redundant_system(np.diag(np.repeat(given, dimension)), **data)


def _connected(boxes: dict[str, Any], ports: Mapping[str, Any], regular: bool, closed: bool) -> System:
    """The boxes joined at `zeta`, `w`, `p` (the same as `w` where all velocities carry mass), `s` and the ports."""
    at: dict[str, list[str]] = {}
    for name, box in boxes.items():
        special = {"ext": name.removeprefix("b_"), "p": "w" if regular else "p"}
        for port in box.ports:
            junction = special[port] if port in special else port
            at.setdefault(junction, []).append(f"{name}.{port}")
    outer = list(ports)
    if "res" in boxes and "env" not in boxes:
        outer.append("s")
    closures = (Closure("c", "kin", ("kin",), (("pe", "zeta"),), position_gap, as_it_is),) if closed else ()
    return System(pattern({name: box.ports for name, box in boxes.items()}, at, outer), boxes, closures=closures)


def _kinematics(Z: Data | None, c: Any, zeta: np.ndarray, n: int) -> Kinematics:
    n_positions = zeta.shape[1]
    if Z is None and n_positions != n:
        raise ModelError("Z", f"nothing, for {n_positions} coordinates and {n} velocities", "a matrix between them")
    field, kinematics = Function(_identity), np.eye(n)[None]
    if Z is not None:
        field, kinematics = user_data.read("Z", Z, zeta)
    user_data.require_shape("Z", kinematics, [(n_positions, n)], f"({n_positions}, {n}), coordinates by velocities")
    if c is None:
        return Kinematics(field, None, n_positions, n)
    gap, gaps = user_data.read("c", _function("c", c), zeta)
    user_data.require_shape("c", gaps, [(), (None,)], "one number per position constraint")
    return Kinematics(field, gap, n_positions, n, gaps[0].size)


def _identity(zeta) -> np.ndarray:
    return np.eye(len(zeta))


def _function(path: str, data: Any) -> Any:
    if not callable(data):
        raise ModelError(path, checks.show(data), "a function of zeta")
    return data


def _potential(V: Any, zeta: np.ndarray) -> PotentialEnergy | NoPotentialEnergy:
    if V is None:
        return NoPotentialEnergy(zeta.shape[1])
    field, energies = user_data.read("V", _function("V", V), zeta)
    user_data.require_shape("V", energies, [()], "one number, J")
    return PotentialEnergy(field, zeta.shape[1])


def _gyroscopic_forces(G: Data, gamma: np.ndarray, directions) -> GyroscopicForces:
    n = gamma.shape[1]
    field, matrices = user_data.read("G", G, gamma)
    user_data.require_shape("G", matrices, [(n, n)], f"({n}, {n})")
    user_data.require_skew(matrices)
    return GyroscopicForces(field, directions)


def _velocity_constraint(A: Data, zeta: np.ndarray, n: int, constant_rank: bool) -> VelocityConstraint:
    field, rows = user_data.read("A", A, zeta)
    user_data.require_shape("A", rows, [(n,), (None, n)], f"(m, {n}), one row per constraint")
    rows = rows.reshape(len(rows), -1, n)
    if constant_rank:
        user_data.require_constant_rank(rows)
    return VelocityConstraint(field, rows.shape[1], zeta.shape[1], n)


def _damping(tau_d: Data, zeta: np.ndarray, w: np.ndarray) -> Damping:
    n = w.shape[1]
    field, given = user_data.read("tau_d", tau_d, zeta, w)
    wanted = f"({n},) or ({n}, {n})"
    user_data.require_shape("tau_d", given, [(n,), (n, n)], wanted)
    is_force = callable(field) and given.ndim == 2
    if is_force:
        user_data.require_rest(field, zeta[0], n)
    elif given.ndim == 2:
        given = given[:, :, None] * np.eye(n)
    user_data.require_dissipative(given, w)
    return Damping(field, is_force, zeta.shape[1], n)


def _domain(regularity: Any, zeta: np.ndarray) -> CoordinateDomain:
    field, given = user_data.read("regularity", _function("regularity", regularity), zeta)
    user_data.require_shape("regularity", given, [()], "one number")
    return CoordinateDomain(field, zeta.shape[1])


def _external_ports(
    ports: Mapping[str, Data], zeta: np.ndarray, n: int, quantities: Mapping[str, Quantity]
) -> dict[str, ExternalVelocity]:
    for name in quantities:
        if name not in ports:
            raise ModelError(f"quantities/{name}", "no such port", f"one of {', '.join(ports) or 'none'}")
    return {f"b_{name}": _external_port(name, B, zeta, n, quantities.get(name)) for name, B in ports.items()}


def _with_position(name: str, X: Any, boxes: Mapping[str, Any], zeta: np.ndarray) -> ExternalVelocity:
    """The port with a position, which has to agree with its velocity."""
    path, port = f"positions/{name}", boxes.get(f"b_{name}")
    if port is None:
        known = [box.removeprefix("b_") for box in boxes if box.startswith("b_")]
        raise ModelError(path, "no such port", f"one of {', '.join(known) or 'none'}")
    field, values = user_data.read(path, _function(path, X), zeta)
    size = port.quantity.space.dim
    user_data.require_shape(path, values, [(size,)] if size > 1 else [(), (1,)], f"({size},), the port's size")
    user_data.require_rate(path, field, boxes["kin"], port, zeta)
    return dataclasses.replace(port, X=field)


def _external_port(name: str, B: Data, zeta: np.ndarray, n: int, quantity: Quantity | None) -> ExternalVelocity:
    path = f"B/{name}"
    if checks.name(path, name) in JUNCTIONS:
        raise ModelError(path, f"the name {name}", f"a name other than {', '.join(JUNCTIONS)}")
    field, matrices = user_data.read(path, B, zeta)
    user_data.require_shape(path, matrices, [(n,), (n, None)], f"({n}, k) or ({n},), velocities by port")
    size = matrices[0].size // n
    quantity = quantity or relative_momentum(Rn(size))
    if quantity.space.dim != size:
        raise ModelError(f"quantities/{name}", str(quantity), f"one of dimension {size}")
    return ExternalVelocity(field, quantity, zeta.shape[1], n)
