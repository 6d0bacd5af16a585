"""How fresh tables are: rows, files and the newest time, by files' footers, or from Spark."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow.parquet as pq

from apportion.errors import BadInput
from apportion.sources import parquet
from apportion.spark import errors
from apportion.spark.files import SHOWN
from apportion.tables.schemas import TABLES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from apportion.spark.lake import Tables
    from apportion.spark.location import Location


@dataclass(frozen=True)
class TableStatus:
    """How fresh a table is.

    newest
        The time of its newest row; None where its rows have no time, or there are none.
    written
        When its files were written.
    """

    name: str
    rows: int
    files: int
    size_bytes: int
    newest: datetime | None
    written: datetime | None


def of_folder(folder: Path) -> list[TableStatus]:
    """Every table of plain files, or a dump's records, by the files' footers; Spark is not needed.

    Raises
        BadInput: there is neither.
    """
    if not folder.is_dir():
        actual = "a file" if folder.exists() else "no such folder"
        raise BadInput(str(folder), actual, "a folder that a capture or a build made")
    names = [name for name in ("records", *TABLES) if any((folder / name).glob(SHOWN))]
    if not names:
        raise BadInput(str(folder), "no tables", "a folder that a capture or a build made")
    return [_by_footers(folder / name, name) for name in names]


def _by_footers(folder: Path, name: str) -> TableStatus:
    files = [file for file in parquet.files(folder) if file.parent == folder]
    with errors.plainly(folder, errors.COPY_AGAIN if name == "records" else errors.MAKE_ANEW):
        footers = [pq.read_metadata(file) for file in files]
    times = [time for footer in footers if (time := newest_of(footer, _TIME.get(name, "at"))) is not None]
    return TableStatus(
        name,
        sum(footer.num_rows for footer in footers),
        len(files),
        sum(file.stat().st_size for file in files),
        max(times, default=None),
        datetime.fromtimestamp(max(file.stat().st_mtime for file in files), UTC),
    )


_TIME: Final = {"records": "timestamp"}
"""The column that tells a row's time, where it is another than ``at``."""


def newest_of(footer: pq.FileMetaData, column: str) -> datetime | None:
    """The greatest value of a time column, by the statistics of a file's row groups."""
    newest: datetime | None = None
    for group, number in product(range(footer.num_row_groups), range(footer.num_columns)):
        chunk = footer.row_group(group).column(number)
        if chunk.path_in_schema == column and chunk.statistics is not None and chunk.statistics.has_min_max:
            with suppress(ValueError, OverflowError):  # a time that Python's calendar does not reach
                time = chunk.statistics.max
                time = time if time.tzinfo else time.replace(tzinfo=UTC)
                newest = time if newest is None else max(newest, time)
    return newest


def of_lake(spark: SparkSession, location: Location) -> list[TableStatus]:
    """Every table of the last whole build, or a dump's records.

    Raises
        BadInput: there is neither.
    """
    from apportion.spark import lake

    tables = lake.tables_in(location)
    found: list[TableStatus] = []
    if lake.is_there(spark, tables, records := lake.in_dump(location, "records")):
        found.append(_by_spark(spark, tables, records, "records", None))
    manifest = lake.Manifest.read(spark, tables)
    for name in TABLES:
        if sizes := manifest.sizes.get(name):
            rows, files, size_bytes, newest, written = json.loads(sizes)
            found.append(TableStatus(name, rows, files, size_bytes, _moment(newest), _moment(written)))
        elif name in manifest.versions:
            found.append(_by_spark(spark, tables, name, name, manifest.versions[name]))
    if not found:
        raise BadInput(str(location), "no tables", "a place that a capture or a build made")
    return found


def _moment(time_us: int | None) -> datetime | None:
    return None if time_us is None else datetime.fromtimestamp(time_us / 1e6, UTC)


def _by_spark(spark: SparkSession, tables: Tables, named: str, name: str, version: int | None) -> TableStatus:
    from pyspark.sql import functions as sql

    rows = tables.read(spark, named, version)
    time = _TIME.get(name, "at")
    known = sql.max(sql.unix_micros(time)) if time in rows.columns else sql.lit(None).cast("bigint")
    counted = rows.agg(sql.count(sql.lit(1)).alias("n"), known.alias("newest")).collect()[0]
    detail = _detail(spark, tables, named)
    return TableStatus(
        name, counted["n"], detail.get("numFiles") or 0, detail.get("sizeInBytes") or 0,
        _moment(counted["newest"]),
        detail.get("lastModified"),
    )  # fmt: skip


def _detail(spark: SparkSession, tables: Tables, named: str) -> dict[str, Any]:
    """Delta's facts about a table; nothing of others."""
    try:
        row = spark.sql(f"DESCRIBE DETAIL {tables.quoted(named)}").first()
    except Exception:  # no Delta table
        return {}
    detail = row.asDict() if row is not None else {}
    if detail.get("lastModified") is not None:
        detail["lastModified"] = detail["lastModified"].astimezone(UTC)
    return detail
