"""The joints that close loops, by kind, in the reference numbering."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np

from jmbs.by_value import by_value
from jmbs.constraints import Loops
from jmbs.ephs import FlatSystem, Plan
from jmbs.graphs import GROUND
from jmbs.lie import is_lower_pair
from jmbs.tree.recognise import JointParts, Recognised
from jmbs.tree.segments import Segment, segments


@by_value
@dataclasses.dataclass(frozen=True, eq=False)
class LoopGroup:
    """Loop joints of one kind.

    **Arguments:** their `constraint` components, and the offsets on their bodies, `first` and `second`; the `bodies`
    (n, 2) in the order of the tree, -1 for the ground; slots of the joints' `rates` (n, k); their `rows` (n, 6).
    """

    constraint: Segment
    first: tuple[Segment, ...]
    second: tuple[Segment, ...]
    bodies: np.ndarray
    rates: np.ndarray
    rows: np.ndarray


def loop_groups(plan: Plan, recognised: Recognised) -> tuple[LoopGroup, ...]:
    """The joints that the spanning tree leaves, but for those whose rate is given: these stay with the other rows."""
    joints = [recognised.joints[e] for e in recognised.tree.cut]
    kinds: dict[int, list[JointParts]] = {}
    for joint in joints:
        eliminated = all(plan.batches[plan.member_of[path][0]].level > 0 for path in (joint.before, joint.after))
        if eliminated and not joint.driven:
            kinds.setdefault(plan.member_of[joint.constraint][0], []).append(joint)
    place = np.argsort(recognised.tree.order)
    groups = []
    for batch, members in kinds.items():
        at = np.array([plan.member_of[j.constraint][1] for j in members])
        bodies = np.array([[place[end] if end != GROUND else GROUND for end in j.ends] for j in members])
        rates = np.stack([plan.slots[plan.junction_of[j.constraint, "p_r"]] for j in members])
        first, second = (
            segments([plan.member_of[path] for path in paths])
            for paths in zip(*((j.before, j.after) for j in members), strict=True)
        )
        groups.append(LoopGroup(Segment(batch, at), first, second, bodies, rates, plan.batches[batch].multipliers[at]))
    return tuple(groups)


def loops_of(groups: tuple[LoopGroup, ...]) -> Loops:
    """All groups, one after the other."""
    rates = np.concatenate([np.full(len(g.bodies), g.rates.shape[1]) for g in groups])
    joints = np.arange(len(rates))
    return Loops(np.concatenate([g.bodies for g in groups]), np.repeat(joints, 6 - rates), np.repeat(joints, rates))


def loop_elements(
    plan: Plan, recognised: Recognised, groups: tuple[LoopGroup, ...], kept: tuple[int, ...]
) -> tuple[tuple[int, np.ndarray], ...]:
    """By group, where the joints' elements are in the tree's state: block and rows."""
    joints = in_order(plan, recognised, groups)
    where = [plan.state_of[plan.junction_of[joint.constraint, "q_r"]] for joint in joints]
    count = np.cumsum([0, *(len(g.bodies) for g in groups)])
    by_group = [where[i:j] for i, j in itertools.pairwise(count)]
    return tuple((kept.index(part[0][0]), np.array([row for _, row in part])) for part in by_group)


def only_loops(
    flat: FlatSystem, plan: Plan, recognised: Recognised, groups: tuple[LoopGroup, ...], others: bool
) -> Loops | None:
    """The joints that close loops, where nothing but them and gears is constrained beyond the tree, and their tangents
    constant; None where `others` are constrained, or nothing."""
    joints = in_order(plan, recognised, groups)
    if others or all(joint.freedom == 6 for joint in joints):
        return None
    constant = all(is_lower_pair(flat.components[j.constraint].motion) for j in joints)
    return loops_of(groups) if constant else None


def in_order(plan: Plan, recognised: Recognised, groups: tuple[LoopGroup, ...]) -> list[JointParts]:
    """All joints of the groups, one group after the other."""
    joints = {j.constraint: j for j in (recognised.joints[e] for e in recognised.tree.cut)}
    return [joints[plan.batches[g.constraint.batch].paths[m]] for g in groups for m in g.constraint.members]
