"""Files that are wrong are refused with one line: file, place, what was found, what was wanted."""

from __future__ import annotations

import importlib
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from jmbs.errors import ModelError
from jmbs.io import ConfigError, read_model

INERTIA = '<inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/>'
LINKS = f'<link name="a"/><link name="b"><inertial><mass value="1"/>{INERTIA}</inertial></link>'
ENDS = '<parent link="a"/><child link="b"/>'
JOINT = f'<joint name="j" type="revolute">{ENDS}</joint>'


def refusal(tmp_path: Path, text: str | bytes, name: str) -> str:
    file = tmp_path / name
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ModelError) as caught:
        read_model(file)
    message = str(caught.value)
    assert message.startswith(f"{file}: ") and "\n" not in message
    rest = message.removeprefix(f"{file}: ")
    assert rest.count("wanted ") == 1
    return rest


@pytest.mark.parametrize(
    "text, message",
    [
        ("", "found broken XML (no element found"),
        ("<robot name='r'>", "found broken XML (no element found"),
        (b"\xff\xfe\x00", "found broken XML"),
        ("<sdf/>", "found the root element sdf, wanted robot (URDF) or mujoco (MJCF)"),
        ('<robot name="r" xmlns:xacro="http://www.ros.org/wiki/xacro"><xacro:arm/></robot>', "found macros of xacro"),
    ],
)
def test_not_a_model(tmp_path: Path, text: str | bytes, message: str):
    assert refusal(tmp_path, text, "bad.urdf").startswith(message)


@pytest.mark.parametrize(
    "inside, message",
    [
        ("", "joint: found no links, wanted a tree of links"),
        ('<link name="a"/>', "found nothing that moves"),
        (LINKS + LINKS, "link/a: found two links of that name"),
        (
            LINKS + JOINT.replace("revolute", "hinge"),
            "joint/j: found what URDF does not allow (Invalid joint type: hin",
        ),
        (LINKS + JOINT.replace("revolute", "unknown"), "joint/j: found type unknown, wanted one of fixed, revolute"),
        (LINKS + JOINT.replace('link="b"', 'link="bb"'), "joint/j/child: found no link bb, wanted a link; the nearest"),
        (LINKS + JOINT.replace('<child link="b"/>', ""), "joint/j: found what URDF does not allow (Required element"),
        (LINKS + JOINT.replace('<child link="b"/>', "<child/>"), "joint/j/child: found no link None"),
        (LINKS + JOINT + JOINT.replace('"j"', '"k"'), "joint/k/child: found the link b, already the child of joint j"),
        (LINKS, "link: found links a, b that no joint holds, wanted one such link, the root"),
        (
            LINKS + JOINT + '<joint name="k" type="revolute"><parent link="b"/><child link="a"/></joint>',
            "joint: found a cycle of the joints j, k, wanted a tree of links",
        ),
        (LINKS.replace('value="1"', 'value="nan"') + JOINT, "link/b/inertial/mass: found nan, wanted finite numbers"),
        (
            LINKS.replace('value="1"', 'value="-1"') + JOINT,
            "link/b/inertial/mass: found -1.0, wanted a mass that is not",
        ),
        (LINKS.replace('value="1"', 'value="0"') + JOINT, "link/b/inertial/mass: found zero, beside an inertia"),
        (LINKS.replace('value="1"', "") + JOINT, "link/b: found an element that cannot be read"),
        (
            LINKS.replace('value="1"', 'value="${m}"') + JOINT,
            "link/b: found an element that cannot be read (could not con",
        ),
        (LINKS.replace(INERTIA, "") + JOINT, "link/b/inertial/inertia: found nothing, wanted ixx, ixy"),
        (LINKS.replace('izz="1"', "") + JOINT, "link/b/inertial/inertia: found what URDF does not allow (Required"),
        (LINKS.replace('izz="1"', 'izz="inf"') + JOINT, "link/b/inertial/inertia: found [[1.0, 0.0, 0.0]"),
        (LINKS.replace('izz="1"', 'izz="9"') + JOINT, "link/b/inertial/inertia: found [[1.0, 0.0, 0.0]"),
        (LINKS.replace("inertial>", "inertal>") + JOINT, "link/b: found a moving link without mass, wanted a mass for"),
        (
            LINKS + JOINT.replace(ENDS, ENDS + '<axis xyz="0 0 0"/>'),
            "joint/j/axis: found [0.0, 0.0, 0.0], wanted a dir",
        ),
        (LINKS + JOINT.replace(ENDS, ENDS + '<axis xyz="0 0"/>'), "joint/j: found an element that cannot be read (Inv"),
        (LINKS + JOINT.replace(ENDS, ENDS + '<origin xyz="0 0 nan"/>'), "joint/j/origin: found [0.0, 0.0, nan, 0.0"),
        (
            LINKS + JOINT.replace(ENDS, ENDS + '<dynamics damping="-1"/>'),
            "joint/j/dynamics: found -1.0, wanted damping",
        ),
        (
            LINKS + JOINT.replace(ENDS, ENDS + '<limit lower="1"/>'),
            "joint/j/limit: found what URDF does not allow (Req",
        ),
        (LINKS + JOINT.replace(ENDS, ENDS + "<axis/><axis/>"), "joint/j: found "),
    ],
)
def test_bad_urdf(tmp_path: Path, inside: str, message: str):
    assert refusal(tmp_path, f'<robot name="r">{inside}</robot>', "bad.urdf").startswith(message)


