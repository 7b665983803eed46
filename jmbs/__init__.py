"""jmbs: a differentiable, GPU-accelerated simulator for multibody systems in JAX."""

import importlib.util
import sys
import typing

if typing.TYPE_CHECKING:
    from jmbs import ephs, lie
    from jmbs.cache import use_cache
    from jmbs.errors import AssemblyError, JmbsError, ModelError, SimulationError
    from jmbs.fitting import check_fit, design_excitation, fit, residual_function
    from jmbs.fusing import as_one_kernel
    from jmbs.identification import (
        BSpline,
        Channel,
        Estimator,
        Input,
        Multisine,
        Optimiser,
        Parameter,
        Prior,
        Recording,
        Sensor,
        Study,
    )
    from jmbs.io import load, load_study
    from jmbs.library.mechanics import Mechanism, guess, parameter
    from jmbs.simulation import (
        InnerState,
        Model,
        State,
        Status,
        Trajectory,
        compile,
        map_batch,
        simulate,
        simulate_batch,
        use_all_cores,
    )
    from jmbs.sweeps import design, sweep
    from jmbs.visualise import draw

__all__ = [
    "AssemblyError",
    "BSpline",
    "Channel",
    "Estimator",
    "Input",
    "InnerState",
    "JmbsError",
    "Mechanism",
    "Model",
    "ModelError",
    "Multisine",
    "Optimiser",
    "Parameter",
    "Prior",
    "Recording",
    "Sensor",
    "SimulationError",
    "State",
    "Status",
    "Study",
    "Trajectory",
    "as_one_kernel",
    "check_fit",
    "compile",
    "design",
    "design_excitation",
    "draw",
    "ephs",
    "fit",
    "guess",
    "lie",
    "load",
    "load_study",
    "map_batch",
    "parameter",
    "residual_function",
    "simulate",
    "simulate_batch",
    "sweep",
    "use_all_cores",
    "use_cache",
]


_HOMES = {
    "jmbs.cache": ("use_cache",),
    "jmbs.errors": ("AssemblyError", "JmbsError", "ModelError", "SimulationError"),
    "jmbs.fitting": ("check_fit", "design_excitation", "fit", "residual_function"),
    "jmbs.fusing": ("as_one_kernel",),
    "jmbs.identification": (
        *("BSpline", "Channel", "Estimator", "Input", "Multisine", "Optimiser", "Parameter", "Prior", "Recording"),
        *("Sensor", "Study"),
    ),
    "jmbs.io": ("load", "load_study"),
    "jmbs.library.mechanics": ("Mechanism", "guess", "parameter"),
    "jmbs.simulation": (
        *("InnerState", "Model", "State", "Status", "Trajectory", "compile", "map_batch", "simulate"),
        *("simulate_batch", "use_all_cores"),
    ),
    "jmbs.sweeps": ("design", "sweep"),
    "jmbs.visualise": ("draw",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> typing.Any:
    # Imported when it is asked for: the command line answers `--help` at once, and most programs identify nothing.
    if name in _HOME_OF:
        return getattr(_imported(_HOME_OF[name]), name)
    if not name.startswith("_") and importlib.util.find_spec(f"jmbs.{name}") is not None:
        return _imported(f"jmbs.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def _imported(module: str) -> typing.Any:
    if module in sys.modules:
        return importlib.import_module(module)
    from jmbs.garbage import few_collections

    with few_collections():
        return importlib.import_module(module)
