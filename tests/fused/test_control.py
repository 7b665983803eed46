"""Loops and branches in C, written out and as loops, give what JAX gives."""

from __future__ import annotations

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from compiled_kernels import check, needs_compiler
from jax import lax

from jmbs.fused import Options, translate

pytestmark = [
    needs_compiler,
    pytest.mark.parametrize("options", [Options(), Options(unroll_below=1)], ids=["written out", "loops"]),
]
MEMBERS, LENGTH = 3, 6


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(8)


def swing(x):
    return jnp.stack([x[1], -jnp.sin(x[0])])


def test_scans(rng, options):
    """Carries, rows in and out, backwards, nested, with constants, and carries that change places."""
    x, rows = rng.normal(size=(MEMBERS, 2)), rng.normal(size=(MEMBERS, LENGTH, 2))

    def functions(x, rows):
        def step(carry, row):
            a, b, count, same = carry
            a = a + 0.1 * swing(a) * row
            inner, seen = lax.scan(lambda c, r: (c * r + same, c), a[0], rows[:, 1], reverse=True)
            return (b + x, a, count + 1, same), (inner, seen[1:3], count)

        start = (x, 2 * x, jnp.array(0), x[1])
        forward = lax.scan(step, start, rows)
        return forward, lax.scan(step, start, rows, reverse=True), lax.scan(lambda c, _: (swing(c), None), x, length=0)

    check(functions, x, rows, options=options)


def test_rows_are_written_in_place(rng, options):
    """Rows at places that are known as the loop runs, in a loop within a loop too; the first array stays as it was."""
    x, saved = rng.normal(size=(MEMBERS, 2)), rng.normal(size=(MEMBERS, 20, 2))

    def functions(x, saved):
        def step(carry, _):
            x, saved, i = carry
            x = x + 0.1 * swing(x)
            saved = lax.dynamic_update_index_in_dim(saved, x, i, 0)
            return (x, saved, i + 1 + (x[0] > 0).astype(int)), saved[0, 0]

        def outer(carry, _):
            return lax.scan(step, carry, length=3)

        (x, after, i), seen = lax.scan(outer, (x, saved, jnp.array(0)), length=4)
        return after, saved, after - saved, x, i, seen

    kernel = check(functions, x, saved, options=options)
    if options.unroll_below == 1:
        assert not re.search(r"double local\d+\[40\]", kernel.source), "the rows are those of the result"


