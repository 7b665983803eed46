"""MJCF's fixed tendons: lengths that are sums of joint coordinates, of which equalities make relations of joints."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import numpy as np

from jmbs.io.models.tree import ModelJoint, ModelRelation

_EFFECTS = ("stiffness", "stiffnesspoly", "damping", "dampingpoly", "frictionloss", "armature", "limited")
_FORM = "only linear ones of fixed tendons over two or more bodies' single joints are"


def tendon_gears(
    mujoco: Any, model: Any, names: list[str], joints: list[ModelJoint], notes: list[str]
) -> tuple[list[ModelRelation], set[int]]:
    """The relations that equalities of tendons make of joints, called `names`, that became `joints`, and the tendons
    that they bind; else a note.

    MuJoCo's `L1 - L1_0 = a0 + a1 (L2 - L2_0) + ...` counts from zero motion, as coordinates here do.
    """
    simple = {joint.name for joint in joints if joint.type in ("revolute", "prismatic")}
    made, bound = [], set[int]()
    for i in (i for i in range(model.neq) if model.eq_type[i] == mujoco.mjtEq.mjEQ_TENDON):
        name = model.eq(i).name or f"tendon{i}"
        if not model.eq_active0[i]:
            notes.append(f"equality {name}: inactive in the file, not simulated")
            continue
        offset, ratio, *higher = (float(a) for a in model.eq_data[i][:5])
        first, second = int(model.eq_obj1id[i]), int(model.eq_obj2id[i])
        tendons = {first: 1.0} | ({second: -ratio} if second >= 0 else {})
        coefficients = None if second >= 0 and any(higher) else _coefficients(mujoco, model, tendons, names)
        if coefficients is None or len(coefficients) < 2 or not simple.issuperset(joint for joint, _ in coefficients):
            notes.append(f"equality {name} (tendon): not simulated, {_FORM}")
            continue
        made.append(ModelRelation(name, coefficients, offset))
        bound |= tendons.keys()
        what = f"a gear of {len(coefficients)} joints"
        notes.append(f"equality {name}: simulated as {what}, exactly where MuJoCo's gives way a little")
    return made, bound


def tendon_notes(model: Any, bound: Collection[int]) -> Iterator[str]:
    """What tendons do beyond the relations that bind those of these numbers."""
    for i in range(model.ntendon):
        name = f"tendon {model.tendon(i).name or i}"
        own = [key for key in _EFFECTS if np.any(getattr(model, f"tendon_{key}")[i])]
        if i not in bound:
            yield f"{name}: not simulated"
        elif own:
            yield f"{name}: its {', '.join(own)}: not simulated"


def _coefficients(
    mujoco: Any, model: Any, tendons: dict[int, float], names: list[str]
) -> dict[tuple[str, int], float] | None:
    """Of each joint in the sum of fixed tendons with these factors, but zeros; None where one is not fixed."""
    sums: dict[tuple[str, int], float] = {}
    for tendon, factor in tendons.items():
        start = model.tendon_adr[tendon]
        for wrap in range(start, start + model.tendon_num[tendon]):
            if model.wrap_type[wrap] != mujoco.mjtWrap.mjWRAP_JOINT:
                return None
            end = names[model.wrap_objid[wrap]], 0
            sums[end] = sums.get(end, 0.0) + factor * float(model.wrap_prm[wrap])
    return {end: value for end, value in sums.items() if value}
