"""What is asked of XLA's compiler is what it knows, and what the user says of it holds."""

from __future__ import annotations

import os

import pytest

from jmbs.jaxext import compiler


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
    assert dict(compiler.quick_options(repeated)) == wanted


def test_programs_of_a_moment_ask_for_nothing_on_other_devices(monkeypatch):
    monkeypatch.setattr(compiler, "runs_on_cpu", lambda: False)
    assert compiler.quick_options(repeated=False) == ()
