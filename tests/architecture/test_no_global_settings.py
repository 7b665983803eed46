"""Importing jmbs, all of it, changes no setting of JAX and no environment variable."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from source_tree import ROOT, modules

SCRIPT = """
import importlib, json, os, sys
import jax
before, environment = dict(jax.config.values), dict(os.environ)
for name in json.loads(sys.argv[1]):
    importlib.import_module(name)
changed = [key for key, value in jax.config.values.items() if key in before and before[key] != value]
changed += [key for key in {*environment, *os.environ} if environment.get(key) != os.environ.get(key)]
print(json.dumps({"changed": changed, "x64": jax.config.jax_enable_x64}))
"""


def test_importing_leaves_settings_alone():
    names = [name for name in modules() if not name.endswith("__main__")]
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("JAX_", "XLA_"))}
    clean["PYGAME_HIDE_SUPPORT_PROMPT"] = "hide"  # which gymnasium sets, where it is installed
    command = [sys.executable, "-c", SCRIPT, json.dumps(names)]
    run = subprocess.run(command, cwd=ROOT, env=clean, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout.splitlines()[-1]) == {"changed": [], "x64": False}
