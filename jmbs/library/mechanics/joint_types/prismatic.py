"""A travel along an axis."""

from jmbs.library.mechanics.joint_types.joint_type import with_axis
from jmbs.lie import Prismatic

PRISMATIC = with_axis("prismatic", 1, Prismatic)
