"""What is asked of XLA's compiler is what it knows, and what the user says of it holds."""

from __future__ import annotations

import os

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jmbs.jaxext import compiler

X = jnp.linspace(0.1, 2.0, 64).reshape(16, 4)


@pytest.mark.parametrize(
    ("given", "jaxlib", "wanted"),
    [
        ("", "0.10.2", "--xla_cpu_use_fusion_emitters=false"),
        ("--xla_cpu_use_fusion_emitters=true", "0.10.2", "--xla_cpu_use_fusion_emitters=true"),
        ("--other", "0.10.0", "--other --xla_cpu_use_fusion_emitters=false"),
        ("--other", "0.11.0", "--other"),
    ],
)
def test_quick_compiling_is_asked_for_where_it_is_known(monkeypatch, given, jaxlib, wanted):
    """What the user says of it holds."""
    monkeypatch.setenv("XLA_FLAGS", given)
    monkeypatch.setattr(compiler, "version", lambda package: jaxlib)
    compiler.ask_for_quick_compiling()
    assert os.environ["XLA_FLAGS"] == wanted


def test_programs_of_a_moment_are_what_others_are():
    def function(x, how):
        return how(jnp.cumsum(jnp.sin(x) @ x.T, axis=0))

    for repeated in (False, True):
        found = compiler.quick_to_compile(function, repeated=repeated)(X, jnp.tanh)
        np.testing.assert_allclose(found, jax.jit(function, static_argnums=1)(X, jnp.tanh), rtol=1e-14)


@pytest.mark.parametrize(
    ("flags", "jaxlib", "repeated", "wanted"),
    [
        ("", "0.10.2", False, {compiler.EMITTERS: False, compiler.LEVEL: 0}),
        ("", "0.10.2", True, {compiler.EMITTERS: False}),
        ("--xla_cpu_use_fusion_emitters=false", "0.10.2", True, {compiler.EMITTERS: False, compiler.LEVEL: 0}),
        ("", "0.11.0", False, {}),
    ],
)
def test_programs_of_a_moment_ask_for_what_is_known(monkeypatch, flags, jaxlib, repeated, wanted):
    monkeypatch.setenv("XLA_FLAGS", flags)
    monkeypatch.setattr(compiler, "version", lambda package: jaxlib)
    assert dict(compiler._quick_options(repeated)) == wanted


def test_programs_of_a_moment_ask_for_nothing_on_other_devices(monkeypatch):
    monkeypatch.setattr(compiler, "runs_on_cpu", lambda: False)
    assert compiler._quick_options(repeated=False) == ()
