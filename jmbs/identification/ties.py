"""Values that follow from others: those that are tied, and those that are reported only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter

import numpy as np

from jmbs.errors import ModelError
from jmbs.identification.expressions import Expression, parse_expression
from jmbs.identification.parameter_paths import names_in_expressions, parse_parameter
from jmbs.identification.study import Study, models_of
from jmbs.identification.unknowns import Unknowns
from jmbs.simulation import Model


def expressions_of(study: Study, unknowns: Unknowns) -> tuple[dict[str, Expression], dict[str, Expression]]:
    """Ties by path, each after those that it follows from, and derived values by name. Raises `ModelError`."""
    models = models_of(study)
    known = names_in_expressions(models, study.sensors)
    own = {n for blocks in (*unknowns.own.values(), *unknowns.held_out.values()) for b in blocks for n in b.local_names}
    found: dict[str, dict[str, Expression]] = {}
    for section, texts in (("ties", study.ties), ("derived", study.derived)):
        found[section] = {name: parse_expression(f"{section}/{name}", str(text), known) for name, text in texts.items()}
        for name, expression in found[section].items():
            _refuse_names(models, f"{section}/{name}", expression, own)
    ties = found["ties"]
    taken = {*ties, *(name for block in unknowns.blocks for name in block.names)}
    if doubled := taken & found["derived"].keys():
        raise ModelError(f"derived/{min(doubled)}", "the name of an unknown or tied value", "a name of its own")
    return {path: ties[path] for path in in_order({p: e.names for p, e in ties.items()})}, found["derived"]


def _refuse_names(models: Sequence[Model], where: str, expression: Expression, own: set[str]) -> None:
    """Of what an expression must not hold: what each recording has its own of, and what is no single number."""
    for name in expression.names:
        if name in own:
            raise ModelError(where, f"{name}, which each recording has its own of", "what is one for the study")
        if name.startswith("sensors/"):
            continue
        found = parse_parameter(models, name)
        if np.prod(found.shape, dtype=int) != 1 or found.kind == "virtual":
            raise ModelError(where, f"{name}, of shape {found.shape}", "one number, such as an entry of it")


def in_order(ties: Mapping[str, Iterable[str]]) -> list[str]:
    """Tied paths, each after those that it follows from; by path the names in its expression. Raises `ModelError`."""
    try:
        return [path for path in TopologicalSorter(ties).static_order() if path in ties]
    except CycleError as error:
        raise ModelError("ties", f"a circle of {', '.join(error.args[1])}", "values that follow from others") from None
