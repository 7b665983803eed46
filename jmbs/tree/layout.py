"""Where the tree's joints, bodies and what acts on them stand in the reference numbering and in the tree's own state.

The tree's state has the blocks of the reference plan without the bodies' poses and momenta, then the poses of bodies
that no joint leads to (`roots`), then all velocities.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

import numpy as np

from jmbs.by_value import by_value
from jmbs.constraints import Loops, RowPlan
from jmbs.ephs import Block, FlatSystem, Plan, follows
from jmbs.library.mechanics import Ground
from jmbs.lie import SE3, Rn, is_lower_pair
from jmbs.rigid_body import JointGroup, Tree
from jmbs.tree.alone import Alone, tree_alone
from jmbs.tree.friction import FrictionSource, friction_sources
from jmbs.tree.gear_rows import GearRows, gear_rows
from jmbs.tree.loop_groups import LoopGroup, loop_elements, loop_groups, only_loops
from jmbs.tree.recognise import Recognised
from jmbs.tree.rotors import Rotors, known_rotors
from jmbs.tree.row_plan import row_plan
from jmbs.tree.segments import Segment, segments
from jmbs.tree.springs import SpringSource, spring_sources


@by_value
@dataclasses.dataclass(frozen=True, eq=False)
class GroupSource:
    """Where the parameters and coordinates of a group of joints are: constraints and offsets, joint by joint.

    `block`, `rows`: elements in the tree's state; `one_parameter`: see `OneParameterJoints`. A group of free bodies has
    no components: `constraints` is empty.
    """

    constraints: tuple[Segment, ...]
    before: tuple[Segment, ...]
    after: tuple[Segment, ...]
    reversed: np.ndarray
    one_parameter: bool
    block: int
    rows: np.ndarray


@by_value
@dataclasses.dataclass(frozen=True, eq=False)
class Layout:
    """See the module's docstring.

    **Arguments:**

    - `tree`; `sources` of its groups; `mass`, `inertia`, `weight`: where bodies' parameters are.
    - `blocks` of the tree's state, tangents at `n` slots; `kept`: which blocks of the reference plan come first;
      `kept_slots`: their slots there. `poses`, `momenta`: block and rows of all bodies in the reference state.
    - `body_slots` (N, 6), `rate_slots` (n_v,): efforts of bodies and of velocities in the reference numbering;
      `spring_slots`: efforts of joint springs, on the velocities `sprung`; `law_slots` (n, 6): efforts of potentials
      by users' laws, weight with them, on the bodies `lawful`; `own_slots`: those of bodies' poses and of
      joint coordinates, whose rates velocities alone give.
    - `velocity_source`: where each entry of the state's rate comes from among velocities, their rates, entropy
      production of known friction, and the kept blocks' own rates.
    - `jointed` (n_v,): whether a velocity is a joint's, and not a free body's.
    - `rotors`, None without any, `friction` and `springs` of tree joints; `driven`: the velocities that a drive acts
      on, by port, where these are the tree's. `production_source`: places of known and of other production.
    - `others`: batches that the reference semantics evaluates; none where there would be the ground alone.
      `alone`: None unless these are none but the ground, `springs`, gears and loop joints; then what is known of the
      latter, for the classes of `joint_tree.py`.
    - `reactions` (m, 6): multipliers of the tree's joints; the bodies that they hold, `reacting`, whether these are the
      joints' first bodies, `reaction_reversed`, and the joints' frames on their second bodies, `reaction_frames`.
    - `loops`: joints that close loops, by kind; `loop_elements`: block and rows of theirs in the tree's state.
      `other_rows`: constraint rows that are not the tree's, theirs among them; `free_slots`, `general_rows`: unknown
      efforts and rows that are neither the tree's nor theirs; `rows`: how all these are coupled.
    - `only_loops`: these joints, where nothing but them and gears constrains; `only_gears`: gears, where nothing but
      them and these joints constrains; else None.
    """

    tree: Tree
    sources: tuple[GroupSource, ...]
    energies: tuple[Segment, ...]
    weights: tuple[Segment, ...]
    blocks: tuple[Block, ...]
    n: int
    kept: tuple[int, ...]
    kept_slots: np.ndarray
    poses: tuple[int, np.ndarray]
    momenta: tuple[int, np.ndarray]
    body_slots: np.ndarray
    rate_slots: np.ndarray
    spring_slots: np.ndarray
    sprung: np.ndarray
    lawful: np.ndarray
    law_slots: np.ndarray
    own_slots: np.ndarray
    velocity_source: np.ndarray
    jointed: np.ndarray
    rotors: Rotors | None
    friction: tuple[FrictionSource, ...]
    springs: tuple[SpringSource, ...]
    driven: dict[str, np.ndarray]
    production_source: np.ndarray
    others: tuple[int, ...]
    alone: Alone | None
    reactions: np.ndarray
    reacting: np.ndarray
    reaction_reversed: np.ndarray
    reaction_frames: tuple[Segment, ...]
    loops: tuple[LoopGroup, ...]
    loop_elements: tuple[tuple[int, np.ndarray], ...]
    free_slots: np.ndarray
    other_rows: np.ndarray
    general_rows: np.ndarray
    rows: RowPlan
    only_loops: Loops | None
    only_gears: GearRows | None


def make_layout(flat: FlatSystem, plan: Plan, recognised: Recognised) -> Layout:
    """The layout of a recognised system that was planned with its known components apart."""
    bodies = [recognised.bodies[b] for b in recognised.tree.order]
    joints = [recognised.joints[e] if e >= 0 else None for e in recognised.tree.edge]
    freedom = np.array([6 if j is None else j.freedom for j in joints], dtype=int)
    start = np.cumsum(freedom) - freedom
    rotors = known_rotors(plan, recognised, joints, start)
    kept, blocks, n = _blocks(plan, bodies, joints, rotors)
    groups, sources = _groups(flat, plan, recognised, joints, start, kept)
    tree = Tree(tuple(b.energy.removesuffix("/ke") for b in bodies), recognised.tree.forest, groups)
    where = lambda path, port: plan.state_of[plan.junction_of[path, port]]  # noqa: E731
    pose = [where(b.potential, "q") for b in bodies]
    momentum = [where(b.energy, "p") for b in bodies]
    body_slots = np.stack([plan.slots[plan.junction_of[b.energy, "p"]] for b in bodies])
    rate_slots = _rate_slots(plan, joints, body_slots)
    jointed = np.isin(rate_slots, body_slots, invert=True)
    sprung, spring_slots = _springs(plan, joints, start)
    lawful = np.array([i for i, b in enumerate(bodies) if b.lawful], dtype=int)
    law_slots = [plan.slots[plan.junction_of[bodies[i].potential, "q"]] for i in lawful]
    friction, entropies = friction_sources(plan, joints, start)
    others = _others(flat, plan, recognised)
    springs = spring_sources(plan, joints, start, kept)
    known = recognised.known.union(*(plan.batches[source.batch].paths for source in springs))
    beside = [p for i in others for p in plan.batches[i].paths if p not in known]
    kept_slots = _joined([np.arange(plan.blocks[k].slots.start, plan.blocks[k].slots.stop) for k in kept])
    member = lambda path: plan.member_of[path]  # noqa: E731
    reacting = np.array([i for i, j in enumerate(joints) if j is not None], dtype=int)
    on = [j for j in joints if j is not None]
    reactions = [plan.batches[b].multipliers[m] for b, m in (member(j.constraint) for j in on)]
    loops = loop_groups(plan, recognised)
    own_rows = _joined([*reactions, *(() if rotors is None else (rotors.rows,))])
    other_rows = np.setdiff1d(np.arange(plan.n_rows), own_rows)
    general_rows = np.setdiff1d(other_rows, _joined([g.rows for g in loops]))
    free = np.arange(plan.n_stored, plan.n_stored + plan.n_free)
    free_slots = np.setdiff1d(free, _joined([rate_slots, *(g.rates for g in loops)]))
    gears = gear_rows(flat, plan, recognised, rate_slots, general_rows, kept)
    closed = only_loops(flat, plan, recognised, loops, general_rows.size > 0 and gears is None)
    dense = free_slots.size > 0 or any(i in plan.constrained_blocks for i in kept)
    return Layout(
        tree=tree,
        sources=sources,
        energies=segments([member(b.energy) for b in bodies]),
        weights=segments([member(b.potential) for b in bodies]),
        blocks=blocks,
        n=n,
        kept=kept,
        kept_slots=kept_slots,
        poses=(pose[0][0], np.array([r for _, r in pose])),
        momenta=(momentum[0][0], np.array([r for _, r in momentum])),
        body_slots=body_slots,
        rate_slots=rate_slots,
        spring_slots=spring_slots,
        sprung=sprung,
        lawful=lawful,
        law_slots=np.array(law_slots, dtype=int).reshape(-1, 6),
        own_slots=_own_slots(plan, bodies, on),
        velocity_source=_velocity_source(plan, joints, start, freedom, kept_slots, blocks, entropies, n),
        jointed=jointed,
        rotors=rotors,
        friction=friction,
        springs=springs,
        driven=_driven(plan, rate_slots),
        production_source=_production_source(plan, friction, others),
        others=others,
        alone=tree_alone(flat, plan, recognised, loops, beside, kept_slots),
        reactions=np.array(reactions, dtype=int).reshape(-1, 6),
        reacting=reacting,
        reaction_reversed=recognised.tree.reversed[reacting],
        reaction_frames=segments([member(j.after) for j in on]),
        loops=loops,
        loop_elements=loop_elements(plan, recognised, loops, kept),
        free_slots=free_slots,
        other_rows=other_rows,
        general_rows=general_rows,
        rows=row_plan(plan, tree, loops, body_slots, rate_slots, jointed, general_rows, dense),
        only_loops=closed,
        only_gears=gears,
    )


def _joined(parts: Iterable[np.ndarray]) -> np.ndarray:
    """All entries one after the other; of none an empty array of integers."""
    return np.concatenate([np.zeros(0, int), *(part.ravel() for part in parts)])


def _rate_slots(plan: Plan, joints, body_slots: np.ndarray) -> np.ndarray:
    """Efforts of all velocities: of joints, and of bodies that no joint leads to."""
    own = lambda i, j: body_slots[i] if j is None else plan.slots[plan.junction_of[j.constraint, "p_r"]]  # noqa: E731
    return np.concatenate([own(i, joint) for i, joint in enumerate(joints)])


def _springs(plan: Plan, joints, start) -> tuple[np.ndarray, np.ndarray]:
    """The velocities on which joint springs act, and the springs' efforts."""
    springs = [(i, j) for i, j in enumerate(joints) if j is not None and j.empty is None and j.freedom]
    sprung = _joined([start[i] + np.arange(j.freedom) for i, j in springs])
    return sprung, _joined([plan.slots[plan.junction_of[j.constraint, "q_r"]] for _, j in springs])


