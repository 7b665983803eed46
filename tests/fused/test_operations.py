"""Each operation in C gives what JAX gives, for random arrays, a few members at a time."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from compiled_kernels import check, needs_compiler
from jax import lax

from jmbs.fused import Untranslatable, translate

pytestmark = needs_compiler
MEMBERS = 3


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(5)


def special(rng: np.random.Generator, shape: tuple[int, ...], dtype: type = np.float64) -> np.ndarray:
    """Random numbers with zeros, infinities and no numbers among them."""
    x = rng.normal(size=(MEMBERS, *shape)).astype(dtype)
    x[..., ::5] = rng.choice([0.0, np.inf, -np.inf, np.nan], x[..., ::5].shape)
    return x


UNARY: list[Callable] = [
    *(jnp.sin, jnp.cos, jnp.tan, jnp.tanh, jnp.sinh, jnp.cosh, jnp.arctan, jnp.arcsinh, jnp.exp, jnp.exp2, jnp.expm1),
    *(jnp.sign, jnp.abs, jnp.floor, jnp.ceil, jnp.round, jnp.isfinite, jnp.square, jnp.cbrt, lax.logistic, lax.neg),
    *(lambda x: x**3, lambda x: x**-2, lax.erf, lax.erfc, lambda x: lax.round(x), lax.stop_gradient),
]
POSITIVE: list[Callable] = [jnp.sqrt, lax.rsqrt, jnp.log, jnp.log1p]
BELOW_ONE: list[Callable] = [jnp.arcsin, jnp.arccos, jnp.arctanh]
BINARY: list[Callable] = [
    *(jnp.add, jnp.subtract, jnp.multiply, jnp.divide, jnp.maximum, jnp.minimum, jnp.arctan2, lax.rem, lax.nextafter),
    *(jnp.equal, jnp.not_equal, jnp.less, jnp.less_equal, jnp.greater, jnp.greater_equal),
    lambda x, y: jnp.where(x > y, x, -y),
    lambda x, y: jnp.clip(x, -0.5, 0.5),
    lambda x, y: lax.select_n(jnp.clip(lax.convert_element_type(jnp.abs(x), np.int32), 0, 2), x, y, x + y),
]


@pytest.mark.parametrize(("dtype", "rtol"), [(np.float64, 1e-12), (np.float32, 3e-6)])
def test_functions_of_entries(rng, dtype, rtol):
    x, y = rng.normal(size=(2, MEMBERS, 11)).astype(dtype)

    def functions(x, y):
        size, small = jnp.abs(x), x / (1 + jnp.abs(x))
        return [
            *(f(x) for f in UNARY),
            *(f(size) for f in POSITIVE),
            *(f(small) for f in BELOW_ONE),
            *(f(x, y) for f in BINARY),
            *(jnp.arccosh(1 + size), size**y, lax.lgamma(1 + size)),
        ]

    check(functions, x, y, rtol=rtol)


def test_what_is_no_number_stays_so(rng):
    binary = [f for f in BINARY if f is not lax.nextafter]
    check(lambda x, y: [f(x, y) for f in binary[:-1]] + [jnp.isfinite(x)], special(rng, (20,)), special(rng, (20,)))


def test_whole_numbers_and_booleans(rng):
    x, y = rng.integers(-9, 9, (2, MEMBERS, 12))
    y[:, 0] = 0
    u = rng.integers(0, 70, (MEMBERS, 12)).astype(np.uint32)

    def functions(x, y, u):
        small, p, q = x.astype(np.int8), x > 0, y > 0
        return [
            *(x + y, x * y, lax.div(x, y), lax.rem(x, y), jnp.abs(x), jnp.sign(x), x**2, -x, ~x, x & y, x | y, x ^ y),
            *(small * small * small, small << 3, u - 1, u * u, x.astype(np.float32), x.astype(np.int16)),
            *((0.5 * x.astype(float)).astype(int), lax.shift_right_arithmetic(x, 2)),
            *(p & q, p | q, p ^ q, ~p, jnp.maximum(p, q), p.astype(np.float64), jnp.where(p, x, y), x.astype(bool)),
            *(lax.shift_left(u, u), lax.shift_right_logical(u, u), lax.shift_right_logical(x, 3)),
        ]  # fmt: skip

    check(functions, x, y, u)


def test_movements(rng):
    x, y = rng.normal(size=(MEMBERS, 3, 4)), rng.normal(size=(MEMBERS, 2, 4))

    def functions(x, y):
        return [
            *(x.T, x[::-1, 1:3], x[1], x[:, ::2], x.reshape(2, 6), jnp.concatenate([x, y]), jnp.stack([x, -x], 1)),
            *(lax.pad(x, 7.0, ((1, 2, 1), (-1, 1, 0))), jnp.broadcast_to(x[:, None], (3, 2, 4)), jnp.arange(5) * 2),
            *(jnp.split(x, [1, 3], axis=1)[1], jnp.diag(x[:, :3]), jnp.tril(x), jnp.roll(x, 1, 0), x[:0]),
            *(x[np.array([2, 0, 2])], x[:, np.array([3, 1])], x.at[1].set(0.0), x.at[np.array([0, 2]), 1].add(y[:, 0])),
        ]  # fmt: skip

    check(functions, x, y)


@pytest.mark.parametrize("rows", [3, 12])
def test_places_that_are_known_at_run_time(rng, rows):
    """Few entries are selected, many are in memory; places outside are moved inside, or left alone."""
    x, i = rng.normal(size=(MEMBERS, rows, 4)), rng.integers(-rows - 2, rows + 2, (MEMBERS, 3))
    v = rng.normal(size=(MEMBERS, 4))

    def functions(x, i, v):
        return [
            *(x[i[0]], x[i], x[i, i[0]], x.at[i].get(mode="fill", fill_value=-1.0), x.at[i].get(mode="clip")),
            *(jnp.take_along_axis(x, i[None, :1] % 4, 1), lax.dynamic_slice(x, (i[0], i[1]), (2, 3))),
            *(lax.dynamic_update_slice(x, v[None], (i[0], 0)), x.at[i[0]].set(v), x.at[i].add(v)),
            *(x.at[i[0], i[1]].mul(2.0), x.at[i].max(0.0), x.at[i].set(v, mode="drop"), jnp.arange(rows)[i[0]]),
        ]  # fmt: skip

    check(functions, x, i, v)


def test_large_arrays_that_repeat_along_an_axis(rng):
    """Entry by entry in a loop; what is short along an axis is the same for all of it."""
    x, y = rng.normal(size=(MEMBERS, 16, 1, 1)), rng.normal(size=(MEMBERS, 16, 3, 3))
    check(lambda x, y: [lax.mul(x, y), x * y + y * x[::-1], jnp.where(y > 0, y, 1.0)], x, y)


def test_sums_and_extremes(rng):
    x, y = rng.normal(size=(MEMBERS, 4, 3)), rng.normal(size=(MEMBERS, 3, 5))

    def functions(x, y):
        return [
            *(x.sum(), x.sum(0), x.prod(1), x.max(0), x.min(), (x > 0).all(1), (x > 0).any()),
            *(x[:0].sum(0), x[:0].sum(1)),
            *(jnp.cumsum(x, 0), jnp.cumprod(x, 1), lax.cummax(x, 0, reverse=True), lax.cummin(x, 1)),
            *(x @ y, jnp.einsum("ij,kj->ik", x, x), jnp.einsum("bi,bi->b", x, x), jnp.einsum("ij,jk->", x, y)),
            *(jnp.argmax(x, 1), jnp.argmin(x, 0), jnp.sort(x, 0), jnp.argsort(y[0])),
        ]

    check(functions, x, y)
    with_gaps = special(rng, (4, 6))
    check(lambda x: [jnp.argmax(x, 1), jnp.argmin(x, 0), jnp.sort(x, 1), x.max(1), x.min(0)], with_gaps)


def test_factorisations(rng):
    a, b = rng.normal(size=(MEMBERS, 5, 5)), rng.normal(size=(MEMBERS, 5, 2))
    tall = rng.normal(size=(MEMBERS, 2, 6, 3))

    def functions(a, b, tall):
        definite = a @ a.T + jnp.eye(5)
        factors, pivots, order = lax.linalg.lu(a)
        lower = jnp.linalg.cholesky(definite)
        sides = [(lower, b, True, False), (lower, b, True, True), (lower, b.T, False, False), (lower, b.T, False, True)]
        triangular = [
            lax.linalg.triangular_solve(m, rhs, left_side=left, lower=True, transpose_a=turned)
            for m, rhs, left, turned in sides
        ]
        return [
            *(lower, factors, pivots, order, jnp.linalg.solve(a, b), jnp.linalg.inv(a), *triangular),
            *(*jnp.linalg.qr(tall), *jnp.linalg.qr(tall[0].T), *jnp.linalg.qr(tall, mode="complete")),
        ]

    check(functions, a, b, tall, rtol=1e-11)
    check(jnp.linalg.cholesky, np.tile(-np.eye(2), (MEMBERS, 1, 1)))


def test_shared_arguments_and_one_member(rng):
    x, table = rng.normal(size=(1, 4)), rng.normal(size=(7,))
    check(lambda x, table: (x[:, None] * table, table[2] * x), x, table, shared=[1])


def test_what_cannot_be_translated_is_named():
    cases = [
        ("svd", lambda x: jnp.linalg.svd(x)[1]),
        ("dtype", lambda x: x.astype(np.complex128)),
        ("dtype", lambda x: x.astype(jnp.bfloat16) * 2),
        ("pure_callback", lambda x: jax.pure_callback(np.sin, x, x)),
        ("random_seed", lambda x: jax.random.uniform(jax.random.key(0)) * x),
        ("local memory", lambda x: lax.scan(lambda c, _: (c * x, c), x, length=10_000)[1][x[0, 0].astype(int)]),
        ("sort", lambda x: jnp.sort(jnp.ravel(jnp.tile(x, (3, 3))))),
    ]
    for name, function in cases:
        program = jax.make_jaxpr(function)(jnp.ones((3, 3)))
        with pytest.raises(Untranslatable, match=name) as error:
            translate(program, [True])
        assert error.value.operation == name


def test_a_batch_of_keys_is_no_kernel():
    program = jax.make_jaxpr(lambda key, x: (key, 2.0 * x))(jax.random.key(0), 1.0)
    with pytest.raises(Untranslatable, match="key<fry>"):
        translate(program, [True, True])


def test_sines_of_several_angles_ask_once_whether_they_are_large(rng):
    """And are those of large angles too."""
    x = rng.normal(size=(MEMBERS, 3)) * [1.0, 1e6, 1e12]
    check(lambda x: (jnp.sin(x), jnp.cos(x)), x)
    check(lambda x: (jnp.sin(x), jnp.cos(x)), x.astype(np.float32), rtol=1e-6)
    program = jax.make_jaxpr(lambda x: (jnp.sin(x), jnp.cos(x)))(x[0])
    text = translate(program, [True]).source.split("KERNEL void")[1]
    assert (text.count("if (is_near("), text.count("is_near("), text.count("near_sincos(")) == (1, 3, 3)


def test_equal_expressions_are_one():
    """What nobody needs is not written, nor are moves, nor terms with a zero of the program."""
    program = jax.make_jaxpr(
        lambda x: (jnp.sin(x[0]) * jnp.sin(x[0]) + jnp.array([0.0, 1.0])[0] * jnp.exp(x[1]), jnp.tan(x)[:0])
    )(jnp.ones(2))
    text = translate(program, [True]).source.split("KERNEL void")[1]
    assert text.count("near_sincos(") == 1
    assert "exp(" not in text
    assert "tan(" not in text
