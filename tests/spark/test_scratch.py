"""Temporary folders go with their process: those of the killed go with the next that anybody makes, Spark or not."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

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
