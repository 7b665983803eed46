"""Fused calls in programs for CUDA devices: one call of a kernel, or the plain program and a line that says why.

No device is needed: kernels run thread by thread on a CPU, and programs are lowered and not compiled.
"""

from __future__ import annotations

import logging
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fused.emulated import emulated, needs_compiler

import jmbs
from jmbs.fused import cuda, nvrtc
from jmbs.fusing import fused

MEMBERS = np.linspace(-1.0, 2.0, 70).reshape(35, 2)
RATE = np.array([0.7, 1.3])
STEPS = 90
"""More entries than a small array has."""


def rolled(x, rate, whole):
    """A loop with a value of every step, an array without entries, an integer and a flag."""

    def step(carry, _):
        return carry + 0.01 * jnp.sin(rate * carry), carry

    final, along = jax.lax.scan(step, x, None, length=STEPS)
    return {"final": final, "along": along, "empty": along[:0], "whole": whole + 1, "flag": final[0] > 0.5}


def batch(x, rate, whole):
    return jax.vmap(lambda x, whole: fused(rolled, x, rate, whole), (0, 0))(x, whole)


def plain(x, rate, whole):
    return jax.vmap(lambda x, whole: rolled(x, rate, whole), (0, 0))(x, whole)


def loss(function):
    def total(x, rate, whole):
        values = function(x, rate, whole)
        return (values["final"] ** 2).sum() + values["along"].sum()

    return total


@needs_compiler
def test_kernels_say_what_the_function_says(monkeypatch):
    args = MEMBERS, RATE, np.arange(35)
    found, wanted = emulated(monkeypatch, batch, *args), jax.jit(plain)(*args)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-13), found, wanted)


@needs_compiler
def test_and_its_gradient(monkeypatch):
    """By members, and by what they share."""
    args = MEMBERS, RATE, np.arange(35)
    found = emulated(monkeypatch, jax.grad(loss(batch), (0, 1)), *args)
    wanted = jax.jit(jax.grad(loss(plain), (0, 1)))(*args)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-11), found, wanted)


@needs_compiler
def test_two_axes_of_members(monkeypatch):
    def both(batch):
        return lambda x, rates: jax.vmap(lambda rate: batch(x, rate, jnp.zeros(35, int))["along"])(rates)

    rates = np.stack([RATE, 2 * RATE, -RATE])
    np.testing.assert_allclose(
        emulated(monkeypatch, both(batch), MEMBERS, rates), jax.jit(both(plain))(MEMBERS, rates), rtol=1e-13
    )


@pytest.fixture
def lowered(monkeypatch):
    """Lowers a function for CUDA devices; PTX is a stand-in, which says what it was made of."""
    monkeypatch.setattr(cuda, "ptx", lambda source: f"// {len(source)} bytes")
    monkeypatch.setenv("JMBS_FUSED", "1")

    def text(function, *args) -> str:
        return jax.jit(function).trace(*args).lower(lowering_platforms=("cuda",)).as_text()

    return text


def test_a_batch_is_one_call(lowered):
    text = lowered(lambda *args: batch(*args), MEMBERS, RATE, np.arange(35))
    assert text.count(cuda.TARGET) == 1 and "stablehlo.while" not in text
    assert "callback" not in text
    (layouts,) = re.findall(r"result_layouts = \[(.*?)\]}", text)
    # The members' axis is the innermost, in packed results and in large ones.
    places = re.findall(r"dense<\[(.*?)\]>", layouts)
    assert places and all(axes.split(", ")[0] == "0" for axes in places)


def test_a_gradient_is_two_and_nothing_turns_what_they_hand_over(lowered):
    text = lowered(jax.grad(lambda *args: loss(batch)(*args)), MEMBERS, RATE, np.arange(35))
    calls = re.findall(rf"@{re.escape(cuda.TARGET)}.*", text)
    assert len(calls) == 2
    assert "stablehlo.transpose" not in text


def test_other_platforms_have_the_plain_program(lowered):
    function = jax.jit(lambda *args: batch(*args))
    assert cuda.TARGET not in function.lower(MEMBERS, RATE, np.arange(35)).as_text()


def test_what_cannot_be_translated_is_the_plain_program_and_is_said(lowered, caplog):
    with caplog.at_level(logging.DEBUG, "jmbs"):
        text = lowered(lambda x: jax.vmap(lambda x: fused(lambda x: jnp.linalg.svd(x)[1], x))(x), np.ones((3, 2, 2)))
    assert cuda.TARGET not in text
    assert "svd" in caplog.text


def test_where_nvrtc_is_missing_it_is_said(monkeypatch, caplog):
    monkeypatch.setattr(nvrtc, "library", lambda: None)
    nvrtc.ptx.cache_clear()
    monkeypatch.setenv("JMBS_FUSED", "1")
    with caplog.at_level(logging.DEBUG, "jmbs"):
        text = jax.jit(lambda x: fused(jnp.sin, x)).trace(1.0).lower(lowering_platforms=("cuda",)).as_text()
    assert cuda.TARGET not in text and "sine" in text
    assert "NVRTC is not installed" in caplog.text


def test_ptx_is_kept_where_programs_are(monkeypatch, tmp_path):
    """Of each version of NVRTC its own."""
    compiled, version = [], ["13.0"]
    monkeypatch.setattr(nvrtc, "library", lambda: "NVRTC")
    monkeypatch.setattr(nvrtc, "nvrtc_version", lambda: version[0])
    monkeypatch.setattr(nvrtc, "_compiled", lambda library, source: compiled.append(source) or f"{source} in PTX")

    def ptx(source: str) -> str:
        nvrtc.ptx.cache_clear()
        return nvrtc.ptx(source)

    try:
        assert [ptx("a"), ptx("a")] == ["a in PTX"] * 2 and compiled == ["a", "a"]
        jmbs.use_cache(tmp_path)
        assert [ptx(source) for source in "bcbc"] == ["b in PTX", "c in PTX"] * 2 and compiled[2:] == ["b", "c"]
        version[0] = "13.1"
        assert ptx("b") == "b in PTX" and compiled[4:] == ["b"]
    finally:
        nvrtc.ptx.cache_clear()


@pytest.mark.skipif(nvrtc.library() is None, reason="NVRTC is not installed; JAX's CUDA extra brings it")
def test_nvrtc_compiles():
    code = nvrtc.ptx('extern "C" __global__ void twice(double *x) { x[threadIdx.x] *= 2.0; }')
    assert nvrtc.OLDEST in code and ".target sm_80" in code and "twice" in code
    with pytest.raises(nvrtc.NotCompiled, match="undefined"):
        nvrtc.ptx('extern "C" __global__ void none(double *x) { x[0] = y; }')
