"""Names the machine that a result was measured on."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from pathlib import Path
from typing import Any


def describe(gpu: bool) -> dict[str, Any]:
    """Processor, usable cores, memory, system; with `gpu` its name too. `name` is short, for titles and file names."""
    cpu, cores = _cpu(), len(os.sched_getaffinity(0))
    memory = round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30)
    facts: dict[str, Any] = {"cpu": cpu, "cores": cores, "memory_GiB": memory, "system": platform.system()}
    facts["python"] = platform.python_version()
    if gpu:
        facts["gpu"] = _gpu()
    facts["name"] = ", ".join([f"{cpu}, {cores} cores", *([facts["gpu"]] if gpu else [])])
    return facts


def file_name(facts: dict[str, Any]) -> str:
    """A result file's name without suffix."""
    return re.sub(r"[^a-z0-9]+", "-", facts["name"].lower()).strip("-")


def _cpu() -> str:
    information = Path("/proc/cpuinfo")
    text = information.read_text(encoding="utf-8") if information.exists() else ""
    models = re.findall(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return (models or [platform.processor() or platform.machine()])[0].strip()


def _gpu() -> str:
    command = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[0].strip()
