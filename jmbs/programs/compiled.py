"""`eqx.filter_jit` for jmbs's own programs: quick to compile where they run for a moment, traced once for all processes
where `use_cache` was called."""

from __future__ import annotations

import dataclasses
import functools
import logging
import pickle
from collections.abc import Callable, Hashable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import mlir

from jmbs.arrays import is_traced
from jmbs.cache import forget, keep, keeps_programs, kept
from jmbs.fusing import fuses
from jmbs.jaxext import quick_options
from jmbs.programs.digest import digest_of, of_installation, settings

logger = logging.getLogger(__name__)
SUFFIX = ".traced"
Options = tuple[tuple[str, Any], ...]
"""Of XLA's compiler, by name."""
UNSTABLE = ("__gpu$xla.gpu.ptx",)
"""Custom calls that JAX exports only if told so: they may mean something else in its next version, as here they may."""


def cached_jit(function: Callable) -> Callable:
    """`eqx.filter_jit`; outside of transformations, where `use_cache` was called, the traced program is kept in the
    folder too, unless code of the user's is part of it."""
    return _with_options(function, tuple)


def quick_to_compile(function: Callable | None = None, *, repeated: bool = False) -> Callable:
    """`cached_jit` for programs that run for a moment: on a CPU they take a third to half of the time to compile, and
    two to four times as long to run. Under transformations, where JAX refuses a compiler's options, it is
    `eqx.filter_jit`.

    Outside of them it serves equations too, which JAX would take operation by operation: hundreds of programs.

    **Arguments:** `repeated`: a program that may run so often that its machine code is worth it; it is quick to compile
    too where `ask_for_quick_compiling` was called.
    """
    if function is None:
        return functools.partial(quick_to_compile, repeated=repeated)
    return _with_options(function, lambda: quick_options(repeated))


def _with_options(function: Callable, options: Callable[[], Options]) -> Callable:
    @functools.wraps(function)
    def call(*args: Any) -> Any:
        if is_traced((args, jnp.zeros(()))):
            return _jitted(function, ())(*args)
        return (_kept if _keeps() else _plain)(function, options(), args)

    return call


def _keeps() -> bool:
    """Not where a device other than JAX's own choice was asked for: a program is exported for one platform."""
    return keeps_programs() and jax.config.values["jax_default_device"] is None


@functools.cache
def _jitted(function: Callable, options: Options) -> Callable:
    if not options:
        return eqx.filter_jit(function)
    return eqx.filter_jit(function, compiler_options=dict(options))  # pyright: ignore[reportCallIssue]


def _plain(function: Callable, options: Options, args: tuple) -> Any:
    return _jitted(function, options)(*args)


_programs: dict[Hashable, Callable] = {}
"""Of this process, by all that they depend on."""


def _kept(function: Callable, options: Options, args: tuple) -> Any:
    leaves, structure = jax.tree.flatten(args)
    if not all(map(_at_home, leaves)):
        return _plain(function, options, args)
    kinds = tuple(jax.typeof(leaf) if _is_array(leaf) else leaf for leaf in leaves)
    signature = (function, options, structure, kinds, settings(), fuses())
    if signature not in _programs:
        _programs[signature] = _program(function, options, args)
    return _programs[signature](leaves, args)


def _program(function: Callable, options: Options, args: tuple) -> Callable[[list, tuple], Any]:
    """A program for such arguments: of their leaves, and of the arguments themselves."""
    plain = functools.partial(_plain, function, options)
    shapes = _shapes_for_arrays(args)
    try:
        about = (options, settings(), _kernels(), jax.default_backend(), jax.devices()[0].device_kind)
        key = digest_of(of_installation(), function, about, shapes)
    except Exception as unknown:  # `UnknownCode`, and what objects of the user's may do when they are looked at
        logger.debug("%s is traced in every process: it depends on %s", function.__qualname__, unknown)
        return lambda leaves, args: plain(args)
    traced = _read(key) or _traced(function, shapes, key)
    if traced is None:
        return lambda leaves, args: plain(args)
    exported, frame = traced
    places, structure = jax.tree.flatten(frame)
    types = tuple(ShapedArray(p.shape, p.dtype, weak_type=p.weak_type) for p in places if _is_shape(p))
    held = _Exported(exported, types)

    def called(*arrays: Any) -> Any:
        return _call.bind(*arrays, held=held)

    called.__name__ = function.__name__
    jitted = jax.jit(called, compiler_options=dict(options) or None)

    def run(leaves: list, args: tuple) -> Any:
        del args
        found = iter(jitted(*filter(_is_array, leaves)))
        return structure.unflatten([next(found) if _is_shape(place) else place for place in places])

    return run


