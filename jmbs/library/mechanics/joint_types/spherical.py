"""All turns about a point."""

from jmbs.library.mechanics import checks
from jmbs.library.mechanics.joint_types.joint_type import JointType, Whole
from jmbs.lie import Spherical

SPHERICAL = JointType(
    "spherical",
    3,
    lambda geometry, array: Spherical(),
    whole=Whole((1.0, 0.0, 0.0, 0.0), checks.unit_quaternion, "unit quaternion", ((0, 1, 2),)),
)
