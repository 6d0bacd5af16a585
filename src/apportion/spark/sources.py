"""A dump as Spark's tables, whatever form its files store their columns in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow.parquet as pq
from pyspark.sql import functions as sql

from apportion.inputs import dump_files
from apportion.inputs.dump_files import ENDS, RECORDS, TOPICS, DumpFiles, Forms
from apportion.inputs.parquet import INT96, Check
from apportion.spark import schemas

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

ROWS_A_TASK: Final = 250_000
"""Where a file gives Spark no smaller pieces, rows are dealt out anew in pieces of this size."""


_NO_CHECKSUMS: Final = {
    "fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "fs.file.impl.disable.cache": "true",
}
"""A ``.x.parquet.crc`` that Spark left beside a file which was written anew since must not make it unreadable."""


@dataclass(frozen=True)
class Dump:
    """A dump's tables, unread: Spark reads them when a result is asked for.

    files
        What they are read from; a capture may have put more beside them since.
    records
        (key, value, partition, offset, timestamp)
    ends
        Every sample that was taken, the newest and those in ``samples/``.
    count
        Rows of ``records``.
    """

    files: DumpFiles
    records: DataFrame
    ends: DataFrame
    topics: DataFrame
    count: int


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
    records = _table(spark, files.records, RECORDS, schemas.RECORDS)
    ends = _table(spark, {**files.samples, **files.ends}, ENDS, schemas.ENDS)
    topics = _table(spark, files.topics, TOPICS, schemas.TOPICS)
    pieces = -(-count // ROWS_A_TASK)
    if pieces > sum(footer.num_row_groups for footer in footers):
        records = records.repartition(pieces)
    return Dump(files, records, ends.distinct(), topics, count)


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
        read = spark.read.options(**_NO_CHECKSUMS).parquet(*paths)
        stored = dict(zip(columns, form, strict=True))
        part = read.select(*[_said(name, stored[name]).cast(kind).alias(name) for name, kind in kinds.items()])
        whole = part if whole is None else whole.unionByName(part)
    assert whole is not None  # noqa: S101 - there is a form
    return whole


def _said(name: str, form: str) -> Column:
    """A column as Spark reads it, nanoseconds mended: Spark has none and reads them as numbers."""
    if form.startswith("timestamp[ns") and form != INT96:
        # "div" stays among whole numbers: "/" would go through doubles, which hold no nanoseconds of our days.
        return sql.expr(f"timestamp_micros(`{name}` div 1000)")
    return sql.col(f"`{name}`")
