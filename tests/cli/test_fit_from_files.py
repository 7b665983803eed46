"""`jmbs fit` as a user types it: files in, files out; killed at any moment and resumed."""

from __future__ import annotations

import json
import subprocess
import sys
import time

import numpy as np
import pytest
from recorded_pendulums import NOISE, TRUTH, recording

import jmbs

KILLS = 10
MODEL = """
schema: jmbs/1
name: pendulum
gravity: [0.0, 0.0, -9.81]
bodies: {bob: {mass: 1.95, inertia: [0.03, 0.03, 0.03]}}
joints:
  hinge:
    type: revolute
    parent: ground
    child: bob
    child_frame: {position: [0.0, 0.0, 0.4]}
    axis: [0.0, 1.0, 0.0]
    friction: {viscous: 0.055}
    actuation: 0.0
initial: {joints: {hinge: {q: [0.5], v: [0.0]}}}
simulation: {t1: 2.0, save_every: 0.01, method: dopri8, tolerance: {rtol: 1.0e-9, atol: 1.0e-9}}
"""
STUDY = f"""
schema: jmbs-fit/1
name: pendulum
model: mechanism.yaml
parameters:
  bob/mass: {{}}
  bob/inertia[1,1]: {{}}
  hinge/friction/viscous: {{}}
  initial/hinge/q: {{per: recording, start: measured}}
sensors:
  q: {{output: hinge/q, noise: {NOISE}}}
recordings:
  free: {{file: free.csv, time: t, channels: {{q: {{column: angle, unit: deg}}}}}}
  driven:
    file: driven.csv
    time: t
    channels: {{q: {{column: angle, unit: deg}}}}
    inputs: {{hinge/actuation: {{file: torque.csv, time: t, column: tau, unit: N m}}}}
"""


@pytest.fixture
def folder(tmp_path):
    """A mechanism, recordings in degrees and a study."""
    (tmp_path / "mechanism.yaml").write_text(MODEL)
    (tmp_path / "study.yaml").write_text(STUDY)
    for i, name in enumerate(("free", "driven")):
        r = recording(name, i)
        rows = np.column_stack([r.ts, np.degrees(r.channels["q"].values)])
        np.savetxt(tmp_path / f"{name}.csv", rows, delimiter=",", header="t,angle", comments="", fmt="%.12g")
    torque = r.inputs["hinge/actuation"]
    rows = np.column_stack([torque.times, torque.values])
    np.savetxt(tmp_path / "torque.csv", rows, delimiter=",", header="t,tau", comments="", fmt="%.15g")
    return tmp_path


def command(folder, out: str, *more: str) -> list[str]:
    return [sys.executable, "-m", "jmbs", "fit", str(folder / "study.yaml"), "--out", str(folder / out), *more]


@pytest.mark.slow
def test_from_files_to_a_model_that_runs(folder):
    done = subprocess.run(command(folder, "out"), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads((folder / "out" / "fit.json").read_text())
    for name, truth in TRUTH.items():
        entry = found["parameters"][name]
        assert abs(entry["estimate"] - truth) < 4 * entry["standard_error"]
    model = jmbs.compile(jmbs.load(folder / "out" / "fitted.yaml"))
    assert float(model.parameters()["bob/mass"]["value"]) == found["parameters"]["bob/mass"]["estimate"]


@pytest.mark.slow
def test_killed_and_resumed_it_finds_the_same(folder):
    """Ten times, at random moments: of the whole process, and of the iterations, which are a short part of it."""
    started = time.monotonic()
    subprocess.run(command(folder, "whole", "--no-report"), check=True, capture_output=True)
    whole_run = time.monotonic() - started
    rng = np.random.default_rng(0)
    checkpoint = folder / "cut" / "checkpoint.npz"
    for kill in range(KILLS):
        running = subprocess.Popen(
            command(folder, "cut", "--resume", "--no-report"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        begun, before = time.monotonic(), checkpoint.stat().st_mtime if checkpoint.exists() else 0.0
        moment, later = float(rng.uniform(0, whole_run)), float(rng.uniform(0, 0.1))
        while running.poll() is None and not (kill % 2 and time.monotonic() > begun + moment):
            if not kill % 2 and checkpoint.exists() and checkpoint.stat().st_mtime > before:
                time.sleep(later)
                break
            time.sleep(0.02)
        running.kill()
        running.wait()
    subprocess.run(command(folder, "cut", "--resume", "--no-report"), check=True, capture_output=True)
    whole, cut = (json.loads((folder / name / "fit.json").read_text()) for name in ("whole", "cut"))
    assert whole["parameters"] == cut["parameters"]
    assert whole["covariance"] == cut["covariance"]
