"""How fresh the tables of a lake or a catalog are: rows, files and the newest time, as Spark and Delta tell them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import pyarrow.parquet as pq
from pyspark.sql import functions as sql

from apportion.errors import BadInput
from apportion.spark import delta_log, lake
from apportion.spark.job import TableStatus, newest_of
from apportion.spark.location import Location
from apportion.spark.schemas import TABLES
from apportion.spark.session import Asked

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COPIED: Final = 32 << 20
"""Bytes of a table that are copied here for the newest time in its files' footers; of a larger one Spark is asked."""


def of_lake(session: Asked, location: Location, logs: delta_log.Logs | None) -> list[TableStatus]:
    """Every table of the last whole build, or a dump's records.

    logs
        Of the tables there, where they can be read: then Spark is asked only of large tables.
    Raises
        BadInput: there is neither.
    """
    tables = lake.tables_in(location)
    manifest = lake.Manifest.read(session, tables, logs=logs)
    tables_there = [(tables, name, name, manifest.versions[name]) for name in TABLES if name in manifest.versions]
    bronze, named = lake.bronze(location, "records")
    if lake.is_there(session(), bronze, named) if logs is None else logs.newest(named) is not None:
        tables_there.insert(0, (bronze, named, "records", None))
    if not tables_there:
        raise BadInput(str(location), "no tables", "a place that a capture or a build made")

    def status(tables: lake.Tables, named: str, name: str, version: int | None) -> TableStatus:
        known = None if logs is None else _by_log(logs, name, version)
        return _status(session(), tables, named, name, version) if known is None else known

    with ThreadPoolExecutor(lake.AT_ONCE) as pool:
        return list(pool.map(lambda one: status(*one), tables_there))


def _by_log(logs: delta_log.Logs, name: str, number: int | None) -> TableStatus | None:
    """The same from a table's log and its files' footers; None where they do not tell."""
    version = logs.at(name, number)
    if version is None or version.rows is None or version.at_ms is None:
        return None
    column = "timestamp" if name == "records" else "at"
    newest = None
    if name == "records" or column in TABLES[name].schema.names:
        copies = logs.copies(name, number, COPIED)
        if copies is None:
            return None
        times = [newest_of(pq.read_metadata(file), column) for file in copies]
        newest = max((time for time in times if time is not None), default=None)
    at = datetime.fromtimestamp(version.at_ms / 1000, UTC)
    return TableStatus(name, version.rows, len(version.files), version.size, newest, at)


def _status(spark: SparkSession, tables: lake.Tables, named: str, name: str, version: int | None) -> TableStatus:
    rows = tables.read(spark, named, version)
    time = "timestamp" if name == "records" else "at"
    known = sql.max(sql.unix_micros(time)) if time in rows.columns else sql.lit(None).cast("bigint")
    counted = rows.agg(sql.count(sql.lit(1)).alias("n"), known.alias("newest")).collect()[0]
    detail = _detail(spark, tables, named)
    return TableStatus(
        name, counted["n"], detail.get("numFiles") or 0, detail.get("sizeInBytes") or 0,
        None if counted["newest"] is None else datetime.fromtimestamp(counted["newest"] / 1e6, UTC),
        detail.get("lastModified"),
    )  # fmt: skip


def _detail(spark: SparkSession, tables: lake.Tables, named: str) -> dict[str, Any]:
    """What Delta tells of a table; nothing of others."""
    try:
        row = spark.sql(f"DESCRIBE DETAIL {tables.quoted(named)}").first()
    except Exception:  # no Delta table
        return {}
    detail = row.asDict() if row is not None else {}
    if detail.get("lastModified") is not None:
        detail["lastModified"] = detail["lastModified"].astimezone(UTC)
    return detail
