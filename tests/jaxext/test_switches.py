"""Every work-around can be turned off, and the plain program has the same results."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jmbs
from jmbs.errors import ModelError
from jmbs.jaxext import (
    WORKAROUNDS,
    along_batches,
    any_member,
    deferred,
    entries_at,
    evaluated_once,
    is_off,
    kept_rule,
    of_members,
    one_kernel,
    quick_options,
    sums_at,
    without,
)
from jmbs.linear import cholesky

CONFIGS = Path(__file__).parents[2] / "configs"
X = jnp.linspace(0.5, 2.0, 4)
SHAPE = jax.ShapeDtypeStruct(X.shape, X.dtype)


def _rule(given, along):
    (x,), (dx,) = given, along
    return (jnp.sin(x),), (jnp.cos(x) * dx,)


# By work-around a function that makes use of it, and what its program then holds.
USES = {
    "one_kernel": (lambda x: one_kernel(jnp.sin, x), "one_kernel"),
    "evaluated_once": (lambda x: evaluated_once(jnp.sin, x), "inlineable"),
    "static_places": (lambda x: sums_at(entries_at(x, np.array([2, 0, 2])), np.array([1, -1, 1]), 3), "sums_at"),
    "along_batches": (lambda x: along_batches(lambda x: (jnp.sin(x),), x)[0] + of_members(jnp.sin, x), "of_many"),
    "kept_rule": (lambda x: kept_rule(lambda x: (jnp.sin(x),), _rule, (SHAPE,))(x)[0], "kept_rule"),
    "deferred": (lambda x: deferred(lambda a, b: (a[0] * b[0],), (x,), (x,), (SHAPE,))[0], "deferred"),
    "any_member": (lambda x: jnp.where(any_member(x[0] > 0), x, 0.0), "any_member"),
    "lapack": (lambda x: cholesky(jnp.diag(x)), "lapack["),
}


@pytest.mark.parametrize("name", USES)
def test_off_means_plain_jax_with_the_same_values_and_derivatives(name):
    function, word = USES[name]

    def program(x):
        traced = jax.jit(lambda x: function(x)).trace(x)  # of a new function, so that nothing is known of it
        return str(traced.jaxpr) + traced.lower().as_text()

    def found(x):
        values = [function(x), jax.vmap(function)(jnp.stack([x, 2 * x]))]
        return [*values, jax.jacfwd(function)(x), jax.jacrev(function)(x)] if name != "lapack" else values

    on, with_it = found(X), program(X)
    with without(name):
        off, plain = found(X), program(X)
    assert word in with_it and word not in plain
    for one, other in zip(on, off, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-14)


def test_forward_kernels_and_options_of_xla_are_off(monkeypatch):
    monkeypatch.setattr("jmbs.jaxext.compiler._tried", lambda: True)
    assert quick_options(True)
    with without("xla_options"):
        assert quick_options(True) == ()
    seen = []
    monkeypatch.setattr(
        "jmbs.solvers.fixed_steps.forward_kernel", lambda function, *args: (seen.append(1), function(*args))[1]
    )
    model = jmbs.compile(jmbs.load(CONFIGS / "pendulum.yaml"))
    settings = {"ts": [0.0, 0.01], "dt": 0.01, "solver": "rk4", "audit": False, "adjoint": "forward"}
    with without("forward_kernel"):
        jax.eval_shape(lambda: jmbs.simulate(model, **settings))
    assert not seen
    jax.eval_shape(lambda: jmbs.simulate(model, **settings))
    assert seen


def test_names_come_from_the_environment_or_from_the_context(monkeypatch):
    assert not any(map(is_off, WORKAROUNDS))
    monkeypatch.setenv("JMBS_WITHOUT", "one_kernel, lapack")
    assert [name for name in WORKAROUNDS if is_off(name)] == ["one_kernel", "lapack"]
    with without("all"):
        assert all(map(is_off, WORKAROUNDS))
    with without(""):
        assert not any(map(is_off, WORKAROUNDS))
    monkeypatch.setenv("JMBS_WITHOUT", "one_kernal")
    with pytest.raises(ModelError, match="JMBS_WITHOUT: found 'one_kernal', wanted all, or names among one_kernel, "):
        is_off("one_kernel")


CODE = """
import sys, json, jax
jax.config.update("jax_enable_x64", True)
import jmbs
model = jmbs.compile(jmbs.load(sys.argv[1]))
state, path = model.initial_state(), sys.argv[2]

def final(mass, adjoint="auto"):
    changed = model.with_parameters({path: mass})
    run = jmbs.simulate(changed, state, ts=[0.0, 0.02], dt=1e-3, solver="rk4", audit=False, adjoint=adjoint)
    return run.saved.blocks[0][-1].ravel()

audited = jmbs.simulate(model, ts=[0.0, 0.02], tolerance=1e-8)
found = [audited.total, audited.dissipated, jax.vmap(final)(jax.numpy.array([1.0, 1.5])), final(1.2)]
found += [jax.jacrev(final)(1.2), jax.jacfwd(lambda mass: final(mass, "forward"))(1.2)]
print(json.dumps([value.ravel().tolist() for value in found]))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "config, path", [("pendulum", "rod/mass"), ("composite", "thigh/mass"), ("slider_crank", "rod/mass")]
)
def test_runs_and_derivatives_without_any_are_the_same(config, path):
    def found(off):
        command = [sys.executable, "-c", CODE, str(CONFIGS / f"{config}.yaml"), path]
        environment = os.environ | {"JMBS_WITHOUT": off}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        return json.loads(done.stdout)

    for one, other in zip(found(""), found("all"), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)
