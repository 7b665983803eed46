"""`map_batch` is `jax.vmap`, in pieces and over all devices."""

from __future__ import annotations

import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jmbs
from jmbs.jaxext import ask_for_speed
from jmbs.jaxext.compiler import EXTRA, FLAGS, NOT_UNROLLED, VECTOR_WIDTH


def swing(member):
    end = jnp.sin(member["q"]) * member["m"]
    return {"end": end, "energy": jnp.sum(member["q"] ** 2), "nothing": end[:0]}


def members(size: int):
    q = np.random.default_rng(size).normal(size=(size, 3))
    return {"q": jnp.asarray(q), "m": jnp.arange(1.0, size + 1.0)}


@pytest.mark.parametrize("size", [1, 3, 256, 1000, 1021])
def test_it_is_vmap(size):
    """1000 is done in pieces of 50; 1021 is prime."""
    for wanted, found in zip(
        jax.tree.leaves(jax.vmap(swing)(members(size))),
        jax.tree.leaves(jmbs.map_batch(swing, members(size))),
        strict=True,
    ):
        np.testing.assert_allclose(found, wanted, rtol=1e-15)


def test_derivatives_of_and_through_it():
    each = jmbs.map_batch(jax.grad(lambda m: swing(m)["energy"]), members(512))
    whole = jax.jit(jax.grad(lambda b: jnp.sum(jmbs.map_batch(swing, b)["energy"])))(members(512))
    for gradient in (each, whole):
        np.testing.assert_allclose(gradient["q"], 2 * members(512)["q"])


@pytest.mark.parametrize(
    ("batch", "found"),
    [
        ({}, "no array"),
        ({"a": jnp.ones(3), "b": jnp.ones(4)}, "leading axes 3, 4"),
        (jnp.ones(()), "leading axes none"),
    ],
)
def test_what_is_no_batch_is_refused(batch, found):
    with pytest.raises(jmbs.ModelError, match=f"batch: found {found}, wanted arrays with equal leading axes"):
        jmbs.map_batch(swing, batch)


def test_what_is_no_function_is_refused():
    with pytest.raises(jmbs.ModelError, match="function: found a float, wanted a function of one member"):
        jmbs.map_batch(3.0, jnp.ones(3))


def test_all_devices_take_part():
    """In a process of its own, since the number of devices is fixed by the first use of JAX; 7 members on 3 devices."""
    program = """
import jax, jax.numpy as jnp
jax.config.update("jax_num_cpu_devices", 3)
import jmbs
x = jnp.arange(14.0).reshape(7, 2)
y = jax.jit(lambda x: jmbs.map_batch(jnp.sin, x))(x)
assert y.shape == (7, 2) and jnp.array_equal(y, jnp.sin(x))
assert "num_partitions = 3" in jax.jit(lambda x: jmbs.map_batch(jnp.sin, x)).lower(x).as_text()
empty = jmbs.map_batch(lambda m: m[0] + jnp.einsum("noi,ni->no", jnp.zeros((1, 6, 0)), jnp.zeros((1, 0)) + m[:0]), x)
assert empty.shape == (7, 1, 6) and jnp.array_equal(empty[:, 0, 0], x[:, 0])
try:
    jmbs.use_all_cores()
except RuntimeError:
    print("too late")
"""
    assert _printed(program, "") == "too late"


@pytest.mark.parametrize("given", [f"--{VECTOR_WIDTH}=128", f"--{EXTRA}={NOT_UNROLLED}"])
def test_what_a_user_asks_of_the_compiler_stays(given, monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", given)
    ask_for_speed()
    flags = os.environ["XLA_FLAGS"].split()
    assert flags[0] == given
    assert [flag.split("=")[0].removeprefix("--") for flag in sorted(flags)] == sorted(FLAGS)


def test_cores_are_used_to_their_full_width():
    """One device per core; and what compiled functions shall be like."""
    program = """
import os, jax, jax.numpy as jnp
import jmbs
from jmbs.simulation.batch import usable_cores
jmbs.use_all_cores()
assert len(jax.devices()) == usable_cores()
assert float(jax.jit(jnp.sum)(jnp.ones(64))) == 64
print(os.environ["XLA_FLAGS"])
"""
    assert _printed(program, "").split() == list(FLAGS.values())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["pendulum", "chain_8", "three_bar_loop"])
def test_without_kernels_the_same_is_computed(configs, request, name):
    """Alone and in a batch, values and gradients; steps of the loop have a projection too."""
    model = jmbs.compile(jmbs.load(configs / f"{name}.yaml"))
    mass = next(path for path in model.parameters() if path.endswith("/mass"))

    def last(factor):
        changed = model.with_parameters({mass: factor * model.parameters()[mass]["value"]})
        sol = jmbs.simulate(changed, t1=0.05, ts=[0.0, 0.05], dt=0.01, solver="rk4", audit=False)
        return jnp.sum(jnp.sin(sol.position.array[-1]))

    def found():
        alone = jax.jit(lambda factor: jax.value_and_grad(last)(factor))(1.0)
        batch = jax.jit(lambda factors: jmbs.map_batch(jax.value_and_grad(last), factors))(jnp.array([1.0, 1.5]))
        return [*alone, *batch]

    with_kernels = found()
    request.getfixturevalue("without_kernels")
    for a, b in zip(found(), with_kernels, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-11)


def _printed(program: str, flags: str) -> str:
    """What a program prints that starts with `XLA_FLAGS` as given."""
    environment = {key: value for key, value in os.environ.items() if key != "XLA_FLAGS"}
    environment |= {"JAX_PLATFORMS": "cpu"} | ({"XLA_FLAGS": flags} if flags else {})
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, env=environment)
    assert run.returncode == 0, run.stderr
    return run.stdout.strip()
