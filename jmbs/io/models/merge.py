"""Merges links that fixed joints hold together into one rigid body, and gives each body its centre of mass."""

from __future__ import annotations

import dataclasses

import numpy as np

from jmbs.io.models.frames import inverse, make_pose
from jmbs.io.models.tree import GROUND, ModelGear, ModelJoint, ModelLink, ModelRelation, ModelTree


@dataclasses.dataclass(frozen=True, eq=False)
class MergedBody:
    """Links that move as one: the frame is that of `link`, the first of them; mass, centre and inertia as there."""

    link: ModelLink
    mass: float
    centre: np.ndarray
    inertia: np.ndarray


@dataclasses.dataclass(frozen=True, eq=False)
class Merged:
    """`bodies` by the name of their first link; `places`: for each link the body it is part of and its pose `(4, 4)`
    in that body's link frame; `joints`: the tree's joints that remain; `gears` between these."""

    bodies: dict[str, MergedBody]
    places: dict[str, tuple[str, np.ndarray]]
    joints: list[ModelJoint]
    gears: list[ModelGear | ModelRelation]


def merge(tree: ModelTree, keep_fixed: bool) -> Merged:
    """Merges along fixed joints; with `keep_fixed` only where a link has no mass to be a body with.

    What ends up fixed to the ground does not move: its mass plays no part, which is noted in the tree.
    """
    places: dict[str, tuple[str, np.ndarray]] = {GROUND: (GROUND, np.eye(4))}
    members: dict[str, list[str]] = {}
    joints = []
    for joint in tree.joints:
        home, place = places[joint.parent]
        has_body = home == GROUND or any(tree.links[name].mass > 0 for name in members[home])
        kept = keep_fixed and has_body and tree.links[joint.child].mass > 0
        if joint.type == "fixed" and not kept:
            places[joint.child] = (home, place @ joint.parent_frame @ inverse(joint.child_frame))
            members.setdefault(home, []).append(joint.child)
        else:
            places[joint.child] = (joint.child, np.eye(4))
            members[joint.child] = [joint.child]
            joints.append(joint)
    for name in members.pop(GROUND, []):
        if tree.links[name].mass > 0:
            tree.notes.append(
                f"link {name}: fixed to the ground, its mass of {tree.links[name].mass:g} kg has no effect"
            )
    bodies = {name: _body(tree, name, parts, places) for name, parts in members.items()}
    return Merged(bodies, places, joints, tree.gears)


def _body(tree: ModelTree, name: str, parts: list[str], places: dict[str, tuple[str, np.ndarray]]) -> MergedBody:
    """The sum of links: `m = sum m_k`, `c = sum m_k c_k / m`, `J = sum J_k + m_k (|d|^2 id - d d^T)`, `d = c_k - c`."""
    if len(parts) == 1:  # as the file gives it, without the rounding of sums
        link = tree.links[name]
        return MergedBody(link, link.mass, link.centre, link.inertia)
    links = [(tree.links[part], places[part][1]) for part in parts]
    mass = sum(link.mass for link, _ in links)
    centres = [(place @ make_pose(link.centre, np.eye(3)))[:3, 3] for link, place in links]
    weighted = sum((link.mass * centre for (link, _), centre in zip(links, centres, strict=True)), np.zeros(3))
    centre = weighted / mass if mass > 0 else np.zeros(3)
    inertia = np.zeros((3, 3))
    for (link, place), own in zip(links, centres, strict=True):
        turn, d = place[:3, :3], own - centre
        inertia += turn @ link.inertia @ turn.T + link.mass * (d @ d * np.eye(3) - np.outer(d, d))
    return MergedBody(tree.links[name], mass, centre, (inertia + inertia.T) / 2)
