"""Laws of mass distributions: what integrals add up to, how they move, and which bodies are degenerate."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import jmbs
from jmbs.errors import ModelError
from jmbs.library.mechanics.mass_distribution import MassDistribution, density_over, point_masses, second_moments
from jmbs.library.mechanics.quadrature import quadrature
from jmbs.library.mechanics.shapes import Shape

SHAPES = [
    Shape("box", [0.2, 0.5, 0.3]),
    Shape("sphere", 0.4),
    Shape("cylinder", [0.2, 0.7]),
    Shape("capsule", [0.2, 0.7]),
]
every_shape = pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.kind)
RANDOM = np.random.default_rng(4)
TURN = np.array([0.5, 0.5, -0.1, 0.7]) / np.linalg.norm([0.5, 0.5, -0.1, 0.7])


def cloud(n: int = 7) -> MassDistribution:
    return point_masses(RANDOM.normal(size=(n, 3)), RANDOM.uniform(0.1, 2.0, n))


def moment_of_disk(a: int, b: int) -> float:
    """The integral of `x^a y^b` over a unit circle's circumference, for even exponents; zero for odd ones."""
    if a % 2 or b % 2:
        return 0.0
    return 2 * math.gamma((a + 1) / 2) * math.gamma((b + 1) / 2) / math.gamma((a + b + 2) / 2)


def monomial_integral(shape: Shape, a: int, b: int, c: int) -> float:
    """The integral of `x^a y^b z^c` over a shape, cut into disks (or for a box in closed form)."""
    if shape.kind == "box":
        one = lambda length, n: 0.0 if n % 2 else 2 * (length / 2) ** (n + 1) / (n + 1)  # noqa: E731
        return math.prod(one(length, n) for length, n in zip(shape.dimensions, (a, b, c), strict=True))
    radius, half = shape.dimensions[0], 0.0 if shape.kind == "sphere" else shape.dimensions[1] / 2
    top = half if shape.kind == "cylinder" else half + radius
    knots, weights = np.polynomial.legendre.leggauss(30)
    total = 0.0
    for low, high in itertools.pairwise(sorted({-top, -half, half, top})):
        z = (low + high) / 2 + (high - low) / 2 * knots
        squares = radius**2 - np.maximum(np.abs(z) - half, 0) ** 2
        disks = moment_of_disk(a, b) * squares ** ((a + b + 2) / 2) / (a + b + 2)
        total += (high - low) / 2 * weights @ (z**c * disks)
    return total


@every_shape
def test_a_constant_density_gives_the_closed_form(shape):
    mass, inertia = shape.mass_and_inertia(700.0)
    found = density_over(shape, 700.0, degree=0)
    np.testing.assert_allclose(found.mass, mass, rtol=1e-13)
    np.testing.assert_allclose(found.inertia, inertia, rtol=1e-13, atol=1e-13 * inertia.max())
    np.testing.assert_allclose(found.centre, 0, atol=1e-14)
    assert found.kind == "rigid" and found.axis is None


@every_shape
@pytest.mark.parametrize("degree", [0, 1, 2, 5])
def test_rules_are_exact_up_to_their_degree(shape, degree):
    points, weights = quadrature(shape, degree)
    assert np.all(weights > 0)
    for powers in itertools.product(range(degree + 1), repeat=3):
        if sum(powers) <= degree:
            exact = monomial_integral(shape, *powers)
            np.testing.assert_allclose(weights @ np.prod(points**powers, axis=1), exact, rtol=1e-12, atol=1e-15)


@every_shape
def test_points_of_a_rule_are_inside(shape):
    """Otherwise the points of a distributed force would be outside the body."""
    points, _ = quadrature(shape, 6)
    x, y, z = np.abs(points).T
    if shape.kind == "box":
        assert np.all(np.abs(points) < shape.dimensions / 2)
        return
    radius, half = shape.dimensions[0], 0.0 if shape.kind == "sphere" else shape.dimensions[1] / 2
    outside = 0.0 if shape.kind == "cylinder" else np.maximum(z - half, 0)
    assert np.all(x**2 + y**2 + outside**2 < radius**2)
    assert shape.kind != "cylinder" or np.all(z < half)


