"""Programs are quick to compile where that is asked for, and traced once for all processes where a folder is there."""

from __future__ import annotations

import os

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jmbs
from jmbs import cache
from jmbs.linear import row_lengths
from jmbs.programs import cached_jit, compiled, digest, quick_to_compile

X = jnp.linspace(0.1, 2.0, 64).reshape(16, 4)
lengths, combined = cached_jit(row_lengths), cached_jit(eqx.combine)
"""Functions of jmbs and of a package with a version, as all that is kept is made of."""


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """The folder of what jmbs keeps; what this process had before is forgotten."""
    monkeypatch.setattr(compiled, "_programs", {})
    return jmbs.use_cache(tmp_path) / cache.OWN


@pytest.fixture
def traced(monkeypatch):
    """The programs that are traced from now on."""
    names = []

    def trace(function, *args):
        names.append(function.__name__)
        return traces(function, *args)

    traces = compiled._traced
    monkeypatch.setattr(compiled, "_traced", trace)
    return names


def another_process() -> None:
    """Leaves only what is in files."""
    compiled._programs.clear()
    jax.clear_caches()


def test_programs_of_a_moment_are_what_others_are():
    def function(x, how):
        return how(jnp.cumsum(jnp.sin(x) @ x.T, axis=0))

    for repeated in (False, True):
        found = quick_to_compile(function, repeated=repeated)(X, jnp.tanh)
        np.testing.assert_allclose(found, jax.jit(function, static_argnums=1)(X, jnp.tanh), rtol=1e-14)


def test_a_kept_program_gives_what_a_traced_one_does(kept, traced):
    """In this process, and from the file in another; other shapes are another program."""
    for _ in range(2):
        for x in (X, 2 * X):
            np.testing.assert_array_equal(lengths(x), jax.jit(row_lengths)(x))
        another_process()
    assert traced == ["row_lengths"]
    assert lengths(X[:3]).shape == (3,)
    assert traced == ["row_lengths", "row_lengths"]
    assert len(list(kept.glob("*.traced"))) == 2


def test_what_is_no_array_comes_back_too(kept, traced):
    for _ in range(2):
        array, word = combined((X, None), (None, "word"))
        np.testing.assert_array_equal(array, X)
        assert word == "word"
        assert combined((X, None), (None, "other"))[1] == "other"
        another_process()
    assert traced == ["combine", "combine"]


def test_nothing_is_kept_where_nobody_asked(tmp_path, traced):
    lengths(X)
    jmbs.use_cache(tmp_path)
    jax.config.update("jax_enable_compilation_cache", False)
    lengths(X)
    assert not traced


def test_transformations_trace_as_ever(kept, traced):
    expected = jax.jacfwd(row_lengths)(X)
    np.testing.assert_allclose(jax.jacfwd(lengths)(X), expected, rtol=1e-14)
    np.testing.assert_allclose(jax.jit(lengths)(X), row_lengths(X), rtol=1e-14)
    assert not traced


def test_code_of_the_users_is_traced_in_every_process(kept, traced):
    np.testing.assert_allclose(cached_jit(lambda x: 2 * x)(X), 2 * X)
    assert combined((X, None), (None, another_process))[1] is another_process
    assert not traced and not list(kept.iterdir())


def test_results_belong_to_no_device_and_stay_weakly_typed(kept):
    """So they can be spread over several devices, and take the type of what they are added to."""
    scaled = cached_jit(eqx.combine)
    weak = jnp.asarray(2.0)
    for _ in range(2):
        result = scaled((weak, None), (None, X))[0]
        assert result.weak_type and not result.committed
        another_process()


def test_files_that_changed_since_they_were_imported_keep_nothing(kept, traced, monkeypatch):
    monkeypatch.setattr(digest, "IMPORTED", digest.IMPORTED[1:])
    np.testing.assert_array_equal(lengths(X), jax.jit(row_lengths)(X))
    assert not traced and not list(kept.iterdir())


def test_what_cannot_be_exported_is_traced_as_ever(kept, traced, monkeypatch):
    def refuse(*args, **options):
        raise ValueError("no such custom call")

    monkeypatch.setattr(jax.export, "export", refuse)
    np.testing.assert_array_equal(lengths(X), jax.jit(row_lengths)(X))
    assert traced == ["row_lengths"] and not list(kept.iterdir())


def test_another_device_than_jax_would_take_is_left_to_jax(kept, traced):
    with jax.default_device(jax.devices("cpu")[0]):
        np.testing.assert_array_equal(lengths(X), jax.jit(row_lengths)(X))
    assert not traced


def test_another_version_is_another_program(kept, traced, monkeypatch):
    lengths(X)
    another_process()
    monkeypatch.setattr(compiled, "of_installation", lambda: "of another version")
    lengths(X)
    assert traced == ["row_lengths", "row_lengths"]


@pytest.mark.parametrize("damage", [lambda data: data[:100], lambda data: data[:-500] + b"?" + data[-499:]])
def test_a_damaged_file_is_replaced(kept, traced, damage):
    expected = lengths(X)
    (file,) = kept.iterdir()
    file.write_bytes(damage(file.read_bytes()))
    another_process()
    np.testing.assert_array_equal(lengths(X), expected)
    another_process()
    np.testing.assert_array_equal(lengths(X), expected)
    assert traced == ["row_lengths", "row_lengths"]


def test_what_was_used_least_recently_goes_first(kept, monkeypatch):
    monkeypatch.setattr(cache, "OWN_LIMIT", 2 * (100 + cache.CHECKSUM))
    for age, name in enumerate("ab"):
        cache.keep(name, bytes(100))
        os.utime(kept / name, (age, age))
    assert cache.kept("a") == bytes(100)
    cache.keep("c", bytes(100))
    assert {path.name for path in kept.iterdir()} == {"a", "c"}


def test_a_folder_that_cannot_be_written_to_is_done_without(kept, traced):
    kept.rmdir()
    np.testing.assert_array_equal(lengths(X), jax.jit(row_lengths)(X))
    assert traced == ["row_lengths"]
