"""Tables or a dump of a lake as plain files of a local folder: the copy that readers without Spark use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import functions as sql

from apportion.errors import BadInput
from apportion.sources.tables import SOURCE
from apportion.spark import errors, lake, session, sources
from apportion.spark.location import Location, locate
from apportion.tables.schemas import ENDS, RECORDS, TABLES, TOPICS, Table, arrow_schema

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
        Called before a Spark starts.
    Raises
        BadInput: there is neither.
    """
    location = locate(where)
    jars = session.jars_for(location, location, "delta")
    if spark is None:
        starting()
    with errors.plainly(where), session.session(spark, jars=jars) as running:
        tables = lake.tables_in(location)
        manifest = lake.Manifest.read(running, tables)
        if "silver/commits" in manifest.versions:
            _tables(running, tables, manifest, folder, groups)
        else:
            _dump(running, location, folder)


def _tables(
    spark: SparkSession, tables: lake.Tables, manifest: lake.Manifest, folder: Path, groups: Sequence[str]
) -> None:
    for name in NEEDED:
        if name not in manifest.versions:
            raise BadInput(tables.quoted(name), "no such table", "all tables of a build")
        rows = tables.read(spark, name, manifest.versions[name])
        if groups and "group" in rows.columns:
            rows = rows.where(sql.col("group").isin(list(groups)))
        _write(rows, TABLES[name], folder / name / "part.parquet")
    (folder / SOURCE).write_text(manifest.texts.get(SOURCE, "{}"), encoding="utf-8")


def _dump(spark: SparkSession, location: Location, folder: Path) -> None:
    try:
        dump = sources.open_dump(spark, location)
    except BadInput as error:
        raise BadInput(str(location), "neither tables nor a dump", "files of a capture or a build") from error
    _write(dump.read("records"), RECORDS, folder / "records" / "part.parquet")
    _write(dump.read("ends").unionByName(dump.read("samples")).distinct(), ENDS, folder / "ends.parquet")
    _write(dump.read("topics"), TOPICS, folder / "topics.parquet")


def _write(rows: DataFrame, table: Table, file: Path) -> None:
    schema = arrow_schema(table)
    columns = [field for field in schema if field.name in rows.columns]
    cells = rows.select(*[sql.col(f"`{field.name}`") for field in columns]).toArrow().cast(pa.schema(columns))
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(cells, file)
