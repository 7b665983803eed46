"""The command line: parse, call the library, print; exit 0 when done, 1 when the run failed, 2 for wrong input."""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

# What needs JAX is imported where it is used, so that `--help`, `--version` and usage errors answer at once.
from jmbs.errors import AssemblyError, JmbsError, ModelError

if TYPE_CHECKING:
    from jmbs.simulation import Trajectory

DONE, RUN_FAILED, INPUT_WRONG, INTERRUPTED = 0, 1, 2, 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status; `argv` defaults to the arguments of the process."""
    try:
        args = _parser().parse_args(argv)
    except SystemExit as stop:  # argparse leaves this way, after --help too; callers of `main` get a status
        return stop.code if isinstance(stop.code, int) else INPUT_WRONG
    try:
        return args.command(args)
    except KeyboardInterrupt:
        _complain("interrupted")
        return INTERRUPTED
    except Exception as error:
        if args.debug:
            traceback.print_exc()
        if isinstance(error, ModelError | AssemblyError):
            _complain(_with_file(args.config, error))
            return INPUT_WRONG
        kind = "" if isinstance(error, JmbsError) else f"{type(error).__name__}: "
        hint = "" if args.debug else " (run with --debug for the traceback)"
        _complain(f"{kind}{error}{hint}")
        return RUN_FAILED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="jmbs", description="Differentiable multibody simulation.")
    parser.add_argument("--version", action="version", version=f"jmbs {_version()}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("config", metavar="CONFIG", type=Path, help="a YAML file, schema jmbs/1")
    shared.add_argument(
        "--set",
        metavar="a.b=value",
        action="append",
        default=[],
        help="replace a value of the config, by its path in the file; may be repeated",
    )
    shared.add_argument("--debug", action="store_true", help="show tracebacks")

    run = commands.add_parser("run", parents=[shared], help="simulate and write the result, a summary and plots")
    run.add_argument("--out", metavar="DIR", type=Path, help="folder for the result (default: runs/<name>-<UTC time>)")
    run.add_argument("--force", action="store_true", help="overwrite an earlier result in DIR")
    run.set_defaults(command=_run)

    check = commands.add_parser("check", parents=[shared], help="validate and describe without simulating")
    check.set_defaults(command=_check)

    draw = commands.add_parser("draw", parents=[shared], help="draw the interconnection pattern as an SVG file")
    draw.add_argument("--flat", action="store_true", help="the flattened system: all primitive components by path")
    draw.add_argument("--depth", metavar="N", type=int, default=1, help="levels of nesting to show (default: 1)")
    draw.add_argument("--out", metavar="FILE.svg", type=Path, help="the file to write (default: <name>.svg)")
    draw.add_argument("--force", action="store_true", help="overwrite an existing file")
    draw.set_defaults(command=_draw)
    return parser


def _version() -> str:
    try:
        return version("jmbs")
    except PackageNotFoundError:
        return "(not installed)"


def _run(args: argparse.Namespace) -> int:
    from jmbs.io import PLOT_FOLDER, check_directory, default_directory, write_result
    from jmbs.visualise import plot_trajectory

    if args.out is not None:
        check_directory(args.out, force=args.force)
    mechanism, model = _compile(args)
    directory = args.out if args.out is not None else default_directory(mechanism.name)
    check_directory(directory, force=args.force)

    trajectory, compile_time, wall_time = _simulate(model)
    summary = write_result(trajectory, directory, wall_time=wall_time, compile_time=compile_time, force=args.force)
    plot_trajectory(trajectory, directory / PLOT_FOLDER)
    print(_report(summary, directory))
    if summary["status"] == "successful":
        return DONE
    _complain(f"{mechanism.name}: failed at t = {_number(summary['failure_time'])} s: {summary['message']}")
    return RUN_FAILED


def _check(args: argparse.Namespace) -> int:
    _, model = _compile(args)
    print(model.describe())
    return DONE


def _draw(args: argparse.Namespace) -> int:
    from jmbs.visualise import draw

    mechanism = _read(args)
    path = args.out if args.out is not None else Path(f"{mechanism.name}.svg")
    if path.is_dir() or not path.parent.is_dir():
        raise ModelError(str(path), "no place for a file", "a file in an existing folder")
    if path.exists() and not args.force:
        raise ModelError(str(path), "an existing file", "a new file, or --force")
    print(draw(mechanism, depth=args.depth, flat=args.flat).save(path))
    return DONE


def _read(args: argparse.Namespace) -> Any:
    """The mechanism that the config describes."""
    from jmbs.io import read_config

    try:
        return read_config(args.config, args.set)
    except OSError as error:
        raise ModelError(str(args.config), error.strerror or str(error), "a config file that can be read") from error


def _compile(args: argparse.Namespace) -> tuple[Any, Any]:
    """The mechanism that the config describes and its model, with float64 switched on if the config asks for it."""
    import jax

    from jmbs.simulation import compile as compile_model

    mechanism = _read(args)
    if mechanism.simulation.precision == "float64":
        jax.config.update("jax_enable_x64", True)
    return mechanism, compile_model(mechanism)


def _simulate(model: Any) -> tuple[Trajectory, float, float]:
    """Simulate from the assembled initial state: trajectory, seconds to compile, seconds to run."""
    import equinox as eqx
    import jax

    from jmbs.simulation import simulate

    state = model.initial_state()
    run = eqx.filter_jit(lambda model, state: simulate(model, state, progress=True, throw=False))
    start = time.perf_counter()
    compiled = run.lower(model, state).compile()
    compiled_at = time.perf_counter()
    trajectory = jax.block_until_ready(compiled(model, state))
    return trajectory, compiled_at - start, time.perf_counter() - compiled_at


def _report(summary: dict[str, Any], directory: Path) -> str:
    rows = [
        ("status", summary["message"]),
        ("simulated", f"{_number(summary['simulated_time_s'])} s"),
        ("wall time", f"{_number(summary['wall_time_s'])} s, and {_number(summary['compile_time_s'])} s to compile"),
        ("steps", str(summary.get("steps", "unknown"))),
        ("energy drift", f"{_number(summary['energy_drift'])} of {_number(summary['energy_scale'])} J"),
        ("constraints", _worst_residuals(summary["largest_constraint_residuals"])),
        ("entropy produced", f"{_number(summary['entropy_produced'])} J/K"),
        *(("warning", warning) for warning in summary["warnings"]),
        ("result", str(directory)),
    ]
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:<{width}}  {text}" for name, text in rows)


def _worst_residuals(residuals: dict[str, dict[str, float | None]] | None) -> str:
    parts = []
    for level, unit in (("position", "m or rad"), ("velocity", "m/s or rad/s")):
        known = {joint: entry[level] for joint, entry in (residuals or {}).items() if entry[level] is not None}
        if known:
            joint = max(known, key=lambda name: known[name] or 0.0)
            parts.append(f"{level} {_number(known[joint])} {unit} ({joint})")
    return ", ".join(parts) if parts else "none to hold" if residuals == {} else "unknown"


def _number(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.4g}"


def _with_file(config: Path, error: Exception) -> str:
    """The message with the config's name in front, where it does not name its file already."""
    from jmbs.io import ResultFolderError

    text = str(error)
    return text if str(config) in text or isinstance(error, ResultFolderError) else f"{config}: {text}"


def _complain(text: str) -> None:
    print("jmbs: " + " ".join(line.strip() for line in text.splitlines()), file=sys.stderr)
