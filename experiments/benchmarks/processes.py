"""Worker processes as the run sees them: started in their environment, pinned, asked one thing at a time."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from experiments.benchmarks.cases import Contender
from experiments.benchmarks.environments import Missing

ROOT = Path(__file__).parents[2]
PATIENCE = 10.0
"""How long a process may take to clean up when it is told to end, s."""


class Worker:
    """One code in one process of its own.

    **Arguments:** `contender`: decides precision, threads and device; `python`: the interpreter that has the code;
    `scratch`: a folder where it runs and leaves its messages, in `workers.log`.

    Raises `Missing` where the interpreter does not start.
    """

    def __init__(self, contender: Contender, python: str, scratch: Path):
        with contextlib.ExitStack() as stack:
            log = stack.enter_context((scratch / "workers.log").open("a", encoding="utf-8"))
            if contender.threads == 1:
                stack.enter_context(_pinned())
            try:
                self._process = subprocess.Popen(
                    [python, "-m", f"experiments.benchmarks.run_{contender.code}"],
                    cwd=scratch,
                    env=_environment(contender),
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,  # the process has its own copy, so ours may be closed
                    text=True,
                )
            except OSError as error:
                raise Missing(f"{python} does not start: {error.strerror}") from error
        self._answers: queue.Queue[str] = queue.Queue()
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()
        self.dead: dict[str, Any] | None = None

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._answers.put(line)
        self._answers.put("")

    def ask(self, request: dict[str, Any], limit: float) -> dict[str, Any]:
        """The answer; `missing` or `error` in it says why there is none. Beyond `limit` seconds the worker is ended."""
        if self.dead:
            return self.dead
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            line = self._answers.get(timeout=limit)
        except queue.Empty:
            self._process.kill()
            self.close()
            self.dead = {"missing": f"no answer to {request['do']} within {limit:g} s"}
            return self.dead
        except BrokenPipeError:
            line = ""
        if not line:
            self.close()
            self.dead = {"error": f"the worker ended with status {self._process.returncode}"}
            return self.dead
        return json.loads(line)

    def close(self) -> None:
        """Lets the process end, or ends it."""
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.close()
            self._process.wait(timeout=PATIENCE)
        except (BrokenPipeError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()
        self._listener.join()
        self._process.stdout.close()


@contextlib.contextmanager
def _pinned() -> Iterator[None]:
    """Processes started within have one core. From the start, since thread pools are sized when they are made; the last
    core, since the first has most interrupts to serve."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(cores)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)


def _environment(contender: Contender) -> dict[str, str]:
    """This process's, with what decides precision and device. Only jmbs shares this process's own modules."""
    environment = dict(os.environ)
    paths = [str(ROOT)]
    if contender.code == "jmbs" and environment.get("PYTHONPATH"):
        paths.append(environment["PYTHONPATH"])
    environment["PYTHONPATH"] = os.pathsep.join(paths)
    environment["JAX_ENABLE_X64"] = "1" if contender.precision == "float64" else "0"
    if contender.device == "cpu":
        environment["JAX_PLATFORMS"] = "cpu"
        if contender.code == "mjx":
            # What jmbs says itself in `use_all_cores`.
            environment["XLA_FLAGS"] = f"{environment.get('XLA_FLAGS', '')} --xla_cpu_prefer_vector_width=512".strip()
    # Several workers share a GPU: none may take all of its memory.
    environment["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
    if contender.threads == 1:
        environment["OMP_NUM_THREADS"] = "1"
    return environment