def _own_slots(plan: Plan, bodies, joints) -> np.ndarray:
    """Slots of the bodies' poses and of the joints' coordinates."""
    places = [(b.potential, "q") for b in bodies] + [(j.constraint, "q_r") for j in joints]
    return _joined([plan.slots[plan.junction_of[place]] for place in places])


def _driven(plan: Plan, rate_slots: np.ndarray) -> dict[str, np.ndarray]:
    """The velocities that a drive acts on, by port, where these are the tree's."""
    place = {int(slot): i for i, slot in enumerate(rate_slots)}
    return {
        port: np.array([place[int(s)] for s in slots], dtype=int)
        for port, slots in plan.drive_slots.items()
        if all(int(s) in place for s in slots)
    }


def _others(flat: FlatSystem, plan: Plan, recognised: Recognised) -> tuple[int, ...]:
    """Batches that the reference semantics evaluates; none where there would be the ground alone."""
    others = tuple(i for i, b in enumerate(plan.batches) if not recognised.known.issuperset(b.paths))
    resting = all(follows(flat.components[p], Ground) for i in others for p in plan.batches[i].paths)
    return () if resting else others


def _blocks(plan: Plan, bodies, joints, rotors: Rotors | None) -> tuple[tuple[int, ...], tuple[Block, ...], int]:
    """Blocks of the reference plan that stay, and all blocks of the tree's state with their slots."""
    gone = {plan.state_of[plan.junction_of[b.energy, "p"]][0] for b in bodies}
    gone |= {plan.state_of[plan.junction_of[b.potential, "q"]][0] for b in bodies}
    gone |= set() if rotors is None else {block for block, _ in rotors.blocks}
    kept = tuple(i for i in range(len(plan.blocks)) if i not in gone)
    roots = tuple(b.potential.removesuffix("/pe") for b, j in zip(bodies, joints, strict=True) if j is None)
    n_v = sum(6 if j is None else j.freedom for j in joints)
    parts: list[tuple[str, Any, tuple[str, ...], bool, bool]] = [
        (b.label, b.space, b.junctions, b.environment, b.from_effort) for b in (plan.blocks[i] for i in kept)
    ]
    if roots:
        parts.append(("pose of free bodies", SE3, roots, False, False))
    parts.append(("velocities", Rn(n_v), ("velocities",), False, False))
    blocks, start = [], 0
    for label, space, names, environment, from_effort in parts:
        stop = start + space.dim * len(names)
        blocks.append(Block(label, space, names, slice(start, stop), environment, from_effort))
        start = stop
    return kept, tuple(blocks), start


