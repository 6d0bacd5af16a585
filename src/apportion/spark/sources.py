"""A dump as Spark's tables, wherever it is and whatever form its files store their columns in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

import pyarrow.parquet as pq
from pyspark.sql import functions as sql

from apportion.errors import BadInput
from apportion.inputs import dump_files
from apportion.inputs.dump_files import ENDS, RECORDS, TOPICS, DumpFiles, Forms
from apportion.inputs.parquet import INT96, Check
from apportion.spark import delta_log, lake, schemas
from apportion.spark.location import Location, check_catalog
from apportion.spark.session import AS_IT_STANDS, Asked, asked

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType

    from apportion.spark.stores import StoreAddress

ROWS_A_TASK: Final = 250_000
"""Where a file gives Spark no smaller pieces, rows are dealt out anew in pieces of this size."""


_NO_CHECKSUMS: Final = {
    "fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "fs.file.impl.disable.cache": "true",
}
"""A ``.x.parquet.crc`` that Spark left beside a file which was written anew since must not make it unreadable."""


@dataclass(frozen=True)
class Copied:
    """Copies of a dump's files, which go with ``logs``; and of which version or files of each table they are."""

    logs: delta_log.Logs
    files: DumpFiles
    pins: Mapping[str, int | list[str]]


@dataclass(frozen=True)
class Dump:
    """A dump's tables, unread: Spark learns of one when it is asked for, and reads it when a result is.

    session
        Gives the session, which may start only then.
    count
        Rows of ``records``.
    records_in
        The records for a session: those of the same files or version, whatever a capture put beside them since.
    ends_in, topics_in
        The other tables for a session.
    files
        The plain files of a local folder that it is read from; None where it is kept in another way.
    copied
        What ``delta_log`` copied of one that is not too large, for what Spark is not needed for.
    """

    session: Asked
    count: int
    records_in: Callable[[SparkSession], DataFrame]
    ends_in: Callable[[SparkSession], DataFrame]
    topics_in: Callable[[SparkSession], DataFrame]
    files: DumpFiles | None = None
    copied: Copied | None = None

    @property
    def at_hand(self) -> DumpFiles | None:
        """The rows in files that this process can read; None where there are none."""
        return self.copied.files if self.copied is not None else self.files

    @cached_property
    def spark(self) -> SparkSession:
        """The session that reads it."""
        return self.session()

    @cached_property
    def records(self) -> DataFrame:
        """(key, value, partition, offset, timestamp)"""
        return self.records_in(self.spark)

    @cached_property
    def ends(self) -> DataFrame:
        """Every sample that was taken, the newest and those in ``samples/``, each once."""
        return self.ends_in(self.spark)

    @cached_property
    def topics(self) -> DataFrame:
        """(topic, topic_id, partition, racks)"""
        return self.topics_in(self.spark)


def open_dump(spark: SparkSession | Asked, location: Location, store: StoreAddress | None = None) -> Dump:
    """The tables of a dump: plain files in a folder or below a URI, Delta tables in either, or a catalog's.

    store
        The place, where this process reaches it.
    Raises
        BadInput: there is no dump, or a column is missing or of the wrong type.
    """
    if location.kind == "folder" and not is_delta(location):
        return read_dump(spark, location.folder)
    session = asked(spark)
    if location.kind == "catalog":
        check_catalog(session(), location)
    return _of_lake(session, location, lake.logs_of(session, lake.tables_in(location), store))


def is_delta(location: Location) -> bool:
    """Whether a local folder holds a dump of Delta tables."""
    try:
        return (location.folder / "records" / "_delta_log").is_dir()
    except PermissionError:  # reading the records says so, and by the folder's name
        return False


def check_dump(folder: Path) -> int:
    """Rows of a dump's records, if it is one; reads the files' footers alone, needs no Spark, raises as ``find``."""
    return sum(pq.read_metadata(file).num_rows for file in dump_files.find(folder).records)


def read_dump(spark: SparkSession | Asked, folder: Path) -> Dump:
    """The tables of ``DUMP``; topics has no rows where the dump has no ``topics.parquet``. Raises as ``find``."""
    return read_files(spark, dump_files.find(folder))


