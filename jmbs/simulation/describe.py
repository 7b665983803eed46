"""A model in words: bodies, joints, degrees of freedom, loops, redundant constraints, assembly."""

from __future__ import annotations

from typing import TYPE_CHECKING

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from jmbs.ephs import Role
from jmbs.errors import AssemblyError
from jmbs.linear import rank_tolerance
from jmbs.simulation.state import to_internal

if TYPE_CHECKING:
    from jmbs.simulation.model import Model


def describe(model: Model) -> str:
    """A description of several lines; says what assembly could not meet instead of raising."""
    layout, plan = model.layout, model.dae.plan
    lines = [f"{model.name}: {len(layout.bodies)} bodies, {len(layout.joints)} joints"]
    for name, group in zip(layout.bodies, layout.groups, strict=True):
        mass = float(model.parameters()[f"{name}/mass"]["value"])
        entries = len(plan.slots[plan.junction_of[f"{name}/ke", "p"]])
        kind = {3: "particle of ", 5: "rod of "}.get(entries, "")
        lines.append(f"  body {name}: {kind}{mass:g} kg, on {group.name}")
    dims = {entry.joint: len(entry.v_names) for entry in layout.coordinates}
    ends = zip(layout.joints, layout.types, layout.parents, layout.children, strict=True)
    for name, kind, parent, child in ends:
        k = dims.get(name, 0)
        lines.append(f"  joint {name}: {kind}, {parent} -> {child}, {k} free, {6 - k} constrained")
    lines += [f"  constraint {name}: {len(rows)} rows" for name, _, rows in layout.constraints]
    lines += [f"  system {name}" for name in layout.systems]
    lines += [f"  element {name}" for name in (*layout.elements, *layout.conductions)]
    lines += [f"  store {name}" for name in layout.stores]
    loops = len(layout.joints) - len(layout.placement.order) if layout.placement is not None else 0
    lines.append(f"loops: {loops}")
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
    lines.append(f"states: {', '.join(f'{len(b.junctions)} {b.label}' for b in plan.blocks)}")
    return "\n".join(lines)


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
    closures = eqx.filter_jit(lambda dae, x: dae.closures(x))(model.dae, to_internal(model.dae, state))
    return float(np.max(np.abs(np.asarray(closures)), initial=0.0))
