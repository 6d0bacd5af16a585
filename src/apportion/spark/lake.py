"""Tables as Delta below a URI or a folder, or in a catalog's own form: every change of one is one commit.

No object store can move a folder at once, so tables are committed one after another, silver before gold: a row that
stands in gold is found in silver. What belongs together is written last, as one row a table in ``apportion_build``: the
version of each table, and the small texts that a build keeps. Our own readers take each table in the version that
stands there, so they see one build, whole; who reads the newest version of a table sees a whole table, which may be a
build further than the next one until the build has ended.

A build that died left some tables a version further than the last whole build. The next one, told by the lock that the
owner died, puts those back first. A catalog whose tables have no versions cannot do that: there the texts of the last
build are forgotten, so that everything is made anew.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from apportion.errors import Unavailable
from apportion.pipeline.columns import in_table_order
from apportion.spark import lock
from apportion.spark.arrow_rows import DELIVERED, STATE, Delivery, counted, latest, of_kinds, opened, packed, united
from apportion.spark.location import Location, check_catalog, form_of
from apportion.spark.schemas import spark_schema
from apportion.spark.shelves import CatalogShelf, FolderShelf, HadoopShelf, Shelf, quoted
from apportion.tables.schemas import TABLES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

BUILD: Final = "apportion_build"
LOCKS: Final = "apportion_lock"
ROWS_A_FILE: Final = 100_000
"""About so many at least: a task and a file cost as much as writing some ten thousand."""
_MISSING: Final = (
    "TABLE_OR_VIEW_NOT_FOUND", "SCHEMA_NOT_FOUND", "PATH_NOT_FOUND", "DELTA_PATH_DOES_NOT_EXIST",
    "DELTA_TABLE_NOT_FOUND", "DELTA_MISSING_DELTA_TABLE", "is not a Delta table",
)  # fmt: skip
_ROWS: Final = "kind string, name string, version bigint, text string"


@dataclass(frozen=True)
class Tables:
    """Tables by name, each with versions if the place has them.

    root
        What they are below: a path, as Spark is told it, or ``catalog.schema``.
    using
        What a catalog is told to keep them as; "" leaves that to it. Below a path Delta alone.
    """

    root: str
    using: str
    in_catalog: bool

    def quoted(self, name: str) -> str:
        """As SQL is given it: ``catalog.schema.silver_commits``, or Delta's ``ROOT/silver/commits``."""
        if not self.in_catalog:
            return "delta." + quoted(f"{self.root}/{name}")
        return quoted(*self.root.split("."), name.replace("/", "_"))

    def read(self, spark: SparkSession, name: str, version: int | None) -> DataFrame:
        """Its rows in a version, or the newest."""
        if version is None:
            return spark.table(self.quoted(name))
        return spark.sql(f"SELECT * FROM {self.quoted(name)} VERSION AS OF {int(version)}")  # noqa: S608 - quoted

    def overwrite(self, name: str, rows: DataFrame) -> None:
        """One commit, if the catalog can replace a table; a sentence if it cannot. The columns may change."""
        writer = rows.writeTo(self.quoted(name))
        if self.using:
            writer = writer.using(self.using)
        if self.using == "delta":
            writer = writer.tableProperty("delta.enableDeletionVectors", "false")
        try:
            writer.createOrReplace()
        except Exception as error:
            if "REPLACE TABLE" in str(error) or "atomic" in str(error).lower():
                why = f"{self.root}: this catalog cannot replace a table in one step"
                raise Unavailable(f"{why}; take one of Delta or Iceberg tables (--format delta)") from error
            raise

    def append(self, name: str, rows: DataFrame) -> None:
        """One commit."""
        rows.writeTo(self.quoted(name)).append()

    def stream(self, writer: DataStreamWriter, name: str) -> StreamingQuery:
        """The table is made by the stream, if it is not there; Delta's log remembers the stream's batches."""
        writer = writer.format(self.using) if self.using else writer
        return writer.toTable(self.quoted(name)) if self.in_catalog else writer.start(f"{self.root}/{name}")


