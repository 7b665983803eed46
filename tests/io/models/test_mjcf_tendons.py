"""Equalities of fixed tendons in MJCF: linear relations of joints, with MuJoCo's own coefficients."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from jmbs.io import read_model

mujoco = pytest.importorskip("mujoco")
FILE = Path(__file__).parent / "tendons.xml"


@pytest.fixture(scope="module")
def read():
    return read_model(FILE)


def test_coefficients_are_those_of_mujoco(read):
    """The rows of its constraint matrix, and what they are missing, at any place."""
    model = mujoco.MjModel.from_xml_path(str(FILE))
    model.opt.jacobian = mujoco.mjtJacobian.mjJAC_DENSE
    data = mujoco.MjData(model)
    data.qpos[:] = np.random.default_rng(3).normal(size=model.nq)
    mujoco.mj_forward(model, data)
    rows, missing = data.efc_J.reshape(-1, model.nv), data.efc_pos
    names = [model.joint(i).name for i in range(model.njnt)]
    q = dict(zip(names, data.qpos - model.qpos0, strict=True))
    assert list(read.mechanism.gears) == ["three", "fixed"]
    for gear, row, gap in zip(read.mechanism.gears.values(), rows[:2], missing[:2], strict=True):
        found = {name: own[0] for name, own in gear.joints.items()}
        np.testing.assert_allclose([found.get(name, 0.0) for name in names], row, atol=1e-14)
        np.testing.assert_allclose(sum(c * q[name] for name, c in found.items()) - gear.offset, gap, atol=1e-14)


def test_what_is_not_linear_is_left_out(read):
    form = "not simulated, only linear ones of fixed tendons over two or more bodies' single joints are"
    for note in (
        "equality three: simulated as a gear of 3 joints, exactly where MuJoCo's gives way a little",
        f"equality square (tendon): {form}",
        f"equality ball (tendon): {form}",
        "equality off: inactive in the file, not simulated",
        "tendon damped: its damping: not simulated",
        "tendon two: not simulated",
    ):
        assert note in read.notes
    assert not any(note.startswith(("tendon sum", "tendon pair")) for note in read.notes)
    assert "TENDONS (2), EQUALITIES (2)" in read.left_out
