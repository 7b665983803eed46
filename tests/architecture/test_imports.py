"""Imports point one way: down the layers, never in circles, and into another package only by its front door."""

from __future__ import annotations

import subprocess
import sys
from graphlib import CycleError, TopologicalSorter

import pytest
from source_tree import Import, imports, is_package, modules

# Top of the house first; a line may import lines below it, and names on one line never import each other.
# The root package is the shop window: it may show anything, and only the command line looks into it.
LAYERS = (
    ("__main__",),
    ("cli",),
    ("running", "fit_command", "design_command", "plot_command", "sweep_command"),
    ("",),
    ("fitting", "studies", "sweeps"),
    ("io", "visualise"),
    ("sweeping",),
    ("identification", "learning"),
    ("simulation",),
    ("tree",),
    ("solvers", "library"),
    ("ephs", "dae", "constraints"),
    ("rigid_body",),
    ("linear",),
    ("lie", "spatial", "graphs"),
    ("programs",),
    ("fusing",),
    ("fused",),
    ("cache", "jaxext"),
    ("arrays", "by_value", "files", "garbage"),
    ("errors",),
)
HEIGHT = {name: -line for line, names in enumerate(LAYERS) for name in names}

# importer, imported package, and the reason why the arrow may point up.
EXCEPTIONS = {
    ("jmbs.library.mechanics.mechanism", "jmbs.simulation"): "the front end compiles what it describes, in one method",
    ("jmbs.identification.result", "jmbs.visualise"): "a fit draws and reports itself, in four methods",
    ("jmbs.identification.profiles", "jmbs.visualise"): "a profile draws itself, in one method",
}


# Classes whose methods call functions of other modules, which in turn name the class in their annotations.
NAMED_BY_THEIR_FUNCTIONS = {
    "jmbs.identification.check",
    "jmbs.identification.result",
    "jmbs.library.mechanics.mechanism",
    "jmbs.simulation.model",
    "jmbs.simulation.trajectory",
}


def part(module: str) -> str:
    """The part of the house a module lives in: `jmbs.lie.so3` is in `lie`, `jmbs` itself in ``."""
    return (module.split(".") + [""])[1]


def excepted(edge: Import) -> bool:
    return (edge.importer, f"jmbs.{part(edge.target)}") in EXCEPTIONS


def all_imports() -> list[Import]:
    return [edge for module in modules() for edge in imports(module)]


def shown(edges: list[Import]) -> list[str]:
    return [f"{edge.importer}, line {edge.line}: imports {edge.target}" for edge in edges]


def test_every_part_has_a_layer():
    unknown = {part(module) for module in modules()} - set(HEIGHT)
    assert not unknown, "give each new part of jmbs/ a line in LAYERS"


def test_imports_point_down():
    wrong = [
        edge
        for edge in all_imports()
        if part(edge.importer) != part(edge.target)
        and {part(edge.importer), part(edge.target)} <= set(HEIGHT)
        and HEIGHT[part(edge.importer)] <= HEIGHT[part(edge.target)]
        and not excepted(edge)
    ]
    assert not wrong, shown(wrong)


def test_no_import_cycles():
    graph = {module: {edge.target for edge in imports(module) if not excepted(edge)} for module in modules()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" <- ".join(error.args[1]))


def test_annotations_make_no_import_cycles():
    """A module names in its annotations only what it could import, but for a few classes that are called by methods."""
    graph = {}
    for module in modules():
        edges = [edge for edge in imports(module, types_too=True) if not excepted(edge)]
        targets = {edge.target for edge in edges if part(edge.target) == part(module)}
        at_run_time = {edge.target for edge in imports(module)}
        graph[module] = {x for x in targets if x in at_run_time or x not in NAMED_BY_THEIR_FUNCTIONS}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" <- ".join(error.args[1]))


def test_other_packages_are_entered_by_the_front_door():
    """`from jmbs.lie import SE3`, not `from jmbs.lie.se3 import SE3`, so that files inside a package may move."""
    wrong = [
        edge
        for edge in all_imports()
        if part(edge.importer) != part(edge.target) and not is_package(edge.target) and edge.target.count(".") > 1
    ]
    assert not wrong, shown(wrong)


def test_exceptions_are_needed():
    used = {(edge.importer, f"jmbs.{part(edge.target)}") for edge in all_imports()}
    stale = [key for key in EXCEPTIONS if key[0] in modules() and key not in used]
    assert not stale, "remove exceptions that no code needs"


def test_a_run_imports_nothing_that_only_others_need():
    """Everyone who starts a run waits for what it imports, and scipy takes as long as all of jmbs."""
    code = "import sys, jmbs.cli, jmbs.running, jmbs.io, jmbs.visualise; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "jmbs.visualise.plots" in loaded
    assert not {"scipy", "networkx", "xarray", "pandas", "optax", "mujoco"} & set(loaded)
