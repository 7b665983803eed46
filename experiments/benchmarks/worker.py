"""The worker's side of the protocol: one JSON object a line in, one out, for one code in one process."""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from experiments.benchmarks.cases import Case
from experiments.benchmarks.kinematics import random_states
from experiments.benchmarks.mechanisms import system_of
from experiments.benchmarks.neutral import System

KEPT_MEMBERS = 8
"""Of a batch, whose final states go into the result; the first ones, which are the same in every batch."""


class Unsupported(Exception):
    """A case that a code cannot run, and why."""


class Prepared(NamedTuple):
    """A case ready to be timed.

    - `run`: does it all once and waits for the end; returns what is needed to read the final state.
    - `final`: from that to `q` (members, nq) and `v` (members, nv) of the first members, or None where there is none.
    - `figures`: by name, what was measured while preparing: `plan_s`, `compile_s`, `memory_bytes`, `note`, ...
    - `counted`: seconds that the code counted itself in the last run, instead of the clock here; or None.
    """

    run: Callable[[], Any]
    final: Callable[[Any], tuple[np.ndarray, np.ndarray] | None]
    figures: dict[str, Any]
    counted: Callable[[Any], float] | None = None


def serve(
    describe: Callable[[], dict[str, Any]],
    prepare: Callable[[Case], Prepared],
    accelerations: Callable[[System, np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray, np.ndarray]],
) -> None:
    """Answers requests on standard input until it ends.

    Requests and what answers them:

    - `{"do": "describe"}`: `describe`, versions and the device;
    - `{"do": "prepare", "case": {...}}`: `prepare`, which builds and compiles, then one run that is not timed;
    - `{"do": "run"}`: `seconds` of one more run of what was prepared;
    - `{"do": "accelerations", "case": {...}}` with or without `q` (members, nq), `v` (members, nv), else random ones:
      the derivatives of the rates, `acceleration` (members, nv), at the `q` and `v` that are answered too.

    The functions raise `Unsupported` for what a code cannot do: the answer is `missing`, the reason. Other failures are
    answered with `error`.
    """
    # Some codes write to standard output; theirs goes to standard error, ours to the original.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    prepared: Prepared | None = None
    for line in sys.stdin:
        request = json.loads(line)
        try:
            match request["do"]:
                case "describe":
                    answer = describe()
                case "prepare":
                    prepared = None
                    prepared = prepare(Case(**request["case"]))
                    answer = prepared.figures | _state(prepared.final(prepared.run()))
                case "accelerations":
                    answer = _accelerations(accelerations, request)
                case "run":
                    assert prepared is not None, "run before prepare"
                    answer = {"seconds": _timed(prepared)}
                case other:
                    raise ValueError(f"do: found {other!r}, wanted describe, prepare, run or accelerations")
        except Unsupported as reason:
            answer = {"missing": str(reason)}
        except Exception as error:
            traceback.print_exc()
            answer = {"error": f"{type(error).__name__}: {error}".splitlines()[0][:300]}
        print(json.dumps(answer, default=_plain), file=answers, flush=True)


def _accelerations(accelerations: Callable[..., Any], request: dict[str, Any]) -> dict[str, Any]:
    case = Case(**request["case"])
    system = system_of(case.mechanism, case.size)
    if "q" in request:
        q, v = np.array(request["q"]), np.array(request["v"])
    else:
        q, v = random_states(system, case.batch)
    return dict(zip(("q", "v", "acceleration"), accelerations(system, q, v), strict=True))


def _timed(prepared: Prepared) -> float:
    started = time.perf_counter()
    outcome = prepared.run()
    clock = time.perf_counter() - started
    return clock if prepared.counted is None else prepared.counted(outcome)


def _state(final: tuple[np.ndarray, np.ndarray] | None) -> dict[str, Any]:
    if final is None:
        return {}
    q, v = (np.asarray(part, float)[:KEPT_MEMBERS].tolist() for part in final)
    return {"q": q, "v": v}


def _plain(value: Any) -> Any:
    return np.asarray(value).tolist()
