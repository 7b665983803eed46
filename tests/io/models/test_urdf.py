"""What is made of a URDF: bodies, joints, frames and notes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest
from quick import forward_dynamics

import jmbs
from jmbs.io import ConfigError, read_model
from jmbs.io.models.left_out import left_out

HERE = Path(__file__).parent


def fused(file: Path) -> Any:
    """MuJoCo's reading, with fixed links merged by MuJoCo and without looking for meshes."""
    spec = mujoco.MjSpec.from_string(re.sub("<collision>.*?</collision>", "", file.read_text()))
    spec.compiler.fusestatic = True
    return spec.compile()


def test_merged_bodies_are_those_of_mujoco():
    mechanism, m = read_model(HERE / "branched.urdf").mechanism, fused(HERE / "branched.urdf")
    assert list(mechanism.bodies) == ["column", "left", "right", "wheel"]
    for name, body in mechanism.bodies.items():
        there = m.body(name)
        turn = np.zeros(9)
        mujoco.mju_quat2Mat(turn, there.iquat)
        inertia = turn.reshape(3, 3) @ np.diag(there.inertia) @ turn.reshape(3, 3).T
        np.testing.assert_allclose(body.mass, there.mass[0], rtol=1e-14)
        np.testing.assert_allclose(body.inertia, inertia, atol=1e-14)
        (above,) = (joint for joint in mechanism.joints.values() if joint.child == name)
        np.testing.assert_allclose(above.child_frame.position, -there.ipos, atol=1e-15)


def test_joints_keep_their_kind_axis_and_damping():
    joints = read_model(HERE / "branched.urdf").mechanism.joints
    kinds = {name: joint.type for name, joint in joints.items()}
    assert kinds == {"turn": "revolute", "shoulder": "revolute", "slide": "prismatic", "wheel_joint": "revolute"}
    np.testing.assert_allclose(joints["shoulder"].geometry["axis"], np.array([1, 2, 0.5]) / np.linalg.norm([1, 2, 0.5]))
    np.testing.assert_array_equal(joints["slide"].geometry["axis"], [1, 0, 0])  # URDF's default
    assert joints["turn"].friction.viscous == [0.3] and joints["wheel_joint"].friction is None


def test_fixed_joints_can_be_kept():
    mechanism = read_model(HERE / "branched.urdf", fixed="keep").mechanism
    assert set(mechanism.bodies) == {"base", "column", "left", "left_hand", "right", "wheel"}
    assert [name for name, joint in mechanism.joints.items() if joint.type == "fixed"] == ["base_to_ground", "wrist"]
    assert mechanism.bodies["base"].mass == 20


def test_the_root_can_be_free():
    mechanism = read_model(HERE / "branched.urdf", root="free").mechanism
    assert mechanism.joints["base_to_ground"].type == "free"
    assert mechanism.bodies["base"].mass == 20


def test_a_floating_joint_below_the_world_is_free():
    mechanism = read_model(HERE / "floating.urdf").mechanism
    drift = mechanism.joints["drift"]
    assert (drift.type, drift.parent, drift.child) == ("free", "ground", "hull")


def test_every_thing_that_is_not_simulated_is_listed():
    assert read_model(HERE / "branched.urdf").notes == (
        "material grey: not simulated",
        "transmission turn_motor: not simulated",
        "gazebo column: not simulated",
        "link base: visual, collision: not read (no contact, no drawing)",
        "joint turn: damping 0.3: simulated, as viscous friction",
        "joint shoulder: limits lower -1.5, upper 1.2, effort 50, velocity 3: not enforced",
        "joint shoulder: damping 0.2: simulated, as viscous friction",
        "joint slide: limits lower 0, upper 0.3, effort 100, velocity 1: not enforced",
        "joint slide: damping 1.5: simulated, as viscous friction",
        "joint wheel: mimic 2 x turn + 0: simulated, as a gear",
        "link base: fixed to the ground, its mass of 20 kg has no effect",
        "joint wheel: called wheel_joint here, where names are plain and used only once",
    )


def test_what_changes_the_motion_is_one_line():
    """It was note 300 of 677."""
    limits, motor = "LIMITS OF JOINTS (2)", "TRANSMISSIONS, WITH THE INERTIA OF THEIR ROTORS (1)"
    assert (
        read_model(HERE / "branched.urdf").left_out == f"NOT SIMULATED, THOUGH IT CHANGES THE MOTION: {limits}, {motor}"
    )
    assert left_out(["joint a: damping 0.3: simulated, as viscous friction"]) == ""


LINK = """<link name="{}"><inertial><mass value="1"/>
<inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/></inertial></link>"""


