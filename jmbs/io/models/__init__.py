"""Reading robot description files: URDF and MJCF."""

from jmbs.io.models.reader import ImportedModel, is_model, read_model
from jmbs.io.models.stiff import resolved_smoothing

__all__ = ["ImportedModel", "is_model", "read_model", "resolved_smoothing"]
