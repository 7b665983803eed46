"""The command line: parse, call the library, print; exit 0 when done, 1 when the run failed, 2 for wrong input."""

from __future__ import annotations

import argparse
import atexit
import contextlib
import dataclasses
import gc
import json
import logging
import os
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

# What needs JAX is imported where it is used, so that `--help`, `--version` and usage errors answer at once.
from jmbs.errors import AssemblyError, JmbsError, ModelError, printable
from jmbs.files import check_new_file, named_path, write_text
from jmbs.garbage import few_collections

DONE, RUN_FAILED, INPUT_WRONG, INTERRUPTED = 0, 1, 2, 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status; `argv` defaults to the arguments of the process."""
    atexit.register(gc.freeze)  # else Python ends by looking through all that JAX has made, for half a second
    try:
        args = _parser().parse_args(argv)
    except SystemExit as stop:  # argparse leaves this way, after --help too; callers of `main` get a status
        return stop.code if isinstance(stop.code, int) else INPUT_WRONG
    try:
        with _debug_lines(args.debug), few_collections():
            return args.command(args)
    except KeyboardInterrupt:
        _complain("interrupted")
        return INTERRUPTED
    except SystemExit as stop:  # of code that the config names
        _complain(f"{args.config}: code that the model uses asked to leave the process (SystemExit: {stop})")
        return RUN_FAILED
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


@contextlib.contextmanager
def _debug_lines(wanted: bool) -> Iterator[None]:
    """Shows what jmbs notes for those who look for a cause, on stderr."""
    logger, handler = logging.getLogger("jmbs"), logging.StreamHandler()
    handler.setFormatter(logging.Formatter("jmbs: %(message)s"))
    before = logger.level
    if wanted:
        logger.addHandler(handler)
        logger.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="jmbs", description="Differentiable multibody simulation.")
    parser.add_argument("--version", action="version", version=f"jmbs {_version()}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("config", metavar="CONFIG", type=named_path, help="a YAML file, schema jmbs/1, or URDF or MJCF")
    shared.add_argument(
        "--set",
        metavar="a.b=value",
        action="append",
        default=[],
        help="replace a value of the config, by its path in the file; may be repeated",
    )
    root = {"choices": ("fixed", "free"), "help": "how the root link of a URDF hangs on the ground (default: fixed)"}
    shared.add_argument("--root", **root)
    _add_debug(shared)

    run = commands.add_parser(
        "run",
        parents=[shared],
        help="simulate and write the result, a summary and plots",
        description="Simulates one member and writes the result, a summary and plots. It computes on the CPU, where "
        "one member is quickest, unless the environment variable JAX_PLATFORMS says otherwise.",
    )
    run.add_argument(
        "--out", metavar="DIR", type=named_path, help="folder for the result (default: runs/<name>-<UTC time>)"
    )
    run.add_argument("--force", action="store_true", help="overwrite an earlier result in DIR")
    _add_cache(run)
    run.set_defaults(command=_run)

    _add_fit(commands)
    _add_design(commands)
    _add_sweep(commands)
    _add_plot(commands)

    check = commands.add_parser("check", parents=[shared], help="validate and describe without simulating")
    check.set_defaults(command=_check)

    draw = commands.add_parser("draw", parents=[shared], help="draw the interconnection pattern as an SVG file")
    draw.add_argument("--flat", action="store_true", help="the flattened system: all primitive components by path")
    draw.add_argument("--depth", metavar="N", type=int, default=1, help="levels of nesting to show (default: 1)")
    draw.add_argument("--out", metavar="FILE.svg", type=named_path, help="the file to write (default: <name>.svg)")
    draw.add_argument("--force", action="store_true", help="overwrite an existing file")
    draw.set_defaults(command=_draw)

    speed = commands.add_parser("testspeed", parents=[shared], help="measure compile time, throughput and gradients")
    speed.add_argument("--batch", metavar="N", type=int, default=256, help="members (default: 256)")
    speed.add_argument("--steps", metavar="N", type=int, default=100, help="fixed steps of a run (default: 100)")
    speed.add_argument("--dt", metavar="S", type=float, help="the step, s (default: the config's, else 0.001)")
    speed.add_argument("--method", metavar="M", help="default: the config's, or rk4 if its steps are adaptive")
    speed.add_argument("--precision", metavar="P", help="float32 or float64 (default: the config's)")
    speed.add_argument("--formulation", metavar="F", help="tree or absolute (default: the config's)")
    speed.add_argument("--no-gradient", action="store_true", help="leave the gradient out")
    speed.add_argument(
        "--out", metavar="FILE.json", type=named_path, help="the file to write (default: <name>-speed.json)"
    )
    speed.add_argument("--force", action="store_true", help="overwrite an existing file")
    speed.set_defaults(command=_testspeed)

    imports = commands.add_parser("import", help="turn a robot description (URDF, MJCF) into a config")
    imports.add_argument("config", metavar="MODEL", type=named_path, help="a .urdf, .xml or .mjcf file")
    imports.add_argument("--out", metavar="CONFIG", type=named_path, help="the config to write (default: <name>.yaml)")
    imports.add_argument("--fixed", choices=("merge", "keep"), default="merge", help="what becomes of fixed joints")
    imports.add_argument("--root", default="fixed", **root)
    imports.add_argument("--force", action="store_true", help="overwrite an existing config")
    _add_debug(imports)
    imports.set_defaults(command=_import)
    return parser


def _add_cache(command: argparse.ArgumentParser) -> None:
    cache = command.add_mutually_exclusive_group()
    place = "keep compiled programs in DIR, for the next run (default: jmbs's folder among the user's caches)"
    cache.add_argument("--cache", metavar="DIR", type=named_path, help=place)
    cache.add_argument("--no-cache", action="store_true", help="compile anew, and keep nothing")


def _add_debug(command: argparse.ArgumentParser) -> None:
    command.add_argument("--debug", action="store_true", help="show tracebacks, and notes on what was computed how")


def _add_study(command: argparse.ArgumentParser, result: str) -> None:
    command.add_argument("config", metavar="STUDY", type=named_path, help="a YAML file, schema jmbs-fit/1")
    command.add_argument(
        "--set",
        metavar="a.b=value",
        action="append",
        default=[],
        help="replace a value of the study, by its path in the file; may be repeated",
    )
    place = "folder for the result (default: runs/<name>-<UTC time>)"
    command.add_argument("--out", metavar="DIR", type=named_path, help=place)
    command.add_argument("--force", action="store_true", help=f"overwrite an earlier {result} in DIR")


def _add_fit(commands: Any) -> None:
    fit = commands.add_parser(
        "fit",
        help="find parameters from recordings of a motion",
        description="Checks a study and its recordings, finds the parameters, and writes fit.json, fitted.yaml, "
        "residuals.csv, covariance.csv and report.html. Exit status: 0 converged, 1 not, 2 wrong input. "
        "It computes on the CPU unless the environment variable JAX_PLATFORMS says otherwise.",
    )
    _add_study(fit, "fit")
    how = fit.add_mutually_exclusive_group()
    how.add_argument("--check", action="store_true", help="only say what the data can show, in check.json: no fit")
    how.add_argument("--no-check", action="store_true", help="look at the data only, not at sensitivities, before it")
    fit.add_argument("--resume", action="store_true", help="go on from DIR/checkpoint.npz, to the same result")
    fit.add_argument(
        "--cross-validate",
        action="store_true",
        help="also fit without each recording in turn, and tell how well it is predicted",
    )
    fit.add_argument(
        "--profile",
        metavar="NAME",
        action="append",
        default=[],
        help="also fit along an unknown, for its interval by likelihood; may be repeated",
    )
    report = {"action": argparse.BooleanOptionalAction, "default": True}
    fit.add_argument("--report", help="write report.html (default), or leave it out", **report)
    _add_cache(fit)
    _add_debug(fit)
    fit.set_defaults(command=_fit)


def _add_design(commands: Any) -> None:
    design = commands.add_parser(
        "design",
        help="find the inputs of an experiment from which a study's parameters will be known best",
        description="Designs the experiment of a study's section `design` and writes a table for each input, "
        "design.json and design.png. Exit status: 0 done, 2 wrong input. It computes on the CPU unless the environment "
        "variable JAX_PLATFORMS says otherwise.",
    )
    _add_study(design, "design")
    _add_cache(design)
    _add_debug(design)
    design.set_defaults(command=_design)


def _add_sweep(commands: Any) -> None:
    from jmbs.sweep_command import DESCRIPTION, add_arguments

    text = "run a model over many parameters, initial values and inputs"
    sweep = commands.add_parser("sweep", help=text, description=DESCRIPTION)
    add_arguments(sweep)
    _add_cache(sweep)
    _add_debug(sweep)
    sweep.set_defaults(command=_sweep)


def _add_plot(commands: Any) -> None:
    from jmbs.plot_command import DESCRIPTION, add_arguments, plot_command

    plot = commands.add_parser("plot", help="draw the pictures of a result again", description=DESCRIPTION)
    add_arguments(plot)
    _add_debug(plot)
    plot.set_defaults(command=plot_command)


def _version() -> str:
    try:
        return version("jmbs")
    except PackageNotFoundError:
        return "(not installed)"


def _run(args: argparse.Namespace) -> int:
    from jmbs.io import check_directory, claimed, write_result
    from jmbs.jaxext import ask_for_quick_compiling
    from jmbs.running import draw_plots, number, report, simulate_timed, tolerance_note
    from jmbs.simulation import labelled_arrays, waiting

    if args.out is not None:
        check_directory(args.out, force=args.force)
    ask_for_quick_compiling()
    _on_cpu()
    _use_all_cores()
    _use_cache(args)
    with waiting("planning"):
        mechanism, model = _compile(args)
    if note := tolerance_note(model):
        print(f"jmbs: note: {note}", file=sys.stderr)
    with claimed(args.out, mechanism.name, args.force) as directory:
        trajectory, compile_time, wall_time = simulate_timed(model)
        with waiting("writing and drawing"):
            times = {"wall_time": wall_time, "compile_time": compile_time}
            result = labelled_arrays(trajectory)
            summary = write_result(trajectory, directory, **times, force=args.force, result=result)
            plots, trouble = draw_plots(result, directory)
    print(report(summary, directory, plots))
    print(f"\nNext, draw the mechanism: jmbs draw {args.config}")
    if trouble:
        _complain(f"{directory}: the result is written, but not all plots are: {trouble}")
    if summary["status"] in ("successful", "ended_at_event"):
        return RUN_FAILED if trouble else DONE
    outcome = "interrupted" if summary["status"] == "interrupted" else "failed"
    _complain(f"{mechanism.name}: {outcome} at t = {number(summary['failure_time'])} s: {summary['message']}")
    return INTERRUPTED if outcome == "interrupted" else RUN_FAILED


def _fit(args: argparse.Namespace) -> int:
    from jmbs.fit_command import fit_command
    from jmbs.jaxext import ask_for_quick_compiling

    fits_only = {"--resume": args.resume, "--profile": args.profile, "--cross-validate": args.cross_validate}
    for option, given in fits_only.items():
        if given and args.check:
            raise ModelError(option, "beside --check", "one of them: a check fits nothing")
    ask_for_quick_compiling()
    _on_cpu()
    _use_cache(args)
    return fit_command(args, _complain)


def _design(args: argparse.Namespace) -> int:
    from jmbs.design_command import design_command
    from jmbs.jaxext import ask_for_quick_compiling

    ask_for_quick_compiling()
    _on_cpu()
    _use_cache(args)
    return design_command(args, _complain)


def _sweep(args: argparse.Namespace) -> int:
    from jmbs.sweep_command import sweep_command

    _use_all_cores()
    _use_cache(args)
    return sweep_command(args, _complain)


def _check(args: argparse.Namespace) -> int:
    _on_cpu()
    _, model = _compile(args)
    print(model.describe())
    return DONE


def _draw(args: argparse.Namespace) -> int:
    # Read when numpy is first imported: threads that wait for small matrices take longer than one that computes them.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from jmbs.visualise import draw

    mechanism = _read(args)
    path = _new_file(args, f"{mechanism.name}.svg")
    print(draw(mechanism, depth=args.depth, flat=args.flat).save(path))
    return DONE


def _testspeed(args: argparse.Namespace) -> int:
    from jmbs.simulation import measure_speed

    _use_all_cores()
    given = {"formulation": args.formulation, "precision": args.precision}
    mechanism, model = _compile(args, {key: value for key, value in given.items() if value is not None})
    path = _new_file(args, f"{mechanism.name}-speed.json")
    options = {"gradient": not args.no_gradient, "seed": mechanism.seed}
    report = measure_speed(model, args.batch, args.steps, args.dt, args.method, **options)
    write_text(path, json.dumps(report.as_dict(), indent=2) + "\n")
    print(f"{report.table()}\n\n{path}")
    return DONE


def _on_cpu() -> None:
    """Leaves accelerators alone, unless JAX_PLATFORMS says what to use."""
    import jax

    if not jax.config.values["jax_platforms"]:
        jax.config.update("jax_platforms", "cpu")


def _use_all_cores() -> None:
    from jmbs.simulation import use_all_cores

    # A program that has used JAX before it calls this has chosen its devices.
    with contextlib.suppress(RuntimeError):
        use_all_cores()


def _use_cache(args: argparse.Namespace) -> None:
    import jax

    from jmbs.cache import use_cache

    if args.no_cache:
        jax.config.update("jax_enable_compilation_cache", False)
    elif args.cache is not None:
        use_cache(args.cache)
    elif not jax.config.values["jax_compilation_cache_dir"]:
        with contextlib.suppress(ModelError):  # without a place for it, the run goes on without it
            use_cache()


def _import(args: argparse.Namespace) -> int:
    from jmbs.io import import_model

    file, notes = import_model(args.config, args.out, args.fixed, args.root, args.force)
    print("\n".join([str(file), *notes]))
    return DONE


def _new_file(args: argparse.Namespace, default: str) -> Path:
    """The file that a command shall write: `--out` or the default, where it may be written."""
    path = args.out if args.out is not None else Path(default)
    check_new_file(path, args.force)
    return path


def _read(args: argparse.Namespace) -> Any:
    """The mechanism that the config or model describes, read in float64: types of users make arrays when they are made.

    What a model holds beyond a mechanism is told.
    """
    import jax

    from jmbs.io import is_model, load_model, read_config

    jax.config.update("jax_enable_x64", True)
    try:
        if not is_model(args.config):
            if args.root is not None:
                raise ModelError("--root", f"{args.root} for a config", "none: its joints say what is free")
            return read_config(args.config, args.set)
        model = load_model(args.config, args.set, root=args.root or "fixed")
        for note in model.notes:
            print(f"jmbs: note: {note}", file=sys.stderr)
        if model.left_out:
            print(f"jmbs: {model.left_out}", file=sys.stderr)
        return model.mechanism
    except OSError as error:
        raise ModelError(str(args.config), error.strerror or str(error), "a config file that can be read") from error


def _compile(args: argparse.Namespace, simulation: Mapping[str, Any] | None = None) -> tuple[Any, Any]:
    """The mechanism that the config describes and its model, with float64 left on only if the config asks for it.

    `simulation`: settings in place of the config's. Unlike `--set` they want no end time of a model that has none.
    """
    import jax

    from jmbs.simulation import compile as compile_model

    given = jax.config.values["jax_enable_x64"]
    mechanism = _read(args)
    if simulation:
        mechanism.simulation = dataclasses.replace(mechanism.simulation, **simulation)
    jax.config.update("jax_enable_x64", given or mechanism.simulation.precision == "float64")
    return mechanism, compile_model(mechanism)


def _with_file(config: Path, error: Exception) -> str:
    """The message with the config's name in front, where it does not name its file already."""
    from jmbs.io import ResultFolderError

    text = str(error)
    return text if printable(config) in text or isinstance(error, ResultFolderError) else f"{config}: {text}"


def _complain(text: str) -> None:
    print("jmbs: " + printable(" ".join(line.strip() for line in text.splitlines())), file=sys.stderr)
