"""Inputs of a recording by coefficients: what the sensors then show, and how that follows the coefficients."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jmbs.ephs import TableFlow
from jmbs.errors import ModelError
from jmbs.identification.prediction import FitProgram, Member, predict
from jmbs.programs import cached_jit


class InputBasis(eqx.Module):
    """By port path, in `paths`, the rows (rows, k) of its table for each of its coefficients; these follow one another
    in the order of the paths, which JAX would sort in a dictionary."""

    paths: tuple[str, ...] = eqx.field(static=True)
    rows: tuple[Float[Array, "rows k"], ...]

    def tables(self, coefficients: Float[Array, " k"]) -> dict[str, Float[Array, " rows"]]:
        """The tables of all inputs."""
        found, start = {}, 0
        for path, rows in zip(self.paths, self.rows, strict=True):
            found[path] = rows @ coefficients[start : start + rows.shape[1]]
            start += rows.shape[1]
        return found


def table_of(member: Member, path: str) -> TableFlow:
    """The table that drives a port. Raises `ModelError` for what is driven otherwise."""
    drive: Any = member.model.dae.drives[path]
    while not isinstance(drive, TableFlow) and hasattr(drive, "drive"):
        drive = drive.drive
    if not isinstance(drive, TableFlow):
        raise ModelError(f"inputs/{path}", "a prescribed motion", "a force, torque or rate, such as <joint>/actuation")
    return drive


def driven(member: Member, basis: InputBasis, coefficients: Float[Array, " k"]) -> Member:
    """The recording with other values in the tables of its inputs; pure."""
    tables = basis.tables(coefficients)

    def values(m: Member) -> list[Array]:
        return [table_of(m, path).values for path in tables]

    return eqx.tree_at(values, member, [table[:, None] for table in tables.values()])


@cached_jit
def shown_with_slopes(
    program: FitProgram,
    member: Member,
    local: Float[Array, " p"],
    basis: InputBasis,
    coefficients: Float[Array, " k"],
) -> tuple[Float[Array, "c n"], Float[Array, "c n p+k"]]:
    """What the sensors show and its derivative by the unknowns, then by the coefficients of the inputs, in one run with
    p + k tangents."""
    p = local.shape[0]

    def twice(vector):
        shown = predict(program, driven(member, basis, vector[p:]), vector[:p])
        return shown, shown

    slopes, shown = jax.jacfwd(twice, has_aux=True)(jnp.concatenate([local, coefficients]))
    return shown, slopes
