"""Values by name: a mapping whose values are parts of one array, the same behind jit and vmap."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jmbs.simulation.by_name import ByName, Places, entries_of

SHAPES = {"turn": (4,), "heat": (), "frame": (2, 3), "nothing": (0,)}
VALUES = ByName(jnp.arange(22.0).reshape(2, 11), entries_of(SHAPES))


def assert_same(one, other):
    assert list(one) == list(other)
    for name in one:
        np.testing.assert_array_equal(one[name], other[name])


def test_it_is_a_mapping_in_the_order_of_its_names():
    assert list(VALUES) == list(VALUES.keys()) == list(SHAPES)
    assert len(VALUES) == 4 and "heat" in VALUES and "cold" not in VALUES and VALUES.get("cold") is None
    for name, value in VALUES.items():
        assert value.shape == (2, *SHAPES[name])
    np.testing.assert_array_equal(VALUES["heat"], [4.0, 15.0])
    np.testing.assert_array_equal(VALUES["frame"][1], [[16.0, 17.0, 18.0], [19.0, 20.0, 21.0]])
    assert not ByName(jnp.zeros((2, 0)), ()) and not list(ByName(jnp.zeros((2, 0)), ()).values())


def test_an_unknown_name_is_answered_with_the_known_ones():
    with pytest.raises(KeyError, match="'cold'.*turn, heat, frame, nothing"):
        VALUES["cold"]


def test_one_leaf_that_transformations_map_over():
    assert len(jax.tree.leaves(VALUES)) == 1
    assert_same(jax.jit(lambda values: values)(VALUES), VALUES)
    batch = jax.vmap(lambda factor: jax.tree.map(lambda leaf: factor * leaf, VALUES))(jnp.array([1.0, 2.0, 3.0]))
    assert batch["frame"].shape == (3, 2, 2, 3)
    assert_same(jax.tree.map(lambda leaf: leaf[1], batch), {name: 2 * value for name, value in VALUES.items()})
    gradient = jax.grad(lambda values: jnp.sum(values["heat"] ** 2))(VALUES)
    assert_same(gradient, {name: 2 * value if name == "heat" else 0 * value for name, value in VALUES.items()})
    assert isinstance(jax.device_get(VALUES)["frame"], np.ndarray)


def test_replacing_one_leaves_the_others():
    for name in SHAPES:
        assert_same(VALUES.replace(name, 7.0), {n: 0 * v + 7.0 if n == name else v for n, v in VALUES.items()})
    turn = jnp.array([1.0, 2.0, 3.0, 4.0])
    np.testing.assert_array_equal(VALUES.replace("turn", turn)["turn"], [turn, turn])


def test_places_gather_into_the_shape_of_their_indices():
    places = Places.of({"b": np.array([[3, 1], [0, 2]]), "a": np.array(2), "none": np.zeros(0, int)})
    found = places.take(jnp.array([10.0, 11.0, 12.0, 13.0]))
    assert_same(found, {"b": [[13.0, 11.0], [10.0, 12.0]], "a": 12.0, "none": []})
    assert len(Places.of({}).take(jnp.zeros(0))) == 0
