"""The basic multibody system: two bodies and the joint between them, as one pattern of three boxes."""

from __future__ import annotations

from jmbs.ephs import System, pattern
from jmbs.library.mechanics.joint import joint_closure


def two_body_system(body1: System, body2: System, joint: System) -> System:
    """Bodies in boxes `b1`, `b2` and a joint in box `j`, which meet at the momentum junctions `p1` and `p2`.

    **Arguments:** two `rigid_body` systems and a `joint` between them; where a body is on SO(3)xR3 the joint's offset
    also reads its pose. The joint's actuation port is exposed as `p_r`, the bodies' momenta as `p1` and `p2`.
    """
    boxes = {"b1": body1, "b2": body2, "j": joint}
    junctions = {"p1": ["b1.p", "j.p1"], "p2": ["b2.p", "j.p2"], "q1": ["b1.q"], "q2": ["b2.q"], "p_r": ["j.p_r"]}
    for number in ("1", "2"):
        if f"q{number}" in joint.ports:
            junctions[f"q{number}"].append(f"j.q{number}")
    interfaces = {name: box.ports for name, box in boxes.items()}
    outer = ["p1", "p2", "p_r"]
    return System(pattern(interfaces, junctions, outer), boxes, closures=(joint_closure("j", "b1", "b2"),))
