"""Temporary folders, each named after its process; making one removes those of processes that are no more.

A process that was killed cannot clean up, and a build that starts no Spark may run every minute: so whoever makes a
folder first removes what the killed left, whichever part of the pipeline made it.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Final

PREFIX: Final = "apportion-spark-"
"""Begins the name of every temporary folder, before the number of the process that it is of."""


def scratch_folder(within: str | None = None) -> Path:
    """A new folder, to be removed by the caller.

    within
        The folder to make it in; None: where the system has temporary ones.
    """
    _remove_orphans(Path(within or tempfile.gettempdir()))
    return Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-", dir=within))


def _remove_orphans(parent: Path) -> None:
    """Remove the folders of dead processes; nothing where the system does not tell which processes live."""
    if not Path("/proc/self").exists():
        return
    for folder in parent.glob(f"{PREFIX}*"):
        owner = folder.name.removeprefix(PREFIX).split("-")[0]
        if owner.isdigit() and not Path("/proc", owner).exists():
            shutil.rmtree(folder, ignore_errors=True)
