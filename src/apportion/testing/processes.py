"""Child processes that end with their parent: none outlives a test, a demo or a Ctrl-C."""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import subprocess
import weakref
from pathlib import Path
from typing import IO, Any

LIVING: weakref.WeakSet[subprocess.Popen[Any]] = weakref.WeakSet()


def start(command: list[str], *, log: IO[Any] | int | None, **options: Any) -> subprocess.Popen[Any]:
    """Start a command in a process group of its own, standard input open for as long as we live."""
    process: subprocess.Popen[Any] = subprocess.Popen(
        command, stdin=subprocess.PIPE, stderr=log, start_new_session=True, **options
    )
    LIVING.add(process)
    return process


def end(process: subprocess.Popen[Any], *, how: int = signal.SIGTERM, patience_s: float = 60) -> None:
    """Signal the process's group, wait, and kill it if it does not listen; quiet if it is gone."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, how)
    try:
        process.wait(patience_s)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):  # what was still buffered for it no longer matters
                pipe.close()


@atexit.register
def end_all() -> None:
    """Kill the processes that are left."""
    for process in list(LIVING):
        if process.poll() is None:
            end(process, how=signal.SIGKILL)


def tail(path: Path, lines: int = 15) -> str:
    """The last lines of a log."""
    with contextlib.suppress(OSError):
        return "\n".join(path.read_text(errors="replace").splitlines()[-lines:])
    return ""
