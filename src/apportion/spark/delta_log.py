"""What the logs of a place's Delta tables say, and copies of their files: by this process, without a job of Spark's.

A table's log is a folder of JSON files, one a commit, and now and then a checkpoint of all before it in Parquet (the
protocol of Delta, "Delta Log Entries"). A small build asks for a few rows of each table, and for how many there are:
Spark works that out in some jobs a table, which cost more than the rows. A file of a Delta table never changes, so that
a copy of it stays right. What this module does not know of (deletion vectors, renamed columns, partitions) it leaves to
Spark.
"""

from __future__ import annotations

import json
import os
import shutil
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow.parquet as pq

from apportion.errors import Unavailable
from apportion.spark.scratch import scratch_folder
from apportion.spark.shelves import Files, HadoopShelf, is_connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BYTES_MAX: Final = 256 << 20
"""Of a table, or of a dump, that are copied to this machine; more is read by Spark's jobs."""
FILES_MAX: Final = 200
"""More files are read by Spark's jobs too: each is copied by itself."""
_LOG: Final = "_delta_log"


@dataclass(frozen=True)
class Stored:
    """A file of a table: its path below the table's, bytes, and rows, if the log tells them."""

    path: str
    size: int
    rows: int | None


@dataclass(frozen=True)
class Version:
    """A table as a commit left it.

    files
        By their paths.
    at_ms
        The time of the newest commit.
    readable
        Whether the rows are all that is in the files, in columns of the same names.
    writable
        Whether a writer needs to know of nothing that is newer than Delta's second version.
    """

    number: int
    files: Mapping[str, Stored] = field(default_factory=dict)
    at_ms: int | None = None
    readable: bool = True
    writable: bool = True

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files.values())

    @property
    def rows(self) -> int | None:
        """Rows of all files; None where the log does not tell, or not all of them count."""
        counts = [file.rows for file in self.files.values()]
        if not self.readable or None in counts:
            return None
        return sum(filter(None, counts))


class Logs:
    """The logs of the Delta tables below a root, and copies of files there in a scratch folder of this process.

    scratch
        Where that folder is made; None: where the system has temporary ones.
    """

    def __init__(self, files: Files, scratch: str | None = None) -> None:
        self._files = files
        self._versions: dict[str, dict[int, Version]] = {}
        self._scratch = scratch_folder(scratch)
        weakref.finalize(self, shutil.rmtree, self._scratch, ignore_errors=True)

    def newest(self, name: str) -> Version | None:
        """The newest version of a table; None where there is no table, or its log is of a form that is not known."""
        known = self._versions.setdefault(name, {})
        last = known[max(known)] if known else self._begin(name)
        if last.number >= 0:
            known[last.number] = last
        while (text := self._files.read(file := f"{name}/{_LOG}/{last.number + 1:020d}.json")) is not None:
            last = _after(last, _actions(file, text))
            known[last.number] = last
        return last if last.number >= 0 else None

    def at(self, name: str, number: int | None) -> Version | None:
        """A version of a table, None the newest; None where it is not known."""
        newest = self.newest(name)
        return newest if number is None else self._versions[name].get(number)

    def _begin(self, name: str) -> Version:
        """As the newest checkpoint left it; version -1 before all commits."""
        number = _checkpoint_named(self._files.read(f"{name}/{_LOG}/_last_checkpoint"))
        if number is None:
            return Version(-1)
        copied = self.copy(f"{name}/{_LOG}/{number:020d}.checkpoint.parquet")
        if copied is None:  # in several parts, or in the second form
            return Version(number, readable=False)
        columns = pq.read_table(copied)
        known = columns.select([one for one in ("add", "metaData", "protocol") if one in columns.column_names])
        return _after(Version(number - 1), known.to_pylist())

    def copies(self, name: str, number: int | None, bytes_max: int = BYTES_MAX) -> list[Path] | None:
        """A version's files, copied here; None where they are too large, or their rows are not the table's."""
        version = self.at(name, number)
        if version is None or not version.readable or version.size > bytes_max or len(version.files) > FILES_MAX:
            return None
        copied = [self.copy(f"{name}/{path}") for path in sorted(version.files)]
        return None if None in copied else [path for path in copied if path is not None]

    def copy(self, name: str) -> Path | None:
        """A copy of a file, made once; None where there is no such file."""
        target = self._scratch / name
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            draft = target.with_name(f".{target.name}.draft")
            if not self._files.copy(name, draft):
                return None
            os.replace(draft, target)
        return target

    def listed(self, name: str) -> dict[str, int] | None:
        """Names and bytes of what is right in a folder; None where it is none."""
        return self._files.listed(name)