def one_joint(tmp_path: Path, joint: str, kind: str = "revolute", name: str = "j") -> Any:
    text = f"""<robot name="one"><link name="base"/>{LINK.format("arm")}
    <joint name="{name}" type="{kind}"><parent link="base"/><child link="arm"/>{joint}</joint></robot>"""
    (tmp_path / "one.xml").write_text(text)
    return read_model(tmp_path / "one.xml")


@pytest.mark.parametrize(
    "joint, kind, note",
    [
        ('<limit effort="1" velocity="2"/>', "continuous", "limits effort 1, velocity 2: not enforced"),
        ('<dynamics friction="0.2"/>', "prismatic", "friction 0.2: simulated, as Coulomb friction smoothed below"),
        ('<dynamics damping="1"/>', "floating", "dynamics of a floating joint, which have no meaning in URDF"),
        ('<safety_controller k_velocity="1"/>', "revolute", "safety_controller: not simulated"),
        ('<calibration rising="1"/>', "revolute", "calibration: not read"),
        ("<spring/>", "revolute", 'unknown tag "spring" in /joint/j: not read'),
        ('<axis xyz="1 0 0" colour="red"/>', "revolute", None),
    ],
)
def test_notes_of_joints(tmp_path: Path, joint: str, kind: str, note: str | None):
    model = one_joint(tmp_path, joint, kind)
    assert all(text.startswith("joint j: ") for text in model.notes)
    if note is not None:
        assert note in model.notes[0]


def test_friction_is_coulomb(tmp_path: Path):
    friction = one_joint(tmp_path, '<dynamics friction="0.2"/>').mechanism.joints["j"].friction
    assert (friction.coulomb, friction.viscous) == ([0.2], [0.0])


TRANSMISSION = """<transmission name="t"><joint name="{joint}"/><actuator name="m">
<mechanicalReduction>{reduction}</mechanicalReduction><{tag}>{inertia}</{tag}></actuator></transmission>"""


def with_motors(tmp_path: Path, kind: str, more: str = "", **values: object) -> Any:
    """One joint with a transmission, and `more`."""
    one_joint(tmp_path, "", kind)
    file, given = tmp_path / "one.xml", {"joint": "j", "reduction": -50, "inertia": 2e-4, "tag": "motorInertia"}
    motors = TRANSMISSION.format(**given | values) + more
    file.write_text(file.read_text().replace("</robot>", f"{motors}</robot>"))
    return read_model(file)


@pytest.mark.parametrize("kind", ["revolute", "prismatic"])
def test_a_joint_feels_rotors_by_the_squared_reduction(tmp_path: Path, kind: str):
    drake = '<transmission name="u"><joint name="j"/><actuator name="m"><rotor_inertia value="0.1"/></actuator>'
    model = with_motors(tmp_path, kind, f"{drake}</transmission>")
    np.testing.assert_allclose(model.mechanism.joints["j"].armature, [2e-4 * 50**2 + 0.1], rtol=1e-15)
    rotor = "rotor inertia 0.0002 behind a reduction of -50"
    assert f"transmission t: {rotor}: simulated, as armature 0.5 of joint j" in model.notes
    assert "TRANSMISSIONS" not in model.left_out


@pytest.mark.parametrize("kind, tag", [("floating", "motorInertia"), ("revolute", "otherInertia")])
def test_other_rotors_are_noted(tmp_path: Path, kind: str, tag: str):
    model = with_motors(tmp_path, kind, tag=tag)
    assert "transmission t: not simulated" in model.notes and "TRANSMISSIONS" in model.left_out


@pytest.mark.parametrize(
    "values, path",
    [
        ({"inertia": -1}, "transmission/t/motorInertia"),
        ({"inertia": "big"}, "transmission/t/motorInertia"),
        ({"inertia": 1e30, "reduction": 1e10}, "transmission/t/actuator"),
        ({"reduction": "nan"}, "transmission/t/mechanicalReduction"),
        ({"joint": "i"}, "transmission/t/joint"),
    ],
)
def test_wrong_rotors_are_refused(tmp_path: Path, values: dict[str, Any], path: str):
    with pytest.raises(ConfigError, match=path):
        with_motors(tmp_path, "revolute", **values)


def test_a_planar_joint_moves_across_its_axis(tmp_path: Path):
    joint = one_joint(tmp_path, '<axis xyz="0 0 2"/>', "planar").mechanism.joints["j"]
    assert joint.type == "planar" and list(joint.geometry["axis"]) == [0, 0, 1]


