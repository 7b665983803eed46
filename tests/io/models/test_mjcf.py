"""What is made of MJCF: how MuJoCo's joints map to ours, loops, and notes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest

from jmbs.errors import ModelError
from jmbs.io import read_model

HERE = Path(__file__).parent


def of_body(tmp_path: Path, joints: str, before: str = "", after: str = "", name: str = "one.xml") -> Any:
    """The model of one body with some joints."""
    text = f"""<mujoco><compiler angle="radian"/>{before}<worldbody><body name="b" pos="0 0 1">{joints}
    <geom name="g" size="0.1" contype="0" conaffinity="0"/></body></worldbody>{after}</mujoco>"""
    (tmp_path / name).write_text(text)
    return read_model(tmp_path / name)


H1, H2, H3 = ('<joint name="h1" axis="1 0 0"/>', '<joint name="h2" axis="0 1 0"/>', '<joint name="h3" axis="0 0 1"/>')
S1, S2, S3 = (hinge.replace('name="h', 'type="slide" name="s') for hinge in (H1, H2, H3))
BALL = '<joint name="b1" type="ball"/>'


@pytest.mark.parametrize(
    "joints, kind, name",
    [
        (H1, "revolute", "h1"),
        (S1, "prismatic", "s1"),
        (BALL, "spherical", "b1"),
        ('<freejoint name="f"/>', "free", "f"),
        (H1 + H2, "universal", "h1_h2"),
        (H1 + S1, "cylindrical", "h1_s1"),
        (S1 + H1, "cylindrical", "h1_s1"),
        (S1 + S2 + H3, "planar", "s1_s2_h3"),
        (S2 + S1 + H3, "planar", "s1_s2_h3"),
        (H1 + H2 + H3, "spherical", "h1_h2_h3"),
        (S1 + S2 + S3 + BALL, "free", "s1_s2_s3_b1"),
        (S1 + S2 + S3 + H1 + H2 + H3, "free", "s1_s2_s3_h1_h2_h3"),
        (H1 + H2.replace("axis", 'pos="0 0 0.1" axis'), "composite", "h1_h2"),
        (H1 + S2, "composite", "h1_s2"),
        (S1 + S2, "composite", "s1_s2"),
        (S1 + H1 + H2, "composite", "s1_h1_h2"),
        (S1 + S2 + H1, "composite", "s1_s2_h1"),
        (H1 + H2.replace("axis", 'damping="0.5" axis') + H3, "composite", "h1_h2_h3"),
        (H1 + H2 + H1.replace('h1"', 'h4" pos="0 0.1 0"'), "composite", "h1_h2_h4"),
    ],
)
def test_joints_in_a_row_are_one(tmp_path: Path, joints: str, kind: str, name: str):
    mechanism = of_body(tmp_path, joints).mechanism
    assert {name: joint.type for name, joint in mechanism.joints.items()} == {name: kind}


@pytest.mark.parametrize(
    "joints",
    [
        H1 + H1.replace("h1", "again"),
        H1 + BALL,
        S1 + S2 + S1.replace("s1", "again"),
    ],
)
def test_other_rows_are_refused(tmp_path: Path, joints: str):
    with pytest.raises(
        ModelError, match=r"one.xml: body/b: found the joints .*wanted one joint, or some that make one"
    ):
        of_body(tmp_path, joints)


def test_forces_on_one_of_the_coordinates_that_a_joint_replaces_are_refused(tmp_path: Path):
    with pytest.raises(
        ModelError, match=r"body/b/joint/s2/damping: found damping 0.5 on a joint that is part of a free"
    ):
        of_body(tmp_path, S1 + S2.replace("axis", 'damping="0.5" axis') + S3 + BALL)


def test_a_row_keeps_its_forces_and_the_order_of_its_coordinates(tmp_path: Path):
    springy = '<joint name="h2" axis="0 1 0" ref="0.3" springref="0.5" stiffness="2" damping="0.1"/>'
    model = of_body(tmp_path, H1 + springy + H3)
    joint = model.mechanism.joints["h1_h2_h3"]
    assert [motion.type for motion in joint.geometry["motions"]] == ["revolute"] * 3
    np.testing.assert_allclose(joint.spring.stiffness, [0, 2, 0])
    np.testing.assert_allclose(joint.spring.rest, [0, 0.2, 0])
    np.testing.assert_allclose(joint.friction.viscous, [0, 0.1, 0])
    assert "body b: its joints h1 (hinge), h2 (hinge), h3 (hinge) are one composite joint here" in model.notes


def test_springs_are_counted_from_the_reference(tmp_path: Path):
    joint = '<joint name="h" axis="0 1 0" ref="0.3" springref="0.5" stiffness="2" damping="0.1" frictionloss="0.2"/>'
    model = of_body(tmp_path, joint)
    h = model.mechanism.joints["h"]
    np.testing.assert_allclose([h.spring.stiffness, h.spring.rest], [[2.0], [0.2]])
    assert (h.friction.viscous, h.friction.coulomb) == ([0.1], [0.2])
    assert model.notes[:4] == (
        "joint h: ref 0.3: coordinates here count from there, q = qpos - ref",
        "joint h: stiffness 2: simulated, as a spring",
        "joint h: damping 0.1: simulated, as viscous friction",
        "joint h: frictionloss 0.2: simulated, as Coulomb friction smoothed below 1e-3 m/s or rad/s",
    )
    assert all(note.startswith("simulation: near rest friction slows") for note in model.notes[4:])


def test_a_free_body_starts_where_the_file_puts_it(tmp_path: Path):
    mechanism = of_body(tmp_path, '<freejoint name="f"/>').mechanism
    np.testing.assert_array_equal(mechanism.initial_joints["f"]["q"], [0, 0, 1, 1, 0, 0, 0])


def test_gravity_and_name(tmp_path: Path):
    model = read_model(HERE / "machine.xml")
    assert (model.mechanism.name, list(model.mechanism.gravity)) == ("machine", [0.3, 0, -9.7])
    off = of_body(tmp_path, H1, '<option><flag gravity="disable"/></option>', name="weightless.mjcf")
    assert (off.mechanism.name, list(off.mechanism.gravity)) == ("weightless", [0, 0, 0])
    assert off.notes == ("flag gravity disabled: gravity is zero",)


def test_bodies_are_those_of_mujoco():
    mechanism = read_model(HERE / "machine.xml", fixed="keep").mechanism
    m = mujoco.MjModel.from_xml_path(str(HERE / "machine.xml"))
    assert set(mechanism.bodies) == {m.body(i).name for i in range(1, m.nbody)}
    for name, body in mechanism.bodies.items():
        np.testing.assert_allclose(body.mass, m.body(name).mass[0], rtol=1e-15)
        moments = np.linalg.eigvalsh(body.inertia)
        np.testing.assert_allclose(moments, np.sort(m.body(name).inertia), rtol=1e-12)


def test_equalities_between_bodies_are_loop_joints():
    model = read_model(HERE / "four_bar.xml")
    pin, glue = model.mechanism.joints["pin"], model.mechanism.joints["glue"]
    assert (pin.type, pin.parent, pin.child) == ("spherical", "coupler", "rocker")
    assert (glue.type, glue.parent, glue.child) == ("fixed", "left", "right")
    notes = [note for note in model.notes if note.startswith("equality")]
    assert notes == [
        "equality pin: simulated as a spherical joint, exactly where MuJoCo's gives way a little",
        "equality glue: simulated as a fixed joint, exactly where MuJoCo's gives way a little",
        "equality gear: inactive in the file, not simulated",
        "equality belt (joint): not simulated, only linear ones of two bodies' single joints are",
    ]


def test_loops_to_the_ground_between_sites_and_without_effect(tmp_path: Path):
    inside = '<site name="s" pos="0.1 0 0"/>'
    equality = """<equality><connect name="e1" body1="world" body2="b" anchor="0 0 2"/><weld name="e2" body1="b"/>
    <connect name="e3" site1="s" site2="origin"/><weld name="e4" body1="b" body2="c"/>
    <connect name="e5" body1="b" anchor="0 0 0" active="false"/></equality>"""
    text = f"""<mujoco><worldbody><site name="origin"/><body name="b" pos="0 0 1"><freejoint/><geom size="0.1"/>{inside}
    <body name="c" pos="0 0 1"><geom size="0.1"/></body></body></worldbody>{equality}</mujoco>"""
    (tmp_path / "loops.xml").write_text(text)
    model = read_model(tmp_path / "loops.xml")
    joints = model.mechanism.joints
    assert [(n, j.type, j.parent, j.child) for n, j in joints.items()][1:] == [
        ("e1", "spherical", "ground", "b"),
        ("e2", "fixed", "ground", "b"),
        ("e3", "spherical", "ground", "b"),
    ]
    # The centre of mass is 0.5 above the link's origin, since the two balls are one body.
    np.testing.assert_allclose(joints["e1"].parent_frame.position, [0, 0, 2], atol=1e-12)
    np.testing.assert_allclose(joints["e1"].child_frame.position, [0, 0, 0.5], atol=1e-12)
    np.testing.assert_allclose(joints["e3"].child_frame.position, [0.1, 0, -0.5], atol=1e-12)
    assert "equality e4: both ends are on b, so it has no effect" in model.notes
    assert "equality e5: inactive in the file, not simulated" in model.notes


def test_every_thing_that_is_not_simulated_is_listed():
    notes = read_model(HERE / "machine.xml").notes
    for note in (
        "option timestep 0.001: not used",
        "body hopper: contact of torso: not simulated",
        "joint crank: range -1.5708 to 1.5708: not enforced",
        "joint crank: armature 0.01: simulated, as the inertia of its rotor",
        "actuator drive: not simulated",
        "sensor angle: not simulated",
        "exclude 0: not simulated",
        "key home: not simulated",
        "site imu: not simulated",
        "lights (1): not read",
        "link table: fixed to the ground, its mass of 32 kg has no effect",
    ):
        assert note in notes
    assert "ARMATURE" not in read_model(HERE / "machine.xml").left_out


@pytest.mark.parametrize(
    "joint, before, after, note",
    [
        ('<freejoint name="f"/>', '<option wind="1 0 0" density="1.2"/>', "", "option density 1.2: not used"),
        (
            H1 + "",
            "",
            '<tendon><fixed name="t"><joint joint="h1" coef="1"/></fixed></tendon>',
            "tendon t: not simulated",
        ),
        ('<joint name="f" type="free" stiffness="3"/>', "", "", "joint f: stiffness 3 of a free joint: not simulated"),
        ('<joint name="f" type="free" armature="3"/>', "", "", "joint f: ARMATURE 3 of a free joint: NOT simulated"),
        (
            H1.replace("axis", 'actuatorfrcrange="-1 1" axis'),
            "",
            "",
            "joint h1: actuatorfrcrange -1 to 1: not enforced",
        ),
        (
            "<joint/>",
            "",
            '<custom><numeric name="n" data="1"/></custom>',
            "custom numbers, texts and tuples (1): not read",
        ),
    ],
)
def test_notes(tmp_path: Path, joint: str, before: str, after: str, note: str):
    assert note in of_body(tmp_path, joint, before, after).notes


def test_gravity_compensation_is_noted(tmp_path: Path):
    text = '<mujoco><worldbody><body name="b" gravcomp="1"><joint/><geom size="0.1"/></body></worldbody></mujoco>'
    (tmp_path / "one.xml").write_text(text)
    assert "body b: gravcomp 1: not simulated" in read_model(tmp_path / "one.xml").notes


def test_warnings_of_mujoco_are_notes_and_no_file(tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    axle = '<joint name="j" axis="1 0 0"/><body name="rotor"><joint name="k" axis="1 0 0"/><geom size="0.1"/></body>'
    text = (
        f'<mujoco><worldbody><body name="b">{axle}<inertial pos="0 0 0" mass="1e-9" diaginertia="1e-15 1e-15 1e-15"/>'
    )
    (tmp_path / "thin.xml").write_text(f"{text}</body></worldbody></mujoco>")
    notes = read_model(tmp_path / "thin.xml").notes
    assert any(note.startswith("MuJoCo warns: Inertia matrix is too close to singular") for note in notes)
    assert [path.name for path in tmp_path.iterdir()] == ["thin.xml"]
