"""Values whose derivatives only one mode can take: the other is refused in words of ours, where JAX would use its own.

The tangent of such a value goes through a linear primitive that can either only be transposed, which is what reverse
mode does to it, or only be evaluated. The values themselves pass, so second derivatives are what they were.
"""

from __future__ import annotations

import equinox as eqx
import jax
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir
from jaxtyping import PyTree

from jmbs.errors import ModelError

FORWARD = "forward-mode differentiation (jvp, jacfwd, linearize) of a run with adaptive steps"
REVERSE = 'reverse-mode differentiation (grad, vjp) of a run with adjoint="forward"'
WANTED = {FORWARD: 'adjoint="forward", or "direct" for both modes', REVERSE: 'adjoint="checkpoint" or "auto"'}


def reverse_only(tree: PyTree) -> PyTree:
    """The same; `ModelError` where the derivative of any of its floating arrays is taken in forward mode."""
    return _guarded(_reverse_only, tree)


def forward_only(tree: PyTree) -> PyTree:
    """The same; `ModelError` where the derivative of any of its floating arrays is taken in reverse mode."""
    return _guarded(_forward_only, tree)


def refuse_reverse() -> None:
    """Raises the `ModelError` of a derivative that is taken in reverse mode."""
    _refuse(REVERSE)


def _guarded(primitive: Primitive, tree: PyTree) -> PyTree:
    return jax.tree.map(lambda leaf: primitive.bind(leaf) if eqx.is_inexact_array(leaf) else leaf, tree)


def _refuse(found: str):
    raise ModelError("adjoint", found, WANTED[found])


def _identity(name: str) -> Primitive:
    """A primitive that does nothing, in batches and in programs."""
    primitive = Primitive(name)
    primitive.def_impl(lambda x: x)
    primitive.def_abstract_eval(lambda x: x)
    batching.primitive_batchers[primitive] = lambda given, axes: (primitive.bind(*given), axes[0])
    mlir.register_lowering(primitive, lambda _, x: [x])
    return primitive


def _with_tangents(value: Primitive, tangent: Primitive) -> None:
    """The tangent of the first goes through the second; its value is no longer guarded, for derivatives of that."""
    ad.primitive_jvps[value] = lambda given, tangents: (
        given[0],
        tangents[0] if isinstance(tangents[0], ad.Zero) else tangent.bind(tangents[0]),
    )


_transposed, _evaluated = _identity("only_transposed"), _identity("only_evaluated")
ad.deflinear2(_transposed, lambda cotangent, _: [cotangent])
_transposed.def_impl(lambda _: _refuse(FORWARD))
batching.primitive_batchers[_transposed] = lambda *_: _refuse(FORWARD)
mlir.register_lowering(_transposed, lambda *_: _refuse(FORWARD))
ad.deflinear2(_evaluated, lambda *_: _refuse(REVERSE))

_reverse_only, _forward_only = _identity("reverse_only"), _identity("forward_only")
_with_tangents(_reverse_only, _transposed)
_with_tangents(_forward_only, _evaluated)
