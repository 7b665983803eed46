"""What the equation of a `jax.lax.scan` says of its operands, in the words of the version of JAX that is installed."""

from __future__ import annotations

from collections.abc import Mapping


def constants_and_carry(params: Mapping) -> tuple[int, int]:
    """Where, among the operands of a scan with these parameters, the constants end, which come first, and where the
    carried ones end, which come next; the others have one part for each round.

    JAX 0.10 gives two numbers, JAX 0.11 a tree of the operands.
    """
    if "num_consts" in params:
        constants, carried = params["num_consts"], params["num_carry"]
    else:
        constants, carried, _ = map(len, params["ft_in"].unpack())
    return constants, constants + carried
