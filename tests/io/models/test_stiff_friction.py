"""Dry friction of models is stiff where it holds light parts: the readers choose a method for it, and say so."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import jax.numpy as jnp
import mujoco
import numpy as np
import pytest
import scipy.linalg

import jmbs
from jmbs.io import import_model, load_model, read_config, read_model
from jmbs.io.models import stiff

HERE = Path(__file__).parent
ARM = """<mujoco model="arm"><compiler angle="radian"/><worldbody>
<body name="upper" pos="0 0 1"><joint name="shoulder" axis="0 1 0" damping="0.5" frictionloss="2"/>
  <inertial pos="0.2 0 0" mass="2" diaginertia="0.01 0.02 0.02"/>
  <body name="hand" pos="0.4 0 0"><joint name="wrist" axis="1 0 0" damping="0.2" frictionloss="1"/>
    <inertial pos="0.05 0.005 0" mass="0.2" diaginertia="1e-4 1.5e-4 1.5e-4"/></body></body></worldbody></mujoco>"""
END = "simulation.t1=0.5"


@pytest.fixture
def arm(tmp_path: Path) -> Path:
    (tmp_path / "arm.xml").write_text(ARM)
    return tmp_path / "arm.xml"


def test_one_hinge_decays_as_it_should(tmp_path):
    (tmp_path / "one.urdf").write_text("""<robot name="one"><link name="base"/><link name="wheel"><inertial>
    <mass value="1"/><inertia ixx="1e-3" ixy="0" ixz="0" iyy="1e-3" iyz="0" izz="2e-3"/></inertial></link>
    <joint name="axle" type="continuous"><parent link="base"/><child link="wheel"/><axis xyz="0 0 1"/>
    <dynamics damping="0.4" friction="0.03"/></joint></robot>""")
    decay = stiff.fastest_decay(read_model(tmp_path / "one.urdf").mechanism)
    assert decay is not None and decay.joint == "axle"
    np.testing.assert_allclose(decay.rate, (0.4 + 0.03 / 1e-3) / 2e-3, rtol=1e-12)


@pytest.mark.parametrize("name", ["machine.xml", "geared.xml"])
def test_decays_are_those_of_mujocos_mass_matrix(name):
    """With joints of all kinds, branches and bodies that float."""
    model = mujoco.MjModel.from_xml_path(str(HERE / name))
    data, mass = mujoco.MjData(model), np.zeros((model.nv, model.nv))
    mujoco.mj_forward(model, data)
    mujoco.mj_fullM(model, data, mass)
    wanted = scipy.linalg.eigh(np.diag(model.dof_damping), mass, eigvals_only=True)[-1]
    decay = stiff.fastest_decay(read_model(HERE / name).mechanism)
    assert decay is not None
    np.testing.assert_allclose(decay.rate, wanted, rtol=1e-6)


def test_stiff_models_get_an_implicit_method_and_a_note(arm):
    model = read_model(arm)
    assert model.mechanism.simulation.method == "kvaerno5"
    assert any("slows motion of joint wrist at 9.7e+06 1/s" in note and "kvaerno5" in note for note in model.notes)
    assert load_model(arm).mechanism.simulation.method == "kvaerno5"
    config = load_model(arm, [END]).mechanism.config
    assert config["simulation"] == {"t1": 0.5, "method": "kvaerno5"}
    easy = read_model(HERE / "machine.xml")
    assert easy.mechanism.simulation == jmbs.Mechanism().simulation
    assert not any(note.startswith("simulation") for note in easy.notes)


def test_what_users_say_stays(arm):
    own = "joints.wrist.friction.regularisation_velocity"
    given = load_model(arm, [END, "simulation.method=rk4", "simulation.dt=0.01", f"{own}=0.3"])
    assert given.mechanism.simulation.method == "rk4"
    frictions = {name: joint.friction for name, joint in given.mechanism.joints.items()}
    assert frictions["wrist"].regularisation_velocity == [0.3]
    assert (
        "fixed step of 0.01 s dry friction is smoothed below up to 0.29 m/s or rad/s (joint shoulder)"
        in given.notes[-1]
    )


def test_a_fixed_step_resolves_dry_friction(arm):
    """Alone it slows no motion by more than a step can follow, and no joint is smoothed without need."""
    for dt in (1e-5, 1e-3, 0.1):
        mechanism = load_model(arm, [END, f"simulation.dt={dt}"]).mechanism
        assert mechanism.simulation.method == "kvaerno5"
        for name, joint in mechanism.joints.items():
            dry = dataclasses.replace(joint.friction, viscous=np.zeros(1))
            mechanism.joints[name] = dataclasses.replace(joint, friction=dry)
        decay = stiff.fastest_decay(mechanism)
        assert decay is not None and 0.5 <= decay.rate * dt <= 1.0


def test_its_config_keeps_the_method_and_takes_a_step(arm, tmp_path):
    file, notes = import_model(arm, tmp_path / "arm.yaml")
    assert any("an end time, 1 s" in note for note in notes)
    kept = read_config(file).simulation
    assert (kept.t1, kept.method, kept.dt) == (1.0, "kvaerno5", None)
    assert read_config(file, ["simulation.dt=0.001"]).simulation.dt == 0.001


@pytest.mark.slow
def test_default_runs_end_and_are_near_to_dry_friction(arm):
    """Against a thousandth of the smoothing; the hand's weight turns the wrist by what smoothing lets it creep."""
    model = load_model(arm, [END]).mechanism.compile()
    paths = [path for path in model.parameters() if path.endswith("regularisation_velocity")]
    assert len(paths) == 2
    run = lambda smooth: jmbs.simulate(model.with_parameters({p: jnp.array([smooth]) for p in paths}), save_every=0.1)  # noqa: E731
    usual, sharp = run(1e-3), run(1e-6)
    np.testing.assert_allclose(usual.q.array, sharp.q.array, atol=2e-4)
    assert np.max(np.abs(usual.q["shoulder"])) > 0.1
    stepped = load_model(arm, [END, "simulation.dt=0.001", "simulation.save_every=0.1"]).mechanism.compile()
    np.testing.assert_allclose(jmbs.simulate(stepped).q.array, sharp.q.array, atol=2e-2)
