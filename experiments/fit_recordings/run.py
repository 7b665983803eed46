"""From CSV files to parameters with intervals: a double pendulum, and a four-bar linkage measured at its crank only.

`python -m experiments.fit_recordings.run [double_pendulum four_bar] [--out DIR]`
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax

import jmbs
from experiments.fit_recordings.recordings import TRUTH

HERE = Path(__file__).parent


def fitted(case: str, out: Path) -> dict[str, Any]:
    """Fits the study of a case, draws it, and compares with the truth."""
    fit = jmbs.fit(HERE / case / "study.yaml")
    print(fit.summary())
    (out / "figures").mkdir(exist_ok=True)
    fit.plot_trajectories().savefig(out / "figures" / f"{case}.png", dpi=95)
    fit.plot_residuals().savefig(out / "figures" / f"{case}_residuals.png", dpi=95)
    found = {}
    for name, true in TRUTH[case].items():
        entry = fit.parameters[name]
        assert entry.interval is not None and entry.standard_error is not None
        found[name] = {
            "true": true,
            "start": entry.start,
            "estimate": entry.estimate,
            "standard_error": entry.standard_error,
            "off_by_standard_errors": (entry.estimate - true) / entry.standard_error,
            "inside_interval": bool(entry.interval[0] <= true <= entry.interval[1]),
        }
    return {
        "status": fit.status,
        "parameters": found,
        "noise_rad": {name: entry["estimated"] for name, entry in fit.noise.items()},
        "chi2_per_degree": fit.chi2_per_degree,
        "heldout_rms_over_noise": {
            recording: {sensor: one.rms_over_noise for sensor, one in sensors.items()}
            for recording, sensors in fit.heldout.items()
        },
        "evaluations": dict(fit.evaluations),
    }


def main(argv: Sequence[str] | None = None) -> dict[str, Any]:
    """The command line; returns what it writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", help=", ".join(TRUTH))
    parser.add_argument("--out", type=Path, default=HERE, help="where results are written")
    given = parser.parse_args(argv)
    jax.config.update("jax_enable_x64", True)
    given.out.mkdir(parents=True, exist_ok=True)
    file = given.out / "result.json"
    results = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    for case in given.cases or TRUTH:
        results[case] = fitted(case, given.out)
        file.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    return results


if __name__ == "__main__":
    main()
