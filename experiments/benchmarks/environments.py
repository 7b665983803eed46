"""Virtual environments, one per code, with pinned versions: made when missing, outside the repository."""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

DEFAULT_FOLDER = Path.home() / ".cache" / "jmbs-benchmarks"

PACKAGES = {
    "mujoco": ("mujoco==4.0.0", "numpy"),
    # MJX is slow on CPU with newer versions of JAX, where small matrix products no longer fuse.
    "mjx": ("jax==0.6.2", "jaxlib==0.6.2", "mujoco==3.3.5", "mujoco-mjx==3.3.5", "numpy"),
    "pinocchio": ("pin==4.1.0", "numpy"),
    "exudyn": ("exudyn==1.13.6", "numpy"),
    "warp": ("mujoco-warp==4.0.0", "mujoco==4.0.0", "warp-lang==1.19.0", "numpy"),
}
GPU_PACKAGES = {"mjx": ("jax[cuda12]==0.6.2", "mujoco==3.3.5", "mujoco-mjx==3.3.5", "numpy")}


class Missing(Exception):
    """A code that cannot take part, and why."""


def interpreter(code: str, folder: Path, gpu: bool, given: dict[str, str]) -> str:
    """The Python that runs a code's worker; its environment is made if need be.

    **Arguments:** `folder`: where environments are kept; `gpu`: with the packages that use one; `given`: interpreters
    by code that the user named, taken as they are. jmbs runs in the Python that runs the benchmarks.

    Raises `Missing` when the environment cannot be made.
    """
    if code in given:
        return given[code]
    if code == "jmbs":
        return sys.executable
    packages = GPU_PACKAGES[code] if gpu and code in GPU_PACKAGES else PACKAGES[code]
    home = folder / (f"{code}-gpu" if gpu and code in GPU_PACKAGES else code)
    python, done = home / "bin" / "python", home / "installed.txt"
    wanted = "\n".join(packages) + "\n"
    if done.exists() and done.read_text(encoding="utf-8") == wanted:
        return str(python)
    print(f"{code}: installing {' '.join(packages)} into {home}", flush=True)
    venv.create(home, with_pip=True, clear=True)
    command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages]
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode != 0:
        raise Missing(f"pip install {' '.join(packages)} failed: {_last_line(run.stderr)}")
    # Written last: an environment whose making broke off is made again.
    done.write_text(wanted, encoding="utf-8")
    return str(python)


def _last_line(text: str) -> str:
    errors = [line for line in text.splitlines() if line.startswith("ERROR")]
    return (errors or text.strip().splitlines() or ["no message"])[-1][:300]
