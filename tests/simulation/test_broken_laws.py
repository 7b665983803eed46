"""Runs tell which component broke a law, when, and by how much: laws that hold on samples may break on the way."""

from __future__ import annotations

import dataclasses
import json
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

import jmbs
from jmbs.ephs import ENTROPY, ConstantFlow, Environment, System, pattern, power_port, state_port
from jmbs.errors import ModelError
from jmbs.io.result import summarise, write_result
from jmbs.library.oscillator import Mass, damped_oscillator
from jmbs.lie import Rn
from jmbs.simulation.by_name import ByName

LEVEL = 2.0
"""Speed and displacement up to which components keep their laws, and up to which these are tried."""
KEPT, TOO_FAST, FORCE = 1.0, 4.0, 0.02
MOMENTUM, HEAT = power_port(Rn(1), "momentum"), power_port(Rn(1), ENTROPY)


def beyond(value):
    return jnp.tanh(jnp.maximum(jnp.abs(value) - LEVEL, 0.0)) * 2.0


class Drag(eqx.Module):
    """Damping that turns into thrust at high speeds."""

    domain: ClassVar[dict[str, Any]] = {"p.e": (-LEVEL, LEVEL)}

    @property
    def ports(self):
        return {"p": MOMENTUM, "s": HEAT}

    def onsager(self, x, e):
        del x
        v, theta = e["p"][0], e.temperature("s")
        return (1.0 - beyond(v)) * jnp.array([[theta, -v], [-v, v * v / theta]])


class Turn(eqx.Module):
    """A gyroscopic force between two momenta, with friction of its own beyond some speed."""

    domain: ClassVar[dict[str, Any]] = {"p.x": (-LEVEL, LEVEL), "r.x": (-LEVEL, LEVEL)}

    @property
    def ports(self):
        return {"p": MOMENTUM, "r": MOMENTUM}

    def structure(self, x):
        return jnp.array([[0.0, 1.0], [-1.0, 0.0]]) - jnp.diag(0.1 * beyond(x["p"])[0] * jnp.array([1.0, 1.0])), None


class Cooler(eqx.Module):
    """Draws entropy out of the environment without a use for it, where the momentum is large."""

    domain: ClassVar[dict[str, Any]] = {"p.x": (-LEVEL, LEVEL)}

    @property
    def ports(self):
        return {"p": state_port(Rn(1), "momentum"), "r": MOMENTUM, "s": HEAT}

    def structure(self, x):
        made = 0.01 * beyond(x["p"])[0]
        return made * jnp.array([[0.0, -1.0], [1.0, 0.0]]), None


class Engine(eqx.Module):
    """Turns a difference of temperatures into a velocity; where the momentum is large, not the difference alone."""

    output: ClassVar[str] = "shaft"
    domain: ClassVar[dict[str, Any]] = {"p.x": (-LEVEL, LEVEL)}

    @property
    def ports(self):
        return {"p": state_port(Rn(1), "momentum"), "hot": HEAT, "shaft": MOMENTUM, "cold": HEAT}

    def ratio(self, x):
        return jnp.stack([jnp.ones(1), -1.0 - beyond(x["p"])], axis=1)


@pytest.fixture(scope="module")
def model():
    boxes = {name: Mass(jnp.array(1.0)) for name in ("a", "b")}
    boxes |= {"drag": Drag(), "turn": Turn(), "cooler": Cooler(), "engine": Engine(), "env": Environment()}
    junctions = {"a": "a.p drag.p turn.p cooler.p engine.p", "b": "b.p turn.r cooler.r"}
    junctions |= {"shaft": "engine.shaft", "s": "drag.s cooler.s engine.hot engine.cold env.s"}
    interfaces = {name: box.ports for name, box in boxes.items()}
    system = System(pattern(interfaces, junctions, ["shaft"]), boxes, {"shaft": ConstantFlow(jnp.array([FORCE]))})
    return jmbs.compile(system, initial={"a": [KEPT]})


@pytest.fixture(scope="module")
def run(model):
    at_speed = lambda a: model.with_parameters({"initial/a": jnp.reshape(a, 1)})  # noqa: E731

    @jax.jit
    @jax.vmap
    def batch(a):
        return jmbs.simulate(at_speed(a), t1=0.5, save_every=0.0625, dt=1e-2, solver="rk4")

    return batch(jnp.array([KEPT, TOO_FAST]))


def member(run, i: int):
    return jax.tree.map(lambda leaf: np.asarray(leaf[i]), run)


