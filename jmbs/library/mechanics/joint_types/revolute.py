"""A turn about an axis."""

from jmbs.library.mechanics.joint_types.joint_type import with_axis
from jmbs.lie import Revolute

REVOLUTE = with_axis("revolute", 1, Revolute)
