"""What the command `jmbs plot` does with a result: opens it and draws its pictures again."""

from __future__ import annotations

import argparse
import stat
from pathlib import Path
from typing import TYPE_CHECKING

# What needs JAX is imported where it is used, as in the command line.
from jmbs.errors import ModelError
from jmbs.files import named_path, reason

if TYPE_CHECKING:
    import xarray as xr

DESCRIPTION = (
    "Draws the pictures of a run from its result, in place of those in the folder `plots` beside it. Nothing is"
    " simulated. Exit status: 0 done, 2 wrong input."
)
WANTED = "the folder of a run, or its result.nc"


def add_arguments(plot: argparse.ArgumentParser) -> None:
    """Adds the arguments of the command."""
    plot.add_argument("config", metavar="RESULT", type=named_path, help=WANTED)
    plot.add_argument("--member", metavar="I", type=int, help="which member of a batch, from 0")
    plot.add_argument(
        "--out",
        metavar="DIR",
        type=named_path,
        help="folder for the pictures (default: plots, or plots-<member>, beside result.nc)",
    )
    plot.add_argument("--force", action="store_true", help="replace pictures that are in DIR")


def plot_command(args: argparse.Namespace) -> int:
    """Does what the arguments of `jmbs plot` say and returns the exit status."""
    from jmbs.io import PLOT_FOLDER
    from jmbs.visualise import plot_trajectory

    path, dataset = _opened(args.config)
    chosen = _member(dataset, args.member)
    folder = args.out
    if folder is None:
        folder = path.parent / (PLOT_FOLDER if args.member is None else f"{PLOT_FOLDER}-{args.member}")
    elif not args.force and folder.is_dir() and any(folder.glob("*.png")):
        raise ModelError(str(folder), "a folder that holds pictures", "another one, or --force")
    try:
        drawn = plot_trajectory(chosen, folder)
    except OSError as error:
        found = f"no place for pictures ({reason(error)})"
        raise ModelError(str(folder), found, "a folder that can be written to, by --out DIR") from None
    except KeyError as error:
        what = str(error.args[0]).partition(".")[0]
        raise ModelError(str(path), f"a result that lacks something ({what})", WANTED) from None
    print("\n".join(map(str, drawn)) if drawn else f"{path} has nothing to draw")
    return 0


def _opened(given: Path) -> tuple[Path, xr.Dataset]:
    """The file of a result, and what is in it."""
    import xarray as xr

    from jmbs.io import RESULT_FILE
    from jmbs.simulation import RESULT_SCHEMA

    try:
        path = given / RESULT_FILE if given.is_dir() else given
        if not stat.S_ISREG(path.stat().st_mode):
            raise ModelError(str(given), "a pipe or a device", WANTED)
        with xr.open_dataset(path, engine="netcdf4", decode_times=False) as dataset:
            dataset.load()
    except FileNotFoundError as error:
        raise ModelError(str(given), f"no {RESULT_FILE} in it" if given.is_dir() else reason(error), WANTED) from None
    except (OSError, ValueError) as error:
        raise ModelError(str(given), f"no NetCDF file that can be read ({reason(error)})", WANTED) from None
    schema = dataset.attrs.get("result_schema", "none")
    if schema != RESULT_SCHEMA:
        raise ModelError(f"{given}/result_schema", str(schema), f"{RESULT_SCHEMA}: {WANTED}")
    return path, dataset


def _member(dataset: xr.Dataset, member: int | None) -> xr.Dataset:
    """The one that is drawn."""
    size = dataset.sizes.get("member")
    if size is None and member is None:
        return dataset
    if size is None:
        raise ModelError("--member", f"{member} for a result that is no batch", "none")
    if member is None or not 0 <= member < size:
        found = "none" if member is None else str(member)
        raise ModelError("--member", f"{found} for a batch of {size} members", f"one of 0 to {size - 1}")
    return dataset.isel(member=member)
