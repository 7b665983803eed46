"""Which configuration space: four mechanisms on SE(3) and on SO(3)xR3, by four methods, without stabilisation."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import figures
import jax
from cases import ERROR_T1, GROUPS, LONG_T1, PAPER_SIZE, QUICK, REFERENCE_SIZE, T1, Key, Options, Study
from findings import report
from programs import Groups, bodies_of, distance, evaluations_per_step, mechanism, program, record, relative_times

HERE = Path(__file__).parent


def choices(system: str, options: Options) -> list[tuple[Groups, str]]:
    """Groups by body, and methods; choices that differ between bodies by the fourth-order method only."""
    bodies = len(bodies_of(system))
    uniform: list[tuple[Groups, str]] = [((g,) * bodies, method) for method in options.methods for g in GROUPS]
    mixed: list[tuple[Groups, str]] = [((g, h), "rk4") for g, h in (GROUPS, GROUPS[::-1])]
    return uniform + (mixed if bodies == 2 and options.mixed else [])


def study(system: str, options: Options) -> Study:
    """Runs a mechanism in all its choices."""
    wanted = choices(system, options)
    programs = {(groups, method): program(mechanism(system, groups), method) for groups, method in wanted}
    bodies = len(bodies_of(system))
    best = "dopri8" if "dopri8" in options.methods else "rk4"
    references = [record(programs[(group,) * bodies, best], REFERENCE_SIZE, T1) for group in GROUPS]
    runs, evaluations, long = {}, {}, {}
    for (groups, method), prog in programs.items():
        for dt in options.sizes:
            runs[Key(groups, method, dt)] = record(prog, dt, T1)
        counts = evaluations_per_step(mechanism(system, groups), method, options.sizes)
        evaluations |= {Key(groups, method, dt): n for dt, n in zip(options.sizes, counts, strict=True)}
        if system == "heavy_top":
            long[Key(groups, method, PAPER_SIZE)] = record(prog, PAPER_SIZE, LONG_T1)
        print(f"{system}: {'+'.join(groups)} {method} done", flush=True)
    errors = {key: distance(run, references[0], ERROR_T1) for key, run in runs.items()}
    floor = distance(references[1], references[0], ERROR_T1)
    times = relative_times(programs, options.repeats)
    return Study(mechanism(system, wanted[0][0]).grounded, runs, errors, floor, evaluations, times, long)


def main(argv: list[str] | None = None) -> dict[str, Any]:
    """Runs the experiment, writes `result.json` and `figures/`, and returns what `result.json` holds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=HERE, help="where result.json and figures/ go")
    parser.add_argument("--quick", action="store_true", help="one mechanism, two methods, two step sizes")
    arguments = parser.parse_args(argv)
    options = QUICK if arguments.quick else Options()
    jax.config.update("jax_enable_x64", True)
    (arguments.out / "figures").mkdir(parents=True, exist_ok=True)

    results, reports = {}, {}
    for system in options.systems:
        results[system] = study(system, options)
        reports[system] = report(results[system], options)
        mechanism.cache_clear()
        jax.clear_caches()
    figures.draw(results, options, arguments.out / "figures")
    result = {"t1": T1, "step_sizes": list(options.sizes), "methods": list(options.methods), "systems": reports}
    (arguments.out / "result.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return result


if __name__ == "__main__":
    main()
