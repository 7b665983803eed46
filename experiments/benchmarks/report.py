"""From the committed result files to `docs/benchmarks.md` and its figures."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from experiments.benchmarks import (
    cuda_kernels,
    figures,
    first_result,
    fused_on_device,
    fused_sources,
    program_sizes,
    work_on_device,
)
from experiments.benchmarks.claims import claims
from experiments.benchmarks.tables import failure, gradients, growth, number, precision, table, throughput

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "benchmarks.md"
INTRODUCTION = """# Benchmarks

jmbs beside other multibody codes: equal mechanisms, methods and steps, measured on the same machine in the same run,
in turns. What is measured, and how fair it is, says
[`experiments/benchmarks`](../experiments/benchmarks/README.md).

This page is generated from the committed result files: `python -m experiments.benchmarks.report`.

Steps per second are those of all members of a batch together, from the median of the repeats; *quartiles* is the
distance of the quartiles, relative to the median. *Distance* is that of a centre of mass from jmbs's after the same
steps (median over members of the largest over links). It is small where codes agree on mechanism and method, and as
large as the method's error where two fourth-order methods treat rotations differently.
"""
WITHOUT_GPU = """## GPU

Open: `python -m experiments.benchmarks.run --gpu` has not run on a GPU yet; what
`python -m experiments.benchmarks.fused_on_device` and `work_on_device` found on one stands below.
"""


def page(results: dict[str, dict[str, Any]]) -> str:
    """The page's text, from results by file name without suffix."""
    sections = [_section(name, result) for name, result in sorted(results.items())]
    on_gpu = any("gpu" in result["hardware"] for result in results.values())
    return "\n".join([INTRODUCTION, *sections, *([] if on_gpu else [WITHOUT_GPU]), *_counted()])


def _counted() -> list[str]:
    """What scripts of their own measured here and on a device, and what was counted and not measured."""
    on_device = fused_on_device.section(), work_on_device.section()
    counted = cuda_kernels.section(), fused_sources.section(), program_sizes.section()
    return [first_result.section(), *on_device, *counted]


def _section(name: str, result: dict[str, Any]) -> str:
    facts, studies = result["hardware"], result["studies"]
    parts = [f"## {facts['name']}\n"]
    if any(study["quick"] for study in studies.values()):
        parts.append(
            "**A quick run, to try the code out: sizes too small, machine not quiet. Conclude nothing from it.**\n"
        )
    days = sorted({study["date"] for study in studies.values()})
    parts.append(
        f"{facts['memory_GiB']} GiB, {facts['system']}, Python {facts['python']}; measured {', '.join(days)}.\n"
    )
    versions = [[code, ", ".join(f"{k} {v}" for k, v in what.items())] for code, what in result["versions"].items()]
    parts.append(table(["code", "versions"], versions))
    parts += [f"Not taken part: {code}, {reason}\n" for code, reason in result["missing"].items()]
    goals = [claim.cells() for claim in claims(result)]
    if goals:
        parts.append("### Goals\n\n" + table(["goal", "found", "wanted", "met", "remark"], goals))
    parts.append("### Equality\n\n" + _equality(result["equality"]))
    shown = dict((study, file) for file, study in figures.figures_of(result))
    for study, content in studies.items():
        jmbs = content["versions"].get("jmbs", {}).get("jmbs", "not there")
        parts.append(f"### {study.capitalize()}\n\nMeasured {content['date']}, jmbs {jmbs}.\n")
        parts.append(_study(study, content["cases"]))
        if study in shown:
            parts.append(f"![{study}](../experiments/benchmarks/figures/{name}/{shown[study]})\n")
    return "\n".join(parts)


def _equality(rows: list[dict[str, Any]]) -> str:
    introduction = "Largest difference of accelerations from jmbs's at random states, relative to the largest.\n\n"
    cells = [[r["mechanism"], r["code"], number(r.get("relative_difference"), 2), failure(r) or ""] for r in rows]
    return introduction + table(["mechanism", "code", "difference", "note"], cells)


def _study(name: str, cases: list[dict[str, Any]]) -> str:
    match name:
        case "growth" | "loops":
            return growth(cases)
        case "precision":
            introduction = (
                "Simulated seconds per second, all members together, within an error (dash: not reached).\n\n"
            )
            return introduction + precision(cases)
        case "gradients":
            return "\n".join(gradients(case) for case in cases)
    return "\n".join(throughput(case) for case in cases)


def load(folder: Path) -> dict[str, dict[str, Any]]:
    """Results by file name without suffix."""
    return {file.stem: json.loads(file.read_text(encoding="utf-8")) for file in sorted(folder.glob("*.json"))}


def main(argv: list[str] | None = None) -> None:
    """Writes the page and draws the figures."""
    parser = argparse.ArgumentParser(prog="python -m experiments.benchmarks.report", description=__doc__)
    parser.add_argument("--results", type=Path, default=HERE / "results", help="the result files")
    parser.add_argument("--page", type=Path, default=PAGE, help="the page to write")
    options = parser.parse_args(argv)
    results = load(options.results)
    for name, result in results.items():
        figures.draw(result, HERE / "figures" / name)
    options.page.write_text(page(results), encoding="utf-8")
    print(f"wrote {options.page}")


if __name__ == "__main__":
    main()
