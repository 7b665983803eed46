"""The types of constraints on one body that configs know by name, a file for each."""

from jmbs.library.mechanics.constraint_types.constraint_type import ConstraintKey, ConstraintParameter, ConstraintType
from jmbs.library.mechanics.constraint_types.registry import CONSTRAINT_KEYS, CONSTRAINT_TYPES

__all__ = ["CONSTRAINT_KEYS", "CONSTRAINT_TYPES", "ConstraintKey", "ConstraintParameter", "ConstraintType"]
