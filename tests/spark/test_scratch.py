"""Temporary folders go with their process: those of the killed go with the next that anybody makes, Spark or not."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest

from apportion.spark import scratch
from apportion.spark.scratch import PREFIX, scratch_folder

HOLDS_ONE = """
import sys, time
from apportion.spark.scratch import scratch_folder
folder = scratch_folder(sys.argv[1])
(folder / "copy.parquet").write_bytes(b"rows")
print(folder, flush=True)
time.sleep(600)
"""


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that has a folder below ``tmp_path``."""
    with subprocess.Popen([sys.executable, "-c", HOLDS_ONE, tmp_path], stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.kill()


def folder_of(holder: subprocess.Popen[str]) -> Path:
    assert holder.stdout is not None
    return Path(holder.stdout.readline().strip())


def test_what_a_killed_process_left_goes_with_a_later_folder_that_anybody_makes(
    tmp_path: Path, holder: subprocess.Popen[str]
) -> None:
    """The lock of a folder tells whether its process lives, in this container or in another."""
    theirs = folder_of(holder)
    os.utime(theirs, (0, 0))
    mine = scratch_folder(str(tmp_path))
    assert (theirs / "copy.parquet").exists()
    holder.kill()
    holder.wait()
    os.utime(theirs)
    scratch_folder(str(tmp_path))
    assert theirs.is_dir(), "so young it may not be locked yet"
    os.utime(theirs, (0, 0))
    os.utime(mine, (0, 0))
    scratch_folder(str(tmp_path))
    assert not theirs.exists()
    assert mine.is_dir()


def test_a_folder_that_only_looks_like_ours_stays(tmp_path: Path) -> None:
    others = tmp_path / f"{PREFIX}notes"
    others.mkdir()
    os.utime(others, (0, 0))
    scratch_folder(str(tmp_path))
    assert others.is_dir()


def test_what_holds_the_locks_goes_with_the_folders(tmp_path: Path) -> None:
    """A service makes a folder at every round."""

    def opened() -> int:
        return len(os.listdir("/proc/self/fd"))

    before = opened()
    for _ in range(20):
        scratch_folder(str(tmp_path)).rmdir()
    assert opened() <= before + 1


def test_a_folder_is_named_after_its_process_and_lies_where_it_was_wanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    (tmp_path / "here").mkdir()
    here, there = scratch_folder(str(tmp_path / "here")), scratch_folder()
    assert (here.parent, there.parent) == (tmp_path / "here", temporary)
    for folder in (here, there, scratch_folder(None)):
        assert folder.name.startswith(f"apportion-spark-{os.getpid()}-")
        assert folder.stat().st_mode & 0o777 == 0o700


def opened_below(folder: Path) -> list[str]:
    """What this process has open there, gone or not."""
    links = []
    for number in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            links.append(os.readlink(f"/proc/self/fd/{number}"))
    return sorted(link for link in links if link.startswith(str(folder)))


@pytest.mark.parametrize(("age", "gone"), [(-1, False), (0, False), (59, False), (60, False), (61, True), (9e6, True)])
@pytest.mark.parametrize("within", [True, False])
def test_an_old_folder_that_nobody_holds_goes_with_all_that_is_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, age: float, gone: bool, within: bool
) -> None:
    """Of the folder that is asked for, or of the system's; others stay."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(scratch, "time", SimpleNamespace(time=lambda: 1e9))
    names = (f"{PREFIX}1-left", f"{PREFIX}99999-left", f"{PREFIX}x-other", f"x{PREFIX}1-left", "other")
    for name in names:
        (tmp_path / name / "deep").mkdir(parents=True)
        (tmp_path / name / "deep" / "rows").write_bytes(b"rows")
        os.utime(tmp_path / name, (1e9 - age, 1e9 - age))
    made = scratch_folder(str(tmp_path) if within else None)
    assert {each.name for each in tmp_path.iterdir()} == {made.name, *(names[2:] if gone else names)}
    assert opened_below(tmp_path) == [str(made)], "the lock of the new one alone is held"
