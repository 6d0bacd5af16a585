"""Where Spark's workers find PySpark: installed, compiled once, rather than in the archives that Spark puts before it.

Spark's JVM names ``python/lib/pyspark.zip`` and Py4J's archive first in the path of its workers. Nothing in an archive
is compiled, so each daemon compiles what it imports of them, for a CPU second; and each worker reads their lists of
files again. In an installed PySpark they hold what stands beside them.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Final

_PACKAGES: Final = ("pyspark", "py4j")


def without_archives(path: Sequence[str]) -> list[str]:
    """A path of modules without Spark's archives, where they belong to the PySpark that is found without them.

    Archives of another installation stay, and so does everything where PySpark or Py4J is not installed.
    """
    folders = [entry for entry in path if not _is_archive(entry)]
    origins = {name: spec.origin for name in _PACKAGES if (spec := PathFinder.find_spec(name, folders)) is not None}
    if len(folders) == len(path) or len(origins) < len(_PACKAGES) or origins["pyspark"] is None:
        return list(path)
    archives = (Path(origins["pyspark"]).parent / "python" / "lib").resolve()
    return [entry for entry in path if not (_is_archive(entry) and Path(entry).resolve().parent == archives)]


def _is_archive(entry: str) -> bool:
    name = Path(entry).name
    return name == "pyspark.zip" or (name.startswith("py4j-") and name.endswith("-src.zip"))
