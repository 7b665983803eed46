"""Factorisations of small matrices, written out; G. Golub, C. Van Loan, "Matrix Computations" (2013), chapters 3 to 5.

Each matrix of a batch is one for itself. Factors are LAPACK's, signs and pivots included.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from jmbs.fused.algebra import apply
from jmbs.fused.expressions import INDEX, Builder, Node
from jmbs.fused.flatten import Equation, Untranslatable
from jmbs.fused.reductions import product
from jmbs.fused.values import Scalars, constants

Matrix = Scalars
MOST = 32
"""Rows of a matrix that is factorised."""


class _Arithmetic:
    """Short names for operations on scalars."""

    def __init__(self, code: Builder, dtype: np.dtype):
        self.code, self.dtype = code, dtype

    def __call__(self, op: str, *args: Node) -> Node:
        return apply(self.code, op, *args)

    def number(self, value: float) -> Node:
        return self.code.constant(value, self.dtype)

    def dot(self, x: Scalars, y: Scalars) -> Node:
        return product(self.code, x, y, self.dtype)


def _cholesky(do: _Arithmetic, a: Matrix) -> list[Matrix]:
    """The lower factor; no numbers where the matrix is not positive definite."""
    n = len(a)
    lower = constants(do.code, np.zeros((n, n), do.dtype))
    for j in range(n):
        lower[j, j] = do("sqrt", do("sub", a[j, j], do.dot(lower[j, :j], lower[j, :j])))
        for i in range(j + 1, n):
            lower[i, j] = do("div", do("sub", a[i, j], do.dot(lower[i, :j], lower[j, :j])), lower[j, j])
    return [lower]


def _triangular(do: _Arithmetic, a: Matrix, b: Matrix, is_lower: bool, has_unit_diagonal: bool) -> Matrix:
    """x with a x = b."""
    n, x = len(a), b.copy()
    for i in range(n) if is_lower else range(n - 1, -1, -1):
        done = slice(0, i) if is_lower else slice(i + 1, n)
        for k in range(b.shape[1]):
            rest = do("sub", b[i, k], do.dot(a[i, done], x[done, k]))
            x[i, k] = rest if has_unit_diagonal else do("div", rest, a[i, i])
    return x


def _triangular_solve(do: _Arithmetic, eqn: Equation, a: Matrix, b: Matrix) -> list[Matrix]:
    p = eqn.params
    is_lower = p["lower"]
    if p["transpose_a"]:
        a, is_lower = a.T, not is_lower
    if p["left_side"]:
        return [_triangular(do, a, b, is_lower, p["unit_diagonal"])]
    return [_triangular(do, a.T, b.T, not is_lower, p["unit_diagonal"]).T]


def _lu(do: _Arithmetic, a: Matrix) -> list[Matrix]:
    """Both factors in one matrix, the rows that were exchanged, the order of rows; pivots as LAPACK's."""
    code, (m, n) = do.code, a.shape
    a, order = a.copy(), constants(code, np.arange(m), INDEX)
    pivots = constants(code, np.arange(min(m, n)), INDEX)
    for k in range(min(m, n)):
        best, at = do("abs", a[k, k]), code.constant(k, INDEX)
        for i in range(k + 1, m):
            size = do("abs", a[i, k])
            wins = do("gt", size, best)
            best, at = do("select", wins, best, size), do("select", wins, at, code.constant(i, INDEX))
        pivots[k] = at
        for i in range(k + 1, m):
            here = do("eq", at, code.constant(i, INDEX))
            a[[k, i]] = _exchanged(do, here, a[k], a[i])
            order[[k, i]] = _exchanged(do, here, order[k : k + 1], order[i : i + 1])[:, 0]
        is_zero = do("eq", a[k, k], do.number(0))
        divisor = do("select", is_zero, a[k, k], do.number(1))
        for i in range(k + 1, m):
            a[i, k] = do("div", a[i, k], divisor)
            for j in range(k + 1, n):
                a[i, j] = do("sub", a[i, j], do("mul", a[i, k], a[k, j]))
    return [a, pivots, order]


def _exchanged(do: _Arithmetic, which: Node, x: Scalars, y: Scalars) -> Scalars:
    """Both rows, the other way round if so."""
    found = np.empty((2, len(x)), object)
    for i, (a, b) in enumerate(zip(x, y, strict=True)):
        found[0, i], found[1, i] = do("select", which, a, b), do("select", which, b, a)
    return found


