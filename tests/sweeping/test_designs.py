"""Designs: a member's values depend on seed and number only, and are spread as the study says."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

from jmbs.errors import ModelError
from jmbs.sweeping.designs import SAMPLED, GridDesign, RandomDesign, Spread
from jmbs.sweeping.distributions import KINDS, distribution

MEMBERS = 1000
VARY = {
    "mass": {"uniform": [0.5, 2.0]},
    "gravity": {"normal": {"mean": [0.0, 0.0, -9.81], "std": 0.1}},
    "friction": {"log_uniform": [1e-3, 1.0]},
    "stiffness": {"log_normal": {"median": 5.0, "std": 0.2}},
    "teeth": {"integer": [17, 20]},
    "pitch": {"values": [0.1, 0.2, 0.4]},
}
SHAPES = {path: (3,) if path == "gravity" else () for path in VARY}


def spread(*left_out: str) -> Spread:
    kept = {path: distribution(given) for path, given in VARY.items() if path not in left_out}
    return Spread(kept, SHAPES)


def same(one, other) -> bool:
    return one.keys() == other.keys() and all(np.array_equal(one[path], other[path]) for path in one)


@pytest.mark.parametrize("design", SAMPLED)
def test_values_do_not_depend_on_chunks(design):
    made = SAMPLED[design](spread(), MEMBERS, 7)
    parts = [made.values(start, min(start + 333, MEMBERS)) for start in range(0, MEMBERS, 333)]
    assert same(made.values(0, MEMBERS), {path: np.concatenate([part[path] for part in parts]) for path in VARY})
    assert same(made.values(0, MEMBERS), SAMPLED[design](spread(), MEMBERS, 7).values(0, MEMBERS))
    assert not same(made.values(0, MEMBERS), SAMPLED[design](spread(), MEMBERS, 8).values(0, MEMBERS))


@pytest.mark.parametrize("design", SAMPLED)
def test_values_are_spread_as_said(design):
    found = SAMPLED[design](spread(), MEMBERS, 3).values(0, MEMBERS)
    laws = {
        "mass": scipy.stats.uniform(0.5, 1.5),
        "friction": scipy.stats.loguniform(1e-3, 1.0),
        "stiffness": scipy.stats.lognorm(0.2, scale=5.0),
    }
    columns = {path: found[path] for path in laws} | {f"gravity[{i}]": found["gravity"][:, i] for i in range(3)}
    laws |= {f"gravity[{i}]": scipy.stats.norm(mean, 0.1) for i, mean in enumerate((0.0, 0.0, -9.81))}
    for path, values in columns.items():
        # Samples that are spread more evenly than at random pass all the more.
        assert scipy.stats.kstest(values, laws[path].cdf).pvalue > 1e-3, path
    for path, values in (("teeth", [17, 18, 19, 20]), ("pitch", [0.1, 0.2, 0.4])):
        kinds, counts = np.unique(found[path], return_counts=True)
        np.testing.assert_array_equal(kinds, values)
        assert counts.min() > 0.8 * MEMBERS / len(values)
    assert abs(np.corrcoef(found["mass"], found["friction"])[0, 1]) < 0.1


def test_a_path_more_changes_no_other_random_values():
    found, fewer = (RandomDesign(which, 50, 0).values(0, 50) for which in (spread(), spread("mass", "gravity")))
    assert same({path: found[path] for path in fewer}, fewer)


def test_even_designs_have_a_member_in_every_part():
    one = Spread(
        {"x": distribution({"uniform": [0.0, 1.0]}), "y": distribution({"uniform": [0.0, 1.0]})}, dict(x=(), y=())
    )
    for design in ("sobol", "latin_hypercube"):
        found = SAMPLED[design](one, 64, 5).values(0, 64)
        for path in "xy":
            np.testing.assert_array_equal(np.sort((64 * found[path]).astype(int)), np.arange(64))


def test_a_grid_has_all_combinations_and_the_last_path_is_fastest():
    axes = {
        "a": distribution({"values": [[0, 0, -9.81], [0, 0, -1.62]]}),
        "b": distribution({"linspace": [0.0, 1.0, 3]}),
    }
    grid = GridDesign(
        Spread({**axes, "c": distribution({"geomspace": [1.0, 100.0, 3]})}, {"a": (3,), "b": (), "c": ()})
    )
    found = grid.values(0, grid.members)
    assert grid.members == 18
    np.testing.assert_allclose(found["c"], np.tile([1.0, 10.0, 100.0], 6))
    np.testing.assert_allclose(found["b"], np.tile(np.repeat([0.0, 0.5, 1.0], 3), 2))
    np.testing.assert_allclose(found["a"][:, 2], np.repeat([-9.81, -1.62], 9))
    assert same({path: value[5:11] for path, value in found.items()}, grid.values(5, 11))


@pytest.mark.parametrize(
    "given, path",
    [
        ({"uniform": [2.0, 1.0]}, "uniform"),
        ({"uniform": [1.0]}, "uniform"),
        ({"uniform": ["a", 1.0]}, "uniform"),
        ({"log_uniform": [0.0, 1.0]}, "log_uniform"),
        ({"normal": {"mean": 1.0}}, "normal"),
        ({"normal": {"mean": 1.0, "std": -1.0}}, "normal/std"),
        ({"log_normal": {"median": -1.0, "std": 1.0}}, "log_normal/median"),
        ({"integer": [0.5, 2]}, "integer"),
        ({"values": []}, "values"),
        ({"values": [[1, 2], [3]]}, "values"),
        ({"values": [1.0, float("nan")]}, "values"),
        ({"linspace": [0.0, 1.0]}, "linspace"),
        ({"linspace": [0.0, 1.0, 10**9]}, "linspace"),
        ({"linspace": [0.0, 1e39, 3]}, "linspace"),
        ({"geomspace": [0.0, 1.0, 3]}, "geomspace"),
        ({"uniform": [0.0, 1e39]}, "uniform"),
        ({"unifrom": [0.0, 1.0]}, "unifrom"),
        ({"uniform": [0, 1], "normal": {}}, ""),
        (3.0, ""),
    ],
)
def test_what_is_no_distribution_is_refused(given, path):
    with pytest.raises(ModelError) as refused:
        distribution(given)
    assert refused.value.path == path


def test_numbers_of_the_wrong_shape_are_refused():
    for given in ({"uniform": [[0, 0], [1, 1]]}, {"values": [[1, 2], [3, 4]]}):
        with pytest.raises(ModelError, match="shape"):
            distribution(given).shaped((3,))
    assert set(KINDS) >= {"uniform", "log_uniform", "normal", "values", "linspace"}
