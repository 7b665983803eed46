"""All types of joints, by name: a new one is a file of its own and its name here."""

from jmbs.library.mechanics.joint_types.composite import COMPOSITE
from jmbs.library.mechanics.joint_types.cylindrical import CYLINDRICAL
from jmbs.library.mechanics.joint_types.fixed import FIXED
from jmbs.library.mechanics.joint_types.free import FREE
from jmbs.library.mechanics.joint_types.joint_type import JointType, Key
from jmbs.library.mechanics.joint_types.planar import PLANAR
from jmbs.library.mechanics.joint_types.prismatic import PRISMATIC
from jmbs.library.mechanics.joint_types.revolute import REVOLUTE
from jmbs.library.mechanics.joint_types.screw import SCREW
from jmbs.library.mechanics.joint_types.spherical import SPHERICAL
from jmbs.library.mechanics.joint_types.universal import UNIVERSAL

_ALL = (FIXED, REVOLUTE, PRISMATIC, SCREW, CYLINDRICAL, PLANAR, SPHERICAL, UNIVERSAL, FREE, COMPOSITE)
JOINT_TYPES: dict[str, JointType] = {kind.name: kind for kind in _ALL}
JOINT_KEYS: dict[str, Key] = {key.name: key for kind in _ALL for key in kind.keys}
"""What configs may say of where joints' motions are, by key."""
