"""Laws of shapes and inertias, and what the Python description of a mechanism accepts and refuses."""

from __future__ import annotations

import numpy as np
import pytest

from jmbs.errors import ModelError
from jmbs.library.mechanics.joint_specification import JOINT_DIMENSIONS
from jmbs.library.mechanics.mechanism import Mechanism
from jmbs.library.mechanics.shapes import Shape
from jmbs.library.mechanics.simulation_specification import METHODS, METHODS_WITHOUT_ERROR_ESTIMATE
from jmbs.library.mechanics.specification import (
    BodySpec,
    Frame,
    FrictionSpec,
    JointSpec,
    SimulationSpec,
    SpringSpec,
    TableSpec,
)

SHAPES = [
    Shape("box", [0.2, 0.5, 0.3]),
    Shape("sphere", 0.4),
    Shape("cylinder", [0.2, 0.7]),
    Shape("capsule", [0.2, 0.7]),
]


def slices(shape: Shape, z: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Area and second moments (of x^2 and y^2) of the cross-sections at heights `z`."""
    if shape.kind == "box":
        lx, ly, _ = shape.dimensions
        one = np.ones_like(z)
        return lx * ly * one, lx**3 * ly / 12 * one, lx * ly**3 / 12 * one
    radius, half_height = shape.dimensions[0], 0.0 if shape.kind == "sphere" else shape.dimensions[1] / 2
    outside = np.zeros_like(z) if shape.kind == "cylinder" else np.maximum(np.abs(z) - half_height, 0)
    squared = np.maximum(radius**2 - outside**2, 0)
    return np.pi * squared, np.pi * squared**2 / 4, np.pi * squared**2 / 4


def half_length(shape: Shape) -> float:
    match shape.kind:
        case "box":
            return shape.dimensions[2] / 2
        case "sphere":
            return shape.dimensions[0]
        case "cylinder":
            return shape.dimensions[1] / 2
        case _:
            return shape.dimensions[0] + shape.dimensions[1] / 2


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.kind)
def test_mass_and_inertia_are_the_integrals_over_the_shape(shape):
    top = half_length(shape)
    knots, weights = np.polynomial.legendre.leggauss(8)
    # Between kinks (where caps meet the cylinder) the integrand is a polynomial, so Gauss' rule is exact.
    kinks = [-top, top] if shape.kind != "capsule" else [-top, -top + 0.2, top - 0.2, top]
    volume, xx, yy, zz = np.zeros(4)
    for low, high in zip(kinks, kinks[1:], strict=False):
        z, w = (low + high) / 2 + (high - low) / 2 * knots, (high - low) / 2 * weights
        area, x2, y2 = slices(shape, z)
        volume, xx, yy, zz = volume + w @ area, xx + w @ x2, yy + w @ y2, zz + w @ (area * z**2)
    density = 700.0
    mass, inertia = shape.mass_and_inertia(density)
    np.testing.assert_allclose(mass, density * volume, rtol=1e-13)
    np.testing.assert_allclose(inertia, density * np.diag([yy + zz, xx + zz, xx + yy]), rtol=1e-13)


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.kind)
def test_shapes_scale_and_make_legal_bodies(shape):
    mass, inertia = shape.mass_and_inertia(500.0)
    scaled_mass, scaled_inertia = Shape(shape.kind, 3 * shape.dimensions).mass_and_inertia(500.0)
    np.testing.assert_allclose([scaled_mass], [27 * mass], rtol=1e-13)
    np.testing.assert_allclose(scaled_inertia, 243 * inertia, rtol=1e-13)
    BodySpec("body", mass, inertia)


def test_every_cloud_of_points_has_a_legal_inertia():
    random = np.random.default_rng(1)
    for _ in range(50):
        points = random.normal(size=(4, 3)) * random.uniform(0.01, 10, size=3)
        points -= points.mean(axis=0)
        inertia = np.sum(points**2) * np.eye(3) - points.T @ points
        np.testing.assert_allclose(BodySpec("cloud", 1.0, inertia).inertia, inertia, rtol=1e-12, atol=1e-12)


def test_a_flat_plate_given_in_few_digits_is_legal():
    BodySpec("plate", 1.0, [0.333333, 0.333333, 0.666667])
    with pytest.raises(ModelError, match="triangle"):
        BodySpec("plate", 1.0, [0.3333, 0.3333, 0.6667])


def test_quaternions_and_axes_are_normalised():
    quaternion = np.array([0.8, 0.0, 0.6, 0.0]) * (1 + 5e-7)
    frame = Frame.make("frame", {"position": [1, 2, 3], "quaternion": quaternion})
    np.testing.assert_allclose(frame.quaternion, [0.8, 0, 0.6, 0], rtol=0, atol=1e-15)
    assert Frame.make("frame", [1, 2, 3, 1, 0, 0, 0]).position[2] == 3
    for axis in ([0, 3, 4], [0, 3e-200, 4e-200], [0, 3e37, 4e37]):
        joint = JointSpec("hinge", "revolute", "a", "b", geometry={"axis": axis})
        np.testing.assert_allclose(joint.geometry["axis"], [0, 0.6, 0.8], rtol=0, atol=1e-15)


@pytest.mark.parametrize("kind", [kind for kind in JOINT_DIMENSIONS if kind != "fixed"])
def test_numbers_reach_every_coordinate(kind):
    more = {
        "screw": {"pitch": 0.1},
        "universal": {"axis": [1, 0, 0], "axis2": [0, 1, 0]},
        "composite": {"motions": [{"type": "revolute"}, {"type": "prismatic", "axis": [1, 0, 0]}]},
    }.get(kind, {})
    given = {"spring": SpringSpec(2.0), "friction": FrictionSpec(3.0, 1.0), "actuation": 0.5}
    joint = JointSpec("joint", kind, "a", "b", geometry=more, **given)
    k = len(more["motions"]) if kind == "composite" else JOINT_DIMENSIONS[kind]
    as_matrix = kind in ("planar", "spherical", "free")
    assert joint.dimension == k
    np.testing.assert_array_equal(joint.actuation, np.full(k, 0.5))
    np.testing.assert_array_equal(joint.spring.stiffness, 2 * np.eye(k) if as_matrix else np.full(k, 2.0))
    np.testing.assert_array_equal(joint.friction.viscous, 3 * np.eye(k) if as_matrix else np.full(k, 3.0))
    parts = {"planar": 2, "spherical": 1, "free": 2}.get(kind, k)
    for values in (joint.friction.coulomb, joint.friction.static):
        np.testing.assert_array_equal(values, np.ones(parts))
    assert joint.spring.rest.shape == ({"spherical": 4, "free": 7}.get(kind, k),)


def test_a_viscous_matrix_is_kept_where_coordinates_couple():
    matrix = np.array([[2.0, 1.0], [1.0, 2.0]])
    joint = JointSpec("joint", "cylindrical", "a", "b", friction=FrictionSpec(matrix))
    np.testing.assert_array_equal(joint.friction.viscous, matrix)


def test_descriptions_do_not_change_afterwards():
    inertia = np.diag([1.0, 1.0, 1.0])
    body = BodySpec("body", 1.0, inertia)
    inertia[0, 0] = 2.0
    assert body.inertia[0, 0] == 1.0
    with pytest.raises(ValueError, match="read-only"):
        body.inertia[0, 0] = 2.0


def pendulum() -> Mechanism:
    mechanism = Mechanism("pendulum")
    mechanism.add_joint("hinge", "revolute", "ground", "rod", axis=[0, 1, 0], child_frame=[0, 0, 0.5])
    mechanism.set_initial(joints={"hinge": {"q": 0.3}}, bodies={"rod": {"velocity": [1, 0, 0]}})
    mechanism.add_body("rod", mass=1.0, inertia=[0.1, 0.1, 0.01])
    return mechanism


def test_parts_may_be_named_before_they_are_added():
    mechanism = pendulum()
    mechanism.validate()
    np.testing.assert_array_equal(mechanism.initial_joints["hinge"]["q"], [0.3])
    np.testing.assert_array_equal(mechanism.initial_bodies["rod"]["velocity"], [1, 0, 0])
    mechanism.add_load("push", "rdo")
    with pytest.raises(ModelError, match="loads/push/body: found 'rdo', wanted .*the nearest known is rod"):
        mechanism.validate()


def test_initial_values_given_in_turn_add_up():
    mechanism = pendulum()
    mechanism.set_initial(joints={"hinge": {"v": [2.0]}})
    mechanism.set_initial(joints={"hinge": {"q": [0.4]}})
    values = mechanism.initial_joints["hinge"]
    assert values["q"] is not None and values["v"] is not None
    assert (values["q"][0], values["v"][0]) == (0.4, 2.0)


def test_names_are_unique_across_all_parts():
    mechanism = pendulum()
    for add in (
        lambda: mechanism.add_body("hinge", 1.0, [1, 1, 1]),
        lambda: mechanism.add_joint("rod", "free", "ground", "rod"),
        lambda: mechanism.add_load("rod", "rod"),
        lambda: mechanism.add_store("hinge", 1.0),
        lambda: mechanism.add_spring_damper("rod", "ground", "rod"),
        lambda: mechanism.add_force("rod", "rod", lambda t, pose, velocity: None),
    ):
        with pytest.raises(ModelError, match="already that of a"):
            add()
    assert list(mechanism.bodies) == ["rod"]


def test_a_class_is_not_a_joint_but_its_instance_is():
    class Group:
        dim = 1

    class Slot:
        group = Group()

        def inclusion(self, q):
            return q

    with pytest.raises(ModelError, match="joints/slot/type"):
        JointSpec("slot", Slot, "a", "b")
    assert JointSpec("slot", Slot(), "a", "b").dimension == 1


def test_a_table_must_cover_the_simulated_time():
    mechanism = pendulum()
    table = TableSpec([0.0, 1.0], [[0.0, 0, 0], [1.0, 0, 0]])
    mechanism.add_load("push", "rod", force=table)
    mechanism.simulation = SimulationSpec(t1=1.0)
    mechanism.validate()
    mechanism.simulation = SimulationSpec(t1=1.1)
    with pytest.raises(ModelError, match="loads/push/force: found times 0 to 1 s"):
        mechanism.validate()


@pytest.mark.parametrize("method", METHODS)
def test_a_tolerance_is_refused_exactly_where_there_is_no_error_estimate(method):
    assert SimulationSpec(t1=1.0, method=method, dt=0.1).rtol is None
    if method in METHODS_WITHOUT_ERROR_ESTIMATE:
        with pytest.raises(ModelError, match="simulation/dt"):
            SimulationSpec(t1=1.0, method=method, rtol=1e-6)
    else:
        spec = SimulationSpec(t1=1.0, method=method)
        assert (spec.dt, spec.rtol, spec.atol) == (None, 1e-8, 1e-8)


def test_single_precision_has_its_own_default_tolerance():
    assert SimulationSpec(t1=1.0, precision="float32").rtol == 1e-5
