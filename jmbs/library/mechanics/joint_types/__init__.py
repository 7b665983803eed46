"""The types of joints that configs know by name, a file for each."""

from jmbs.library.mechanics.joint_types.composite import MotionSpec
from jmbs.library.mechanics.joint_types.joint_type import Geometry, GeometryParameter, JointType, Key, Whole
from jmbs.library.mechanics.joint_types.registry import JOINT_KEYS, JOINT_TYPES

__all__ = ["Geometry", "GeometryParameter", "JOINT_KEYS", "JOINT_TYPES", "JointType", "Key", "MotionSpec", "Whole"]
