"""What one run measures: seven studies on CPU, one on a GPU; and a quick version of each, for trying things out."""

from __future__ import annotations

from dataclasses import replace

from experiments.benchmarks.cases import Case, Contender, Study

CHAIN_SIZES = (2, 4, 8, 16, 32, 64, 128)
WINDOWS = (1, 2, 5, 10, 20, 40)
LONG_CHAIN_STEP = 1e-4
"""s; the fastest motions of the longest chain need it, and cost does not depend on it."""

JMBS = Contender("jmbs", threads=1)
SINGLE = (
    JMBS,
    replace(JMBS, precision="float32"),
    Contender("mujoco", threads=1),
    Contender("mjx", "float32", threads=1),
    Contender("mjx", threads=1),
    Contender("pinocchio", threads=1),
    Contender("exudyn", threads=1),
)
PARALLEL = tuple(replace(contender, threads=0) for contender in SINGLE if contender.code != "exudyn")
AUDITED = (replace(JMBS, audit=True),)
SMALL = tuple(contender for contender in SINGLE if contender.precision == "float64" and contender.code != "mjx")


def studies() -> dict[str, Study]:
    """The whole measurement on a CPU, by name."""
    mechanisms = (("chain", 8), ("humanoid", 1), ("panda", 1), ("four_bar", 1))
    one = tuple(Case(m, n, batch=1, steps=1000) for m, n in mechanisms)
    many, more = (
        tuple(Case(m, n, batch=b, steps=k) for m, n in some for b, k in ((256, 100), (4096, 20)))
        for some in (mechanisms[:2], mechanisms[2:])
    )
    return {
        "one mechanism": Study("one mechanism", one, SINGLE),
        "batches": Study("batches", many, SINGLE + PARALLEL + AUDITED),
        "more batches": Study("more batches", more, SINGLE + AUDITED),
        "growth": Study("growth", _chains(CHAIN_SIZES, 1, 200) + _chains(CHAIN_SIZES, 256, 20), SMALL),
        "loops": Study("loops", tuple(Case("four_bar", n, steps=200) for n in WINDOWS), SMALL),
        "precision": Study("precision", _step_sizes((8, 16, 32, 64, 128, 256, 512), 256), PRECISE),
        "gradients": Study(
            "gradients", tuple(Case(m, n, batch=64, dt=1e-3) for m, n in mechanisms[:2]), DIFFERENTIATED
        ),
    }


def gpu_studies() -> dict[str, Study]:
    """The measurement on a GPU."""
    cases = tuple(Case(m, n, batch=b) for m, n in (("chain", 8), ("humanoid", 1)) for b in (1024, 8192))
    return {"gpu batches": Study("gpu batches", cases, ON_GPU)}


def quick_studies() -> dict[str, Study]:
    """The same code paths in minutes: sizes too small to say anything."""
    small = (JMBS, Contender("mujoco", threads=1), Contender("pinocchio", threads=1), Contender("exudyn", threads=1))
    pair = (Case("chain", 2, batch=16, steps=50),)
    with_mjx = (*small[:2], Contender("mjx", "float32", threads=1), *small[2:])
    quick = {
        "one mechanism": Study("one mechanism", (Case("four_bar", 1, steps=50),), small),
        "batches": Study("batches", pair, with_mjx),
        "growth": Study("growth", _chains((2, 8), 1, 50), small),
        "precision": Study("precision", _step_sizes((16, 32), 4)[:2], (JMBS, Contender("mujoco", threads=1))),
        "gradients": Study("gradients", pair, (JMBS, replace(JMBS, derivative="forward"))),
    }
    return {name: replace(study, repeats=3) for name, study in quick.items()}


def quick_gpu_studies() -> dict[str, Study]:
    """Likewise on a GPU."""
    study = Study("gpu batches", (Case("chain", 2, batch=64, steps=20),), ON_GPU, repeats=3)
    return {study.name: study}


def _chains(sizes: tuple[int, ...], batch: int, steps: int) -> tuple[Case, ...]:
    return tuple(Case("chain", n, batch=batch, steps=steps, dt=LONG_CHAIN_STEP) for n in sizes)


def _step_sizes(counts: tuple[int, ...], batch: int) -> tuple[Case, ...]:
    """A quarter of a second in so many steps."""
    mechanisms = (("chain", 8), ("humanoid", 1), ("panda", 1))
    return tuple(Case(m, n, batch=batch, steps=k, dt=0.25 / k) for m, n in mechanisms for k in counts)


PRECISE = (
    JMBS,
    replace(JMBS, precision="float32"),
    replace(JMBS, method="tsit5"),
    replace(JMBS, method="dopri8"),
    Contender("mujoco", threads=1),
    Contender("mjx", "float32", threads=1),
    Contender("exudyn", threads=1),
)
DIFFERENTIATED = tuple(
    replace(JMBS, derivative=kind) for kind in ("none", "forward", "reverse", "naive", "second")
) + tuple(Contender("mjx", "float32", threads=1, derivative=kind) for kind in ("none", "forward", "reverse"))
ON_GPU = tuple(
    Contender(code, precision, device="gpu")
    for code, precision in (
        ("jmbs", "float32"),
        ("jmbs", "float64"),
        ("mjx", "float32"),
        ("mjx", "float64"),
        ("warp", "float32"),
    )
)
