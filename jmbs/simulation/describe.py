"""A model in words: bodies, joints, degrees of freedom, loops, redundant constraints, assembly."""

from __future__ import annotations

from typing import TYPE_CHECKING

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from jmbs.ephs import Role
from jmbs.errors import AssemblyError
from jmbs.library.mechanics import FoundGear
from jmbs.linear import rank_tolerance
from jmbs.simulation.mechanics import component
from jmbs.simulation.misses import chosen_by_assembly
from jmbs.simulation.state import to_internal

if TYPE_CHECKING:
    from jmbs.simulation.model import Model


def describe(model: Model) -> str:
    """A description of several lines; says what assembly could not meet instead of raising."""
    layout, plan = model.layout, model.dae.plan
    parts = layout.parts
    lines = [f"{model.name}: {len(parts.bodies)} bodies, {len(parts.joints)} joints"]
    for body in parts.bodies:
        kind = {3: "particle of ", 5: "rod of "}.get(len(plan.slots[body.momentum]), "")
        mass = float(component(model.dae, body.kinetic).mass)
        lines.append(f"  body {body.name}: {kind}{mass:g} kg, on {body.group.name}")
    for joint in parts.joints:
        ends, k = f"{joint.parent} -> {joint.child}", joint.group.dim
        rotor = "" if joint.rotor is None else ", with rotor"
        lines.append(f"  joint {joint.name}: {joint.type}, {ends}, {k} free, {6 - k} constrained{rotor}")
    relations = {gear.name: f", {_relation(model, gear)}" for gear in parts.gears}
    for entry in parts.constraints:
        lines.append(f"  constraint {entry.name}: {len(entry.multipliers)} rows{relations.get(entry.name, '')}")
    lines += [f"  system {name}" for name in layout.systems]
    lines += [f"  element {name}" for name in (*(e.name for e in parts.elements), *parts.conductions)]
    lines += [f"  store {name}" for name in parts.stores]
    lines.append(f"loops: {len(parts.joints) - len(layout.placement.order)}")
    lines += _tree_lines(model)
    try:
        state = model.initial_state()
    except AssemblyError as error:
        lines.append(f"assembly: unmet; {error}")
        return "\n".join(lines)
    rank, total = constraint_rank(model, state)
    motions = _velocity_count(model)
    lines.append(f"degrees of freedom: {motions - rank}")
    lines.append(f"constraint rows: {total}, independent {rank}, redundant {total - rank}")
    loose = _rows_without_closure(model)
    if loose:
        lines.append(f"constraint rows on velocities alone: {loose}; positions along them follow from the initial data")
    lines.append(f"assembly: met to {_residual(model, state):.1e} (m, rad)")
    chosen = {name: model.layout.joint(name) for name in chosen_by_assembly(model)}
    if chosen:
        places = {name: joint.group.to_coordinates(state[joint.coordinates]) for name, joint in chosen.items()}
        where = ", ".join(f"{name} {' '.join(f'{x:.6g}' for x in np.asarray(q))}" for name, q in places.items())
        lines.append(f"branch: assembly chose {where}; a guess of q chooses another")
    lines.append(f"states: {', '.join(f'{len(b.junctions)} {b.label}' for b in plan.blocks)}")
    return "\n".join(lines)


def _relation(model: Model, gear: FoundGear) -> str:
    """The relation of a gear's coordinates: `2 wrist/pitch - 0.5 motor/angle = 0.1`."""
    found = component(model.dae, gear.name)
    names = {joint.joint: joint.q_names for joint in model.layout.coordinates}
    terms = [
        f"{'-' if c < 0 else '+'} {abs(c):g} {joint}/{names[joint][number]}"
        for c, (joint, number) in zip(np.asarray(found.coefficients), gear.ends, strict=True)
        if c
    ]
    return f"{' '.join(terms).removeprefix('+ ')} = {float(found.offset):g}"


def _tree_lines(model: Model) -> list[str]:
    """The spanning tree, body by body, indented by depth; what is evaluated together; what closes loops."""
    if model.tree is None:
        return [f"tree: none, since {model.without_tree}"] if model.layout.bodies else []
    tree = model.tree.tree
    joint_of = {body: name for group in tree.groups for name, body in zip(group.names, group.bodies, strict=True)}
    lines = [f"tree: {tree.n_velocities} velocities, depth {int(tree.forest.depth.max()) + 1}"]
    for i, body in enumerate(tree.bodies):
        lines.append(f"  {'  ' * int(tree.forest.depth[i])}{body} ({joint_of[i] or 'free'})")
    sizes = [f"{len(group.names)} on {group.space.name}" for group in tree.groups]
    lines.append(f"evaluated together: {', '.join(sizes)}; eliminated from the last body to the first")
    inside = set(joint_of.values())
    closing = [name for name in model.layout.joints if name not in inside]
    if closing:
        lines.append(f"loop joints: {', '.join(closing)}")
    blocks = model.tree.rows.blocks
    if blocks.size:
        shape = "in one block" if len(blocks) == 1 else f"in {len(blocks)} blocks, each coupled to its neighbours"
        lines.append(f"rows on the tree: {int((blocks >= 0).sum())} {shape}")
    return lines


def _rows_without_closure(model: Model) -> int:
    """Constraint rows that no position-level closure integrates: couplings of velocities, nonholonomic constraints."""
    plan = model.dae.plan
    closed = sum(c.multipliers.size for c in plan.closures) + sum(len(rows) for rows in plan.driven_rows.values())
    # A transformer kept as rows because its output has a storage only says what that storage's velocity is.
    definitions = sum(
        b.multipliers.size for b in plan.batches if b.role is Role.TRANSFORMER and (b.outputs < plan.n_stored).all()
    )
    return plan.n_rows - closed - definitions


def _velocity_count(model: Model) -> int:
    """Entries of all velocities that are stored or free: efforts of momenta, not of currents or voltages."""
    plan = model.dae.plan
    slots = [p.efforts.ravel() for b in plan.batches for p in b.ports if p.efforts is not None and _is_momentum(p)]
    known = np.unique(np.concatenate([np.zeros(0, dtype=int), *slots]))
    return int(np.sum(known < plan.n_stored + plan.n_free))


def _is_momentum(port) -> bool:
    return "momentum" in port.quantity


def constraint_rank(model: Model, state) -> tuple[int, int]:
    """Rank and number of the constraint rows at a state, columns scaled by nothing: efforts in SI units."""
    dae = model.dae

    @eqx.filter_jit
    def matrix(dae, x):
        return dae.constraint_matrix(jnp.zeros((), model.dtype), dae.structures(x))

    C = np.asarray(matrix(dae, to_internal(dae, state)))
    if C.size == 0:
        return 0, C.shape[0]
    singular = np.linalg.svd(C, compute_uv=False)
    return int(np.sum(singular > rank_tolerance(model.dtype) * singular.max(initial=0.0))), C.shape[0]


def _residual(model: Model, state) -> float:
    t0 = model.settings.t0
    closures = eqx.filter_jit(lambda dae, x: dae.closures(x, t=t0))(model.dae, to_internal(model.dae, state))
    return float(np.max(np.abs(np.asarray(closures)), initial=0.0))
