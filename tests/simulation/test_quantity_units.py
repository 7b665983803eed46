"""Units of states and inputs of systems beyond mechanisms, and of joints' inputs, in results and parameters."""

from __future__ import annotations

from pathlib import Path

import pytest

import jmbs
from jmbs.simulation import input_units, state_units

CONFIGS = Path(__file__).parents[2] / "configs"


@pytest.fixture(scope="module")
def circuit():
    return jmbs.compile(jmbs.load(CONFIGS / "rlc.yaml"))


def test_states_of_a_circuit_have_the_units_of_what_they_show(circuit):
    """Where storages hold flux linkages currents are shown."""
    units = state_units(circuit)
    assert {name: units[name] for name in ("node", "series")} == {"node": "C", "series": "A"}
    parameters = circuit.parameters()
    assert {path: parameters[f"initial/{path}"]["unit"] for path in ("node", "series")} == {"node": "C", "series": "A"}


def test_inputs_have_the_units_of_what_they_give(circuit):
    assert input_units(circuit, "series") == ("V",) and input_units(circuit, "heat") == ("W/K",)
    crank = jmbs.compile(jmbs.load(CONFIGS / "motor_slider_crank.yaml"))
    assert [input_units(crank, f"{name}/actuation") for name in ("axle", "guide")] == [("N m",), ("N",)]
    assert input_units(crank, "supply") == ("V",) and state_units(crank)["motor/i"] == "A"
