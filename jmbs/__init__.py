"""jmbs: a differentiable, GPU-accelerated simulator for multibody systems in JAX."""

import typing

from jmbs import garbage as _garbage

with _garbage.few_collections():
    from jmbs import ephs, lie
    from jmbs.cache import use_cache
    from jmbs.errors import AssemblyError, JmbsError, ModelError, SimulationError
    from jmbs.fusing import as_one_kernel
    from jmbs.io import load
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

if typing.TYPE_CHECKING:
    from jmbs.fitting import check_fit, design_excitation, fit, residual_function
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
    from jmbs.io import load_study
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


_IDENTIFICATION = (
    "BSpline",
    "Channel",
    "Estimator",
    "Input",
    "Multisine",
    "Optimiser",
    "Parameter",
    "Prior",
    "Recording",
    "Sensor",
    "Study",
)


def __getattr__(name: str) -> typing.Any:
    # Most programs draw nothing and identify nothing: what these need is imported when it is asked for.
    if name == "draw":
        from jmbs.visualise import draw

        return draw
    if name == "load_study":
        from jmbs.io import load_study

        return load_study
    if name in _IDENTIFICATION:
        import jmbs.identification

        return getattr(jmbs.identification, name)
    if name in ("fit", "check_fit", "design_excitation", "residual_function"):
        from jmbs import fitting

        return getattr(fitting, name)
    if name in ("design", "sweep"):
        from jmbs import sweeps

        return getattr(sweeps, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
