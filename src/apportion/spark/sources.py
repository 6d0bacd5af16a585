"""A dump as tables: what it must hold is checked in the files' footers before Spark reads a byte."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import functions as sql

from apportion.errors import BadInput
from apportion.spark import schemas

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS_A_TASK: Final = 250_000
"""Where a file gives Spark no smaller pieces, rows are dealt out anew in pieces of this size."""


_NO_CHECKSUMS: Final = {
    "fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "fs.file.impl.disable.cache": "true",
}
"""A ``.x.parquet.crc`` that Spark left beside a file which was written anew since must not make it unreadable."""
_INT96: Final = "int96"
"""Times as Spark wrote them by default for years; Arrow shows them as nanoseconds, Spark reads them as times."""


@dataclass(frozen=True)
class Dump:
    """A dump's tables, unread: Spark reads them when a result is asked for.

    ends
        Every sample that was taken, the newest and those in ``samples/``.
    count
        Rows of ``records``.
    """

    folder: Path
    records: DataFrame
    ends: DataFrame
    topics: DataFrame
    count: int


def check_dump(folder: Path) -> int:
    """Rows of a dump's records, if it is one; reads the files' footers alone and needs no Spark.

    Raises
        BadInput: no such folder, no dump, a file that is cut short, a column that is missing or of the wrong type.
    """
    if not folder.is_dir():
        raise BadInput(str(folder), "no folder" if not folder.exists() else "a file", "a dump: a folder with records/")
    for files, table in _parts(folder):
        for file in files:
            _form(file, table)
    return sum(pq.read_metadata(file).num_rows for file in _files(folder))


def read_dump(spark: SparkSession, folder: Path) -> Dump:
    """The tables of ``DUMP``; topics has no rows where the dump has no ``topics.parquet``. Raises as ``check_dump``."""
    count = check_dump(folder)
    records, ends, topics = (_table(spark, files, table) for files, table in _parts(folder))
    pieces = -(-count // ROWS_A_TASK)
    if pieces > sum(pq.read_metadata(file).num_row_groups for file in _files(folder)):
        records = records.repartition(pieces)
    return Dump(folder, records, ends.distinct(), topics, count)


def _parts(folder: Path) -> list[tuple[list[Path], schemas.Table]]:
    """The files of records, log ends and topics."""
    samples = sorted((folder / "samples").glob("ends-*.parquet"))
    topics = folder / "topics.parquet"
    return [
        (_files(folder), schemas.RECORDS),
        ([*samples, _must_be(folder / "ends.parquet")], schemas.ENDS),
        ([topics] if topics.exists() else [], schemas.TOPICS),
    ]


def _files(folder: Path) -> list[Path]:
    found = (folder / "records").glob("*.parquet")
    # Hidden files are drafts and a desktop's own; Spark would leave them out without a word.
    files = sorted(file for file in found if file.is_file() and not file.name.startswith((".", "_")))
    if not files:
        what = "no *.parquet in it" if (folder / "records").is_dir() else "no such folder"
        raise BadInput(f"{folder}/records", what, "a dump: records/*.parquet and ends.parquet")
    return files


def _must_be(file: Path) -> Path:
    if not file.is_file():
        raise BadInput(str(file), "no such file", "the log ends, sampled after the records")
    return file


def _table(spark: SparkSession, files: Sequence[Path], table: schemas.Table) -> DataFrame:
    """The files as one table of exactly these columns; files of one form are read together."""
    forms: dict[tuple[str, ...], list[str]] = {}
    for file in files:
        forms.setdefault(_form(file, table), []).append(str(file))
    if not forms:
        return spark.range(0).select(*[sql.lit(None).cast(f.dataType).alias(f.name) for f in table.schema])
    parts = [_read(spark, paths, form, table) for form, paths in forms.items()]
    whole = parts[0]
    for part in parts[1:]:
        whole = whole.unionByName(part)
    return whole


def _read(spark: SparkSession, paths: list[str], form: tuple[str, ...], table: schemas.Table) -> DataFrame:
    columns = []
    for field, kind in zip(table.schema, form, strict=True):
        said = sql.col(f"`{field.name}`")
        # Spark has no nanoseconds and reads them as numbers (spark.sql.legacy.parquet.nanosAsLong).
        # "div" stays among whole numbers: "/" would go through doubles, which hold no nanoseconds of our days.
        if kind == "timestamp[ns]":
            said = sql.expr(f"timestamp_micros(`{field.name}` div 1000)")
        said = said.cast(field.dataType)
        columns.append(said.alias(field.name))
    return spark.read.options(**_NO_CHECKSUMS).parquet(*paths).select(*columns)


def _form(file: Path, table: schemas.Table) -> tuple[str, ...]:
    """What each column of a file is stored as, in the table's order, if it can be taken as the column."""
    try:
        with pq.ParquetFile(file) as whole:
            found = whole.schema_arrow
            old = {
                one.path for one in map(whole.schema.column, range(len(whole.schema))) if one.physical_type == "INT96"
            }
    except (pa.ArrowInvalid, OSError) as error:
        why = str(error).splitlines()[0]
        raise BadInput(str(file), f"no whole Parquet file ({why})", "one; copy it again") from error
    kinds = {field.name: _kind(file, found, field.name, field.dataType.simpleString()) for field in table.schema}
    return tuple(_INT96 if name in old else kind for name, kind in kinds.items())


def _kind(file: Path, found: Any, name: str, needed: str) -> str:
    places = found.get_all_field_indices(name)
    if len(places) != 1:
        raise BadInput(f"{file}: column {name}", "no such column" if not places else "it twice", needed)
    kind = found.field(places[0]).type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if not _fits(kind, needed):
        raise BadInput(f"{file}: column {name}", str(kind), needed)
    return "timestamp[ns]" if pa.types.is_timestamp(kind) and kind.unit == "ns" else str(kind)


def _fits(kind: Any, needed: str) -> bool:
    if needed == "binary":
        return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))
    if needed == "string":
        return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_null(kind))
    if needed in ("int", "bigint"):
        return bool(pa.types.is_integer(kind))
    if needed == "timestamp":
        return bool(pa.types.is_timestamp(kind))
    listed = pa.types.is_list(kind) or pa.types.is_large_list(kind)
    return bool(listed and _fits(kind.value_type, needed.removeprefix("array<").removesuffix(">")))