def _groups(flat, plan, recognised, joints, start, kept) -> tuple[tuple[JointGroup, ...], tuple[GroupSource, ...]]:
    keyed: dict[Any, list[int]] = {}
    for i, joint in enumerate(joints):
        if joint is None:
            keyed.setdefault("roots", []).append(i)
            continue
        motion = flat.components[joint.constraint].motion
        simple = is_lower_pair(motion) and motion.group == Rn(1)
        batch = plan.member_of[joint.constraint][0]
        keyed.setdefault("one" if simple else (batch, bool(recognised.tree.reversed[i])), []).append(i)
    groups, sources = [], []
    for key, members in keyed.items():
        bodies = np.array(members)
        own = [joints[i] for i in members]
        backwards = recognised.tree.reversed[bodies]
        if key == "roots":
            space, block, rows = SE3, len(kept), np.arange(len(members))
        else:
            space = flat.components[own[0].constraint].motion.group
            where = [plan.state_of[plan.junction_of[j.constraint, "q_r"]] for j in own]
            block, rows = kept.index(where[0][0]), np.array([r for _, r in where])
        of = lambda paths: segments([plan.member_of[p] for p in paths])  # noqa: E731
        parts = [] if key == "roots" else own
        # A joint with one parameter that is walked backwards is the same motion between exchanged frames.
        flip = key == "one"
        before = [j.after if flip and r else j.before for j, r in zip(parts, backwards, strict=False)]
        after = [j.before if flip and r else j.after for j, r in zip(parts, backwards, strict=False)]
        constraints = of([j.constraint for j in parts])
        names = tuple("" if j is None else j.constraint.removesuffix("/hc") for j in own)
        velocities = start[bodies][:, None] + np.arange(space.dim)[None, :]
        groups.append(JointGroup(names, bodies, velocities, space))
        sources.append(GroupSource(constraints, of(before), of(after), backwards, flip, block, rows))
    return tuple(groups), tuple(sources)