def _reflections(do: _Arithmetic, a: Matrix) -> tuple[Matrix, list[Node]]:
    """R above the vectors of Householder's reflections, and their factors tau."""
    (m, n), a, taus = a.shape, a.copy(), []
    zero, one = do.number(0), do.number(1)
    for k in range(min(m, n)):
        square = do.dot(a[k + 1 :, k], a[k + 1 :, k])
        alpha, still = a[k, k], do("eq", square, zero)
        length = do("sqrt", do("add", do("mul", alpha, alpha), square))
        beta = do("select", do("lt", alpha, zero), do("neg", length), length)
        tau = do("select", still, do("div", do("sub", beta, alpha), beta), zero)
        scale = do("select", still, do("sub", alpha, beta), one)
        a[k, k] = do("select", still, beta, alpha)
        for i in range(k + 1, m):
            a[i, k] = do("div", a[i, k], scale)
        taus.append(tau)
        a[k:, k + 1 :] = _reflected(do, a[k + 1 :, k], tau, a[k:, k + 1 :])
    return a, taus


def _reflected(do: _Arithmetic, v: Scalars, tau: Node, a: Matrix) -> Matrix:
    """(1 - tau w w^T) a, with w = (1, v)."""
    a = a.copy()
    for j in range(a.shape[1]):
        share = do("mul", tau, do("add", a[0, j], do.dot(v, a[1:, j])))
        a[0, j] = do("sub", a[0, j], share)
        for i in range(1, len(a)):
            a[i, j] = do("sub", a[i, j], do("mul", v[i - 1], share))
    return a


def _product(do: _Arithmetic, a: Matrix, taus: Sequence[Node], columns: int) -> Matrix:
    """The first columns of the product of the reflections."""
    m = len(a)
    q = constants(do.code, np.eye(m, columns, dtype=do.dtype))
    for k in range(len(taus) - 1, -1, -1):
        q[k:, k:] = _reflected(do, a[k + 1 :, k], taus[k], q[k:, k:])
    return q


def _qr(do: _Arithmetic, eqn: Equation, a: Matrix) -> list[Matrix]:
    if eqn.params.get("pivoting"):
        raise Untranslatable("qr", "with pivots")
    (m, n), (found, taus) = a.shape, _reflections(do, a)
    columns = m if eqn.params["full_matrices"] else min(m, n)
    upper = found[:columns].copy()
    upper[np.tri(columns, n, -1, dtype=bool)] = do.number(0)
    return [_product(do, found, taus, columns), upper]


def _geqrf(do: _Arithmetic, a: Matrix) -> list[Matrix]:
    found, taus = _reflections(do, a)
    return [found, np.array([*taus, None], object)[:-1]]


def _householder_product(do: _Arithmetic, a: Matrix, taus: Scalars) -> list[Matrix]:
    return [_product(do, a, list(taus), a.shape[1])]


def _alone(rule: Callable[..., list[Matrix]]) -> Callable[..., list[Matrix]]:
    return lambda do, eqn, *args: rule(do, *args)


_RULES: dict[str, tuple[Callable[..., list[Matrix]], tuple[int, ...]]] = {
    "cholesky": (_alone(_cholesky), (2,)),
    "triangular_solve": (_triangular_solve, (2, 2)),
    "lu": (_alone(_lu), (2,)),
    "qr": (_qr, (2,)),
    "geqrf": (_alone(_geqrf), (2,)),
    "householder_product": (_alone(_householder_product), (2, 1)),
}
"""Of one matrix; and how many axes each argument has then."""


def _batched(code: Builder, eqn: Equation, args: list[Scalars]) -> list[Scalars]:
    rule, ranks = _RULES[eqn.name]
    if max(n for x, rank in zip(args, ranks, strict=True) for n in x.shape[x.ndim - rank :]) > MOST:
        raise Untranslatable(eqn.name, f"of {args[0].shape[-2:]}, where at most {MOST} rows are written out")
    batch, do = args[0].shape[: args[0].ndim - ranks[0]], _Arithmetic(code, eqn.types[0].dtype)
    found = [np.empty(t.shape, object) for t in eqn.types]
    for place in np.ndindex(*batch):
        for whole, x in zip(found, rule(do, eqn, *(x[place] for x in args)), strict=True):
            whole[place] = x
    return found


RULES: dict[str, Callable[[Builder, Equation, list[Scalars]], list[Scalars]]] = dict.fromkeys(_RULES, _batched)
REFUSED = {name: "no factorisation that is written out" for name in ("svd", "eigh", "eig", "schur", "hessenberg")}
