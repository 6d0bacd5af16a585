"""A dump as Spark's tables, in any place and any form of files; and which files these are."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from filecmp import cmp
from hashlib import blake2b
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

import pyarrow.parquet as pq
from pyspark.sql import functions as sql

from apportion.errors import BadInput
from apportion.sources import dump_files
from apportion.sources.dump_files import ENDS, RECORDS, TOPICS, DumpFiles, Forms
from apportion.spark import lake
from apportion.spark.arrow_rows import united
from apportion.spark.location import Location, check_catalog
from apportion.spark.schemas import schema_of
from apportion.spark.session import AS_IT_STANDS
from apportion.tables import schemas

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NAMES: Final = ("records", "ends", "samples", "topics")
_COLUMNS: Final = {"records": RECORDS, "ends": ENDS, "samples": ENDS, "topics": TOPICS}
_TABLES: Final = {
    "records": schemas.RECORDS, "ends": schemas.ENDS, "samples": schemas.ENDS, "topics": schemas.TOPICS
}  # fmt: skip

_NO_CHECKSUMS: Final = {"fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem", "fs.file.impl.disable.cache": "true"}
"""A ``.x.parquet.crc`` that Spark left beside a file which was written anew since must not make it unreadable."""


@dataclass(frozen=True)
class Dump:
    """A dump's tables, unread.

    files
        Of each of ``NAMES`` its files, each with what is another when the file is: "" of one that never changes. None
        where the place does not tell.
    """

    spark: SparkSession
    location: Location
    files: Mapping[str, Mapping[str, str]] | None
    _forms: Mapping[str, Forms] = field(default_factory=dict)
    _frames: Mapping[str, DataFrame | None] = field(default_factory=dict)

    def read(self, name: str, files: Collection[str] | None = None) -> DataFrame:
        """A table: (key, value, partition, offset, timestamp), the columns of ``ends`` or those of ``topics``.

        files
            Those of them that are read; all by default.
        """
        if name in self._forms:
            forms = self._forms[name]
            chosen = forms if files is None else {file: form for file, form in forms.items() if str(file) in files}
            return _table(self.spark, name, chosen)
        frame = self._frames[name]
        if frame is None or (files is not None and not files):
            return _table(self.spark, name, {})
        return frame if files is None else _columns_of(_parquet(self.spark, sorted(files)), name, self.location)

    def count(self, files: Collection[str] | None) -> int:
        """How many records there are in some files, or in all; of plain files their footers show it."""
        forms = self._forms.get("records")
        if forms is not None:
            return sum(pq.read_metadata(file).num_rows for file in forms if files is None or str(file) in files)
        return self.read("records", files).count()


def open_dump(spark: SparkSession, location: Location) -> Dump:
    """The tables of a dump: plain files in a folder or below a URI, Delta tables in either, or a catalog's.

    Raises
        BadInput: there is no dump, or a column is missing or of the wrong type.
    """
    if location.kind == "folder" and not is_delta(location):
        return _of_files(spark, location, dump_files.find(location.folder))
    if location.kind == "catalog":
        check_catalog(spark, location)
    frames: dict[str, DataFrame | None] = {}
    files: dict[str, Mapping[str, str]] = {}
    for name in NAMES:
        frame, files[name] = _found(spark, location, name)
        if frame is None and name in ("records", "ends"):
            raise BadInput(str(location), f"no table {name}", "a dump: a place that a capture made, or files of one")
        frames[name] = None if frame is None else _columns_of(frame, name, location)
    return Dump(spark, location, files if files["records"] else None, {}, frames)


def is_delta(location: Location) -> bool:
    """Whether a local folder holds a dump of Delta tables."""
    try:
        return (location.folder / "records" / "_delta_log").is_dir()
    except PermissionError:  # reading the records says so, and by the folder's name
        return False


def _of_files(spark: SparkSession, location: Location, files: DumpFiles) -> Dump:
    forms = {name: getattr(files, name) for name in NAMES}
    # A capture writes the newest sample twice, and topics anew each time: most are what they were, byte by byte.
    newest = list(files.samples)[-1:]
    forms["ends"] = {file: form for file, form in files.ends.items() if not newest or not cmp(file, newest[0], False)}
    known = {
        name: {str(file): f"{(stat := file.stat()).st_size} {stat.st_mtime_ns}" for file in sorted(paths)}
        for name, paths in forms.items()
    }
    known["topics"] = {str(file): blake2b(file.read_bytes()).hexdigest() for file in sorted(files.topics)}
    return Dump(spark, location, known, forms)


def _found(spark: SparkSession, location: Location, name: str) -> tuple[DataFrame | None, Mapping[str, str]]:
    """A table of a dump as it is now, and its files; None if it is missing."""
    tables, named = lake.tables_in(location), lake.in_dump(location, name)
    version = lake.last_commit(spark, tables, named)["version"]
    if version is not None or (location.kind == "catalog" and lake.is_there(spark, tables, named)):
        frame = tables.read(spark, named, version)
        # A file of Delta's, or of another table format's, is never written anew under its name.
        return frame, dict.fromkeys(sorted(map(unquote, frame.inputFiles())), "")
    for folder in () if location.kind == "catalog" else (name, f"{name}.parquet"):
        try:
            # A reader of whole files tells of each without opening it.
            listed = spark.read.format("binaryFile").options(**AS_IT_STANDS, pathGlobFilter="[!._]*.parquet")
            rows = listed.load(location.path(folder)).select("path", "length", "modificationTime").collect()
        except Exception as error:
            if lake.is_missing(error):
                continue
            raise
        if rows:
            files = {unquote(row["path"]): f"{row['length']} {row['modificationTime']}" for row in sorted(rows)}
            return _parquet(spark, files), files
    return None, {}


def _parquet(spark: SparkSession, files: Collection[str]) -> DataFrame:
    """These files, as they are."""
    # Elsewhere than on a local disk the option would stay with the store's driver in each executor, which makes its
    # local drafts through it, and fails: the first one that asks for a driver decides its settings.
    options = _NO_CHECKSUMS if all(file.startswith(("file:", "/")) for file in files) else {}
    return spark.read.options(**options, **AS_IT_STANDS).parquet(*files)


def _columns_of(frame: DataFrame, name: str, location: Location | None) -> DataFrame:
    """Exactly the columns of a table of a dump, of its types.

    location
        Where they are; None where their types were checked before.
    """
    fields, types = schema_of(_TABLES[name]), {field.name: field.dataType.simpleString() for field in frame.schema}
    selected = []
    for column in _COLUMNS[name]:
        kind = fields[column].dataType
        needed, actual = kind.simpleString(), types.get(column)
        values = sql.col(f"`{column}`")
        if actual is None:
            raise BadInput(f"{location}: {name}, column {column}", "no such column", f"one of {needed}")
        if (needed, actual) == ("timestamp", "bigint"):
            # Spark has no nanoseconds and reads them as numbers. "div" stays among whole numbers: "/" would go through
            # doubles, which hold no nanoseconds of our days.
            values = sql.expr(f"timestamp_micros(`{column}` div 1000)")
        elif location is not None and actual != needed and not any({actual, needed} <= kinds for kinds in _ALIKE):
            raise BadInput(f"{location}: {name}, column {column}", f"type {actual}", needed)
        selected.append(values.cast(kind).alias(column))
    return frame.select(*selected)


_ALIKE: Final = (
    {"tinyint", "smallint", "int", "bigint"}, {"timestamp", "timestamp_ntz"}, {"void", "string"}
)  # fmt: skip
"""Types of one kind: whole numbers of any size, times with a zone or without."""


def _table(spark: SparkSession, name: str, files: Forms) -> DataFrame:
    """The files as one table; files of one form are read together."""
    forms: dict[tuple[str, ...], list[str]] = {}
    for file, stored in files.items():
        forms.setdefault(tuple(stored.values()), []).append(str(file))
    if not forms:
        return spark.createDataFrame([], schema_of(_TABLES[name])).select(*_COLUMNS[name])
    return united([_columns_of(_parquet(spark, paths), name, None) for paths in forms.values()])
