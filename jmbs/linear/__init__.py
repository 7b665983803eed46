"""Linear algebra that stays finite, in value and derivative, where constraints are redundant."""

from jmbs.linear.lapack import (
    cholesky,
    cholesky_solve,
    least_squares,
    lu,
    lu_solve,
    orthogonal_basis,
    solve_definite,
)
from jmbs.linear.pseudo_inverse import (
    damped_inverse,
    least_multipliers,
    pseudo_inverse,
    rank_tolerance,
    row_lengths,
    singular_values_of_directions,
    without_effect,
)
from jmbs.linear.saddle import (
    band_solver_of_many,
    definite_solver,
    definite_solver_of_many,
    nearly_vanish,
    saddle_solver,
    without_rounding,
)
from jmbs.linear.small import definite_inverse, products
from jmbs.linear.sparse import seeds, sparse_matrix
from jmbs.linear.sparse_rows import SparseRows
from jmbs.linear.tridiagonal import BlockTridiagonal, factorised

__all__ = [
    "BlockTridiagonal",
    "SparseRows",
    "band_solver_of_many",
    "cholesky",
    "cholesky_solve",
    "definite_inverse",
    "definite_solver",
    "definite_solver_of_many",
    "factorised",
    "least_squares",
    "lu",
    "lu_solve",
    "nearly_vanish",
    "orthogonal_basis",
    "products",
    "damped_inverse",
    "least_multipliers",
    "pseudo_inverse",
    "rank_tolerance",
    "saddle_solver",
    "seeds",
    "row_lengths",
    "singular_values_of_directions",
    "solve_definite",
    "sparse_matrix",
    "without_effect",
    "without_rounding",
]
