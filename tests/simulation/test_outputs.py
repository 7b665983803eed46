"""Outputs that components declare: saved, labelled, drawn and looked at by drives, in both formulations."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gas_spring import AREA, GAMMA, RUN, START, Gas, gas_spring
from quick import forward_dynamics, quick_jit

import jmbs
from jmbs.ephs import power_port
from jmbs.errors import ModelError
from jmbs.io.summary import summarise
from jmbs.lie import Rn
from jmbs.simulation import with_inputs
from jmbs.visualise.plots import output_figure, plot_trajectory


@pytest.fixture(scope="module")
def model() -> jmbs.Model:
    return jmbs.compile(gas_spring())


@pytest.fixture(scope="module")
def runs(model) -> Callable[[str], jmbs.Trajectory]:
    return functools.cache(lambda name: jmbs.simulate(model, formulation=name, **RUN))


@pytest.mark.parametrize("formulation", ["tree", pytest.param("absolute", marks=pytest.mark.slow)])
def test_outputs_are_what_the_component_says_of_saved_states(runs, formulation):
    sol = runs(formulation)
    volume, s = sol.states["volume"][:, 0], sol.states["heat"][:, 0]
    pressure = (GAMMA - 1) * 600.0 * np.exp(s / 2.0) * (START / volume) ** (GAMMA - 1) / volume
    temperature = 300.0 * np.exp(s / 2.0) * (START / volume) ** (GAMMA - 1)
    assert list(sol.outputs) == ["chamber/pressure", "chamber/temperature", "chamber/both"]
    np.testing.assert_allclose(sol.outputs["chamber/pressure"], pressure, rtol=1e-12)
    np.testing.assert_allclose(sol.outputs["chamber/temperature"], temperature, rtol=1e-12)
    np.testing.assert_allclose(sol.outputs["chamber/both"], np.stack([pressure, temperature], axis=1), rtol=1e-12)
    assert np.ptp(pressure) > 0.01 * pressure[0]


def test_outputs_are_labelled_with_their_units(runs):
    data = runs("tree").to_xarray()
    assert data["output_chamber.pressure"].dims == ("time",)
    assert {name: data[f"output_chamber.{name}"].units for name in Gas.output_units} == Gas.output_units
    assert data["output_chamber.both"].shape == (6, 2)


def test_outputs_are_in_the_summary_and_drawn(runs, tmp_path):
    sol = runs("tree")
    pressure = np.asarray(sol.outputs["chamber/pressure"])
    wanted = {"unit": "Pa", "smallest": pressure.min(), "largest": pressure.max()}
    assert summarise(sol)["outputs"]["chamber/pressure"] == wanted
    assert "outputs.png" in [path.name for path in plot_trajectory(sol, tmp_path)]
    labels = [ax.get_ylabel() for ax in output_figure(sol.to_xarray()).axes]
    assert labels == ["pressure (Pa)", "temperature (K)", "both"]


@pytest.mark.slow
def test_batches_and_derivatives_go_through_outputs(model):
    def last(area):
        sol = jmbs.simulate(model.with_parameters({"face/area": area}), **RUN)
        return sol.outputs["chamber/pressure"][-1]

    areas = jnp.array([AREA, 1.5 * AREA])
    values, slopes = jax.jit(jax.vmap(jax.value_and_grad(last)))(areas)
    beside = jax.jit(jax.vmap(last))(areas + 1e-7)
    np.testing.assert_allclose(slopes, (beside - values) / 1e-7, rtol=1e-4)


def test_drives_look_at_outputs(model):
    """A drive that takes the gas's force away by what its output says leaves the piston at its speed."""
    against = lambda t, view: -AREA * view.output["chamber/pressure"]  # noqa: E731
    driven, state = with_inputs(model, {"rod": against}), model.initial_state()
    momentum = model.dae.plan.slots[model.layout.body("piston").momentum]
    in_tree = quick_jit(lambda model: model.forward_dynamics(0.0, state))
    absolute = quick_jit(lambda model: model.dynamics(0.0, state).velocity[momentum])
    assert abs(in_tree(model)[0]) > 1.0
    np.testing.assert_allclose(in_tree(driven), 0.0, atol=1e-9)
    np.testing.assert_allclose(absolute(driven), 0.0, atol=1e-9)


