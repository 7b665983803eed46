"""Reading robot description files: URDF and MJCF."""

from jmbs.io.models.reader import ImportedModel, is_model, read_model

__all__ = ["ImportedModel", "is_model", "read_model"]
