"""How many runs of a model fits with a known answer take, and how near they come.

Writes `result.json`; the table of the page is made of it.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax

from experiments.fit_benchmarks.cases import CASES, Case
from jmbs.identification import Estimator, Fit, Progress, Study, fit_study

HERE = Path(__file__).parent


def row_of(case: Case, estimator: Estimator, fit: Fit) -> dict[str, Any]:
    """What a fit found beside the truth: largest error, absolute and in standard errors, effort and words."""
    entries = {path: fit.parameters[path] for path in case.truth}
    errors = {path: abs(entry.estimate - case.truth[path]) for path, entry in entries.items()}
    relative = [errors[path] / entry.standard_error for path, entry in entries.items() if entry.standard_error]
    return {
        "method": estimator.method,
        "horizon": estimator.horizon if estimator.method == "shooting" else None,
        "segments": estimator.segments,
        "status": fit.status,
        "largest_error": max(errors.values()),
        "largest_error_in_standard_errors": max(relative, default=None),
        "chi2_per_degree": fit.chi2_per_degree,
        **fit.evaluations,
        "invisible": [direction.text for direction in fit.invisible_directions],
        "derived": {name: [one.estimate, one.standard_error] for name, one in fit.derived.items()},
    }


def fitted(study: Study, estimator: Estimator) -> Fit:
    """The fit, with its progress on standard error."""

    def show(at: Progress) -> None:
        text = f"  {at.stage}/{at.stages} iteration {at.iteration}: {at.cost_per_sample:.6g}"
        print(text, file=sys.stderr, flush=True)

    return fit_study(dataclasses.replace(study, estimator=estimator), progress=show)


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    """Runs the cases that are asked for and writes `result.json`; what it returns is what it wrote."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", nargs="*", choices=list(CASES), default=list(CASES))
    parser.add_argument("--out", type=Path, default=HERE)
    args = parser.parse_args(arguments)
    jax.config.update("jax_enable_x64", True)
    file = args.out / "result.json"
    results: dict[str, Any] = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    for name in args.cases:
        make, estimators = CASES[name]
        case, rows = make(), []
        for estimator in estimators:
            started = time.perf_counter()
            rows.append(row_of(case, estimator, fitted(case.study, estimator)))
            print(f"{name}: {rows[-1]}, {time.perf_counter() - started:.0f} s", flush=True)
        results[name] = {"recordings": case.note, "fits": rows}
        args.out.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    return results


if __name__ == "__main__":
    main()