def _kernels() -> tuple[bool, str | None]:
    """Whether calls are kernels of a CUDA device, and what would make these."""
    if not fuses():
        return False, None
    from jmbs.fused import nvrtc_version

    return True, nvrtc_version()


@dataclasses.dataclass(frozen=True, eq=False)
class _Exported:
    program: jax.export.Exported
    types: tuple[ShapedArray, ...]


# `Exported.call` alone would commit its results to one device, so that they could not be spread over several, and
# forget which of them are weakly typed.
_call = Primitive("exported")
_call.multiple_results = True
_call.def_abstract_eval(lambda *_, held: list(held.types))
mlir.register_lowering(
    _call, mlir.lower_fun(lambda *arrays, held: list(held.program.call(*arrays)), multiple_results=True)
)


def _read(key: str) -> tuple[jax.export.Exported, Any] | None:
    data = kept(f"{key}{SUFFIX}")
    if data is None:
        return None
    try:
        program, frame = pickle.loads(data)
        return jax.export.deserialize(program), frame
    except Exception as error:  # of a file that something has damaged
        logger.debug("the traced program %s cannot be read: %s: %s", key, type(error).__name__, error)
        forget(f"{key}{SUFFIX}")
        return None


def _traced(function: Callable, args: tuple, key: str) -> tuple[jax.export.Exported, Any] | None:
    """The program for arguments with shapes for arrays, and its result with such; None where it cannot leave the
    process or wants several devices."""
    shapes, others = eqx.partition(args, _is_shape)
    frames = []

    def flat(*arrays: Any) -> list:
        result = function(*eqx.combine(jax.tree.structure(shapes).unflatten(arrays), others))
        frames.append(_shapes_for_arrays(result))
        return jax.tree.leaves(eqx.filter(result, _is_array))

    allowed = [jax.export.DisabledSafetyCheck.custom_call(name) for name in UNSTABLE]
    flat.__name__ = function.__name__
    try:
        exported = jax.export.export(jax.jit(flat), disabled_checks=allowed)(*jax.tree.leaves(shapes))
        data = pickle.dumps((bytes(exported.serialize()), frames[-1]))
    except Exception as error:  # calls back to Python, say; where it is the function's own, the plain call has it again
        logger.debug("%s is traced in every process: %s", function.__qualname__, error)
        return None
    if exported.nr_devices > 1:
        return None
    keep(f"{key}{SUFFIX}", data)
    return exported, frames[-1]


def _at_home(leaf: Any) -> bool:
    """Whether a leaf lies on one device of the kind that programs are exported for."""
    devices = leaf.devices() if isinstance(leaf, jax.Array) else ()
    return len(devices) <= 1 and all(device.platform == jax.default_backend() for device in devices)


def _is_array(leaf: Any) -> bool:
    return isinstance(leaf, (jax.Array, np.ndarray, np.generic))


def _is_shape(leaf: Any) -> bool:
    return isinstance(leaf, jax.ShapeDtypeStruct)


def _shapes_for_arrays(tree: Any) -> Any:
    return jax.tree.map(lambda leaf: _shape(leaf) if _is_array(leaf) else leaf, tree)


def _shape(array: Any) -> jax.ShapeDtypeStruct:
    kind = jax.typeof(array)
    return jax.ShapeDtypeStruct(kind.shape, kind.dtype, weak_type=kind.weak_type)
