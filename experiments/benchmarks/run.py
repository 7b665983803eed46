"""The one command: measures all codes on this machine and writes `results/<hardware>.json`, figures and the page."""

from __future__ import annotations

import argparse
import datetime
import json
import tempfile
from pathlib import Path
from typing import Any

from experiments.benchmarks import equality, hardware, report
from experiments.benchmarks.cases import Contender
from experiments.benchmarks.environments import DEFAULT_FOLDER, Missing, interpreter
from experiments.benchmarks.measure import measure
from experiments.benchmarks.processes import Worker
from experiments.benchmarks.studies import gpu_studies, quick_gpu_studies, quick_studies, studies

HERE = Path(__file__).parent
QUICK_LIMIT, LIMIT = 300.0, 1200.0
"""Seconds that a worker may take for one answer, compiling included."""


class Workers:
    """Starts workers in their environments, and remembers what each code says of itself and which ones are missing."""

    def __init__(self, folder: Path, gpu: bool, given: dict[str, str], scratch: Path):
        self.folder, self.gpu, self.given, self.scratch = folder, gpu, given, scratch
        self.versions: dict[str, Any] = {}
        self.missing: dict[str, str] = {}

    def start(self, contender: Contender) -> Worker:
        """A worker; raises `Missing`, the second time without trying again."""
        code = contender.code
        if code in self.missing:
            raise Missing(self.missing[code])
        try:
            python = interpreter(code, self.folder, self.gpu, self.given)
            worker = Worker(contender, python, self.scratch)
            if code not in self.versions:
                answer = worker.ask({"do": "describe"}, QUICK_LIMIT)
                if "missing" in answer or "error" in answer:
                    worker.close()
                    raise Missing(answer.get("missing") or answer["error"])
                self.versions[code] = answer
        except Missing as reason:
            self.missing[code] = str(reason)
            raise
        return worker


def arguments(argv: list[str] | None) -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(prog="python -m experiments.benchmarks.run", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to try things out")
    parser.add_argument("--gpu", action="store_true", help="the batches on a GPU, against MJX and MuJoCo Warp")
    parser.add_argument("--only", nargs="+", metavar="STUDY", help="these studies only; others of the file are kept")
    parser.add_argument("--out", type=Path, default=HERE / "results", help="where <hardware>.json goes")
    parser.add_argument("--environments", type=Path, default=DEFAULT_FOLDER, help="where virtual environments are kept")
    parser.add_argument("--use", nargs="+", default=[], metavar="CODE=PYTHON", help="run a code in this Python instead")
    parser.add_argument("--without", nargs="+", default=[], metavar="CODE", help="leave codes out, such as a slow one")
    parser.add_argument("--no-report", action="store_true", help="leave figures and the page alone")
    options = parser.parse_args(argv)
    options.studies = {
        (False, False): studies,
        (True, False): quick_studies,
        (False, True): gpu_studies,
        (True, True): quick_gpu_studies,
    }[options.quick, options.gpu]()
    for name in options.only or []:
        if name not in options.studies:
            parser.error(f"--only: found {name!r}, wanted some of: {', '.join(options.studies)}")
    options.given = dict(pair.split("=", 1) for pair in options.use if "=" in pair)
    if len(options.given) < len(options.use):
        parser.error("--use: wanted CODE=PYTHON")
    return options


def main(argv: list[str] | None = None) -> dict[str, Any]:
    """Measures, writes the result file, figures and page, and returns what the file holds."""
    options = arguments(argv)
    facts = hardware.describe(options.gpu)
    target = options.out / f"{hardware.file_name(facts)}.json"
    limit = QUICK_LIMIT if options.quick else LIMIT
    wanted = {name: s for name, s in options.studies.items() if name in (options.only or options.studies)}
    result: dict[str, Any] = {"hardware": facts, "studies": {}}
    if options.only and target.exists():
        result |= json.loads(target.read_text(encoding="utf-8"))
    scratch = Path(tempfile.mkdtemp(prefix="jmbs-benchmarks-"))
    workers = Workers(options.environments, options.gpu, options.given, scratch)
    workers.missing |= dict.fromkeys(options.without, "left out with --without")
    print(f"{facts['name']}; messages of the workers: {scratch / 'workers.log'}", flush=True)

    cases = equality.QUICK_CASES if options.quick else equality.CASES
    codes = equality.GPU_CODES if options.gpu else equality.CODES
    result["equality"] = equality.check(cases, codes, workers.start, limit)
    options.out.mkdir(parents=True, exist_ok=True)
    for name, study in wanted.items():
        measured: list[dict[str, Any]] = []
        day = datetime.datetime.now(datetime.UTC).date().isoformat()
        # Versions with each study: `--only` leaves others in the file that were measured with another jmbs.
        provenance = {"quick": options.quick, "date": day, "repeats": study.repeats}
        for case in measure(study, workers.start, limit):
            measured.append(case)
            result["studies"][name] = provenance | {"versions": dict(workers.versions), "cases": measured}
            result["versions"] = result.get("versions", {}) | workers.versions
            result["missing"] = workers.missing
            # After each case, so that a long run that breaks off leaves what it has.
            target.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(f"wrote {target}")
    if not options.no_report:
        report.main([])
    return result


if __name__ == "__main__":
    main()