def test_only_what_drives_read_is_traced(model):
    read = []

    class Watched(eqx.Module):
        """A capacitor that notes when its outputs are traced."""

        output_units: ClassVar[dict[str, str]] = {"voltage": "V"}

        @property
        def ports(self):
            return {"q": power_port(Rn(1), "charge")}

        def energy(self, x):
            return 0.5 * x["q"][0] ** 2

        def outputs(self, x, e):
            read.append(self)
            return {"voltage": e["q"][0]}

    m = gas_spring()
    m.add_system("other", Watched())
    m.connect("held", ["cylinder.p_r"], flow=lambda t, view: -AREA * view.output["chamber/pressure"])
    watched = jmbs.compile(m)
    state = jax.eval_shape(watched.initial_state)
    read.clear()
    jax.eval_shape(lambda state: watched.step(state, {}, 0.01), state)
    assert not read


def test_views_of_nested_systems_have_the_outputs_of_their_own(model):
    inner = gas_spring()
    inner.connect("held", ["cylinder.p_r"], flow=lambda t, view: -AREA * view.output["chamber/pressure"])
    outer = jmbs.Mechanism("outer", gravity=[0, 0, 0])
    outer.add_system("deep", inner.system())
    outer.set_initial(states={"deep/volume": [START]})
    nested = jmbs.compile(outer)
    rate = forward_dynamics(nested, nested.initial_state())
    np.testing.assert_allclose(rate, 0.0, atol=1e-9)


def test_a_wrong_name_is_refused_with_the_nearest(model):
    wrong = {"rod": lambda t, view: view.output["chamber/presure"]}
    with pytest.raises(
        ModelError, match="no output 'chamber/presure', .* an output; the nearest known is chamber/pres"
    ):
        forward_dynamics(with_inputs(model, wrong), model.initial_state())


class Declares(eqx.Module):
    """A capacitor with outputs of any kind."""

    found: Any = eqx.field(static=True)
    units: Any = eqx.field(static=True)

    @property
    def ports(self):
        return {"q": power_port(Rn(1), "charge")}

    @property
    def output_units(self):
        return self.units

    def energy(self, x):
        return 0.5 * x["q"][0] ** 2

    def outputs(self, x, e):
        return self.found(x, e)


class Undeclared(eqx.Module):
    """A capacitor whose outputs have no units."""

    @property
    def ports(self):
        return {"q": power_port(Rn(1), "charge")}

    def energy(self, x):
        return 0.5 * x["q"][0] ** 2

    def outputs(self, x, e):
        return {"voltage": e["q"][0]}


VOLT = {"voltage": "V"}
WRONG = {
    "no units": (Undeclared(), "store/output_units: found nothing, wanted a mapping of names to units"),
    "a list": (Declares(lambda x, e: {}, ["voltage"]), "store/output_units: found a list"),
    "a name with a slash": (Declares(lambda x, e: {}, {"a/b": "V"}), "store/output_units: found {'a/b': 'V'}"),
    "a number for a unit": (Declares(lambda x, e: {}, {"voltage": 1}), "store/output_units: found {'voltage': 1}"),
    "another name": (
        Declares(lambda x, e: {"volt": 1.0}, VOLT),
        "store/outputs: found the undeclared 'volt', wanted .*voltage",
    ),
    "too few": (Declares(lambda x, e: {}, VOLT), "store/outputs: found no 'voltage'"),
    "no mapping": (Declares(lambda x, e: e["q"], VOLT), "store/outputs: found a "),
    "no numbers": (Declares(lambda x, e: {"voltage": "high"}, VOLT), "store/outputs: found TypeError"),
    "complex": (Declares(lambda x, e: {"voltage": 1j}, VOLT), "store/outputs/voltage: found complex numbers"),
    "no such port": (Declares(lambda x, e: {"voltage": e["p"]}, VOLT), "store/outputs: found KeyError"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_outputs_are_refused(case):
    component, message = WRONG[case]
    m = jmbs.Mechanism("wrong")
    m.add_system("store", component)
    with pytest.raises(ModelError, match=message):
        jmbs.compile(m)
