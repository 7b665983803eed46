"""A turn about an axis and a travel along it."""

from jmbs.library.mechanics.joint_types.joint_type import with_axis
from jmbs.lie import Cylindrical

CYLINDRICAL = with_axis("cylindrical", 2, Cylindrical)
