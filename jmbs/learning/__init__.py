"""Simulation inside of learning programs: environments, exchange with other frameworks, batches from sweeps."""

import typing

from jmbs.learning.actions import Actions
from jmbs.learning.environment import Episode, ModelEnvironment
from jmbs.learning.guarded import guarded
from jmbs.learning.sweep_batches import SweepBatches
from jmbs.learning.torch_exchange import from_torch, to_torch, torch_function

__all__ = [
    "Actions",
    "ModelEnvironment",
    "Episode",
    "SweepBatches",
    "from_torch",
    "guarded",
    "to_torch",
    "torch_function",
]


def __getattr__(name: str) -> typing.Any:
    # Classes of gymnasium's, so there are none where it is not installed.
    if name in ("GymnasiumEnv", "GymnasiumVectorEnv"):
        from jmbs.learning.extras import optional

        optional("gymnasium", "rl")
        from jmbs.learning import gymnasium_envs

        return getattr(gymnasium_envs, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
