"""What an estimator with exact intervals would show in the same repeats: `python -m experiments.arm_payload.expected`.

The model is linearised at the truth, in plain numpy, by differences of the recursion in `newton_euler.py`: torques and
angles by the payload's mass, by friction and by the coefficients of both motions. Least squares of that, with the noise
that the repeats of `coverage.json` had, is of exact coverage; so where it misses, the noise did it. Writes
`expected.json`.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np

from experiments.arm_payload.newton_euler import Link, read_chain, torques
from experiments.arm_payload.run import (
    ANGLE_NOISE,
    ARM,
    FRICTION,
    HARMONICS,
    HERE,
    INERTIAL,
    JOINTS,
    PERIOD,
    REGULARISATION,
    TORQUE_NOISE,
    excitation,
)

NAMES = (f"{INERTIAL}[0]", *FRICTION)
NUISANCE = 9
"""Unknowns of the payload that are fitted too: its first moments and its inertia about the flange."""
UNKNOWNS = 1 + NUISANCE + 2 * len(JOINTS)
STEP = 1e-5


def main(out: Path = HERE) -> dict[str, dict[str, float]]:
    """By unknown, what such least squares show in the repeats, and how near the fits came to it."""
    coverage = json.loads((HERE / "coverage.json").read_text(encoding="utf-8"))
    chain, samples, recordings = read_chain(ARM), coverage["samples"], range(coverage["recordings"])
    ts = PERIOD / samples * np.arange(samples)
    parts = [_without_motion(_slopes(chain, ts, number)) for number in recordings]
    information = sum(normal for normal, _ in parts)
    deviations = np.sqrt(np.diag(np.linalg.inv(information)))
    z = []
    for repeat in range(coverage["repeats"]):
        pulls = [pull @ _noise(100 + repeat, number, samples) for number, (_, pull) in enumerate(parts)]
        z.append(np.linalg.solve(information, sum(pulls)) / deviations)
    of_interest = [0, *range(1 + NUISANCE, UNKNOWNS)]
    table: dict[str, dict[str, float]] = {}
    for name, deviation, values in zip(NAMES, deviations[of_interest], np.array(z).T[of_interest], strict=True):
        fitted = np.array(coverage["z"][name])
        table[name] = {
            "standard_error": float(deviation),
            "coverage": float(np.mean(np.abs(values) < 1.96)),
            "spread": float(np.std(values)),
            "spread_of_fits": float(np.std(fitted)),
            "correlation_with_fits": float(np.corrcoef(values, fitted)[0, 1]),
        }
    (out / "expected.json").write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")
    for name, row in table.items():
        print(f"{name:26s}" + "".join(f"{key} {value:.4g}  " for key, value in row.items()))
    return table


def _slopes(chain: list[Link], ts: np.ndarray, number: int) -> np.ndarray:
    """Derivatives of a recording's angles and torques over their noise by the arm's unknowns, then by the motion's."""
    rates = 2 * np.pi / PERIOD * np.arange(1, HARMONICS + 1)
    wave, slope, one = np.cos(ts[:, None] * rates), np.sin(ts[:, None] * rates), np.ones((len(ts), 1))
    basis = np.hstack([one, wave, slope])
    first = np.hstack([0 * one, -slope * rates, wave * rates])
    second = np.hstack([0 * one, -wave * rates**2, -slope * rates**2])
    coefficients = np.linalg.lstsq(basis, excitation(ts, number)[0], rcond=None)[0]

    def signals(arm: np.ndarray, motion: np.ndarray) -> np.ndarray:
        q, v, dv = (x @ motion.reshape(coefficients.shape) for x in (basis, first, second))
        tau = torques(_changed(chain, arm), q, v, dv, REGULARISATION)
        return np.hstack([q / ANGLE_NOISE, tau / np.asarray(TORQUE_NOISE)]).ravel()

    motion, still = coefficients.ravel(), np.zeros(UNKNOWNS)
    by_arm = _by_each(lambda arm: signals(arm, motion), still)
    return np.hstack([by_arm, _by_each(lambda motion: signals(still, motion), motion)])


def _by_each(function: Callable[[np.ndarray], np.ndarray], at: np.ndarray) -> np.ndarray:
    """The derivative by each entry, by central differences."""
    steps = STEP * np.eye(len(at))
    return np.stack([(function(at + step) - function(at - step)) / (2 * STEP) for step in steps], axis=1)


def _changed(chain: list[Link], arm: np.ndarray) -> list[Link]:
    """The chain with other friction, and other mass, first moments and inertia about its joint of the last link."""
    friction = arm[1 + NUISANCE :].reshape(-1, 2)
    links = [
        dataclasses.replace(link, viscous=link.viscous + viscous, coulomb=link.coulomb + coulomb)
        for link, (viscous, coulomb) in zip(chain, friction, strict=True)
    ]
    last, (xx, yy, zz, xy, xz, yz) = links[-1], arm[4 : 1 + NUISANCE]
    mass = last.mass + arm[0]
    centre = (last.mass * last.centre + arm[1:4]) / mass
    about_joint = last.inertia + last.mass * _steiner(last.centre) + [[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]
    inertia = about_joint - mass * _steiner(centre)
    return [*links[:-1], dataclasses.replace(last, mass=mass, centre=centre, inertia=inertia)]


def _steiner(r: np.ndarray) -> np.ndarray:
    return r @ r * np.eye(3) - np.outer(r, r)


def _without_motion(slopes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The information on the arm's unknowns with the motion's eliminated; and what noise pulls on them."""
    own, motion = slopes[:, :UNKNOWNS], slopes[:, UNKNOWNS:]
    rest = own - motion @ np.linalg.lstsq(motion, own, rcond=None)[0]
    return rest.T @ rest, rest.T


def _noise(seed: int, number: int, samples: int) -> np.ndarray:
    """That of `run.recording`, in standard deviations."""
    rng = np.random.default_rng([2, seed, number])
    pairs = [(rng.normal(size=samples), rng.normal(size=samples)) for _ in JOINTS]
    angles, forces = zip(*pairs, strict=True)
    return np.stack([*angles, *forces], axis=1).ravel()


if __name__ == "__main__":
    main()