def test_nothing_is_broken_where_the_laws_were_tried(run):
    assert not member(run, 0).broken_laws()
    assert np.all(run.energy_made.array[0] == 0.0)


def test_what_broke_a_law_is_named_with_time_and_size(run):
    trajectory = member(run, 1)
    broken = {(law.component, law.law): law for law in trajectory.broken_laws()}
    a, b = trajectory.states["a"][:, 0], trajectory.states["b"][:, 0]
    excess = np.asarray(beyond(a))
    drag, turn, cooler = (1 - excess) * a**2 / 298.15, 0.1 * excess * (a**2 + b**2), 0.01 * excess * b
    both = {(name, f"{law} law") for name in ("cooler", "engine") for law in ("first", "second")}
    assert set(broken) == {("drag", "second law"), ("turn", "first law")} | both
    for key, values in {
        ("drag", "second law"): drag,
        ("turn", "first law"): turn,
        ("cooler", "second law"): -cooler,
        ("engine", "second law"): -FORCE * excess,
        ("engine", "first law"): -298.15 * FORCE * excess,
    }.items():
        worst = np.argmax(np.abs(values))
        assert broken[key].size == pytest.approx(values[worst], rel=1e-9)
        assert broken[key].time == trajectory.ts[worst]


def test_scripts_and_people_read_it(run, tmp_path):
    for i, laws in enumerate(("kept", "broken")):
        summary = write_result(member(run, i), tmp_path / laws)
        assert summary["laws"] == laws and summary["status"] == "successful"
        assert json.loads((tmp_path / laws / "summary.json").read_text())["broken_laws"] == summary["broken_laws"]
        with xr.open_dataset(tmp_path / laws / "result.nc") as dataset:
            assert (dataset.attrs["laws"] == "kept") == (laws == "kept")
            assert ("drag breaks the second law" in dataset.attrs["laws"]) == (laws == "broken")
            assert list(dataset.tried.values) == ["cooler", "drag", "engine", "turn"]
    both = summarise(run)
    (makers,) = [text.split("made by ")[1] for text in both["warnings"] if "unaccounted for: made by" in text]
    assert set(makers.split(", ")) == {"cooler", "engine", "turn"}
    assert {law["member"] for law in both["broken_laws"]} == {1}
    assert sum("drag breaks the second law: it produces entropy, -" in text for text in both["warnings"]) == 1


def test_what_happened_between_saved_times_is_seen_too(run):
    """All is well when one looks, but in between a component gained exergy."""
    kept = member(run, 0)
    level = 0.5 * np.max(np.abs(kept.kinetic))
    destroyed = kept.destroyed.replace("drag", level * (np.arange(len(kept.ts)) < 4))
    (broken,) = dataclasses.replace(kept, destroyed=destroyed).broken_laws()
    assert broken.component == "drag" and broken.unit == "J"
    assert broken.size == pytest.approx(-level) and broken.time == kept.ts[4]


def test_a_run_without_losses_keeps_its_laws(run):
    kept = member(run, 0)
    none = ByName(kept.kinetic[:, None][:, :0], ())
    lossless = dataclasses.replace(kept, production=none, destroyed=none, energy_made=None, entropy_made=None)
    assert lossless.broken_laws() == () and summarise(lossless)["laws"] == "kept"


def test_a_parameter_against_the_law_is_seen():
    """Components of jmbs are lawful by construction, with parameters that their construction would take."""
    model = lambda d: jmbs.compile(damped_oscillator(1.0, 4.0, d), initial={"osc/q": [1.0]})  # noqa: E731
    run = lambda d: jmbs.simulate(model(d), t1=1.0, save_every=0.1)  # noqa: E731
    with pytest.raises(ModelError, match="mf/viscous: found -0.3, wanted a non-negative number"):
        model(0.3).with_parameters({"mf/viscous": -0.3})
    kept, broken = run(0.3), run(-0.3)
    assert kept.energy_made is None and not kept.broken_laws()
    assert [(law.component, law.law) for law in broken.broken_laws()] == [("mf", "second law")]
    assert summarise(broken)["laws"] == "broken"


def test_without_audit_nothing_is_said(model):
    state = jax.eval_shape(model.initial_state)
    plain = jax.eval_shape(lambda s: jmbs.simulate(model, s, t1=1.0, dt=0.1, save_every=1.0, audit=False), state)
    assert plain.energy_made is None and plain.production is None
