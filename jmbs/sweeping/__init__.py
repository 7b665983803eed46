"""Sweeps: one model over many parameters, initial values and inputs, in a store that survives any kill."""

from jmbs.sweeping.designs import DESIGNS, SAMPLED
from jmbs.sweeping.distributions import KINDS
from jmbs.sweeping.keep import REDUCTIONS
from jmbs.sweeping.layout import OPEN, versions
from jmbs.sweeping.run import Sweeping, SweepPlan, SweepProgress
from jmbs.sweeping.shards import Shard, parse_shard
from jmbs.sweeping.store import ZarrStore, stored_attributes
from jmbs.sweeping.study import SweepStudy, make_study

__all__ = [
    "DESIGNS",
    "KINDS",
    "OPEN",
    "REDUCTIONS",
    "SAMPLED",
    "Shard",
    "SweepPlan",
    "SweepProgress",
    "SweepStudy",
    "Sweeping",
    "ZarrStore",
    "make_study",
    "parse_shard",
    "stored_attributes",
    "versions",
]
