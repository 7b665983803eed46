"""Nested, flattened and shuffled descriptions of one system mean the same, for every system that is shipped."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from quick import quick_jit

import jmbs
from jmbs.ephs import System, flatten, pattern, reference_dae
from jmbs.library.oscillator import damped_oscillator
from jmbs.simulation.state import to_internal

LOOPS = ("andrews_squeezer", "slider_crank", "universal", "motor_slider_crank")
CONFIGS = sorted((Path(__file__).parents[2] / "configs").glob("*.yaml"))
EVALUATE = quick_jit(lambda dae, x: dae.rates(0.0, x))


QUICK = ("pendulum",)


def systems():
    """All shipped systems; most are slow only because each has to be compiled four times."""
    for path in CONFIGS:
        marks = () if path.stem in QUICK else pytest.mark.slow
        yield pytest.param(path.stem, lambda path=path: jmbs.load(path).system(), id=path.stem, marks=marks)
    yield pytest.param("oscillator", lambda: damped_oscillator(2.0, 50.0, 1.5), id="nested_damped_oscillator")


def one_level(system: System, rename=lambda path: path, shuffle=None) -> System:
    """The flattening of a system, written as a pattern without nesting, with boxes renamed and shuffled."""
    flat = flatten(system)
    order = list(flat.components)
    junctions = list(flat.junctions)
    if shuffle is not None:
        shuffle(order)
        shuffle(junctions)
    boxes = {rename(path): flat.components[path] for path in order}
    names, outer = {}, {}
    for i, junction in enumerate(junctions):
        ports = [f"{rename(path)}.{port}" for path, port in junction.ports]
        if shuffle is not None:
            shuffle(ports)
        names[f"junction {i}"] = ports
        outer.update({port: f"junction {i}" for port in junction.outer})
    interfaces = {name: box.ports for name, box in boxes.items()}
    drives = {port: Renamed(drive, rename) if hasattr(drive, "flow") else drive for port, drive in flat.drives.items()}
    return System(pattern(interfaces, names, outer), boxes, drives)


class Renamed(eqx.Module):
    """A drive that looks its bodies up under their new names."""

    drive: object
    rename: Callable[[str], str] = eqx.field(static=True)

    def flow(self, t, view):
        by_new_name = SimpleNamespace(
            state=lambda path, port: view.state(self.rename(path), port),
            effort=lambda path, port: view.effort(self.rename(path), port),
        )
        return self.drive.flow(t, by_new_name)


def reversed_name(path: str) -> str:
    """A renaming that changes every order and is undone by itself."""
    return path[::-1]


def accelerations(system: System, states=None, original=lambda path: path) -> dict[tuple[str, str], np.ndarray]:
    """Velocities of all states by original (component, port) of their storages, at states drawn by those names."""
    dae = reference_dae(flatten(system), 300.0, jnp.float64)
    plan = dae.plan
    holder = {}
    for (path, port), junction in plan.junction_of.items():
        if junction in plan.state_of and path in plan.member_of:
            batch = plan.batches[plan.member_of[path][0]]
            if batch.role.name == "STORAGE":
                holder[junction] = (original(path), port)
    x = []
    for block in plan.blocks:
        rows = [_state(holder.get(junction, "environment"), block.space, states) for junction in block.junctions]
        x.append(jnp.stack(rows))
    rates = EVALUATE(dae, tuple(x))
    return {holder[j]: np.asarray(rates.velocity)[plan.slots[j]] for j in holder}


def _state(name, space, states):
    if states is not None and name in states:
        return states[name]
    draw = random.Random(str(name))
    return space.exp(jnp.array([draw.uniform(-0.5, 0.5) for _ in range(space.dim)]))


def consistent_states(path: Path):
    """States that meet the joints, where redundant constraints would make no sense otherwise."""
    model = jmbs.compile(jmbs.load(path))
    x = to_internal(model.dae, model.initial_state())
    plan = model.dae.plan
    return {pair: x[b][r] for pair, j in plan.junction_of.items() if j in plan.state_of for b, r in [plan.state_of[j]]}


@pytest.mark.parametrize(("name", "build"), list(systems()))
def test_flattening_shuffling_and_renaming_change_nothing(name, build):
    system = build()
    states = consistent_states(CONFIGS[0].parent / f"{name}.yaml") if name in LOOPS else None
    nested = accelerations(system, states)
    others = {
        "flat": accelerations(one_level(system), states),
        "shuffled": accelerations(one_level(system, shuffle=random.Random(1).shuffle), states),
        "renamed": accelerations(one_level(system, reversed_name), states, reversed_name),
    }
    scale = max(np.max(np.abs(v), initial=1.0) for v in nested.values())
    for kind, other in others.items():
        assert nested.keys() == other.keys()
        for key, value in nested.items():
            np.testing.assert_allclose(other[key], value, atol=1e-11 * scale, err_msg=f"{kind} {key}")


def test_nested_and_flat_oscillators_give_the_same_trajectory():
    runs = []
    for nested in (True, False):
        model = jmbs.compile(
            damped_oscillator(2.0, 50.0, 1.5, nested),
            initial={"osc/q" if nested else "q": [0.1], "osc/p" if nested else "p": [0.4]},
            environment_temperature=300.0,
        )
        runs.append(jmbs.simulate(model, t1=1.0, save_every=0.25, tolerance=1e-10))
    a, b = runs
    np.testing.assert_allclose(a.states["osc/q"], b.states["q"], rtol=0, atol=1e-15)
    np.testing.assert_allclose(a.entropy_produced, b.entropy_produced, rtol=1e-14)
    # An independent check that it is the damped oscillator at all.
    matrix = np.array([[0.0, 1.0], [-25.0, -0.75]])
    values, vectors = np.linalg.eig(matrix)
    exact = (vectors @ np.diag(np.exp(values)) @ np.linalg.inv(vectors) @ [0.1, 0.4]).real
    np.testing.assert_allclose(a.states["osc/q"][-1, 0], exact[0], atol=1e-10)
