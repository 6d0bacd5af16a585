"""A dump's files: found, and checked by their footers before a row is read, with Spark and without."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from apportion.errors import BadInput
from apportion.sources import parquet
from apportion.sources.parquet import BIGINT, BINARY, INT, TEXT, TEXTS, TIME, Check

RECORDS: Final = {"key": BINARY, "value": BINARY, "partition": INT, "offset": BIGINT, "timestamp": TIME}
ENDS: Final = {"topic": TEXT, "partition": INT, "begin": BIGINT, "end": BIGINT, "last_stable": BIGINT, "at": TIME}
TOPICS: Final = {"topic": TEXT, "topic_id": TEXT, "partition": INT, "racks": TEXTS}
FILLED: Final = ("partition", "offset", "timestamp")
NEEDED: Final = "a dump: a folder with records/*.parquet and ends.parquet"

Forms = dict[Path, dict[str, str]]
"""File -> column -> what it is stored as there (see ``parquet.check``)."""


@dataclass(frozen=True)
class DumpFiles:
    """The files of a dump, all of them whole, with the columns that they must have.

    records
        Those right in ``records/``; what lies deeper is somebody else's.
    ends
        The newest log ends: ``ends.parquet``, a file or a folder of files.
    samples
        Every sample of log ends that a capture took, oldest first.
    topics
        None where the dump does not know them.
    """

    records: Forms
    ends: Forms
    samples: Forms
    topics: Forms


def find(path: str | Path) -> DumpFiles:
    """The files of a dump, if the folder is one: every file whole, every column there and of its type.

    Raises
        BadInput: no such folder, no dump, a file that is cut short, a column that is missing or of the wrong type.
    """
    folder = Path(path)
    if not folder.is_dir():
        raise BadInput(str(path), "a file" if folder.exists() else "no such folder", NEEDED)
    if not (folder / "records").is_dir():
        raise BadInput(str(path), "no folder records/", NEEDED)
    records = [file for file in parquet.files(folder / "records") if file.parent == folder / "records"]
    if not records:
        raise BadInput(str(folder / "records"), "no Parquet file", "at least one *.parquet")
    ends = parquet.files(folder / "ends.parquet")
    if not ends:
        raise BadInput(str(path), "no ends.parquet", NEEDED)
    samples = [file for file in parquet.files(folder / "samples") if file.name.startswith("ends-")]
    topics = parquet.files(folder / "topics.parquet")
    return checked(records, ends, samples, topics)


def checked(records: list[Path], ends: list[Path], samples: list[Path], topics: list[Path]) -> DumpFiles:
    """These files as a dump's. Raises as ``find``."""
    whole = _all(records, RECORDS, FILLED)
    return DumpFiles(whole, _all(ends, ENDS), _all(samples, ENDS), _all(topics, TOPICS))


def _all(files: list[Path], columns: Mapping[str, Check], filled: Collection[str] = ()) -> Forms:
    return {file: parquet.check(file, columns, filled) for file in files}
