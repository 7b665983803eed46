"""Linear algebra that stays finite, in value and derivative, where constraints are redundant."""

from jmbs.linear.pseudo_inverse import not_before, pseudo_inverse, rank_tolerance
from jmbs.linear.saddle import (
    band_solver_of_many,
    definite_solver,
    definite_solver_of_many,
    minimum_norm_saddle,
    saddle_solver,
    solve_saddle,
)
from jmbs.linear.small import definite_inverse, products
from jmbs.linear.sparse import seeds, sparse_matrix
from jmbs.linear.sparse_rows import SparseRows
from jmbs.linear.tridiagonal import BlockTridiagonal, factorised

__all__ = [
    "BlockTridiagonal",
    "SparseRows",
    "band_solver_of_many",
    "definite_inverse",
    "definite_solver",
    "definite_solver_of_many",
    "factorised",
    "minimum_norm_saddle",
    "not_before",
    "products",
    "pseudo_inverse",
    "rank_tolerance",
    "saddle_solver",
    "seeds",
    "solve_saddle",
    "sparse_matrix",
]
