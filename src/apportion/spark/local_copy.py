"""Tables or a dump of a lake as plain files of a local folder: what readers without Spark read them from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import functions as sql

from apportion.errors import BadInput
from apportion.inputs.dump_files import DumpFiles
from apportion.inputs.tables import SOURCE
from apportion.spark import errors, lake, session, sources, stores
from apportion.spark.delta_log import Logs
from apportion.spark.files import link
from apportion.spark.location import Location, locate
from apportion.spark.other_groups import rows_with
from apportion.spark.schemas import ENDS, RECORDS, TABLES, TOPICS, TableSchema, arrow_schema
from apportion.spark.session import Asked

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NEEDED: Final = (
    "silver/commits", "silver/generations", "silver/epochs", "silver/gaps", "silver/ends", "silver/topics",
    "gold/groups",
)  # fmt: skip
"""Tables that the readers without Spark read."""


def copy(
    where: str,
    folder: Path,
    groups: Sequence[str] = (),
    spark: SparkSession | None = None,
    starting: Callable[[], None] = lambda: None,
) -> None:
    """Tables of the last whole build there, else the dump; of some groups alone, if they are named.

    starting
        Called before a Spark starts: for what this process does not reach, or what is large.
    Raises
        BadInput: there is neither.
    """
    location = locate(where)
    store = stores.reached(location) if spark is None else None
    chosen = session.wanted(location, location, "delta")
    with errors.plainly(where), session.on_demand(spark, starting, **chosen) as asked:
        tables = lake.tables_in(location)
        logs = lake.logs_of(asked, tables, store)
        manifest = lake.Manifest.read(asked, tables, logs=logs)
        if "silver/commits" in manifest.versions:
            _tables(asked, tables, logs, manifest, folder, groups)
        else:
            _dump(asked, location, store, folder)


def _tables(
    asked: Asked, tables: lake.Tables, logs: Logs | None, manifest: lake.Manifest, folder: Path, groups: Sequence[str]
) -> None:
    for name in NEEDED:
        if name not in manifest.versions:
            raise BadInput(tables.quoted(name), "no such table", "all tables of a build")
        version, table = manifest.versions[name], TABLES[name]
        some = groups if groups and "group" in table.schema.names else None
        copies = None if logs is None else logs.copies(name, version)
        if copies is not None:
            there = {column for file in copies for column in pq.read_schema(file).names}
            columns = [column for column in table.schema.names if column in there or not copies]
            rows = rows_with(copies, arrow_schema(table), "group", some, columns)
            assert rows is not None  # noqa: S101 - no limit was given
        else:
            frame = tables.read(asked(), name, version)
            rows = _of_spark(frame if some is None else frame.where(sql.col("group").isin(list(some))), table)
        _write(rows, folder / name / "part.parquet")
    (folder / SOURCE).write_text(manifest.texts.get(SOURCE, "{}"), encoding="utf-8")


def _dump(asked: Asked, location: Location, store: stores.StoreAddress | None, folder: Path) -> None:
    try:
        dump = sources.open_dump(asked, location, store)
    except BadInput as error:
        raise BadInput(str(location), "neither tables nor a dump", "what a capture or a build made") from error
    if dump.at_hand is not None:
        _files(dump.at_hand, folder)
        return
    _write(_of_spark(dump.records, RECORDS), folder / "records" / "part.parquet")
    _write(_of_spark(dump.ends, ENDS), folder / "ends.parquet")
    _write(_of_spark(dump.topics, TOPICS), folder / "topics.parquet")


def _files(dump: DumpFiles, folder: Path) -> None:
    """A dump's files by the names that ``dump_files.find`` looks for."""

    def put(files: Iterable[Path], below: Path, first: str = "") -> None:
        for number, file in enumerate(files):
            below.mkdir(parents=True, exist_ok=True)
            link(file, below / f"{first}{number:05d}.parquet")

    put(dump.records, folder / "records")
    put(dump.ends, folder / "ends.parquet")
    put(dump.samples, folder / "samples", "ends-")
    put(dump.topics, folder / "topics.parquet")


def _of_spark(rows: DataFrame, table: TableSchema) -> pa.Table:
    columns = [field for field in arrow_schema(table) if field.name in rows.columns]
    return rows.select(*[sql.col(f"`{field.name}`") for field in columns]).toArrow().cast(pa.schema(columns))


def _write(rows: pa.Table, file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows, file)