@dataclass
class Manifest:
    """Things that belong together: the version of each table (None: it has none), and the texts kept with them.

    sizes
        Of each table its rows, files and bytes, and when its newest row and itself are from (microseconds), as JSON.
    """

    versions: dict[str, int | None] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    sizes: dict[str, str | None] = field(default_factory=dict)

    @classmethod
    def read(cls, spark: SparkSession, tables: Tables, name: str = BUILD) -> Manifest:
        """The last one that was published; empty if there is none."""
        try:
            rows = tables.read(spark, name, None).collect()
        except Exception as error:
            if is_missing(error):
                return cls()
            raise
        return cls(
            {row["name"]: row["version"] for row in rows if row["kind"] == "table"},
            {row["name"]: row["text"] for row in rows if row["kind"] == "text"},
            {row["name"]: row["text"] for row in rows if row["kind"] == "table"},
        )

    def write(self, spark: SparkSession, tables: Tables, name: str = BUILD) -> None:
        """Publish it, in one commit: (kind, name, version, text), a row for each table, and for each text."""
        rows: list[tuple[Any, ...]] = [
            ("table", table, version, self.sizes.get(table)) for table, version in sorted(self.versions.items())
        ]
        rows += [("text", text_name, None, text) for text_name, text in sorted(self.texts.items())]
        tables.overwrite(name, spark.createDataFrame(rows, _ROWS).coalesce(1))


def tables_of(location: Location, form: str) -> Tables:
    """The tables of a place; ``form`` as ``location.form_of`` gives it."""
    in_catalog = location.kind == "catalog"
    return Tables(location.root if in_catalog else location.path(), form if in_catalog else "delta", in_catalog)


def tables_in(location: Location) -> Tables:
    """The same of a place whose tables are there already, in the form that it has by default."""
    return tables_of(location, form_of(location, "delta" if location.kind == "folder" else None))


def in_dump(location: Location, name: str) -> str:
    """A dump's name for one of its tables: ``records``, or ``bronze/records`` in a catalog, whose schema has others."""
    return f"bronze/{name}" if location.kind == "catalog" else name


def last_commit(spark: SparkSession, tables: Tables, name: str) -> dict[str, Any]:
    """Delta's facts about a table's newest version; its ``version`` is None if there is none."""
    try:
        return spark.sql(f"DESCRIBE HISTORY {tables.quoted(name)} LIMIT 1").collect()[0].asDict()
    except Exception:  # not a Delta table: a catalog keeps it in some other way
        return {"version": None, "operationMetrics": {}, "timestamp": None}


def is_there(spark: SparkSession, tables: Tables, name: str) -> bool:
    """Whether there is such a table."""
    try:
        _ = tables.read(spark, name, None).schema  # a Connect client asks only now
    except Exception as error:
        if is_missing(error):
            return False
        raise
    return True


@contextmanager
def alone(
    spark: SparkSession, location: Location, form: str, progress: Callable[[str], None] = lambda line: None
) -> Iterator[LakeStore]:
    """A store for one build, which is alone with the place; half done work of an earlier build is put right first.

    Raises
        Unavailable: another build is at work there.
    """
    make_schema(spark, location)
    with lock.held(shelf_of(spark, location, form), str(location), progress=progress) as held:
        store = LakeStore(spark, tables_of(location, form), held)
        if held.after_death:
            progress(f"the build before died: putting {location} back to the last whole one")
            store.put_back()
        store.forget_unchanged()
        yield store
        held.finished = not store.written


def make_schema(spark: SparkSession, location: Location) -> None:
    """A catalog's schema is there, if the place is one."""
    if location.kind == "catalog":
        check_catalog(spark, location)
        spark.sql(f"CREATE SCHEMA IF NOT EXISTS {quoted(*location.root.split('.'))}")


def shelf_of(spark: SparkSession, location: Location, form: str, locks: str = LOCKS) -> Shelf:
    """The folder of a place's locks."""
    if location.kind == "folder":
        return FolderShelf(location.folder / locks)
    if location.kind == "catalog":
        return CatalogShelf(spark, location.root, locks, form)
    return HadoopShelf(spark, location.path(locks))


