"""All types of constraints on one body, by name: a new one is a file of its own and its name here."""

from jmbs.library.mechanics.constraint_types.constraint_type import ConstraintKey, ConstraintType
from jmbs.library.mechanics.constraint_types.no_slide import NO_SLIDE
from jmbs.library.mechanics.constraint_types.perpendicular import PERPENDICULAR
from jmbs.library.mechanics.constraint_types.rolling import ROLLING

_ALL = (NO_SLIDE, ROLLING, PERPENDICULAR)
CONSTRAINT_TYPES: dict[str, ConstraintType] = {kind.name: kind for kind in _ALL}
CONSTRAINT_KEYS: dict[str, ConstraintKey] = {key.name: key for kind in _ALL for key in kind.keys}
"""What configs may say of such constraints, by key."""