@pytest.mark.parametrize(
    "name, ours", [("a.b/c d", "a_b_c_d"), ("7th", "_7th"), ("ground", "ground_joint"), ("arm", "arm_joint")]
)
def test_names_become_plain_and_unique(tmp_path: Path, name: str, ours: str):
    model = one_joint(tmp_path, "", name=name)
    assert list(model.mechanism.joints) == [ours]
    assert f"joint {name}: called {ours} here, where names are plain and used only once" in model.notes


SHOULDER = """
<robot name="arm">
  <link name="base"/>
  <link name="yaw">{light}</link> <link name="roll">{light}</link>
  <link name="upper"><inertial><origin xyz="0 0.1 -0.2"/><mass value="2"/>
    <inertia ixx="0.04" iyy="0.05" izz="0.02" ixy="0.001" ixz="0" iyz="0"/></inertial></link>
  <joint name="j1" type="revolute"><parent link="base"/><child link="yaw"/><origin xyz="0 0 1" rpy="0.1 0 0.2"/>
    <axis xyz="0 0 1"/><limit effort="1" velocity="1"/><dynamics damping="0.3"/></joint>
  <joint name="j2" type="prismatic"><parent link="yaw"/><child link="roll"/><origin xyz="0.1 0 0.2" rpy="0 0.5 0.3"/>
    <axis xyz="1 0 1"/><limit effort="1" velocity="1"/></joint>
  <joint name="j3" type="revolute"><parent link="roll"/><child link="upper"/><origin xyz="0 0.2 0" rpy="0.4 0 0"/>
    <axis xyz="1 0 0"/><limit effort="1" velocity="1"/><dynamics damping="0.1" friction="0.02"/></joint>
</robot>
"""


@pytest.mark.slow
def test_links_without_mass_are_what_those_of_little_mass_tend_to(tmp_path: Path):
    moments = '<inertia ixx="1e-9" iyy="1e-9" izz="1e-9" ixy="0" ixz="0" iyz="0"/>'
    little = f'<inertial><mass value="1e-9"/>{moments}</inertial>'
    q, v = np.array([0.4, 0.2, -0.7]), np.array([1.0, -0.5, 2.0])
    found = []
    for light in ("", little):
        (tmp_path / "arm.urdf").write_text(SHOULDER.format(light=light))
        read = read_model(tmp_path / "arm.urdf")
        joints, place = read.mechanism.joints, 0
        for name, joint in joints.items():
            own = slice(place, place + joint.dimension)
            read.mechanism.set_initial(joints={name: {"q": q[own], "v": v[own]}})
            place = own.stop
        model = jmbs.compile(read.mechanism)
        state = model.initial_state()
        found.append((list(joints), np.asarray(forward_dynamics(model, state)), read.notes))
    (names, dv, notes), (chain, near, _) = found
    assert names == ["j1_j2_j3"] and chain == ["j1", "j2", "j3"]
    assert "link yaw: without mass, so j1 and j2 are one joint, j1_j2" in notes
    np.testing.assert_allclose(dv, near, rtol=1e-6)


INERTIA = """<inertial><origin xyz="0 {y} -0.2"/><mass value="{mass}"/>
    <inertia ixx="0.04" iyy="0.05" izz="0.02" ixy="0.001" ixz="0" iyz="0"/></inertial>"""
FORKED = """
<robot name="torso">
  <link name="base"/>
  <link name="turn">{light}</link> <link name="bend">{light}</link>
  <link name="left">{left}</link> <link name="right">{right}</link> <link name="head">{head}</link>
  <joint name="j1" type="revolute"><parent link="base"/><child link="turn"/><origin xyz="0 0 1" rpy="0.1 0 0.2"/>
    <axis xyz="0 0 1"/><limit effort="1" velocity="1"/><dynamics damping="0.3"/></joint>
  <joint name="j2" type="prismatic"><parent link="turn"/><child link="left"/><origin xyz="0.1 0 0.2" rpy="0 0.5 0.3"/>
    <axis xyz="1 0 1"/><limit effort="1" velocity="1"/></joint>
  <joint name="j3" type="revolute"><parent link="turn"/><child link="bend"/><origin xyz="0 0.2 0" rpy="0.4 0 0"/>
    <axis xyz="1 0 0"/><limit effort="1" velocity="1"/><dynamics damping="0.1"/></joint>
  <joint name="j4" type="revolute"><parent link="bend"/><child link="right"/><origin xyz="0 0.1 0"/>
    <axis xyz="0 1 0"/><limit effort="1" velocity="1"/></joint>
  <joint name="j5" type="revolute"><parent link="bend"/><child link="head"/><origin xyz="0.1 0 0.3"/>
    <axis xyz="0 1 0.2"/><limit effort="1" velocity="1"/><dynamics damping="0.2"/></joint>
  <transmission><joint name="j1"/><actuator><motorInertia>0.2</motorInertia></actuator></transmission>
  <transmission><joint name="j3"/><actuator><motorInertia>0.1</motorInertia></actuator></transmission>
  <transmission><joint name="j5"/><actuator><motorInertia>0.3</motorInertia></actuator></transmission>
</robot>
"""


