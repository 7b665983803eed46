"""CUDA C to PTX by NVRTC, the compiler that JAX's CUDA extra brings; no device and no compiler of the system needed."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import importlib.util
import re
from pathlib import Path

from jmbs.cache import keep, keeps_programs, kept

ARCHITECTURE = "compute_80"
"""The oldest devices that these programs run on; the driver makes of them what its own device wants."""
OPTIONS = (f"--gpu-architecture={ARCHITECTURE}", "--prec-div=false")
"""Quotients in float32 within 2 units in the last place, as XLA has them on CUDA devices: without branches."""
OLDEST = ".version 8.3"
"""Of PTX, with CUDA 12.3: the first that takes more than 4 kB of arguments and knows which bytes of a load are used.
NVRTC writes its own version into the program, which an older driver refuses though it knows all that is in there."""


class NotCompiled(Exception):
    """NVRTC does not take the source, or is not there; the message says why."""


@functools.cache
def library() -> ctypes.CDLL | None:
    """NVRTC as installed with JAX's CUDA extra, else None. It is not loaded before it is asked for."""
    for path in _candidates():
        try:
            return ctypes.CDLL(str(path))
        except OSError:
            continue
    return None


def _candidates() -> list[Path]:
    """Where packages of NVIDIA put it: `nvidia/cu13/lib`, `nvidia/cuda_nvrtc/lib` and the like."""
    spec = importlib.util.find_spec("nvidia")
    folders = [Path(folder) for folder in (spec.submodule_search_locations or ())] if spec else []
    return sorted(path for folder in folders for path in folder.glob("*/lib/libnvrtc.so.*"))


@functools.lru_cache(maxsize=64)
def ptx(source: str) -> str:
    """The program in PTX, which is kept where programs are (`jmbs.use_cache`). Raises `NotCompiled`."""
    nvrtc = library()
    if nvrtc is None:
        raise NotCompiled("NVRTC is not installed; JAX's CUDA extra brings it")
    if not keeps_programs():
        return _compiled(nvrtc, source)
    about = f"{nvrtc_version()} {OPTIONS} {OLDEST}\n{source}"
    name = f"{hashlib.sha256(about.encode()).hexdigest()}.ptx"
    found = kept(name)
    if found is not None:
        return found.decode()
    text = _compiled(nvrtc, source)
    keep(name, text.encode())
    return text


def nvrtc_version() -> str | None:
    """Major and minor, None where it is not installed."""
    nvrtc = library()
    if nvrtc is None:
        return None
    major, minor = ctypes.c_int(), ctypes.c_int()
    _check(nvrtc.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)), "version")
    return f"{major.value}.{minor.value}"


def _compiled(nvrtc: ctypes.CDLL, source: str) -> str:
    program = ctypes.c_void_p()
    _check(nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"fused.cu", 0, None, None), "begin")
    try:
        options = (ctypes.c_char_p * len(OPTIONS))(*(option.encode() for option in OPTIONS))
        status = nvrtc.nvrtcCompileProgram(program, len(options), options)
        if status:
            raise NotCompiled(_text(nvrtc, program, "ProgramLog").strip() or f"NVRTC's status {status}")
        return re.sub(r"^\.version .*$", OLDEST, _text(nvrtc, program, "PTX"), count=1, flags=re.MULTILINE)
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))


def _text(nvrtc: ctypes.CDLL, program: ctypes.c_void_p, what: str) -> str:
    size = ctypes.c_size_t()
    _check(getattr(nvrtc, f"nvrtcGet{what}Size")(program, ctypes.byref(size)), what)
    buffer = ctypes.create_string_buffer(size.value)
    _check(getattr(nvrtc, f"nvrtcGet{what}")(program, buffer), what)
    return buffer.value.decode()


def _check(status: int, what: str) -> None:
    if status:
        raise NotCompiled(f"NVRTC's status {status} ({what})")
