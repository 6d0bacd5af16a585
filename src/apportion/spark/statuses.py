"""How fresh the tables of a lake or a catalog are: rows, files and the newest time, as Spark and Delta tell them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as sql

from apportion.errors import BadInput
from apportion.spark import lake
from apportion.spark.job import TableStatus
from apportion.spark.location import Location, form_of
from apportion.spark.schemas import TABLES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def of_lake(spark: SparkSession, location: Location) -> list[TableStatus]:
    """Every table of the last whole build, or a dump's records.

    Raises
        BadInput: there is neither.
    """
    tables = lake.tables_of(location, form_of(location, "delta" if location.kind == "folder" else None))
    manifest = lake.Manifest.read(spark, tables)
    tables_there = [(tables, name, name, manifest.versions[name]) for name in TABLES if name in manifest.versions]
    bronze, named = lake.bronze(location, "records")
    if lake.is_there(spark, bronze, named):
        tables_there.insert(0, (bronze, named, "records", None))
    if not tables_there:
        raise BadInput(str(location), "no tables", "a place that a capture or a build made")
    with ThreadPoolExecutor(lake.AT_ONCE) as pool:
        return list(pool.map(lambda one: _status(spark, *one), tables_there))


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