def logs_of(spark: SparkSession, root: str) -> Logs | None:
    """The logs below a URI; None over Spark Connect, which has no file system of the driver's."""
    if is_connect(spark):
        return None
    scratch = spark.sparkContext.getConf().get("spark.local.dir", "") or ""
    first = scratch.split(",")[0].strip()
    # A cluster's may be there on its executors alone.
    return Logs(HadoopShelf(spark, root), first if os.path.isdir(first) else None)


def _checkpoint_named(text: str | None) -> int | None:
    """The version that ``_last_checkpoint`` names; None where it names none, as one that a power cut left empty."""
    try:
        return None if text is None else int(json.loads(text)["version"])
    except (ValueError, KeyError, TypeError):
        return None


def _actions(file: str, text: str) -> list[dict[str, Any]]:
    """The actions of a commit, one a line.

    A name in it may hold what Unicode calls the end of a line: only a line feed is one here.
    """
    try:
        return [json.loads(line) for line in text.split("\n") if line.strip()]
    except ValueError as error:
        raise Unavailable(f"{file} cannot be read to its end; restore the file, or make the tables anew") from error


def _after(before: Version, actions: list[dict[str, Any]]) -> Version:
    """The version that some actions make of the one before."""
    files, at_ms, readable, writable = dict(before.files), before.at_ms, before.readable, before.writable
    for action in actions:
        for kind, fields in action.items():
            if fields is None:
                continue
            if kind == "add":
                path = fields["path"]
                files[path] = Stored(path, int(fields["size"]), _rows(fields.get("stats")))
                at_ms = max(at_ms or 0, int(fields.get("modificationTime") or 0))
            elif kind == "remove":
                files.pop(fields["path"], None)
            elif kind == "commitInfo":
                at_ms = int(fields.get("timestamp") or 0) or at_ms
            elif kind == "protocol":
                writable = _plain_writer(fields)
            if kind in _READABLE:
                readable = readable and _READABLE[kind](fields)
    return Version(before.number + 1, files, at_ms, readable, writable)


def _plain_file(add: Mapping[str, Any]) -> bool:
    """Whether all rows of a file count, and its name is one right below the table."""
    path = str(add["path"])
    return not (add.get("deletionVector") or add.get("partitionValues") or "/" in path or "%" in path or ":" in path)


def _rows(stats: str | None) -> int | None:
    try:
        return int(json.loads(stats or "")["numRecords"])
    except (ValueError, KeyError, TypeError):
        return None


def _plain_protocol(protocol: Mapping[str, Any]) -> bool:
    # Readers of the first version need not know of anything that changes rows.
    return protocol.get("minReaderVersion") == 1


def _plain_writer(protocol: Mapping[str, Any]) -> bool:
    return protocol.get("minWriterVersion", 0) <= 2 or set(protocol.get("writerFeatures") or "?") <= _WRITER_FEATURES


def _plain_columns(table: Mapping[str, Any]) -> bool:
    configuration = dict(table.get("configuration") or {})
    return not table.get("partitionColumns") and configuration.get("delta.columnMapping.mode", "none") == "none"


_WRITER_FEATURES: Final = frozenset({"appendOnly", "invariants"})
"""Of Delta's second version, as later ones name them."""
_READABLE: Final[Mapping[str, Callable[[Mapping[str, Any]], bool]]] = {
    "add": _plain_file, "metaData": _plain_columns, "protocol": _plain_protocol,
}  # fmt: skip
"""What must hold of an action so that the rows are all that is in the files."""
