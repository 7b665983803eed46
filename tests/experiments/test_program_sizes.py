"""No program grows unseen: operations of every shipped config's run stay below what was counted, and a tenth more."""

from __future__ import annotations

import json

import jax
import pytest
from mechanisms import chain

import jmbs
from experiments.benchmarks.program_sizes import CONFIGS, RESULT, count, sizes

COUNTED = json.loads(RESULT.read_text(encoding="utf-8"))["configs"]
FAST = ("pendulum",)
MOST = 1.1


def test_every_config_is_counted():
    assert set(COUNTED) == {path.stem for path in CONFIGS.glob("*.yaml")}


@pytest.mark.parametrize(
    "config", [pytest.param(name, marks=[pytest.mark.slow] * (name not in FAST)) for name in COUNTED]
)
def test_programs_stay_small(config: str):
    found = sizes(CONFIGS / f"{config}.yaml")
    grown = {column: (found[column], most) for column, most in COUNTED[config].items() if found[column] > MOST * most}
    assert not grown, "found, counted before; `python -m experiments.benchmarks.program_sizes` counts anew"


@pytest.mark.slow
def test_programs_do_not_grow_with_equal_bodies():
    """Chains of 16 and of 64 links. With fewer than ten, names are in the order of the links, and some look-ups are
    slices. The audit sums powers over joints in pairs, in one round more for twice as many.
    """

    def counted(links: int) -> list[int]:
        model = jmbs.compile(chain(links))
        state = jax.eval_shape(model.initial_state)
        run = lambda state, audit: jmbs.simulate(model, state, t1=0.1, dt=1e-3, solver="rk4", audit=audit)  # noqa: E731
        return [count(lambda state, audit=audit: run(state, audit).q.array, state) for audit in (False, True)]

    (plain, audited), (plain_later, audited_later) = counted(16), counted(64)
    assert plain == plain_later and audited <= audited_later < 1.01 * audited
