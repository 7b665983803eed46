"""CUDA kernels of fused calls, run thread by thread on a CPU: their text, compiled as C++, and arrays as XLA hands them
over."""

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

from jmbs.fused import cuda
from jmbs.fused.packed import NAME
from jmbs.fusing import fused_calls

COMPILER = shutil.which("c++") or shutil.which("g++")
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no C++ compiler (c++, g++) on the path")
DEVICE = """
#include <cmath>
#include <cstring>
#define __CUDACC__ 1
#define __global__
#define __device__
#define __forceinline__ inline
struct Place { unsigned x; };
static Place blockIdx, blockDim, threadIdx;
static inline double __longlong_as_double(long long x) { double y; std::memcpy(&y, &x, sizeof y); return y; }
static inline double rsqrt(double x) { return 1.0 / std::sqrt(x); }
static inline float rsqrtf(float x) { return 1.0f / std::sqrt(x); }
extern "C" void be(unsigned block, unsigned size, unsigned thread)
{ blockIdx.x = block; blockDim.x = size; threadIdx.x = thread; }
"""


def library(source: str) -> ctypes.CDLL:
    """The text for a device, compiled for this machine."""
    assert COMPILER is not None
    folder = Path(tempfile.mkdtemp(prefix="jmbs_fused_"))
    text, compiled = folder / "kernel.cpp", folder / f"{hashlib.sha1(source.encode()).hexdigest()[:8]}.so"
    text.write_text(DEVICE + source, encoding="utf-8")
    flags = ("-O1", "-w", "-shared", "-fPIC", "-fwrapv")
    subprocess.run([COMPILER, *flags, "-o", str(compiled), str(text)], check=True)
    return ctypes.CDLL(str(compiled))


def _launched(count: Any, *args: Any, code: str, minor: Sequence[bool], types: Sequence) -> list:
    """What a kernel writes: arrays whose members are the minor axis have it innermost, as all results."""
    members = int(count)
    given = [np.asarray(x) for x in args]
    given = [np.ascontiguousarray(np.moveaxis(x, 0, -1) if last else x) for x, last in zip(given, minor, strict=True)]
    found = [np.zeros((*t.shape[1:], members), t.dtype) for t in types]
    pointers = [ctypes.c_void_p(x.ctypes.data) for x in (*given, *found)]
    machine = library(code)
    for thread in range(-(-members // cuda.BLOCK) * cuda.BLOCK):
        machine.be(thread // cuda.BLOCK, cuda.BLOCK, thread % cuda.BLOCK)
        getattr(machine, NAME)(ctypes.byref(ctypes.c_int(members)), *pointers)
    return [jax.numpy.asarray(np.moveaxis(x, -1, 0)) for x in found]


def emulated(monkeypatch: pytest.MonkeyPatch, function: Callable, *args: Any) -> Any:
    """`function(*args)`, in which fused calls are kernels."""
    monkeypatch.setattr(cuda, "ptx", lambda source: source)
    monkeypatch.setattr(cuda._ptx, "impl", _launched, raising=False)
    with fused_calls():
        program, shape = jax.make_jaxpr(function, return_shape=True)(*args)
    known = dict(zip(program.jaxpr.constvars, program.consts, strict=True))
    known.update(zip(program.jaxpr.invars, jax.tree.leaves(args), strict=True))
    for eqn in program.eqns:
        values = [x.val if hasattr(x, "val") else known[x] for x in eqn.invars]
        if eqn.primitive.name == "fused_call":
            results = cuda._launcher(**eqn.params)(*values)
        else:
            results = eqn.primitive.bind(*values, **eqn.primitive.get_bind_params(eqn.params))
        known.update(zip(eqn.outvars, results if eqn.primitive.multiple_results else [results], strict=True))
    results = [x.val if hasattr(x, "val") else known[x] for x in program.jaxpr.outvars]
    return jax.tree.structure(shape).unflatten(results)
