"""Settings and fixtures for all tests: float64, strict dtype promotion, no display, reference data.

Array shapes in annotations are checked on demand: `pytest --jaxtyping-packages=jmbs,beartype.beartype`.
"""

from __future__ import annotations

import gc
import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

# Read when matplotlib is first imported, which a test module may do at collection.
os.environ["MPLBACKEND"] = "Agg"
# Read when numpy is first imported: threads that wait for small matrices take the cores from the other workers.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# All workers share what they compile, and so does what one compiles again after `jax.clear_caches`.
CACHE = "JAX_COMPILATION_CACHE_DIR"
OWN_CACHE = CACHE not in os.environ
if OWN_CACHE:
    os.environ[CACHE] = tempfile.mkdtemp(prefix="jmbs-tests-")
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"

import jax  # noqa: E402
import pytest  # noqa: E402
from jax.experimental.compilation_cache.compilation_cache import reset_cache  # noqa: E402

from jmbs.jaxext import ask_for_quick_compiling  # noqa: E402

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_dtype_promotion", "strict")
ask_for_quick_compiling()
gc.set_threshold(20_000, 20, 50)  # a tenth of the time went into looking for garbage, of which there is little
jax.devices()  # before a test that calls the command line, which would choose devices for all that follow


def pytest_addoption(parser: pytest.Parser) -> None:
    """`pytest -m slow --order-files-by "$(git rev-parse HEAD)"`: other files come first for other commits."""
    parser.addoption("--order-files-by", metavar="TEXT", help="run files in an order that follows from this text")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Where time does not suffice for all files, those that run differ by what is given, such as a commit."""
    text = config.getoption("--order-files-by")
    if text is not None:
        items.sort(key=lambda item: place_in_order(text, item.nodeid.partition("::")[0]))


def place_in_order(text: str, file: str) -> str:
    """What a file is sorted by: without order, and the same in every process."""
    return hashlib.sha256(f"{text} {file}".encode()).hexdigest()


def pytest_configure(config: pytest.Config) -> None:
    """Fast tests are small programs that run once: optimising their machine code takes longer than running them.

    Slow ones, and what tests start as programs of their own, are compiled as users' programs are.
    """
    jax.config.update("jax_disable_most_optimizations", config.option.markexpr == "not slow")


def pytest_collection_finish() -> None:
    """What is there by now stays until the end, so that later garbage collections need not look at it."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    """Nothing is left in the folder for temporary files."""
    if OWN_CACHE:
        shutil.rmtree(os.environ[CACHE], ignore_errors=True)


@pytest.fixture
def without_kernels(monkeypatch: pytest.MonkeyPatch):
    """Calls that are one kernel elsewhere are as others are, as where the device has none."""
    monkeypatch.setattr("jmbs.jaxext.kernels.AS_KERNEL", {})
    jax.clear_caches()
    yield
    jax.clear_caches()


ROOT = Path(__file__).parent.parent
REFERENCE_DATA = Path(__file__).parent / "reference" / "data"


def load_reference(name: str) -> dict[str, Any]:
    """The reference case `tests/reference/data/<name>.json` as plain dicts, lists and floats (SI units)."""
    return json.loads((REFERENCE_DATA / f"{name}.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="session")
def reference() -> Callable[[str], dict[str, Any]]:
    """`reference(name)` loads a reference case; the file's `conventions` say what its fields mean."""
    return load_reference


@pytest.fixture(scope="session")
def configs() -> Path:
    """The folder of the shipped configs."""
    return ROOT / "configs"


CACHE_SETTINGS = (
    "jax_enable_compilation_cache",
    "jax_compilation_cache_dir",
    "jax_compilation_cache_max_size",
    "jax_persistent_cache_min_compile_time_secs",
    "jax_persistent_cache_min_entry_size_bytes",
)


@pytest.fixture(autouse=True)
def _same_cache():
    """What a test or a command asks of JAX's cache of programs holds for that test alone."""
    before = {name: jax.config.values[name] for name in CACHE_SETTINGS}
    yield
    if any(jax.config.values[name] != value for name, value in before.items()):
        for name, value in before.items():
            jax.config.update(name, value)
        reset_cache()


MEMORY_MAPS = Path("/proc/self/maps")
MANY_MAPS = 28_000
"""Of the 65 530 that Linux allows a process by default; one compiled simulation takes about 2 500."""


last_look = time.monotonic()


@pytest.fixture(autouse=True)
def _few_memory_maps():
    """Drops compiled functions before they use up the process's memory maps, beyond which XLA on CPU crashes.

    Counting takes as long as many a test; what a second compiles is few beside what is free.
    """
    global last_look
    yield
    if MEMORY_MAPS.exists() and time.monotonic() - last_look > 1.0:
        last_look = time.monotonic()
        with MEMORY_MAPS.open() as file:
            count = sum(1 for _ in file)
        if count > MANY_MAPS:
            jax.clear_caches()
            gc.collect()
