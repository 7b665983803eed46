"""The same two chains by MuJoCo's own toolbox, `pip install 'mujoco[sysid]'`: how often it runs the model.

Its recordings come from its own model with its own steps of 2 ms, so that the answer is exact there too.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import mujoco
import numpy as np
from mujoco import rollout, sysid

from experiments.fit_benchmarks.cases import ARM, SPRING_MASS, Link, arm, mjcf_of, spring_mass

HERE = Path(__file__).parent
STEP = 2e-3


def sensed(links: tuple[Link, ...]) -> str:
    """The chain with sensors of all coordinates and rates, in steps of 2 ms of the toolbox's usual integrator."""
    joints = [f"joint{i}" for i in range(1, len(links) + 1)]
    sensors = [f'<joint{key} name="{joint}_{key}" joint="{joint}"/>' for key in ("pos", "vel") for joint in joints]
    text = mjcf_of(links, "implicitfast", STEP)
    return text.replace("</mujoco>", f"<sensor>{''.join(sensors)}</sensor></mujoco>")


def runs_of(
    links: tuple[Link, ...],
    drives: np.ndarray,
    unknown: dict[str, tuple[Callable[[Any, float], None], float, float, tuple[float, float]]],
) -> dict[str, Any]:
    """How many runs the toolbox takes, and its largest error; drives (m, joints) at times STEP apart. `unknown`: by
    name how it is set, start, truth and bounds."""
    spec = mujoco.MjSpec.from_string(sensed(links))
    model = spec.compile()
    data = mujoco.MjData(model)
    start = sysid.create_initial_state(model, data.qpos, data.qvel, data.act)
    state, seen = (np.squeeze(a, axis=0) for a in rollout.rollout(model, data, start, drives[:-1]))
    times = STEP * np.arange(len(drives))
    control, shown = sysid.TimeSeries(times, drives), sysid.TimeSeries.from_names(state[:, 0], seen, model)
    parameters = sysid.ParameterDict()
    for name, (write, first, truth, (low, high)) in unknown.items():
        modifier = lambda spec, parameter, write=write: write(spec, parameter.value[0])  # noqa: E731
        parameters.add(sysid.Parameter(name, nominal=truth, min_value=low, max_value=high, modifier=modifier))
        parameters[name].value[:] = first
    sequences = sysid.ModelSequences("chain", spec, "driven", start, control, shown)
    residual, runs = sysid.build_residual_fn(models_sequences=[sequences]), 0

    def counted(x: np.ndarray, *arguments: Any, **options: Any) -> Any:
        nonlocal runs
        runs += 1 if np.ndim(x) == 1 else np.shape(x)[1]
        return residual(x, *arguments, **options)

    found, _ = sysid.optimize(initial_params=parameters, residual_fn=counted, optimizer="mujoco", verbose=False)
    error = max(abs(float(found[name].value[0]) - truth) for name, (_, _, truth, _) in unknown.items())
    return {"runs": runs, "largest_error": error}


def drives_of(case: Any, links: tuple[Link, ...]) -> np.ndarray:
    """What drives our recording, at their times."""
    inputs = case.study.data[0].inputs
    tables = [inputs[f"joint{i}/actuation"] for i in range(1, len(links) + 1)]
    times = np.arange(0.0, tables[0].times[-1], STEP)
    return np.stack([np.interp(times, table.times, table.values) for table in tables], axis=1)


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    """Counts both and writes `theirs.json`; what it returns is what it wrote."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=HERE)
    args = parser.parse_args(arguments)

    def mass(spec: Any, value: float) -> None:
        spec.body("link1").mass = value

    def armature(joint: str) -> Callable[[Any, float], None]:
        return lambda spec, value: setattr(spec.joint(joint), "armature", value)

    rotors = {
        f"joint{i}": (armature(f"joint{i}"), 0.01, link.armature, (1e-3, 1.0)) for i, link in enumerate(ARM, start=1)
    }
    jax.config.update("jax_enable_x64", True)
    of_mass = mass, 2.0, 1.0, (0.3, 3.0)
    found = {
        "mujoco": mujoco.__version__,
        "spring_mass": runs_of(SPRING_MASS, drives_of(spring_mass(), SPRING_MASS), {"mass": of_mass}),
        "arm": runs_of(ARM, drives_of(arm(), ARM), rotors),
    }
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "theirs.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(found)
    return found


if __name__ == "__main__":
    main()
