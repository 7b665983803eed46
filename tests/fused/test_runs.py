"""Whole runs as one program in C give what JAX gives: forward, along tangents, and both programs of reverse mode."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from compiled_kernels import check, needs_compiler

import jmbs
from jmbs.fused import Options

pytestmark = needs_compiler
CONFIGS = Path(__file__).parents[2] / "configs"
MEMBERS = 2
QUICKLY = ("-O0", "-w", "-shared", "-fPIC", "-fwrapv")
"""The optimiser takes minutes for a long function."""
OPEN = [
    "chain_8",
    "spherical_double_pendulum",
    "universal",
    "free",
    "planar",
    "cylindrical",
    "joint_screw",
    "panda_arm",
]
LOOPS = ["slider_crank", "three_bar_loop"]
OTHERS = ["geared", "tied", "both"]
LOOSE = 1e-11
"""Of runs: rounding grows along them."""


def pendulums(name: str) -> jmbs.Mechanism:
    """Two pendulums, the second of which a gear, a spring between two points, or both bind to the first."""
    m = jmbs.Mechanism(name, gravity=(0.0, 0.0, -9.81))
    for i in range(2):
        m.add_body(f"rod{i}", mass=1.0, inertia=[0.02, 0.02, 0.01])
        place = {"position": [0.5 * i, 0.0, 0.0]}
        m.add_joint(f"hinge{i}", "revolute", "ground", f"rod{i}", place, {"position": [0, 0, 0.2]}, axis=[0, 1, 0])
    if name in ("geared", "both"):
        m.add_constraint("mesh", "gear", joint="hinge1", driver="hinge0", ratio=-2.0)
    if name in ("tied", "both"):
        m.add_spring_damper("tie", "rod0", "rod1", [0, 0, -0.1], [0, 0, -0.1], stiffness=5.0, damping=0.1)
    m.set_initial(joints={"hinge0": {"q": [0.3], "v": [1.0]}})
    return m


def run_of(name: str, **settings: Any) -> tuple[Callable, list[np.ndarray]]:
    """A run of 20 steps as a function of arrays, those of model and state; and these for some members, each of whom
    moves a little faster."""
    model = jmbs.compile(pendulums(name) if name in OTHERS else jmbs.load(CONFIGS / f"{name}.yaml"))
    state = model.initial_state()
    arrays, static = eqx.partition((model, state), eqx.is_array)
    leaves, structure = jax.tree.flatten(arrays)
    count = len(jax.tree.leaves(eqx.filter(model, eqx.is_array)))
    fixed: dict[str, Any] = {
        "solver": "rk4",
        "dt": 1e-3,
        "t1": 0.02,
        "save_every": 0.01,
        "audit": False,
        "throw": False,
    }

    def run(*leaves: Any) -> Any:
        model, state = eqx.combine(structure.unflatten(leaves), static)
        trajectory = jmbs.simulate(model, state, **{**fixed, **settings})
        return {name: dict(getattr(trajectory, name)) for name in ("q", "v", "position")} | {"ts": trajectory.ts}

    faster = [
        np.stack([np.asarray(x) * (1 + 0.01 * m * (i >= count)) for m in range(MEMBERS)]) for i, x in enumerate(leaves)
    ]
    return run, faster


def test_a_pendulum():
    run, args = run_of("pendulum")
    check(lambda *leaves: run(*leaves)["q"], *args)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*OPEN, *LOOPS, *OTHERS])
def test_runs(name):
    run, args = run_of(name)
    check(run, *args, rtol=LOOSE, flags=QUICKLY)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["chain_8", "panda_arm", "slider_crank"])
def test_loops_along_the_tree(name):
    """The same text shorter, with loops as they stand."""
    run, args = run_of(name)
    check(run, *args, rtol=LOOSE, flags=QUICKLY, options=Options(unroll_below=1))


@pytest.mark.slow
def test_single_precision():
    model = jmbs.compile(jmbs.load(CONFIGS / "chain_8.yaml"), dtype="float32")
    state = model.initial_state()
    leaves, structure = jax.tree.flatten(eqx.filter(state, eqx.is_array))

    def run(*leaves: Any) -> Any:
        trajectory = jmbs.simulate(
            model, structure.unflatten(leaves), solver="rk4", dt=1e-3, t1=0.02, audit=False, throw=False
        )
        return jnp.concatenate([x.ravel() for x in trajectory.q.values()])

    kernel = check(run, *(np.asarray(x)[None] for x in leaves), rtol=1e-5, flags=QUICKLY)
    assert "double" not in kernel.source.split("KERNEL void")[1]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["pendulum", "chain_8"])
def test_forward_derivatives(name):
    run, args = run_of(name, adjoint="forward")
    tangents = [np.ones_like(x) * 1e-2 for x in args]
    half = len(args)
    check(lambda *both: jax.jvp(run, both[:half], both[half:]), *args, *tangents, rtol=LOOSE, flags=QUICKLY)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["pendulum", "chain_8"])
def test_reverse_derivatives(name):
    """Two programs: the run, which keeps what the other one needs, and the way back."""
    run, args = run_of(name)
    last = lambda *leaves: jnp.concatenate([x[-1].ravel() for x in run(*leaves)["v"].values()])  # noqa: E731
    kept: list[Any] = []

    def there(*leaves: Any) -> Any:
        value, pull = jax.vjp(last, *leaves)
        kept.append(jax.tree.structure(pull))
        return value, jax.tree.leaves(pull)

    check(there, *args, rtol=LOOSE, flags=QUICKLY)
    value, residuals = jax.jit(jax.vmap(there))(*args)
    back = lambda change, *residuals: jax.tree.unflatten(kept[-1], residuals)(change)  # noqa: E731
    check(back, np.ones_like(value), *map(np.asarray, residuals), rtol=LOOSE, flags=QUICKLY)
