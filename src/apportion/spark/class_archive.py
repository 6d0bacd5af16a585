"""Java's classes of a session, kept in the user's cache: the next start maps them and need not parse Spark's jars.

A start then takes 3.6 CPU seconds in place of 6.0, and 3.0 s in place of 5.1 (JDK 17, Spark 4.2). Once for each Java
and each Spark a process of its own writes the archive (JEP 350), after a session without one has ended: it takes 18 CPU
seconds at a low priority, and a session that writes its own starts twice as slowly. The JVM passes over an archive
that does not fit its classes or options. One that was cut would crash it: so its name says how long it is.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

ARCHIVES_MAX: Final = 3
"""So many archives stay, of some 150 MB each: those of the Javas and Sparks that were used last."""
WRITING_S: Final = 600.0
"""A draft older than this was left by a process that was killed."""
_QUIET: Final = "-Xlog:cds=off,cds+dynamic=off"


def folder() -> Path:
    """Where archives lie: ``apportion/classes`` of the user's cache."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "apportion" / "classes"


def options(java: str) -> list[str]:
    """Options of a JVM that reads the archive; none if there is no whole one for this Java and this Spark.

    java
        The program's path.
    """
    with suppress(OSError):
        archive = _archive(_name(java))
        if archive is not None and not _needs_quotes(archive):
            os.utime(archive)
            return [f"-XX:SharedArchiveFile={archive}", _QUIET]
    return []


def write_later(java: str) -> None:
    """Start the process that writes the archive, unless it is there or being written, or the cache is read-only."""
    with suppress(OSError):
        name = _name(java)
        draft = folder() / f"{name}.draft"
        if _archive(name) is not None or _needs_quotes(draft):
            return
        folder().mkdir(parents=True, exist_ok=True)
        _tidy()
        os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        silent = subprocess.DEVNULL
        ours = {key: value for key, value in os.environ.items() if not key.startswith(("APPORTION_SPARK", "PYSPARK"))}
        recording = f"-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:ArchiveClassesAtExit={draft} {_QUIET}"
        subprocess.Popen(
            [sys.executable, "-m", "apportion.spark.class_archive", str(draft)],
            env={**ours, "TMPDIR": str(folder()), "APPORTION_SPARK_CONF": f"spark.driver.extraJavaOptions={recording}"},
            stdin=silent, stdout=silent, stderr=silent, start_new_session=True, cwd="/",
        )  # fmt: skip


def _name(java: str) -> str:
    """An archive's dependencies, as the first part of its name: Java's own classes, and Spark's jars."""
    import pyspark

    classes = Path(java).resolve().parents[1] / "lib" / "modules"
    jars = Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent) / "jars"
    stats = [(str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in (classes, jars)]
    return blake2b(repr((pyspark.__version__, stats)).encode(), digest_size=8).hexdigest()


def _archive(name: str) -> Path | None:
    """The archive of this name that is as long as its name says."""
    whole = (path for path in folder().glob(f"{name}-*.jsa") if path.stem == f"{name}-{path.stat().st_size}")
    return next(whole, None)


def _needs_quotes(archive: Path) -> bool:
    """Whether a list of options, or of settings, would fall apart at this path."""
    return any(mark in str(archive) for mark in " ;\"'\\")


def _tidy() -> None:
    """Remove archives that were not used lately, and drafts that will not be finished."""
    by_use = sorted(folder().glob("*.jsa"), key=lambda path: path.stat().st_mtime, reverse=True)
    dropped = [path for path in folder().glob("*.draft") if time.time() - path.stat().st_mtime > WRITING_S]
    for path in [*by_use[ARCHIVES_MAX - 1 :], *dropped]:
        path.unlink(missing_ok=True)


def write(draft: Path) -> None:
    """Run a small job in a JVM that records its classes (by its options), end it, and give the draft its name."""
    from pyspark import SparkContext

    from apportion.spark import session

    try:
        os.nice(5)
        with session.session() as spark:
            spark.range(10).selectExpr("sum(id)").collect()
        gateway: Any = SparkContext._gateway
        gateway.shutdown()
        gateway.proc.stdin.close()
        if gateway.proc.wait(WRITING_S) == 0:
            draft.replace(draft.with_name(f"{draft.stem}-{draft.stat().st_size}.jsa"))
    finally:
        draft.unlink(missing_ok=True)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
