"""The linear systems of implicit stages, by our LU, which is safe in batches."""

from __future__ import annotations

from typing import Any

import lineax as lx
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, PyTree

from jmbs.linear import lu, lu_solve


class StageSolver(lx.AbstractLinearSolver):
    """LU of square matrices as lineax's own; of a batch a few at a time, see `jmbs.linear.lapack`."""

    def init(self, operator: lx.AbstractLinearOperator, options: dict[str, Any]):
        del options
        return _factorised(operator.as_matrix())

    def compute(self, state, vector: PyTree[Array], options: dict[str, Any]):
        del options
        _, factors, order = state
        rhs, unravel = ravel_pytree(vector)
        return unravel(lu_solve(factors, order, rhs)), lx.RESULTS.successful, {}

    def transpose(self, state, options: dict[str, Any]):
        return _factorised(state[0].T), options

    def conj(self, state, options: dict[str, Any]):
        return state, options

    def assume_full_rank(self) -> bool:
        return True


def _factorised(matrix: Array) -> tuple[Array, Array, Array]:
    return matrix, *lu(matrix)
