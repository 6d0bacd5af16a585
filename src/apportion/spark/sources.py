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
from apportion.spark import lake, schemas
from apportion.spark.location import Location, check_catalog
from apportion.spark.session import AS_IT_STANDS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType

ROWS_A_TASK: Final = 250_000
"""Where a file gives Spark no smaller pieces, rows are dealt out anew in pieces of this size."""


_NO_CHECKSUMS: Final = {
    "fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "fs.file.impl.disable.cache": "true",
}
"""A ``.x.parquet.crc`` that Spark left beside a file which was written anew since must not make it unreadable."""


@dataclass(frozen=True)
class Dump:
    """A dump's tables, unread: Spark learns of one when it is asked for, and reads it when a result is.

    count
        Rows of ``records``.
    records_in
        The records for a session: those of the same files or version, whatever a capture put beside them since.
    ends_in, topics_in
        The other tables for a session.
    files
        The plain files of a local folder that it is read from; None where it is kept in another way.
    """

    spark: SparkSession
    count: int
    records_in: Callable[[SparkSession], DataFrame]
    ends_in: Callable[[SparkSession], DataFrame]
    topics_in: Callable[[SparkSession], DataFrame]
    files: DumpFiles | None = None

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


def open_dump(spark: SparkSession, location: Location) -> Dump:
    """The tables of a dump: plain files in a folder or below a URI, Delta tables in either, or a catalog's.

    Raises
        BadInput: there is no dump, or a column is missing or of the wrong type.
    """
    if location.kind == "folder" and not is_delta(location):
        return read_dump(spark, location.folder)
    if location.kind == "catalog":
        check_catalog(spark, location)
    return _of_lake(spark, location)


def is_delta(location: Location) -> bool:
    """Whether a local folder holds a dump of Delta tables."""
    try:
        return (location.folder / "records" / "_delta_log").is_dir()
    except PermissionError:  # reading the records says so, and by the folder's name
        return False


def check_dump(folder: Path) -> int:
    """Rows of a dump's records, if it is one; reads the files' footers alone, needs no Spark, raises as ``find``."""
    return sum(pq.read_metadata(file).num_rows for file in dump_files.find(folder).records)


def read_dump(spark: SparkSession, folder: Path) -> Dump:
    """The tables of ``DUMP``; topics has no rows where the dump has no ``topics.parquet``. Raises as ``find``."""
    return read_files(spark, dump_files.find(folder))


def read_files(spark: SparkSession, files: DumpFiles) -> Dump:
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

    return Dump(spark, count, records_in, ends_in, topics_in, files)


def _of_lake(spark: SparkSession, location: Location) -> Dump:
    """Delta tables, or files, as they are now."""
    records = _pinned(spark, location, "records", RECORDS, schemas.RECORDS)
    ends = _pinned(spark, location, "ends", ENDS, schemas.ENDS)
    if records is None or ends is None:
        missing = "records" if records is None else "ends"
        raise BadInput(str(location), f"no table {missing}", "a dump: a place that a capture made, or files of one")
    topics = _pinned(spark, location, "topics", TOPICS, schemas.TOPICS)
    samples = _pinned(spark, location, "samples", ENDS, schemas.ENDS)
    nobody = sql.col("partition").isNull() | sql.col("offset").isNull() | sql.col("timestamp").isNull()
    seen = records(spark).agg(sql.count(sql.lit(1)), sql.count(sql.when(nobody, 1))).collect()[0]
    if seen[1]:
        raise BadInput(f"{location}: records", f"{seen[1]} rows without a partition, offset or time", "each has them")

    def ends_in(session: SparkSession) -> DataFrame:
        return (ends(session) if samples is None else ends(session).unionByName(samples(session))).distinct()

    def topics_in(session: SparkSession) -> DataFrame:
        return _table(session, {}, TOPICS, schemas.TOPICS) if topics is None else topics(session)

    dump = Dump(spark, seen[0], records, ends_in, topics_in)
    _ = dump.ends, dump.topics  # a column that is missing is told before anything is made
    return dump


def _pinned(
    spark: SparkSession, location: Location, name: str, columns: Mapping[str, Check], table: schemas.TableSchema
) -> Callable[[SparkSession], DataFrame] | None:
    """A table of a dump in the version, or of the files, that it has now, for any session; None where it is missing."""
    tables, named = lake.bronze(location, name)
    if (version := lake.newest_version(spark, tables, named)) is not None:
        return lambda session: _columns_of(tables.read(session, named, version), location, name, columns, table)
    if location.kind == "catalog" and lake.is_there(spark, tables, named):
        return lambda session: _columns_of(tables.read(session, named, None), location, name, columns, table)
    paths = _files_of(spark, location, name)
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
