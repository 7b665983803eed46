"""Environments as gymnasium's: its checker passes, and a batch is what single ones are."""

from __future__ import annotations

import sys

import gymnasium
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from learning.environments import environment

import jmbs
from jmbs import learning

MEMBERS = 3
ENV = environment()


@pytest.fixture(scope="module")
def single():
    return learning.GymnasiumEnv(ENV)


# The angles' rates have no bounds, and forces are in N: gymnasium recommends otherwise.
@pytest.mark.filterwarnings("ignore:.*infinity:UserWarning")
@pytest.mark.filterwarnings("ignore:.*action space:UserWarning")
def test_gymnasium_s_own_checker_passes(single):
    check_env(single, skip_render_check=True)


def test_a_batch_is_what_gymnasium_makes_of_single_ones(single):
    def another():
        env = learning.GymnasiumEnv(ENV)
        env._reset, env._step = single._reset, single._step
        return env

    same_step = gymnasium.vector.AutoresetMode.SAME_STEP
    ours = learning.GymnasiumVectorEnv(ENV, MEMBERS)
    theirs = gymnasium.vector.SyncVectorEnv([another] * MEMBERS, autoreset_mode=same_step)
    assert ours.metadata["autoreset_mode"] is same_step
    for name in ("observation_space", "action_space", "single_observation_space", "single_action_space", "num_envs"):
        assert getattr(ours, name) == getattr(theirs, name)
    first, expected = ours.reset(seed=3)[0], theirs.reset(seed=3)[0]
    assert first in ours.observation_space and np.allclose(first, expected, rtol=1e-12)
    ends, rng = 0, np.random.default_rng(0)
    for _ in range(6):
        actions = rng.uniform(-2.0, 2.0, (MEMBERS, 1))
        *seen, infos = ours.step(actions)
        *wanted, their_infos = theirs.step(actions)
        assert all(np.allclose(a, b, rtol=1e-10) for a, b in zip(seen, wanted, strict=True))
        assert [x.dtype for x in seen[:1] + seen[2:]] == [x.dtype for x in wanted[:1] + wanted[2:]]
        assert ("final_obs" in infos) == ("final_obs" in their_infos)
        if "final_obs" in infos:
            ended = infos["_final_obs"]
            ends += ended.sum()
            assert np.array_equal(ended, their_infos["_final_obs"])
            for i in np.flatnonzero(ended):
                assert np.allclose(infos["final_obs"][i], their_infos["final_obs"][i], rtol=1e-10)
                assert infos["final_info"]["steps"][i] == their_infos["final_info"]["steps"][i]
    assert ends >= MEMBERS
    assert not np.array_equal(ours.reset()[0], first) and np.array_equal(ours.reset(seed=3)[0], first)
    first[:] = 0.0
    assert ours.reset(seed=3)[0].any(), "arrays are the user's own"


def test_refusals(monkeypatch):
    with pytest.raises(jmbs.ModelError, match="num_envs: found 0"):
        learning.GymnasiumVectorEnv(ENV, 0)
    with pytest.raises(jmbs.ModelError, match="reset"):
        learning.GymnasiumEnv(ENV).step(np.zeros(1))
    with pytest.raises(jmbs.ModelError, match="observation: found a dict"):
        learning.GymnasiumEnv(environment(observation=lambda view: {"angle": jnp.sin(view.q["hinge"])}))
    with pytest.raises(jmbs.ModelError, match="reset/options: found reset_mask, wanted none"):
        learning.GymnasiumVectorEnv(ENV, 2).reset(options={"reset_mask": [True, False]})
    with pytest.raises(jmbs.ModelError, match=r"actions: found shape \(3, 1\), wanted \(2, 1\)"):
        learning.GymnasiumVectorEnv(ENV, 2).step(np.zeros((3, 1)))
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    with pytest.raises(jmbs.ModelError, match=r"no package gymnasium, wanted it installed: pip install 'jmbs\[rl\]'"):
        _ = learning.GymnasiumEnv
