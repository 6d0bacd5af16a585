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


def test_what_a_killed_process_left_goes_with_the_next_folder_that_anybody_makes(
    tmp_path: Path, holder: subprocess.Popen[str]
) -> None:
    theirs = folder_of(holder)
    mine = scratch_folder(str(tmp_path))
    assert theirs.is_dir()  # its process lives
    holder.kill()
    holder.wait()
    assert scratch_folder(str(tmp_path)) != mine
    assert not theirs.exists()
    assert len(list(tmp_path.glob(f"{PREFIX}{os.getpid()}-*"))) == 2


def test_a_folder_that_only_looks_like_ours_stays(tmp_path: Path) -> None:
    others = tmp_path / f"{PREFIX}notes"
    others.mkdir()
    scratch_folder(str(tmp_path))
    assert others.is_dir()


HOLDS_ONE_ELSEWHERE = HOLDS_ONE.replace(
    "folder = ", "from apportion.spark import scratch; scratch.os.getpid = lambda: 2**31; "
    "scratch._namespace = lambda: '1'; folder = "
)  # fmt: skip


def test_a_folder_of_another_container_stays_while_its_process_lives(tmp_path: Path) -> None:
    """Its process cannot be seen from here; the lock that it holds can."""
    command = [sys.executable, "-c", HOLDS_ONE_ELSEWHERE, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            theirs = folder_of(process)
            assert theirs.name.startswith(f"{PREFIX}{2**31}-1-")
            os.utime(theirs, (0, 0))
            scratch_folder(str(tmp_path))
            assert (theirs / "copy.parquet").exists()
        finally:
            process.kill()
    os.utime(theirs)
    scratch_folder(str(tmp_path))
    assert theirs.is_dir(), "so young it may not be locked yet"
    os.utime(theirs, (0, 0))
    scratch_folder(str(tmp_path))
    assert not theirs.exists()


def test_what_holds_the_locks_goes_with_the_folders(tmp_path: Path) -> None:
    """A service makes a folder at every round."""

    def opened() -> int:
        return len(os.listdir("/proc/self/fd"))

    before = opened()
    for _ in range(20):
        scratch_folder(str(tmp_path)).rmdir()
    assert opened() <= before + 1
