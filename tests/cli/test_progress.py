"""Long work shows a bar at a terminal and takes it away again; in a pipe its results stand alone."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import apportion

DEMO = Path(apportion.__file__).parent / "demo" / "dump"
COMMANDS = {
    "reading group.json": ["describe", "group.json"],
    "planning with sticky": ["plan", "group.json", "-A", "sticky"],
    "planning line 3": ["plan", "groups.ndjson", "--batch"],
    "planning with range": ["gate", "group.json", "-A", "range", "--max-moves", "100"],
    "planning with each strategy": ["compare", "group.json"],
    "planning each step": ["what-if", "group.json", "--join", "1"],
    "planned rolling ": ["what-if", "group.json", "--rolling"],
    "planning with each number of members": ["size", "group.json", "--capacity", "4", "--by", "partitions"],
    "replaying search-sticky": ["replay", str(DEMO), "--group", "search-sticky", "--assignor", "sticky"],
    "reading the commits of": ["report", str(DEMO), "--group", "search-sticky"],
    "0/1": ["switch", str(DEMO), "--group", "search-sticky"],
}
"""What the bar says at some time -> a command."""

AT_ONCE = """\
import json, sys
from apportion.cli import main, progress

class AtOnce:
    def __init__(self, seconds, show):
        self.start, self.cancel = show, lambda: None

progress.Timer = AtOnce
sys.exit(max([main(words) for words in json.loads(sys.argv[1])]))
"""
"""Runs command lines that show their bars however quick the work is."""


def at_a_terminal(program: str, *words: str, folder: Path) -> tuple[bytes, str]:
    """Standard output, and what a terminal shows that is standard error alone."""
    pty = pytest.importorskip("pty", reason="there are no terminals without POSIX")
    here, there = pty.openpty()
    env = {**os.environ, "TERM": "xterm", "COLUMNS": "120"}
    with (folder / "out").open("wb") as out, os.fdopen(here, "rb", buffering=0) as screen:
        child = subprocess.Popen(
            [sys.executable, "-c", program, *words], env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=there
        )
        os.close(there)
        shown = b"".join(iter(lambda: _more(screen), b""))
        assert child.wait() == 0, shown.decode()
    return (folder / "out").read_bytes(), shown.decode()


def _more(screen: io.FileIO) -> bytes:
    try:
        return screen.read(1 << 16)
    except OSError:  # as Linux says that nobody holds the other end any more
        return b""


@pytest.mark.slow
def test_long_work_says_at_a_terminal_what_is_at_work_and_nothing_in_a_pipe(folder: Path) -> None:
    words = json.dumps([*COMMANDS.values()])
    plain = subprocess.run([sys.executable, "-c", AT_ONCE, words], capture_output=True, check=True)
    *notes, last = plain.stderr.splitlines()
    assert last.startswith(b"1 group, "), "what report says of its page"
    assert [note[:19] for note in notes] == [b"this judged a plan "], (
        "what gate says of what it judged, and no word more"
    )
    result, shown = at_a_terminal(AT_ONCE, words, folder=folder)
    assert result == plain.stdout
    assert [bar for bar in COMMANDS if bar not in shown] == []
    assert shown.rpartition("\x1b[?25")[2][:1] == "h", "the cursor is there again"


WAITING = """\
import sys, time
from apportion.cli import progress

progress.AFTER_S = 0.01
with progress.slow("reading", 3) as begin:
    begin("first")
    while begin.__self__._bar is None:
        time.sleep(0.01)
    begin("\x1b[31msecond")
    if sys.argv[1] == "late":
        raise SystemExit(0)
"""


@pytest.mark.parametrize("end", ["well", "late"])
def test_a_bar_that_a_timer_brought_up_counts_on_and_goes_however_the_work_ends(end: str, folder: Path) -> None:
    _, shown = at_a_terminal(WAITING, end, folder=folder)
    assert "reading" in shown or "first" in shown, "whichever the timer came upon"
    assert "0/3" in shown
    assert "1/3" in shown
    assert "second" in shown
    assert "\x1b[31msecond" not in shown, "a name is data"
    assert shown.rpartition("\x1b[?25")[2][:1] == "h"


def test_work_that_is_over_at_once_shows_nothing_and_does_not_load_rich(folder: Path) -> None:
    program = (
        "import sys; from apportion.cli import main, progress; progress.AFTER_S = 1000.0\n"
        "main(['plan', 'group.json']); sys.exit('rich' in sys.modules)"
    )
    result, shown = at_a_terminal(program, folder=folder)
    assert (shown, b"clicks" in result or b"consumer-1" in result) == ("", True)
