"""Kernels in C, compiled by the system's compiler and called for a few members, beside what JAX computes for each."""

from __future__ import annotations

import ctypes
import hashlib
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from jax.extend.core import jaxpr_as_fun

from jmbs.fused import Kernel, Options, translate

COMPILER = shutil.which("cc") or shutil.which("gcc")
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no C compiler (cc, gcc) on the path")
FLAGS = ("-O1", "-w", "-shared", "-fPIC", "-fwrapv")


def compiled(kernel: Kernel, flags: Sequence[str] = FLAGS) -> Callable[..., list[np.ndarray]]:
    """The kernel as a function of arrays, batched ones with the members' axis last."""
    assert COMPILER is not None
    folder = Path(tempfile.mkdtemp(prefix="jmbs_fused_"))
    text, library = folder / "kernel.c", folder / f"{hashlib.sha1(kernel.source.encode()).hexdigest()[:8]}.so"
    text.write_text(kernel.source, encoding="utf-8")
    subprocess.run([COMPILER, *flags, "-o", str(library), str(text), "-lm"], check=True)
    function = getattr(ctypes.CDLL(str(library)), kernel.name)

    def call(members: int, *args: np.ndarray) -> list[np.ndarray]:
        given = [np.ascontiguousarray(x, t.dtype) for x, t in zip(args, kernel.inputs, strict=True)]
        found = [np.zeros((*t.shape, members), _dtype(t)) for t in kernel.outputs]
        pointers = [ctypes.c_void_p(x.ctypes.data) for x in (*given, *found)]
        function(ctypes.byref(ctypes.c_int(members)), *pointers)
        return found

    return call


def _dtype(t: Any) -> np.dtype:
    return np.dtype(bool) if t.dtype.kind == "V" else t.dtype


def check(
    function: Callable,
    *args: np.ndarray,
    shared: Sequence[int] = (),
    rtol: float = 1e-12,
    options: Options | None = None,
    flags: Sequence[str] = FLAGS,
) -> Kernel:
    """Holds the kernel of a function against the function; `args` have the members' axis first, but `shared` ones."""
    batched = [i not in shared for i in range(len(args))]
    first = [jax.ShapeDtypeStruct(np.shape(x)[b:], np.asarray(x).dtype) for x, b in zip(args, batched, strict=True)]
    program = jax.make_jaxpr(lambda *args: jax.tree.leaves(function(*args)))(*first)
    kernel = translate(program, batched, options=options)
    members = next((len(x) for x, b in zip(args, batched, strict=True) if b), 1)
    last = [np.moveaxis(x, 0, -1) if b else np.asarray(x) for x, b in zip(args, batched, strict=True)]
    found = compiled(kernel, flags)(members, *last)
    wanted = jax.jit(jax.vmap(jaxpr_as_fun(program), [0 if b else None for b in batched], axis_size=members))(*args)
    for i, (x, y) in enumerate(zip(found, wanted, strict=True)):
        x, y = np.moveaxis(x, -1, 0), np.asarray(y)
        scale = np.max(np.abs(y), initial=1e-300, where=np.isfinite(y)) if y.dtype.kind == "f" else 1
        np.testing.assert_allclose(x, y, rtol=rtol, atol=rtol * scale, err_msg=f"result {i}")
    return kernel