def read_files(spark: SparkSession | Asked, files: DumpFiles) -> Dump:
    """The tables of files that were found before."""
    footers = [pq.read_metadata(file) for file in files.records]
    count = sum(footer.num_rows for footer in footers)
    pieces = -(-count // ROWS_A_TASK)

    def records_in(session: SparkSession) -> DataFrame:
        records = _table(session, files.records, RECORDS, schemas.RECORDS)
        return records.repartition(pieces) if pieces > sum(footer.num_row_groups for footer in footers) else records

    def ends_in(session: SparkSession) -> DataFrame:
        return _table(session, {**files.samples, **files.ends}, ENDS, schemas.ENDS).distinct()

    def topics_in(session: SparkSession) -> DataFrame:
        return _table(session, files.topics, TOPICS, schemas.TOPICS)

    return Dump(asked(spark), count, records_in, ends_in, topics_in, files)


def _of_lake(spark: Asked, location: Location, logs: delta_log.Logs | None) -> Dump:
    """Delta tables, or files, as they are now; Spark is asked of what was not copied by ``logs``."""
    copied = None if logs is None else _copied(logs, location)
    pins = {} if copied is None else copied.pins
    records = _pinned(spark, location, "records", RECORDS, schemas.RECORDS, pins)
    ends = _pinned(spark, location, "ends", ENDS, schemas.ENDS, pins)
    if records is None or ends is None:
        raise _missing(location, "records" if records is None else "ends")
    topics = _pinned(spark, location, "topics", TOPICS, schemas.TOPICS, pins)
    samples = _pinned(spark, location, "samples", ENDS, schemas.ENDS, pins)

    def ends_in(session: SparkSession) -> DataFrame:
        return (ends(session) if samples is None else ends(session).unionByName(samples(session))).distinct()

    def topics_in(session: SparkSession) -> DataFrame:
        return _table(session, {}, TOPICS, schemas.TOPICS) if topics is None else topics(session)

    if copied is not None:
        count = sum(pq.read_metadata(file).num_rows for file in copied.files.records)
        return Dump(spark, count, records, ends_in, topics_in, copied=copied)
    nobody = sql.col("partition").isNull() | sql.col("offset").isNull() | sql.col("timestamp").isNull()
    seen = records(spark()).agg(sql.count(sql.lit(1)), sql.count(sql.when(nobody, 1))).collect()[0]
    if seen[1]:
        raise BadInput(f"{location}: records", f"{seen[1]} rows without a partition, offset or time", "each has them")
    dump = Dump(spark, seen[0], records, ends_in, topics_in)
    _ = dump.ends, dump.topics  # a column that is missing is told before anything is made
    return dump


def _copied(logs: delta_log.Logs, location: Location) -> Copied | None:
    """A dump's files on this machine; None where they are too large, or anything about them is not as it should be.

    Raises
        BadInput: there are no records, or no log ends.
    """
    pins: dict[str, int | list[str]] = {}
    files: dict[str, list[Path]] = {"records": [], "ends": [], "samples": [], "topics": []}
    size = 0
    for name in files:
        paths = _listed(logs, name)
        if paths == {} and name in ("records", "ends"):
            raise _missing(location, name)
        if paths is None:
            return None
        if isinstance(paths, int):
            version = logs.at(name, paths)
            copies = None if version is None else logs.copies(name, paths, delta_log.BYTES_MAX - size)
            size += 0 if version is None else version.size
        else:
            size += sum(paths.values())
            if size > delta_log.BYTES_MAX or len(paths) > delta_log.FILES_MAX:
                return None
            there = [path for one in paths if (path := logs.copy(one)) is not None]
            copies = there if len(there) == len(paths) else None
        if copies is None:
            return None
        if isinstance(paths, int):
            pins[name] = paths
        elif paths:
            pins[name] = [f"{location.path()}/{path}" for path in paths]
        files[name] = copies
    try:
        known = dump_files.checked(files["records"], files["ends"], files["samples"], files["topics"])
    except BadInput:  # a query says it by the names that the files have there
        return None
    return Copied(logs, known, pins) if all(map(_tells_nulls, known.records)) else None


def _missing(location: Location, name: str) -> BadInput:
    return BadInput(str(location), f"no table {name}", "a dump: a place that a capture made, or files of one")


def _listed(logs: delta_log.Logs, name: str) -> int | dict[str, int] | None:
    """The newest version of a Delta table, or the plain files and bytes of ``NAME`` or ``NAME.parquet``; None: else."""
    for folder in (name, f"{name}.parquet"):
        there = logs.listed(folder)
        if there is None:
            continue
        if "_delta_log" in there:
            version = logs.newest(folder) if folder == name else None
            return None if version is None else version.number
        if set(there) == {folder}:  # a file
            return {folder: there[folder]}
        shown = {one: size for one, size in there.items() if not one.startswith((".", "_"))}
        if not all(one.endswith(".parquet") and size for one, size in shown.items()):
            return None
        if shown:
            return {f"{folder}/{one}": size for one, size in sorted(shown.items())}
    return {}


def _tells_nulls(file: Path) -> bool:
    """Whether a file's footer tells of each column that must have values how many it has not."""
    footer = pq.read_metadata(file)
    for group in map(footer.row_group, range(footer.num_row_groups)):
        for column in map(group.column, range(group.num_columns)):
            if column.path_in_schema in dump_files.FILLED and not (
                column.statistics is not None and column.statistics.has_null_count
            ):
                return False
    return True


def _pinned(
    spark: Asked, location: Location, name: str, columns: Mapping[str, Check], table: schemas.TableSchema,
    pins: Mapping[str, int | list[str]],
) -> Callable[[SparkSession], DataFrame] | None:  # fmt: skip
    """A table of a dump in the version, or of the files, that it has now, for any session; None where it is missing.

    pins
        What is known of that already; empty: nothing.
    """
    tables, named = lake.bronze(location, name)
    pin = pins.get(name)
    if pins and pin is None:
        return None
    version = pin if isinstance(pin, int) else None if pins else lake.newest_version(spark(), tables, named)
    if version is not None:
        return lambda session: _columns_of(tables.read(session, named, version), location, name, columns, table)
    if location.kind == "catalog" and lake.is_there(spark(), tables, named):
        return lambda session: _columns_of(tables.read(session, named, None), location, name, columns, table)
    paths = pin if isinstance(pin, list) else _files_of(spark(), location, name)
    if paths is None:
        return None

    # Elsewhere than on a local disk the option would stay with the store's driver in each executor, which makes its
    # local drafts through it, and fails: the first one that asks for a driver decides its settings.
    options = _NO_CHECKSUMS if all(path.startswith("file:") for path in paths) else {}

    def read(session: SparkSession) -> DataFrame:
        frame = session.read.options(**options, **AS_IT_STANDS).parquet(*paths)
        return _columns_of(frame, location, name, columns, table)

    return read


def _files_of(spark: SparkSession, location: Location, name: str) -> list[str] | None:
    """The plain Parquet files below ``NAME`` or ``NAME.parquet`` of a URI."""
    if location.kind == "catalog":
        return None
    for folder in (name, f"{name}.parquet"):
        try:
            reader = spark.read.options(**AS_IT_STANDS).option("pathGlobFilter", "*.parquet")
            files = reader.parquet(location.path(folder)).inputFiles()
        except Exception as error:
            if lake.is_missing(error) or "UNABLE_TO_INFER_SCHEMA" in str(error):
                continue
            raise
        if files:
            return [unquote(file) for file in files]
    return None


def _columns_of(
    frame: DataFrame, location: Location, name: str, columns: Mapping[str, Check], table: schemas.TableSchema
) -> DataFrame:
    """Exactly these columns, of the table's types."""
    from pyspark.sql.types import LongType

    there = {field.name: field.dataType for field in frame.schema}
    chosen = []
    for column in columns:
        wanted = table.schema[column].dataType
        if column not in there:
            raise BadInput(f"{location}: {name}, column {column}", "no such column", f"one of {wanted.simpleString()}")
        if column in ("timestamp", "at") and isinstance(there[column], LongType):  # nanoseconds, see _stored
            chosen.append(_stored(column, "timestamp[ns]").cast(wanted).alias(column))
            continue
        if there[column].simpleString() != wanted.simpleString() and not _widens(there[column], wanted):
            actual = f"type {there[column].simpleString()}"
            raise BadInput(f"{location}: {name}, column {column}", actual, wanted.simpleString())
        chosen.append(sql.col(f"`{column}`").cast(wanted).alias(column))
    return frame.select(*chosen)


def _widens(actual: DataType, wanted: DataType) -> bool:
    """Whether a column is of another kind of the same: whole numbers of any size, times with a zone or without."""
    kinds = ({"tinyint", "smallint", "int", "bigint"}, {"timestamp", "timestamp_ntz"}, {"void", "string"})
    return any({actual.simpleString(), wanted.simpleString()} <= kind for kind in kinds)


def _table(spark: SparkSession, files: Forms, columns: Mapping[str, Check], table: schemas.TableSchema) -> DataFrame:
    """The files as one table of exactly these columns; files of one form are read together."""
    forms: dict[tuple[str, ...], list[str]] = {}
    for file, stored in files.items():
        forms.setdefault(tuple(stored[name] for name in columns), []).append(str(file))
    kinds = {name: table.schema[name].dataType for name in columns}
    if not forms:
        return spark.range(0).select(*[sql.lit(None).cast(kind).alias(name) for name, kind in kinds.items()])
    whole: DataFrame | None = None
    for form, paths in forms.items():
        read = spark.read.options(**_NO_CHECKSUMS, **AS_IT_STANDS).parquet(*paths)
        stored = dict(zip(columns, form, strict=True))
        part = read.select(*[_stored(name, stored[name]).cast(kind).alias(name) for name, kind in kinds.items()])
        whole = part if whole is None else whole.unionByName(part)
    assert whole is not None  # noqa: S101 - there is a form
    return whole


def _stored(name: str, form: str) -> Column:
    """A column as Spark reads it, nanoseconds mended: Spark has none and reads them as numbers."""
    if form.startswith("timestamp[ns") and form != INT96:
        # "div" stays among whole numbers: "/" would go through doubles, which hold no nanoseconds of our days.
        return sql.expr(f"timestamp_micros(`{name}` div 1000)")
    return sql.col(f"`{name}`")