def test_arrays_that_are_read_as_they_were_are_copied(rng, options):
    """The same array as carry and as rows, as two carries, and on both sides of a change."""
    x, i = rng.normal(size=(MEMBERS, 20, 2)), rng.integers(0, 20, MEMBERS)

    def functions(x, i):
        def step(carry, row):
            a, b, k = carry
            return (a.at[19 - k].add(row), b.at[k].set(a[0]), k + 1), row.sum()

        changed = x.at[i].set(1.0)
        return lax.scan(step, (changed, changed, i // 2), changed)

    def twice(x, i):
        changed = x.at[i].set(1.0)
        return lax.dynamic_update_slice(changed, changed[3:5] + lax.dynamic_slice(changed, (i, 0), (2, 2)), (i, 0))

    check(functions, x, i, options=options)
    check(twice, x, i, options=options)


def test_while_loops(rng, options):
    """Each member takes as many rounds as it needs."""
    x, rows = rng.uniform(1, 2, (MEMBERS, 2)), rng.normal(size=(MEMBERS, 30, 2))

    def functions(x, rows):
        def going(carry):
            return (carry[0][0] < 30.0) & (carry[1] < 9)

        def step(carry):
            x, count, rows, zero = carry
            return 1.5 * x[::-1] + zero, count + 1, rows.at[count].set(x), zero

        after = lax.while_loop(going, step, (x, 0, rows, jnp.zeros(2)))
        return (
            after,
            lax.fori_loop(0, 4, lambda i, c: c + rows[i], x),
            lax.while_loop(lambda c: c < 0.0, swing_one, x[0]),
        )

    def swing_one(c):
        return c - 1.0

    check(functions, x, rows, options=options)


def test_branches(rng, options):
    """Of two and of several, one in the other, with large arrays, in loops, and known ahead."""
    x, rows, i = rng.normal(size=(MEMBERS, 2)), rng.normal(size=(MEMBERS, 300, 2)), np.array([-1, 1, 7])

    def functions(x, rows, i):
        def either(x):
            return lax.cond(x[0] > 0, lambda x: lax.cond(x[1] > 0, swing, jnp.cos, x), lambda x: x, x)

        several = lax.switch(i, [lambda x: x, lambda x: 2 * x, swing], x)
        changed = lax.cond(x[0] > 0, lambda r: r.at[i].set(x), lambda r: r, rows)
        looped = lax.scan(lambda c, r: (either(c) + r, c), x, rows[:5])
        in_place = lax.scan(
            lambda c, r: (lax.cond(r[0] > 0, lambda c: c.at[i].add(r), lambda c: c, c), None), rows, rows[:5]
        )
        return several, changed, looped, in_place, lax.cond(True, swing, jnp.cos, x), rows[:2]

    check(functions, x, rows, i, options=options)


def test_derivatives_of_loops(rng, options):
    """Forward, reverse, and the two programs of reverse mode, whose residuals are rows of results and arguments."""
    x, rows = rng.normal(size=(MEMBERS, 2)), rng.normal(size=(MEMBERS, LENGTH, 2))

    def run(x, rows):
        return lax.scan(lambda c, r: (c + 0.1 * swing(c) * r, c), x, rows)[0].sum()

    check(jax.grad(run, (0, 1)), x, rows, options=options)
    check(lambda x, rows: jax.jvp(run, (x, rows), (rows[0], 2 * rows)), x, rows, options=options)
    known = lambda x, rows: jax.tree.leaves(jax.vjp(run, x, rows))  # noqa: E731
    check(known, x, rows, options=options)


def buffers(function, *args) -> list[str]:
    """What arrays of its own the function of one member has, loops kept."""
    program = jax.make_jaxpr(function)(*(x[0] for x in args))
    text = translate(program, [True] * len(args), options=Options(unroll_below=1)).source
    return re.findall(r"(\w+\[\d+\]);", text)


def test_rows_of_a_loop_are_in_memory_by_columns(rng, options):
    """Those that are the same in all rows are not, nor those that nothing reads."""
    x = rng.normal(size=(MEMBERS, 3))

    def function(x):
        rows = jnp.stack([jnp.zeros(3), x, x**2, x**3], axis=-1).at[:, 0].set(x[0])
        return lax.scan(lambda c, row: (c * row[0] + row[1] * row[3], c), x[1], rows)

    check(function, x, options=options)
    assert [name.split("[")[1] for name in buffers(function, x)] == ["3]", "3]"]


def test_an_array_changes_in_place_after_its_parts_are_read(rng, options):
    """Whether the program reads them before or after."""
    rows, places = rng.normal(size=(MEMBERS, 40, 2)), rng.integers(0, 40, size=(MEMBERS, LENGTH))

    def moved(rows, i):
        changed = rows.at[i].set(0.0)
        return changed, rows[i]

    def read(rows, i):
        part = rows[i]
        return rows.at[i].set(0.0), part

    for step in (moved, read):
        function = lambda rows, places: lax.scan(step, rows, places)  # noqa: B023, E731
        check(function, rows, places, options=options)
        assert buffers(function, rows, places) == []


@pytest.mark.parametrize("entries", [40, 600])
def test_what_loops_carry_is_read_before_it_is_written_over(rng, options, entries):
    """Arrays that change places, that are kept as they were, and numbers of arrays that change."""
    a, places = rng.normal(size=(MEMBERS, entries)), rng.integers(0, entries, size=(MEMBERS, LENGTH))

    def crossed(c, i):
        r, p = c
        return (p.at[i].set(r[0]), r.at[i].add(p[i])), p[1] + r[1]

    def counted(c):
        n, g, h = c
        return n + 1, g.at[n].add(1.0), h.at[2 * n].set(0.5 + g[3])

    def functions(a, places):
        return (
            lax.scan(crossed, (a, 2 * a), places),
            lax.scan(lambda c, _: ((c[1], c[0]), None), (a, a[::-1]), length=3),
            lax.scan(lambda c, _: ((c[0] * 2 + 1, c[0][3]), None), (a, a[0]), length=3),
            lax.scan(lambda c, i: ((c[0].at[i].set(1.0), c[0]), None), (a, 3 * a), places),
            lax.while_loop(lambda c: c[0] < 5, counted, (0, a, a + 1)),
        )

    check(functions, a, places, options=options)


def test_forms_are_as_asked(options):
    program = jax.make_jaxpr(lambda x: lax.scan(lambda c, _: (jnp.sin(c), None), x, length=5)[0])(1.0)
    text = translate(program, [True], options=options).source.split("KERNEL void")[1]
    assert ("i < 5" in re.sub(r"i\d+", "i", text)) == (options.unroll_below == 1)
    assert text.count("near_sincos(") == (1 if options.unroll_below == 1 else 5)