def _velocity_source(plan, joints, start, freedom, kept_slots, blocks, entropies, n) -> np.ndarray:
    n_v, n_known = int(freedom.sum()), len(entropies)
    source = np.zeros(n, dtype=int)
    rate_of = {}
    for i, joint in enumerate(joints):
        if joint is not None:
            slots = plan.slots[plan.junction_of[joint.constraint, "q_r"]]
            rate_of.update({int(s): start[i] + k for k, s in enumerate(slots)})
    for place, slot in enumerate(kept_slots):
        if slot in rate_of:
            source[place] = rate_of[slot]
        elif slot in entropies:
            source[place] = 2 * n_v + entropies[slot]
        else:
            source[place] = 2 * n_v + n_known + place
    place = len(kept_slots)
    for i, joint in enumerate(joints):
        if joint is None:
            source[place : place + 6] = start[i] + np.arange(6)
            place += 6
    source[place:] = n_v + np.arange(n_v)
    return source


def _production_source(plan: Plan, friction, others) -> np.ndarray:
    """Where the production of each irreversible component is, among that of known friction and then of the others."""
    known = [p for source in friction for p in source.productions]
    places = {path: n for n, path in enumerate(plan.irreversible)}
    rest = [places[p] for i, b in enumerate(plan.batches) if i in others for p in b.paths if p in places]
    return np.argsort(np.array([*known, *rest], dtype=int))
