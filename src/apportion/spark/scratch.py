"""Temporary folders, each locked by its process; making one removes those of processes that are no more.

A process that was killed cannot clean up, so whoever makes a folder first removes what the killed left. A process holds
a lock on each of its folders, which the kernel takes from it when it dies: so those of other containers, whose
processes cannot be seen, are told apart too.
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
"""Begins the name of every temporary folder."""
YOUNG_S: Final = 60.0
"""So old a folder must be to be removed: between making and locking it nobody has the lock."""
_LOCKED: Final[dict[Path, int]] = {}
"""Folders of this process, and what is open to hold their locks."""


def scratch_folder(within: str | None = None) -> Path:
    """A new folder, to be removed by the caller.

    within
        The folder to make it in; None: where the system has temporary ones.
    """
    _remove_orphans(Path(within or tempfile.gettempdir()))
    folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-", dir=within))
    for gone in [path for path in _LOCKED if not path.exists()]:
        with suppress(KeyError):  # another thread was at it too
            os.close(_LOCKED.pop(gone))
    if (opened := _lock(folder)) is not None:
        _LOCKED[folder] = opened
    return folder


def _lock(folder: Path) -> int | None:
    """Hold the lock of a folder, by the opened file that is returned; None if another has it, or there are no locks."""
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
    """Remove the folders whose locks are free; nothing if there are no locks."""
    for folder in parent.glob(f"{PREFIX}[0-9]*"):
        if _is_old(folder) and (opened := _lock(folder)) is not None:
            shutil.rmtree(folder, ignore_errors=True)
            os.close(opened)


def _is_old(folder: Path) -> bool:
    try:
        return time.time() - folder.stat().st_mtime > YOUNG_S
    except OSError:
        return False
