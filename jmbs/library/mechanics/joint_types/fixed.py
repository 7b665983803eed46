"""A joint that does not move."""

from jmbs.library.mechanics.joint_types.joint_type import JointType
from jmbs.lie import Fixed

FIXED = JointType("fixed", 0, lambda geometry, array: Fixed())