def test_a_polynomial_density_is_exact_at_its_degree():
    """A box whose density grows linearly along x: closed forms for centre and inertia."""
    a, b, c = 0.4, 0.3, 0.2
    found = density_over({"box": [a, b, c]}, lambda x: 5.0 * (1 + x[0] / a), degree=1)
    m = 5.0 * a * b * c
    centre = a / 12
    along = m * (a**2 / 12 - centre**2)
    across = m * np.array([b**2, c**2]) / 12
    np.testing.assert_allclose(found.mass, m, rtol=1e-13)
    np.testing.assert_allclose(found.centre, [centre, 0, 0], atol=1e-15)
    np.testing.assert_allclose(
        found.inertia, np.diag([sum(across), along + across[1], along + across[0]]), rtol=1e-12, atol=1e-15
    )


def test_the_centre_and_the_inertia_move_with_the_body():
    """Independent of the origin, and of the axes up to their rotation (004, lemmas 3.4 and 3.6)."""
    body = cloud()
    moved = body.placed({"position": [3.0, -2.0, 1.0], "quaternion": TURN})
    w, x, y, z = TURN
    hat = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    R = np.eye(3) + 2 * w * hat + 2 * hat @ hat
    np.testing.assert_allclose(moved.centre, R @ body.centre + [3.0, -2.0, 1.0], rtol=1e-13)
    np.testing.assert_allclose(moved.inertia, R @ body.inertia @ R.T, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(moved.masses @ moved.body_points, 0, atol=1e-13)


def test_bodies_add():
    """The sum's inertia is that of its parts by the parallel axis theorem."""
    capsule = density_over({"capsule": [0.1, 0.5]}, 300.0).placed([0.5, 1.0, -2.0])
    parts = [cloud(), capsule, point_masses([[1, 2, 3]], [4])]
    whole = parts[0] + parts[1] + parts[2]
    masses, centres = np.array([p.mass for p in parts]), np.array([p.centre for p in parts])
    np.testing.assert_allclose(whole.mass, sum(masses), rtol=1e-14)
    np.testing.assert_allclose(whole.centre, masses @ centres / sum(masses), rtol=1e-13)
    steiner = sum(p.inertia for p in parts) + second_moments(centres - whole.centre, masses)
    np.testing.assert_allclose(whole.inertia, steiner, rtol=1e-12, atol=1e-12)


def test_inertia_obeys_what_measures_obey():
    """Symmetric, non-negative, and no principal moment above the sum of the others."""
    for n in (1, 2, 3, 4, 30):
        body = cloud(n)
        np.testing.assert_allclose(body.inertia, body.inertia.T, rtol=1e-14, atol=1e-15)
        smallest, middle, largest = np.linalg.eigvalsh(body.inertia)
        assert smallest >= -1e-15 and largest <= (smallest + middle) * (1 + 1e-12)


FAR = [1e3, -2e3, 500.0]


@pytest.mark.parametrize("origin", [[0.0, 0.0, 0.0], FAR], ids=["near", "far"])
def test_degenerate_bodies_are_seen(origin):
    """On a point, on a line, on neither (004, lemma 4.1 and corollary 4.2)."""
    direction = np.array([1.0, -2.0, 0.5]) / np.linalg.norm([1.0, -2.0, 0.5])
    lengths = RANDOM.normal(size=6)
    masses = RANDOM.uniform(0.1, 1.0, 6)
    particle = point_masses(np.tile(origin, (6, 1)), masses)
    assert particle.kind == "particle" and particle.axis is None
    np.testing.assert_array_equal(particle.inertia, 0)

    rod = point_masses(origin + lengths[:, None] * direction, masses)
    assert rod.kind == "rod"
    np.testing.assert_allclose(np.abs(rod.axis @ direction), 1, rtol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(rod.axis), 1, rtol=1e-14)
    spread = masses @ (lengths - masses @ lengths / sum(masses)) ** 2
    np.testing.assert_allclose(rod.inertia @ rod.axis, 0, atol=1e-15 * spread)
    np.testing.assert_allclose(np.linalg.eigvalsh(rod.inertia)[1:], spread, rtol=1e-9)

    offset = np.zeros((6, 3))
    offset[0] = 1e-3 * np.cross(direction, [0, 0, 1])
    assert point_masses(origin + lengths[:, None] * direction + offset, masses).kind == "rigid"


def test_a_massless_point_makes_no_body_of_a_particle():
    assert point_masses([[0, 0, 0], [1, 0, 0]], [2.0, 0.0]).kind == "particle"
    assert point_masses([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [2.0, 1.0, 0.0]).kind == "rod"


@pytest.mark.parametrize("size", [1e-6, 1.0, 1e6])
def test_kinds_do_not_depend_on_units(size):
    points = size * np.array([[0.1, 0.0, 0.0], [0.4, 0.1, 0.0], [0.0, 0.2, 0.3]])
    assert point_masses(points, [1.0, 2.0, 3.0]).kind == "rigid"
    assert point_masses(points[:2], [1e-9, 1e-9]).kind == "rod"
    assert point_masses(points[:1], [1e9]).kind == "particle"


REFUSED = {
    "negative mass": lambda: point_masses([[0, 0, 0], [1, 0, 0]], [1.0, -0.5]),
    "no mass": lambda: point_masses([[0, 0, 0]], [0.0]),
    "infinite mass": lambda: point_masses([[0, 0, 0]], [np.inf]),
    "nan in a point": lambda: point_masses([[0, np.nan, 0]], [1.0]),
    "other number of masses": lambda: point_masses([[0, 0, 0]], [1.0, 1.0]),
    "points in a plane": lambda: point_masses([[0, 0]], [1.0]),
    "no points": lambda: point_masses(np.zeros((0, 3)), np.zeros(0)),
    "negative density": lambda: density_over({"sphere": 1.0}, -1.0),
    "density negative somewhere": lambda: density_over({"sphere": 1.0}, lambda x: x[0]),
    "infinite density": lambda: density_over({"sphere": 1.0}, lambda x: np.inf),
    "vector density": lambda: density_over({"sphere": 1.0}, lambda x: x),
    "unknown shape": lambda: density_over({"cone": 1.0}, 1.0),
    "negative degree": lambda: density_over({"sphere": 1.0}, 1.0, degree=-1),
}


@pytest.mark.parametrize("what", REFUSED)
def test_refuses(what):
    with pytest.raises(ModelError, match=r"^distribution(/\w+)?: found "):
        REFUSED[what]()


# -- bodies from distributions ----------------------------------------------------------------------------------------

DUMBBELL = {"points": [[0.0, 1.0, 0.0], [0.0, 4.0, 0.0]], "masses": [2.0, 1.0]}
TRIANGLE = {"points": [[0.0, 0.0, 0.0], [0.3, 0.0, 0.0], [0.0, 0.4, 0.1]], "masses": [1.0, 2.0, 3.0]}
PARTICLE = {"points": [[1.0, 2.0, 3.0]], "masses": [0.5]}


@pytest.mark.parametrize("given", [DUMBBELL, TRIANGLE, PARTICLE], ids=["rod", "rigid", "particle"])
def test_a_body_takes_mass_inertia_and_kind_from_its_distribution(given):
    spread = point_masses(given["points"], given["masses"])
    mechanism = jmbs.Mechanism()
    mechanism.add_body("mapping", distribution=given)
    mechanism.add_body("object", distribution=spread, group="SO3xR3")
    for body in mechanism.bodies.values():
        assert (body.mass, body.kind) == (spread.mass, spread.kind)
        np.testing.assert_allclose(body.inertia, spread.inertia, atol=1e-15)
        assert body.axis is None if spread.axis is None else np.allclose(body.axis, spread.axis)


def test_configs_take_point_masses(tmp_path):
    file = tmp_path / "dumbbell.yaml"
    file.write_text(f"schema: jmbs/1\nbodies: {{b: {{distribution: {DUMBBELL}}}}}\n")
    body = jmbs.load(file).bodies["b"]
    assert (body.mass, body.kind) == (3.0, "rod")
    np.testing.assert_allclose(body.inertia, np.diag([6.0, 0.0, 6.0]), atol=1e-14)
    file.write_text("schema: jmbs/1\nbodies: {b: {distribution: {points: [[0, 0, 0]]}}}\n")
    with pytest.raises(ModelError, match="bodies/b/distribution/masses: found nothing, wanted a mass for each point"):
        jmbs.load(file)
    file.write_text("schema: jmbs/1\nbodies: {b: {distribution: {points: [[0, 0, 0]], masses: [1, 2]}}}\n")
    with pytest.raises(ModelError, match="bodies/b/distribution/masses: found .*1 finite non-negative number"):
        jmbs.load(file)


@pytest.mark.parametrize("key", ["mass", "inertia", "density"])
def test_a_distribution_stands_alone(key):
    with pytest.raises(ModelError, match=f"bodies/b/distribution: found both distribution and {key}"):
        jmbs.Mechanism().add_body("b", distribution=TRIANGLE, **{key: 1.0})


def test_a_kind_that_the_distribution_is_not_is_refused():
    with pytest.raises(ModelError, match="bodies/b/kind: found rod, wanted rigid"):
        jmbs.Mechanism().add_body("b", distribution=TRIANGLE, kind="rod")
    with pytest.raises(ModelError, match="bodies/b/distribution: found .*wanted a mapping"):
        jmbs.Mechanism().add_body("b", distribution=3.0)