@pytest.mark.slow
def test_links_without_mass_may_fork(tmp_path: Path):
    """Two of them, one after the other; as what they are the limit of, and with joints that share motions."""
    moments = '<inertia ixx="1e-9" iyy="1e-9" izz="1e-9" ixy="0" ixz="0" iyz="0"/>'
    little = f'<inertial><mass value="1e-9"/>{moments}</inertial>'
    heavy = {name: INERTIA.format(y=y, mass=m) for name, y, m in (("left", 0.1, 2), ("right", 0.2, 1), ("head", 0, 3))}
    q = dict(zip(("j1", "j2", "j3", "j4", "j5"), (0.4, 0.2, -0.7, 0.3, 0.5), strict=True))
    v = dict(zip(q, (1.0, -0.5, 2.0, 0.7, -1.5), strict=True))
    found = []
    for light in ("", little):
        (tmp_path / "torso.urdf").write_text(FORKED.format(light=light, **heavy))
        read = read_model(tmp_path / "torso.urdf")
        for name in read.mechanism.joints:
            parts = name.split("_")
            values = {"q": [q[part] for part in parts], "v": [v[part] for part in parts]}
            read.mechanism.set_initial(joints={name: values})
        model = jmbs.compile(read.mechanism)
        dv = np.asarray(forward_dynamics(model, model.initial_state()))
        found.append((model, dv, read))
    (model, dv, read), (_, near, chain) = found
    wanted = dict(zip(chain.mechanism.joints, near, strict=True))
    assert sorted(read.mechanism.joints) == ["j1_j2", "j1_j3_j4", "j1_j3_j5"]
    assert sorted(read.mechanism.gears) == ["j1_j3_j4_0", "j1_j3_j5_0", "j1_j3_j5_1"]
    rotors = {name: None if j.armature is None else j.armature.tolist() for name, j in read.mechanism.joints.items()}
    assert rotors == {"j1_j2": [0.2, 0], "j1_j3_j4": [0, 0.1, 0], "j1_j3_j5": [0, 0, 0.3]}
    assert sum("link" in note and "gears keep equal" in note for note in read.notes) == 2
    for (joint, _), start, rate in zip(model.velocity_names, _places(model.velocity_names), dv, strict=True):
        np.testing.assert_allclose(rate, wanted[joint.split("_")[start]], rtol=1e-6)


def _places(names: list[tuple[str, str]]) -> list[int]:
    """Which of its joint's velocities each one is."""
    return [[own for joint, own in names if joint == name].index(velocity) for name, velocity in names]


@pytest.mark.parametrize(
    "mimic, found",
    [
        ('joint="k"', "joint/j/mimic: found the joint k, wanted another joint of the file"),
        ('joint="j"', "joint/j/mimic: found the joint j, wanted another joint of the file"),
        ('joint="k" offset="nan"', "joint/j/mimic: found "),
    ],
)
def test_mimic_of_a_joint_that_is_not_there(tmp_path: Path, mimic: str, found: str):
    with pytest.raises(ConfigError) as caught:
        one_joint(tmp_path, f"<mimic {mimic}/>", "continuous")
    assert found in str(caught.value)


def test_mimic_of_a_joint_that_is_part_of_another(tmp_path: Path):
    """The gear binds the coordinate that the joint has become, and what shares it follows."""
    text = FORKED.format(light="", left=INERTIA.format(y=1, mass=1), right=INERTIA.format(y=1, mass=1), head="")
    text = text.replace('<link name="head"></link>', f'<link name="head">{INERTIA.format(y=0, mass=1)}</link>')
    mimic = '<dynamics damping="0.2"/><mimic joint="j3" multiplier="-2" offset="0.1"/>'
    (tmp_path / "torso.urdf").write_text(text.replace('<dynamics damping="0.2"/>', mimic))
    gear = read_model(tmp_path / "torso.urdf").mechanism.gears["j5_gear"]
    assert (gear.joint, gear.coordinate, gear.driver, gear.driver_coordinate) == ("j1_j3_j5", 2, "j1_j3_j4", 1)
    assert (gear.ratio, gear.offset) == (-2.0, 0.1)
