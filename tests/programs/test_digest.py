"""What a traced program is known by: equal values have equal digests, others do not, code of the user's has none."""

from __future__ import annotations

import dataclasses
import functools
import subprocess
import sys

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jmbs.jaxext import without
from jmbs.linear import rank_tolerance, row_lengths
from jmbs.programs.digest import UnknownCode, digest_of, of_installation, settings
from jmbs.simulation.run_settings import Program
from jmbs.simulation.status import Status


def program(**changed) -> Program:
    fields = dict.fromkeys((field.name for field in dataclasses.fields(Program)), None)
    return Program(**{**fields, "audit": True, **changed})  # pyright: ignore[reportArgumentType]


DIFFERENT = [
    *(None, True, 1, 1.0, -0.0, 0.0, float("nan"), "1", b"1", (1,), [1], (1, (2,)), ((1, 2),), {"a": 1}, {1, 2}),
    *(slice(1), np.dtype(float), float, np.zeros(2), np.zeros(3), np.zeros((2, 1)), np.zeros(2, np.float32)),
    *(jnp.zeros(2, jnp.int32), jax.ShapeDtypeStruct((2,), float), jax.ShapeDtypeStruct((2,), float, weak_type=True)),
    *(row_lengths, rank_tolerance, functools.partial(row_lengths, 1), diffrax.Tsit5(), diffrax.Dopri5()),
    *(program(), program(steps=3), program(audit=False), Status.successful, Status.stiff),
]


def test_different_values_have_different_digests():
    digests = [digest_of(value) for value in DIFFERENT]
    assert len(set(digests)) == len(DIFFERENT)


def test_equal_values_have_equal_digests():
    assert digest_of((1.5, program(steps=2), np.arange(3))) == digest_of((3 / 2, program(steps=2), np.arange(3)))
    words = [f"word{number}" for number in range(20)]
    assert digest_of(set(words)) == digest_of(set(reversed(words)))


def test_digests_are_the_same_in_another_process():
    """Where hashes of text differ."""
    code = (
        "from jmbs.programs.digest import digest_of, of_installation\n"
        "import numpy as np; from jmbs.linear import row_lengths\n"
        "print(of_installation(), digest_of({'a', 'b', 'c'}, {'x': np.arange(3)}, row_lengths))"
    )
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert found == [of_installation(), digest_of({"c", "b", "a"}, {"x": np.arange(3)}, row_lengths)]


@functools.wraps(row_lengths)
def disguised(x):
    """A function of the user's that says it is another."""
    return 2 * row_lengths(x)


Made = dataclasses.make_dataclass("Made", ["value"])
bare: dict = {}
exec("def bare(x): ...\nclass Bare: ...", bare)


@dataclasses.dataclass
class Own:
    value: float


@pytest.mark.parametrize(
    "value",
    [
        Own(1.0),
        Own,
        program,
        disguised,
        Made(1),
        bare["bare"],
        bare["Bare"],
        lambda x: x,
        (1, [Own(2.0)]),
        object(),
        np.array([None]),
    ],
)
def test_what_may_be_other_code_in_another_process_has_none(value):
    with pytest.raises(UnknownCode):
        digest_of(value)


def test_settings_that_programs_depend_on_are_read(monkeypatch):
    before = settings()
    assert settings() == before
    with jax.default_matmul_precision("float32"):
        assert settings() != before
    monkeypatch.setenv("JMBS_FUSED", "1")
    assert settings() != before
    monkeypatch.delenv("JMBS_FUSED")
    assert settings() == before
    with without("one_kernel"):
        assert settings() != before
