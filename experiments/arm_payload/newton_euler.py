"""Torques of an arm along a motion by the recursion of Newton and Euler, from its URDF, in plain numpy."""

from __future__ import annotations

import dataclasses
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np

GRAVITY = np.array([0.0, 0.0, -9.80665])


@dataclasses.dataclass(frozen=True)
class Link:
    """A link that turns about the z axis of its joint: where that stands in the parent, `rotation` and `origin`; mass,
    centre of mass and inertia about it, in the link's axes; friction of the joint, N m s/rad and N m."""

    joint: str
    rotation: np.ndarray
    origin: np.ndarray
    mass: float
    centre: np.ndarray
    inertia: np.ndarray
    viscous: float
    coulomb: float


def read_chain(file: Path) -> list[Link]:
    """The moving links of a chain from its base to its end; what is fixed to the last one becomes part of it."""
    root = ElementTree.parse(file).getroot()
    bodies = {link.get("name"): _inertial(link) for link in root.iter("link")}
    chain: list[Link] = []
    for joint in root.iter("joint"):
        origin = _element(joint, "origin")
        at, turned = _numbers(origin.get("xyz", "0 0 0")), _rotation(_numbers(origin.get("rpy", "0 0 0")))
        body = bodies[_element(joint, "child").get("link")]
        if joint.get("type") == "fixed":
            mass, centre, inertia = _moved(body, turned, at)
            last = chain[-1]
            joined = _joined((last.mass, last.centre, last.inertia), (mass, centre, inertia))
            chain[-1] = dataclasses.replace(last, mass=joined[0], centre=joined[1], inertia=joined[2])
            continue
        dynamics = _element(joint, "dynamics").attrib
        friction = float(dynamics["damping"]), float(dynamics["friction"])
        chain.append(Link(str(joint.get("name")), turned, at, *body, *friction))
    return chain


def torques(chain: list[Link], q: np.ndarray, v: np.ndarray, dv: np.ndarray, regularisation: float) -> np.ndarray:
    """Those (n, k), N m, that move the joints by angles, rates and accelerations (n, k); dry friction is
    `coulomb tanh(v / regularisation)`."""
    n, axis = len(q), np.array([0.0, 0.0, 1.0])
    spin, rate, lift = np.zeros((n, 3)), np.zeros((n, 3)), np.broadcast_to(-GRAVITY, (n, 3))
    wrenches, turns = [], []
    for i, link in enumerate(chain):
        turn = link.rotation @ _about_z(q[:, i])
        lift = lift + np.cross(rate, link.origin) + np.cross(spin, np.cross(spin, link.origin))
        spin, rate, lift = (_into(turn, x) for x in (spin, rate, lift))
        rate = rate + np.cross(spin, v[:, i, None] * axis) + dv[:, i, None] * axis
        spin = spin + v[:, i, None] * axis
        force = link.mass * (lift + np.cross(rate, link.centre) + np.cross(spin, np.cross(spin, link.centre)))
        moment = rate @ link.inertia + np.cross(spin, spin @ link.inertia) + np.cross(link.centre, force)
        wrenches.append((force, moment))
        turns.append(turn)
    found = np.zeros_like(q)
    force, moment = np.zeros((n, 3)), np.zeros((n, 3))
    for i in reversed(range(len(chain))):
        force, moment = force + wrenches[i][0], moment + wrenches[i][1]
        found[:, i] = moment[:, 2]
        force, moment = _out_of(turns[i], force), _out_of(turns[i], moment)
        moment = moment + np.cross(chain[i].origin, force)
    friction = [(link.viscous, link.coulomb) for link in chain]
    viscous, coulomb = np.array(friction).T
    return found + viscous * v + coulomb * np.tanh(v / regularisation)


def _element(parent: ElementTree.Element, name: str) -> ElementTree.Element:
    found = parent.find(name)
    if found is None:
        raise ValueError(f"{parent.tag} {parent.get('name')} has no {name}")
    return found


def _numbers(text: str) -> np.ndarray:
    return np.array([float(number) for number in text.split()])


def _inertial(link: ElementTree.Element) -> tuple[float, np.ndarray, np.ndarray]:
    inertial = link.find("inertial")
    if inertial is None:
        return 0.0, np.zeros(3), np.zeros((3, 3))
    moments = _element(inertial, "inertia").attrib
    xx, yy, zz, xy, xz, yz = (float(moments[f"i{name}"]) for name in ("xx", "yy", "zz", "xy", "xz", "yz"))
    centre = _numbers(_element(inertial, "origin").get("xyz", "0 0 0"))
    inertia = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    return float(_element(inertial, "mass").get("value", "nan")), centre, inertia


def _rotation(rpy: np.ndarray) -> np.ndarray:
    (cr, cp, cy), (sr, sp, sy) = np.cos(rpy), np.sin(rpy)
    roll = np.array([[1, 0, 0], [0, cr, -sr], [0, sr, cr]])
    pitch = np.array([[cp, 0, sp], [0, 1, 0], [-sp, 0, cp]])
    return np.array([[cy, -sy, 0], [sy, cy, 0], [0, 0, 1]]) @ pitch @ roll


def _about_z(angle: np.ndarray) -> np.ndarray:
    c, s, zero, one = np.cos(angle), np.sin(angle), np.zeros_like(angle), np.ones_like(angle)
    rows = [np.stack(row, axis=1) for row in ((c, -s, zero), (s, c, zero), (zero, zero, one))]
    return np.stack(rows, axis=1)


def _into(turn: np.ndarray, x: np.ndarray) -> np.ndarray:
    return np.einsum("nij,ni->nj", turn, np.broadcast_to(x, (len(turn), 3)))


def _out_of(turn: np.ndarray, x: np.ndarray) -> np.ndarray:
    return np.einsum("nij,nj->ni", turn, x)


def _moved(body, turned: np.ndarray, at: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    mass, centre, inertia = body
    return mass, at + turned @ centre, turned @ inertia @ turned.T


def _joined(first, second) -> tuple[float, np.ndarray, np.ndarray]:
    mass = first[0] + second[0]
    centre = (first[0] * first[1] + second[0] * second[1]) / mass
    inertia = np.zeros((3, 3))
    for m, c, about in (first, second):
        d = c - centre
        inertia += about + m * (d @ d * np.eye(3) - np.outer(d, d))
    return mass, centre, inertia
