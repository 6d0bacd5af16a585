"""Temporary folders, each named after its process; making one removes those of processes that are no more.

A process that was killed cannot clean up, and a build that starts no Spark may run every minute: so whoever makes a
folder first removes what the killed left, whichever part of the pipeline made it.

Containers that share a folder do not see each other's processes. So a process holds a lock on each of its folders,
which the kernel takes from it when it dies; one of another namespace of processes is removed only if nobody has that.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

PREFIX: Final = "apportion-spark-"
"""Begins the name of every temporary folder, before the number of the process that it is of."""
YOUNG_S: Final = 60.0
"""So old a folder of another namespace must be: between making and locking it nobody has the lock."""
_LOCKED: Final[dict[Path, int]] = {}
"""Folders of this process, and what is open to hold their locks."""


def scratch_folder(within: str | None = None) -> Path:
    """A new folder, to be removed by the caller.

    within
        The folder to make it in; None: where the system has temporary ones.
    """
    _remove_orphans(Path(within or tempfile.gettempdir()))
    folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-{_namespace()}-", dir=within))
    for gone in [one for one in _LOCKED if not one.exists()]:
        with suppress(KeyError):  # another thread was here
            os.close(_LOCKED.pop(gone))
    if (opened := _lock(folder)) is not None:
        _LOCKED[folder] = opened
    return folder


def _namespace() -> str:
    """What processes must share for one to see the other's; "0" where the system does not tell."""
    try:
        return str(os.stat("/proc/self/ns/pid").st_ino)
    except OSError:
        return "0"


def _lock(folder: Path) -> int | None:
    """Hold the lock of a folder, by what is opened and returned; None where another has it, or there are no locks."""
    try:
        import fcntl

        opened = os.open(folder, os.O_RDONLY)
    except (ImportError, OSError):
        return None
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(opened)
        return None
    return opened


def _remove_orphans(parent: Path) -> None:
    """Remove the folders of dead processes; nothing where the system does not tell which processes live."""
    if not Path("/proc/self").exists():
        return
    for folder in parent.glob(f"{PREFIX}*"):
        owner, *rest = folder.name.removeprefix(PREFIX).split("-")
        if not owner.isdigit() or Path("/proc", owner).exists():
            continue
        if len(rest) < 2 or rest[0] == _namespace():
            shutil.rmtree(folder, ignore_errors=True)
        elif _is_old(folder) and (opened := _lock(folder)) is not None:
            shutil.rmtree(folder, ignore_errors=True)
            os.close(opened)


def _is_old(folder: Path) -> bool:
    try:
        return time.time() - folder.stat().st_mtime > YOUNG_S
    except OSError:
        return False
