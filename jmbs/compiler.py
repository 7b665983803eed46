"""What jmbs asks of JAX's compiler on a CPU, and whether that was asked for.

XLA calls one kernel per operation, which takes longer than an operation on few numbers does. It compiles a loop to one
kernel if the loop is small; how small is a setting. Loops that call a library or scatter values it leaves as they are.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir
from jaxtyping import Array

VECTOR_WIDTH = "xla_cpu_prefer_vector_width"
"""In bits; cores that have less use what they have."""
LOOP_SIZE = "xla_cpu_small_while_loop_byte_threshold"
"""Bytes that the operations of a loop may read and write for it to be one kernel."""
NOT_UNROLLED = "xla_cpu_disable_loop_unrolling"
"""For inner loops of kernels: unrolled, they take longer to compile and to run."""

EXTRA = "xla_backend_extra_options"
FLAGS = {VECTOR_WIDTH: f"--{VECTOR_WIDTH}=512", EXTRA: f"--{EXTRA}={LOOP_SIZE}={10**12},{NOT_UNROLLED}"}


def ask_for_speed() -> None:
    """Asks for vectors as wide as the cores have and for loops that are one kernel each, by `XLA_FLAGS`, where these do
    not say it already. To be called before JAX has compiled anything."""
    given = os.environ.get("XLA_FLAGS", "")
    os.environ["XLA_FLAGS"] = " ".join([given, *(flag for name, flag in FLAGS.items() if name not in given)]).strip()


def compiles_whole_loops() -> bool:
    """Whether loops are one kernel each, so that many small operations cost little."""
    return LOOP_SIZE in os.environ.get("XLA_FLAGS", "") and jax.default_backend() == "cpu"


def kernels_apart(x: Array) -> Array:
    """`x` `(n, ...)`; loops in which its derivatives are computed stay loops, with kernels inside.

    What a compiler does to one kernel grows faster than the kernel: derivatives with loop joints would take minutes.
    """
    return _apart.bind(x, derivative=False)


_apart = Primitive("kernels_apart")


def _evaluate(x: Array, *, derivative: bool) -> Array:
    if not (derivative and compiles_whole_loops()):
        return x
    # A scatter that changes nothing: of a loop with one in it XLA makes no kernel. One to one place it sees through.
    axis = int(np.argmax(x.shape))
    return jnp.zeros_like(x).at[(slice(None),) * axis + (np.arange(x.shape[axis]),)].add(x)


def _differentiate(primals: Sequence, tangents: Sequence, *, derivative: bool):
    ((x,), (change,)) = primals, tangents
    change = change if isinstance(change, ad.Zero) else _apart.bind(change, derivative=True)
    return _apart.bind(x, derivative=derivative), change


_apart.def_impl(_evaluate)
_apart.def_abstract_eval(lambda x, derivative: x)
ad.primitive_jvps[_apart] = _differentiate
ad.primitive_transposes[_apart] = lambda cotangent, _, derivative: (_apart.bind(cotangent, derivative=True),)
batching.defvectorized(_apart)
mlir.register_lowering(_apart, mlir.lower_fun(_evaluate, multiple_results=False))
