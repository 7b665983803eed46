"""One run at a time has a folder for results, what is written is whole, and links lead nowhere."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from io_result.synthetic import pair_trajectory
from matplotlib.backends.backend_agg import FigureCanvasAgg

from jmbs.errors import ModelError
from jmbs.files import remove_stale, replacing
from jmbs.io import ResultFolderError, claimed, write_result
from jmbs.visualise import plot_trajectory


def in_thread(function) -> list[BaseException]:
    """What a function raises in another thread, which is what another run is to a lock."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            function()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return raised


def test_two_runs_do_not_share_a_folder(tmp_path):
    folder = tmp_path / "out"
    with claimed(folder):
        (refused,) = in_thread(lambda: write_result(pair_trajectory(count=3), folder, force=True))
        assert isinstance(refused, ResultFolderError) and "another run" in str(refused)
        write_result(pair_trajectory(count=3), folder)  # the run that has it
    assert sorted(os.listdir(folder)) == ["result.nc", "summary.json"]
    with pytest.raises(ResultFolderError, match="earlier result"), claimed(folder):
        pass
    assert not in_thread(lambda: write_result(pair_trajectory(count=3), folder, force=True))


def test_another_process_has_a_folder_until_it_ends(tmp_path):
    folder = tmp_path / "out"
    code = f"from jmbs.io import claimed\nwith claimed({str(folder)!r}): print(flush=True); input()"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", code], cwd=Path(__file__).parents[2], **pipes) as other:
        assert other.stdout is not None
        other.stdout.readline()
        with pytest.raises(ResultFolderError, match="another run"), claimed(folder):
            pass
        other.kill()
    with claimed(folder) as mine:
        assert mine == folder


def test_runs_that_start_together_get_folders_of_their_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with claimed(None, "pair") as first, claimed(None, "pair") as second:
        assert first != second and first.parent == second.parent == Path("runs")
    assert os.listdir(tmp_path) == []  # nothing came of them


def test_a_folder_that_stays_empty_goes_and_one_that_was_there_stays(tmp_path):
    (tmp_path / "mine").mkdir()
    for place in (tmp_path / "mine", tmp_path / "new" / "deeper"):
        with pytest.raises(RuntimeError), claimed(place):
            raise RuntimeError
    assert os.listdir(tmp_path) == ["mine"]


def test_what_dead_processes_left_is_removed_and_what_living_ones_write_is_not(tmp_path):
    dead = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True)
    number = dead.stdout.strip()
    for place in (tmp_path, tmp_path / "plots"):
        place.mkdir(exist_ok=True)
        for name in (f".result.nc.{number}.partial", f".ab.{os.getppid()}.partial", ".notes.partial", "a.1.partial"):
            (place / name).write_text("half")
    with claimed(tmp_path, force=True):
        pass
    kept = [".notes.partial", f".ab.{os.getppid()}.partial", "a.1.partial"]
    assert sorted(os.listdir(tmp_path / "plots")) == sorted(kept)
    assert sorted(os.listdir(tmp_path)) == sorted([*kept, "plots"])
    remove_stale(tmp_path / "absent")


def test_a_file_is_replaced_as_a_whole_and_its_link_is_not_followed(tmp_path):
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("old")
    link.symlink_to(target)
    with pytest.raises(RuntimeError), replacing(link) as partial:
        partial.write_text("half")
        raise RuntimeError
    assert link.is_symlink() and sorted(os.listdir(tmp_path)) == ["link", "target"]
    with replacing(link) as partial:
        partial.write_text("new")
    assert not link.is_symlink() and link.read_text() == "new" and target.read_text() == "old"
    mask = os.umask(0)
    os.umask(mask)
    assert link.stat().st_mode & 0o777 == 0o666 & ~mask


def test_plots_are_whole_and_follow_no_links(tmp_path, monkeypatch):
    precious = tmp_path / "precious"
    precious.write_text("mine")
    plots = tmp_path / "plots"
    plots.mkdir()
    (plots / "energies.png").symlink_to(precious)
    (plots / "exergy.png").symlink_to(precious)
    drawn = plot_trajectory(pair_trajectory(count=5), plots)
    assert precious.read_text() == "mine" and not any(path.is_symlink() for path in plots.iterdir())
    before = {path: path.read_bytes() for path in drawn}

    def half(canvas, path, **options):
        Path(path).write_bytes(b"half")
        raise OSError("no space left")

    monkeypatch.setattr(FigureCanvasAgg, "print_png", half)
    with pytest.raises(OSError, match="no space"):
        plot_trajectory(pair_trajectory(count=5), plots)
    assert {path: path.read_bytes() for path in plots.iterdir()} == before


def test_a_folder_of_plots_that_is_a_link_is_refused(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "plots").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ResultFolderError, match="plots: found a link"), claimed(tmp_path / "out", force=True):
        pass


def test_what_no_file_or_folder_can_be_made_for_is_refused(tmp_path, monkeypatch):
    """Some file systems say only then that they refuse."""

    def refuse(*_, **__):
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(ResultFolderError, match="new: found Operation not permitted, wanted a folder"):
        with claimed(tmp_path / "new"):
            pass
    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(ModelError, match=r"picture\.svg: found no place for a file \(Operation not permitted\)"):
        with replacing(tmp_path / "picture.svg"):
            pass
