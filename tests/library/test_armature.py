"""Rotors of joints in descriptions and files: what is taken, what is refused, and under which names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jmbs
from jmbs import Mechanism, load
from jmbs.errors import ModelError
from jmbs.io import write_config

CONFIG = """
schema: jmbs/1
bodies:
  upper: {{mass: 1.0, inertia: [0.1, 0.1, 0.1]}}
  lower: {{mass: 1.0, inertia: [0.1, 0.1, 0.1]}}
joints:
  hinge: {{type: revolute, parent: ground, child: upper, armature: 0.25}}
  cross: {{type: universal, parent: upper, child: lower, axis2: [1, 0, 0], armature: {armature}}}
"""


def written(folder: Path, armature: Any) -> Mechanism:
    (folder / "arm.yaml").write_text(CONFIG.format(armature=armature))
    return load(str(folder / "arm.yaml"))


def test_configs_say_it_by_coordinate(tmp_path):
    """One number is that of every coordinate; joints without rotor are the same as before."""
    for given, wanted in ((0.5, [0.5, 0.5]), ([0, 0.5], [0, 0.5]), (0, None)):
        mechanism = written(tmp_path, given)
        write_config(mechanism, tmp_path / "again.yaml", force=True)
        for m in (mechanism, load(str(tmp_path / "again.yaml"))):
            np.testing.assert_array_equal(m.joints["hinge"].armature, [0.25])
            np.testing.assert_array_equal(m.joints["cross"].armature, wanted)
        boxes = mechanism.system().boxes["cross"].boxes
        assert ("ri" in boxes) == ("rr" in boxes) == (wanted is not None)


@pytest.mark.parametrize("armature", [-0.1, [0.1, -1e-9], [0.1, 0.1, 0.1], "heavy", ".nan", ".inf"])
def test_configs_are_refused_by_path(tmp_path, armature):
    with pytest.raises(ModelError, match="joints/cross/armature|joints.cross.armature"):
        written(tmp_path, armature)


def test_a_joint_that_does_not_move_has_no_rotor():
    mechanism = Mechanism("fixed")
    with pytest.raises(ModelError, match="joints/weld/armature: found one on a fixed joint"):
        mechanism.add_joint("weld", "fixed", "ground", "upper", armature=0.1)


def test_parameters_keep_their_rotors(tmp_path):
    """Which coordinates have a rotor is decided when the model is built, since these alone have a momentum."""
    model = jmbs.compile(written(tmp_path, [0, 0.5]))
    entry = model.parameters()["cross/armature"]
    assert entry["unit"] == "kg m^2 or kg" and entry["shape"] == (2,)
    changed = model.with_parameters({"cross/armature": [0.0, 2.0], "hinge/armature": 3.0})
    np.testing.assert_array_equal(changed.parameters()["cross/armature"]["value"], [0, 2])
    for path, value in (("cross", [0.1, 0.5]), ("cross", [0, 0]), ("cross", [0, -1]), ("hinge", 0), ("hinge", -1)):
        with pytest.raises(ModelError, match=f"{path}/armature"):
            model.with_parameters({f"{path}/armature": value})
    assert "cross/armature" not in jmbs.compile(written(tmp_path, 0)).parameters()


def test_a_rotation_without_inertia_turns_no_rotor():
    mechanism = Mechanism("point")
    mechanism.add_body("ball", mass=1.0, kind="particle")
    mechanism.add_joint("socket", "spherical", "ground", "ball", armature=0.1)
    with pytest.raises(ModelError, match="joints/socket/armature"):
        mechanism.system()
