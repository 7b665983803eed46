"""No constraint: all turns and travels."""

from jmbs.library.mechanics import checks
from jmbs.library.mechanics.joint_types.joint_type import JointType, Whole
from jmbs.lie import Free

FREE = JointType(
    "free",
    6,
    lambda geometry, array: Free(),
    whole=Whole((0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0), checks.pose_coordinates, "pose", ((3, 4, 5), (0, 1, 2))),
)
