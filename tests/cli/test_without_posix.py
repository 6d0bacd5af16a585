"""What is left where Python has no POSIX modules, as on Windows: all but what writes tables, which says so."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import Runner

POSIX = ("fcntl", "grp", "posix_spawn", "pwd", "resource", "termios", "tty", "pty")
WITHOUT = f"import sys; sys.modules.update(dict.fromkeys({POSIX!r})); import apportion.cli as c; sys.exit(c.main())"
"""A program that is ``apportion`` in a Python in which those modules cannot be imported."""


def without_posix(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", WITHOUT, *words], capture_output=True, text=True, timeout=400, check=False
    )


@pytest.mark.parametrize(
    "words",
    [
        ["describe", "pasted.txt"], ["plan", "group.json", "-o", "json"], ["compare", "group.json"],
        ["what-if", "group.json", "--join", "1"], ["report", "group.json", "-o", "-"], ["switch", "group.json"],
        ["size", "group.json", "--by", "partitions", "--capacity", "4"],
    ],
    ids=lambda words: words[0],
)  # fmt: skip
def test_files_are_read_and_planned_without_posix(run: Runner, folder: Path, words: list[str]) -> None:
    """The same bytes as with it."""
    done = without_posix(*words)
    assert (done.returncode, done.stderr) == (0, "")
    if words[0] != "report":  # it holds the moment
        assert done.stdout == run(*words).out


@pytest.mark.slow
def test_a_dump_is_read_without_posix(folder: Path) -> None:
    pytest.importorskip("pyarrow")
    from apportion import demo

    done = without_posix("replay", str(demo.dump()), "--group", "ads-range", "-o", "json")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["group"] == "ads-range"


@pytest.mark.parametrize("module", ["apportion.serve.server", "apportion.clients.kafka_python", "apportion.testing"])
def test_a_room_can_be_imported_without_posix(module: str) -> None:
    program = f"import sys; sys.modules.update(dict.fromkeys({POSIX!r})); import {module}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=400, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_what_writes_tables_in_a_folder_says_what_it_lacks(tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    program = (
        f"import sys; sys.modules.update(dict.fromkeys({POSIX!r})); from pathlib import Path;"
        "from apportion.spark import folder; from apportion.errors import Unavailable\n"
        "folder.find_spec = lambda name: None\n"
        f"try:\n  with folder.staged(Path({str(tmp_path)!r})): pass\n"
        "except Unavailable as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=400, check=True)
    assert done.stdout.startswith("tables in a folder need a POSIX system")
    assert "WSL" in done.stdout