def test_a_link_without_mass_that_holds_a_ball_joint(tmp_path: Path):
    """Joint j moves the link c, which has no inertia of its own, and from which a free joint goes on."""
    series = LINKS + '<link name="c"/>' + JOINT.replace('link="b"', 'link="c"')
    series += '<joint name="k" type="floating"><parent link="c"/><child link="b"/></joint>'
    message = refusal(tmp_path, f'<robot name="r">{series}</robot>', "bad.urdf")
    assert message.startswith("link/c: found a moving link without mass, wanted a mass for each link that moves")


BODY = '<body name="b"><joint/><geom type="sphere" size="0.1"/></body>'


@pytest.mark.parametrize(
    "inside, message",
    [
        ("<worldbody/>", "found nothing that moves"),
        (f"<worldbody>{BODY.replace('joint', 'hinge')}</worldbody>", "found a model that MuJoCo refuses"),
        (f"<worldbody>{BODY.replace('sphere', 'none')}</worldbody>", "found a model that MuJoCo refuses"),
        (f"<worldbody>{BODY.replace('0.1', 'nan')}</worldbody>", "found a model that MuJoCo refuses"),
        ('<worldbody><body name="b"><joint/></body></worldbody>', "found a model that MuJoCo refuses (Error: mass and"),
        (
            '<asset><mesh name="m" file="absent.stl"/></asset>'
            '<worldbody><body><joint/><geom type="mesh" mesh="m"/></body></worldbody>',
            "found a model that MuJoCo refuses (Error: Error opening file 'absent.stl'",
        ),
    ],
)
def test_bad_mjcf(tmp_path: Path, inside: str, message: str):
    assert refusal(tmp_path, f"<mujoco>{inside}</mujoco>", "bad.xml").startswith(message)


def test_the_root_of_mjcf_is_its_own(tmp_path: Path):
    (tmp_path / "one.xml").write_text(f"<mujoco><worldbody>{BODY}</worldbody></mujoco>")
    with pytest.raises(ModelError, match="found root free, wanted fixed: in MJCF a body moves freely where"):
        read_model(tmp_path / "one.xml", root="free")


@pytest.mark.parametrize("key, known", [("fixed", "merge or keep"), ("root", "fixed or free")])
def test_unknown_choices(tmp_path: Path, key: str, known: str):
    with pytest.raises(ModelError, match=f"{key}: found 'weld', wanted {known}"):
        read_model(tmp_path / "one.xml", **{key: "weld"})


def test_files_that_are_not_there(tmp_path: Path):
    with pytest.raises(ModelError, match="absent.urdf: found No such file or directory, wanted a URDF or MJCF file"):
        read_model(tmp_path / "absent.urdf")


@pytest.mark.parametrize(
    "package, module, text, what",
    [
        ("urdf-parser-py", "urdf_parser_py.urdf", f'<robot name="r">{LINKS}{JOINT}</robot>', "URDF"),
        ("mujoco", "mujoco", f"<mujoco><worldbody>{BODY}</worldbody></mujoco>", "MJCF"),
    ],
)
def test_packages_that_are_not_installed(tmp_path: Path, monkeypatch, package: str, module: str, text: str, what: str):
    real = importlib.import_module

    def absent(name: str):
        if name == module:
            raise ImportError(name)
        return real(name)

    monkeypatch.setattr(importlib, "import_module", absent)
    message = refusal(tmp_path, text, "good.xml")
    assert message == f"found no package {package}, which reads {what}, wanted it installed: pip install 'jmbs[models]'"


@pytest.mark.parametrize("model", ["branched.urdf", "machine.xml"])
@pytest.mark.parametrize("number", ["nan", pytest.param("1e308", marks=pytest.mark.slow)])
def test_no_number_of_a_model_overflows(tmp_path, model, number):
    """Each number of the file in turn: it is refused, or not read; no other error, and no warning of numpy's."""
    file = tmp_path / model
    root = ElementTree.fromstring((Path(__file__).parent / model).read_text())
    refused = 0
    for node in root.iter():
        for key, value in list(node.attrib.items()):
            if re.fullmatch(r"[-+.0-9e ]+", value):
                node.set(key, " ".join([number] * len(value.split())))
                file.write_bytes(ElementTree.tostring(root))
                try:
                    read_model(file)
                except ConfigError:
                    refused += 1
                node.set(key, value)
    assert refused > 5