class LakeStore:
    """Tables committed one by one, and a manifest of the versions that belong together."""

    def __init__(self, spark: SparkSession, tables: Tables, held: lock.Held) -> None:
        self._spark, self.tables, self._lock = spark, tables, held
        self.last = Manifest.read(spark, tables)
        self.written: dict[str, tuple[int, int | None, bool]] = {}
        """Tables that were committed and not published: their new rows, the newest's time, whether they are all."""
        self._texts: dict[str, str] = {}

    def names(self) -> set[str]:
        """Those of the last whole build that are there."""
        return {name for name in self.last.versions if is_there(self._spark, self.tables, name)}

    def read(self, name: str) -> DataFrame | None:
        """The table in the version of the last whole build."""
        if name not in self.last.versions:
            return None
        return self.tables.read(self._spark, name, self.last.versions[name])

    def text(self, name: str) -> str | None:
        """A text of the last whole build."""
        return self.last.texts.get(name)

    def keep(self, name: str, text: str) -> None:
        """Keep a text, from ``publish`` on."""
        self._texts[name] = text

    def deliver(self, stage: str) -> Delivery:
        """Hand rows on, for Spark to write."""
        return _handed_on

    def write(self, name: str, frames: Sequence[DataFrame], rows: int, newest: int | None, whole: bool) -> None:
        """One commit; arguments as of ``FolderStore.write``."""
        self._lock.check()
        self.written[name] = rows, newest, whole or name not in self.last.versions  # also where it fails half way
        schema = spark_schema(name)
        if rows:
            bundles = united([of_kinds(frame, name) for frame in frames]).coalesce(1 + rows // ROWS_A_FILE)
            cells = bundles.mapInArrow(opened(name), schema)
        else:
            cells = self._spark.createDataFrame([], schema)
        (self.tables.overwrite if self.written[name][2] else self.tables.append)(name, cells)

    def begin_again(self) -> None:
        """Nothing to do: the committed tables are written whole once more."""

    def publish(self) -> None:
        """Say which versions belong together now: the one commit that our own readers go by."""
        self._lock.check()
        manifest = Manifest(self.last.versions.copy(), {**self.last.texts, **self._texts}, self.last.sizes.copy())
        for name, (rows, newest, whole) in self.written.items():
            commit = last_commit(self._spark, self.tables, name)
            before = "[0, 0, 0, null, null]" if whole else self.last.sizes.get(name)
            manifest.versions[name] = commit["version"]
            manifest.sizes[name] = before and _sizes(before, commit, rows, newest)
        manifest.write(self._spark, self.tables)
        self.last, self.written, self._texts = manifest, {}, {}

    def put_back(self) -> None:
        """Undo a dead build's commits: each table to its version in the manifest."""
        newest = {name: last_commit(self._spark, self.tables, name)["version"] for name in self.last.versions}
        behind = {name: version for name, version in self.last.versions.items() if newest[name] != version}
        lost = any(version is None for version in self.last.versions.values())
        for name, version in behind.items():
            try:
                self._spark.sql(f"RESTORE TABLE {self.tables.quoted(name)} TO VERSION AS OF {version}")
            except Exception:  # its files may have been vacuumed away
                lost = True
        if lost:
            self.last = Manifest()
        elif behind:
            self.last.versions |= {name: last_commit(self._spark, self.tables, name)["version"] for name in behind}
            self.last.write(self._spark, self.tables)

    def forget_unchanged(self) -> None:
        """Without versions a half made build would look like a whole one: its texts go before it begins."""
        if self.last.versions and None in self.last.versions.values():
            Manifest(self.last.versions).write(self._spark, self.tables)


def _sizes(before: str, commit: Mapping[str, Any], rows: int, newest: int | None) -> str:
    """The effect of a commit's new rows on a table, as ``Manifest`` has it."""
    old_rows, files, size, old, _ = json.loads(before)
    metrics, at = commit["operationMetrics"] if rows else {}, commit["timestamp"]  # a file without rows is not kept
    files, size = files + int(metrics.get("numFiles", 0)), size + int(metrics.get("numOutputBytes", 0))
    return json.dumps([old_rows + rows, files, size, latest(old, newest), at and int(at.timestamp() * 1e6)])


def _handed_on(name: str, rows: pa.Table, part: str) -> Iterator[pa.RecordBatch]:
    if rows.num_rows:
        yield from packed(name, DELIVERED, rows if name == STATE else in_table_order(rows, TABLES[name]))
        yield from counted(name, rows)


def is_missing(error: Exception) -> bool:
    """Whether Spark says that there is no such table."""
    return any(words in str(error) for words in _MISSING)
