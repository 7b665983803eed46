"""Fused calls: a program of one member of a batch, translated to C, in which a GPU's thread computes one member."""

from jmbs.fused.cuda import fused_call
from jmbs.fused.flatten import Untranslatable
from jmbs.fused.interpreter import Options
from jmbs.fused.nvrtc import nvrtc_version
from jmbs.fused.translate import Kernel, translate

__all__ = ["Kernel", "Options", "Untranslatable", "fused_call", "nvrtc_version", "translate"]
