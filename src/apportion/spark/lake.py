"""Tables as Delta below a URI or a folder, or as whatever a catalog makes of them: every change of one is one commit.

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

from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import functions as sql
from pyspark.sql.types import StructType

from apportion.errors import Unavailable
from apportion.spark import commits, delta_log, lock
from apportion.spark.bundles import Bundled
from apportion.spark.files import nulls_first
from apportion.spark.location import Location, check_catalog, form_of
from apportion.spark.other_groups import rows_with
from apportion.spark.schemas import TABLES, arrow_schema
from apportion.spark.session import Asked, asked
from apportion.spark.shelves import CatalogShelf, HadoopShelf
from apportion.spark.sinks import as_frame, columns_of, frame_of, in_order, names_of, replaced
from apportion.spark.sorted_rows import coded

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from apportion.spark.schemas import TableSchema
    from apportion.spark.stores import StoreAddress

BUILD: Final = "apportion_build"
LOCKS: Final = "apportion_lock"
AT_ONCE: Final = 4
_GONE: Final = "_gone"
_MISSING: Final = (
    "TABLE_OR_VIEW_NOT_FOUND", "SCHEMA_NOT_FOUND", "PATH_NOT_FOUND", "DELTA_PATH_DOES_NOT_EXIST",
    "DELTA_TABLE_NOT_FOUND", "DELTA_MISSING_DELTA_TABLE", "is not a Delta table",
)  # fmt: skip
_ROWS: Final = pa.schema([
    ("kind", pa.string()), ("name", pa.string()), ("version", pa.int64()), ("text", pa.string())
])  # fmt: skip
_HERE_ROWS: Final = 500_000
_HERE_STORED: Final = 64 << 20
_HERE_BYTES: Final = 100 << 20
"""A smaller table, by its rows, its files and in memory, is put together here: a commit of it is then one job.

The rows go to Spark in one task, which may be 128 MB (``spark.rpc.message.maxSize``).
"""
_MERGE_ROWS: Final = 100_000
"""Of larger tables a few groups are merged in; smaller ones are written anew, which takes less time."""


class Tables(Protocol):
    """Tables by name, each with versions if the place has them."""

    def quoted(self, name: str) -> str:
        """The table as SQL is told it."""

    def read(self, spark: SparkSession, name: str, version: int | None) -> DataFrame:
        """Its rows in a version, or the newest."""

    def overwrite(self, name: str, rows: DataFrame) -> None:
        """Replace it whole in one commit, or make it."""

    def append(self, name: str, rows: DataFrame) -> None:
        """Add rows in one commit."""

    def stream(self, writer: DataStreamWriter, name: str) -> StreamingQuery:
        """Start a stream that appends to it."""


@dataclass(frozen=True)
class DeltaTables:
    """Delta tables by path: ``ROOT/silver/commits``."""

    root: str

    def path(self, name: str) -> str:
        """Where a table is."""
        return f"{self.root}/{name}"

    def quoted(self, name: str) -> str:
        """As SQL is told it."""
        return f"delta.`{self.path(name).replace('`', '``')}`"

    def read(self, spark: SparkSession, name: str, version: int | None) -> DataFrame:
        """Its rows in a version, or the newest."""
        reader = spark.read.format("delta")
        if version is not None:
            reader = reader.option("versionAsOf", version)
        return reader.load(self.path(name))

    def overwrite(self, name: str, rows: DataFrame) -> None:
        """One commit; the columns may have changed."""
        rows.write.format("delta").mode("overwrite").option("overwriteSchema", "true").save(self.path(name))

    def append(self, name: str, rows: DataFrame) -> None:
        """One commit."""
        rows.write.format("delta").mode("append").save(self.path(name))

    def stream(self, writer: DataStreamWriter, name: str) -> StreamingQuery:
        """Delta's log remembers the stream's batches."""
        return writer.format("delta").start(self.path(name))


@dataclass(frozen=True)
class CatalogTables:
    """Tables of a catalog's schema: ``catalog.schema.silver_commits``.

    using
        What the catalog is told to keep them as; "" leaves that to it.
    """

    schema: str
    using: str = ""

    def quoted(self, name: str) -> str:
        """As SQL is told it."""
        return ".".join(f"`{part}`" for part in (*self.schema.split("."), name.replace("/", "_")))

    def read(self, spark: SparkSession, name: str, version: int | None) -> DataFrame:
        """Its rows in a version, or the newest."""
        if version is None:
            return spark.table(self.quoted(name))
        return spark.sql(f"SELECT * FROM {self.quoted(name)} VERSION AS OF {int(version)}")  # noqa: S608 - quoted

    def overwrite(self, name: str, rows: DataFrame) -> None:
        """One commit, where the catalog can replace a table; a sentence where it cannot."""
        writer = rows.writeTo(self.quoted(name))
        if self.using:
            writer = writer.using(self.using)
        if self.using == "delta":
            writer = writer.tableProperty("delta.enableDeletionVectors", "false")
        try:
            writer.createOrReplace()
        except Exception as error:
            if "REPLACE TABLE" in str(error) or "atomic" in str(error).lower():
                why = f"{self.schema}: this catalog cannot replace a table in one step"
                raise Unavailable(f"{why}; take one of Delta or Iceberg tables (--format delta)") from error
            raise

    def append(self, name: str, rows: DataFrame) -> None:
        """One commit."""
        rows.writeTo(self.quoted(name)).append()

    def stream(self, writer: DataStreamWriter, name: str) -> StreamingQuery:
        """The table is made by the stream, if it is not there."""
        return (writer.format(self.using) if self.using else writer).toTable(self.quoted(name))


@dataclass
class Manifest:
    """What belongs together: the version of each table (None: it has none), and the texts kept beside them."""

    versions: dict[str, int | None] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)

    @classmethod
    def read(
        cls, spark: SparkSession | Asked, tables: Tables, name: str = BUILD, logs: delta_log.Logs | None = None
    ) -> Manifest:
        """The last one that was published; empty where there is none."""
        if logs is not None and logs.newest(name) is None:
            return cls()
        copies = None if logs is None else logs.copies(name, None)
        if copies:
            rows = pa.concat_tables(map(pq.read_table, copies)).to_pylist()
            return cls._of(rows)
        try:
            rows = tables.read(asked(spark)(), name, None).collect()
        except Exception as error:
            if is_missing(error):
                return cls()
            raise
        return cls._of(rows)

    @classmethod
    def _of(cls, rows: Sequence[Any]) -> Manifest:
        return cls(
            {row["name"]: row["version"] for row in rows if row["kind"] == "table"},
            {row["name"]: row["text"] for row in rows if row["kind"] == "text"},
        )

    def write(self, spark: SparkSession, tables: Tables, name: str = BUILD) -> None:
        """Publish it, in one commit."""
        tables.overwrite(name, spark.createDataFrame(self.rows()).coalesce(1))

    def rows(self) -> pa.Table:
        """(kind, name, version, text): a row for each table, and for each text."""
        rows = [{"kind": "table", "name": one, "version": version} for one, version in sorted(self.versions.items())]
        rows += [{"kind": "text", "name": one, "text": text} for one, text in sorted(self.texts.items())]
        return pa.Table.from_pylist(rows, _ROWS)


def tables_of(location: Location, form: str) -> Tables:
    """How the tables of a place are named; ``form`` as ``location.form_of`` gives it."""
    if location.kind == "catalog":
        return CatalogTables(location.root, form)
    return DeltaTables(location.path())


def tables_in(location: Location) -> Tables:
    """The same of a place whose tables are there already, in the form that it has by default."""
    return tables_of(location, form_of(location, "delta" if location.kind == "folder" else None))


def bronze(location: Location, name: str, form: str = "") -> tuple[Tables, str]:
    """A dump's tables and what they call one: ``ROOT/records``, or ``catalog.schema.bronze_records``."""
    if location.kind == "catalog":
        return CatalogTables(location.root, form), f"bronze/{name}"
    return DeltaTables(location.path()), name


def newest_version(spark: SparkSession, tables: Tables, name: str) -> int | None:
    """The newest version of a table; None where there is no table, or none with versions."""
    try:
        row = spark.sql(f"DESCRIBE HISTORY {tables.quoted(name)} LIMIT 1").first()
    except Exception:  # not a Delta table: a catalog keeps it in some other way
        return None
    return None if row is None else int(row["version"])


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
def opened(
    spark: SparkSession | Asked,
    location: Location,
    form: str,
    progress: Callable[[str], None] = lambda line: None,
    store: StoreAddress | None = None,
) -> Iterator[LakeSink]:
    """A sink for one build, which is alone with the place; what a build before left half done is put right first.

    store
        The place, where this process reaches it: then Spark is asked for only where rows are its.
    Raises
        Unavailable: another build is at work there.
    """
    make_schema(spark, location)
    with lock.held(shelf_of(spark, location, form, store=store), str(location), progress=progress) as mine:
        sink = LakeSink(asked(spark), tables_of(location, form), mine, store)
        if mine.after_death:
            progress(f"the build before died: putting {location} back to the last whole one")
            sink.put_back()
        sink.forget_unchanged()
        yield sink
        mine.finished = not sink.written


def make_schema(spark: SparkSession | Asked, location: Location) -> None:
    """A catalog's schema is there, if the place is one."""
    if location.kind == "catalog":
        session = asked(spark)()
        check_catalog(session, location)
        session.sql(f"CREATE SCHEMA IF NOT EXISTS {_quoted(location.root)}")


def shelf_of(
    spark: SparkSession | Asked, location: Location, form: str, locks: str = LOCKS, store: StoreAddress | None = None
) -> lock.Shelf:
    """Where the locks of a place are; ``store`` as in ``opened``."""
    if location.kind == "folder":
        return lock.FolderShelf(location.folder / locks)
    if store is not None:
        return store.shelf(locks)
    if location.kind == "catalog":
        return CatalogShelf(asked(spark)(), location.root, locks, form)
    return HadoopShelf(asked(spark)(), location.path(locks))


class LakeSink:
    """Tables committed one by one, and a manifest that says which versions belong together; see the file's head."""

    keeper = None

    def __init__(self, session: Asked, tables: Tables, mine: lock.Held, store: StoreAddress | None = None) -> None:
        self._session, self.tables, self._lock, self._store = session, tables, mine, store
        self.logs = logs_of(session, tables, store)
        self.last = Manifest.read(session, tables, logs=self.logs)
        self.written: dict[str, int | None] = {}
        """Tables that were committed and not published, and the version; None where Spark made it."""
        self._kept: dict[str, str] = {}

    @property
    def spark(self) -> SparkSession:
        """The session, which may start only now."""
        return self._session()

    def names(self) -> set[str]:
        """Those of the last whole build of which there is a log, where logs can be read."""
        names = sorted(self.last.versions)
        if self.logs is None:
            return set(names)
        with ThreadPoolExecutor(AT_ONCE) as pool:
            newest = pool.map(self.logs.newest, names)
            return {name for name, version in zip(names, newest, strict=True) if version is not None}

    def read(self, name: str) -> DataFrame | None:
        """The table in the version of the last whole build."""
        if name not in self.last.versions:
            return None
        return self.tables.read(self.spark, name, self.last.versions[name])

    def now(self, name: str) -> DataFrame | None:
        """The table in its newest version if this build wrote it, else as ``read`` gives it."""
        return self.tables.read(self.spark, name, None) if name in self.written else self.read(name)

    def rows_with(
        self,
        name: str,
        column: str,
        values: Collection[Any] | None,
        columns: Sequence[str] | None = None,
        bytes_max: int | None = None,
        words: bool = False,
    ) -> pa.Table | None:
        """By a query; of a table that this build wrote in its newest version."""
        table = TABLES[name]
        chosen = arrow_schema(table, columns)
        if name not in self.last.versions and name not in self.written:
            return coded(chosen.empty_table()) if words else chosen.empty_table()
        version = None if name in self.written else self.last.versions[name]
        copies = None if self.logs is None else self.logs.copies(name, version)
        if copies is not None:
            return rows_with(copies, arrow_schema(table), column, values, columns, bytes_max, words)
        rows = self.tables.read(self.spark, name, version)
        if values is not None:
            only = StructType([table.schema[column]])
            wanted = self.spark.createDataFrame([(value,) for value in sorted(values)], only)
            rows = rows.join(sql.broadcast(wanted), column, "left_semi")
        rows = rows.select(*[sql.col(f"`{name}`") for name in chosen.names])
        if bytes_max is not None:
            # As text they are longer than in memory, but for numbers.
            size = sql.sum(sql.length(sql.to_json(sql.struct(*rows.columns)))).alias("size")
            if (rows.agg(size).collect()[0]["size"] or 0) > bytes_max:
                return None
        whole = rows.toArrow().cast(chosen)
        return coded(whole) if words else whole

    def write(self, name: str, rows: DataFrame | Bundled | pa.Table, table: TableSchema, files: int) -> None:
        """One commit that replaces the table."""
        if isinstance(rows, pa.Table) and (here := self._here(name)) is not None:
            self._commit(name, lambda: here.overwrite(_ordered(rows, table)))
            return
        self._commit(name, lambda: self.tables.overwrite(name, self._dealt(rows, table, files)))

    def append(self, name: str, rows: DataFrame | pa.Table, table: TableSchema, files: int) -> None:
        """One commit that adds rows."""
        if name not in self.last.versions:
            self.write(name, rows, table, files)
            return
        if isinstance(rows, pa.Table) and (here := self._here(name)) is not None:
            self._commit(name, lambda: here.append(_ordered(rows, table)))
            return
        self._commit(name, lambda: self.tables.append(name, self._dealt(rows, table, files)))

    def replace_groups(
        self, name: str, rows: DataFrame | pa.Table, touched: DataFrame | pa.Table, table: TableSchema, files: int
    ) -> None:
        """One commit: by this process, or a merge into a large table, or the table anew with the other groups' rows."""
        if name not in self.last.versions:
            self.write(name, rows, table, files)
            return
        both_here = isinstance(rows, pa.Table) and isinstance(touched, pa.Table)
        if both_here and self._replaced_here(name, rows, touched, table, files):
            return
        version, count = self.last.versions[name], self._count(name)
        before = self.tables.read(self.spark, name, version)
        if version is None or (before.count() if count is None else count) < _MERGE_ROWS:
            self.write(name, replaced(before, rows, touched, table), table, files)
            return
        some = names_of(self.spark, touched)
        self._commit(name, lambda: self._merge(name, before, as_frame(self.spark, rows, table), some, table))

    def _replaced_here(self, name: str, rows: pa.Table, touched: pa.Table, table: TableSchema, files: int) -> bool:
        """Replace rows by this process, alone or by putting the table together for Spark to write; whether it can."""
        here = self._here(name)
        if here is not None and here.size <= commits.BYTES_MAX:
            if rows.num_rows or self._has(name, touched):
                self._commit(name, lambda: here.replace_groups(_ordered(rows, table), touched))
            return True
        count = self._count(name)
        if count is None or count >= _HERE_ROWS:
            return False
        others = self._others(name, self.last.versions[name], touched)
        if others is None or others.nbytes + rows.nbytes >= _HERE_BYTES:
            return False
        if rows.num_rows or others.num_rows != count:
            whole = pa.concat_tables([others, rows.select(others.column_names).cast(others.schema)])
            self.write(name, whole, table, files)
        return True

    def _count(self, name: str) -> int | None:
        """Rows of a table in the version of the last whole build, if its log tells."""
        version = self.last.versions[name]
        known = None if self.logs is None or version is None else self.logs.at(name, version)
        return None if known is None else known.rows

    def _here(self, name: str) -> commits.TableVersion | None:
        """What commits to a table from this process; None where Spark does, which also makes the table at first.

        The version is the one of now, before the lock is checked: who is held up after that cannot commit.
        """
        version = None if self._store is None or self.logs is None else self.logs.newest(name)
        if self._store is None or version is None or not (version.readable and version.writable):
            return None
        return commits.TableVersion(self._store, name, version)

    def _has(self, name: str, touched: pa.Table) -> bool:
        """Whether a table has rows of some groups."""
        rows = self.rows_with(name, "group", touched["group"].to_pylist(), ["group"])
        return rows is not None and bool(rows.num_rows)

    def _others(self, name: str, version: int | None, touched: pa.Table) -> pa.Table | None:
        """The rows of all other groups, from copies of the table's files; None where there are none of these."""
        copies = None if self.logs is None else self.logs.copies(name, version, _HERE_STORED)
        if copies is None:
            return None
        rows = rows_with(copies, arrow_schema(TABLES[name]), "group", None)
        assert rows is not None  # noqa: S101 - no limit was given
        return rows.filter(pc.invert(pc.is_in(rows["group"], value_set=touched["group"].combine_chunks())))

    def text(self, name: str) -> str | None:
        """A text of the last whole build."""
        return self.last.texts.get(name)

    def keep(self, name: str, text: str) -> None:
        """Keep a text, from ``publish`` on."""
        self._kept[name] = text

    def publish(self) -> None:
        """Say which versions belong together now: the one commit that our own readers go by."""
        self._lock.check()
        by_spark = {name for name, version in self.written.items() if version is None}
        versions = {**self.last.versions, **self.written, **self._newest(by_spark)}
        now = Manifest(versions, {**self.last.texts, **self._kept})
        self._publish(now)
        self.last, self.written, self._kept = now, {}, {}

    def put_back(self) -> None:
        """Undo what a dead build committed: each table to its version in the manifest."""
        newest = self._newest(set(self.last.versions))
        behind = {name: version for name, version in self.last.versions.items() if newest[name] != version}
        lost = any(version is None for version in self.last.versions.values())
        for name, version in behind.items():
            try:
                if version is not None and (here := self._here(name)) is not None:
                    here.restore(version)
                else:
                    self.spark.sql(f"RESTORE TABLE {self.tables.quoted(name)} TO VERSION AS OF {version}")
            except Exception:  # its files may have been vacuumed away
                lost = True
        if lost:
            self.last = Manifest()
            return
        if behind:
            self.last = Manifest({**self.last.versions, **self._newest(set(behind))}, self.last.texts)
            self._publish(self.last)

    def forget_unchanged(self) -> None:
        """Without versions a half made build could not be told from a whole one: its texts go before it begins."""
        if self.last.versions and None in self.last.versions.values():
            Manifest(self.last.versions).write(self.spark, self.tables)

    def _publish(self, now: Manifest) -> None:
        here = self._here(BUILD)
        if here is not None:
            here.overwrite(now.rows())
        else:
            now.write(self.spark, self.tables)

    def _dealt(self, rows: DataFrame | Bundled | pa.Table, table: TableSchema, files: int) -> DataFrame:
        if isinstance(rows, Bundled) and table.day is None:
            return rows.rows()  # each task has its own, in order
        if isinstance(rows, pa.Table) and rows.nbytes < _HERE_BYTES:
            return frame_of(self.spark, _ordered(rows, table), table.schema).coalesce(files)
        dealt = in_order(columns_of(as_frame(self.spark, rows, table), table), table, files)
        return dealt.select(*[sql.col(f"`{name}`") for name in table.schema.names])

    def _commit(self, name: str, commit: Callable[[], int | None]) -> None:
        self._lock.check()
        self.written[name] = None  # also where it fails half way
        self.written[name] = commit()

    def _merge(self, name: str, before: DataFrame, rows: DataFrame, touched: DataFrame, table: TableSchema) -> None:
        """Rows of touched groups that are in ``rows`` no more are deleted, the others updated or inserted."""
        names = [f"`{column}`" for column in table.schema.names]
        new = columns_of(rows, table).persist()
        view = f"apportion_{uuid4().hex}"
        try:
            old = before.join(touched.distinct(), touched.columns, "left_semi")
            gone = columns_of(old, table).alias("old").join(new.alias("new"), sql.expr(_same(table)), "left_anti")
            changes = gone.withColumn(_GONE, sql.lit(True)).unionByName(new.withColumn(_GONE, sql.lit(False)))
            changes.createOrReplaceTempView(view)
            self.spark.sql(
                f"MERGE INTO {self.tables.quoted(name)} AS old USING {view} AS new ON {_same(table)} "  # noqa: S608
                f"WHEN MATCHED AND new.{_GONE} THEN DELETE "
                f"WHEN MATCHED THEN UPDATE SET {', '.join(f'{column} = new.{column}' for column in names)} "
                f"WHEN NOT MATCHED AND NOT new.{_GONE} THEN INSERT ({', '.join(names)}) "
                f"VALUES ({', '.join(f'new.{column}' for column in names)})"
            )
        finally:
            self.spark.catalog.dropTempView(view)
            new.unpersist()

    def _newest(self, names: set[str]) -> dict[str, int | None]:
        """The newest version of tables."""
        if self.logs is not None:
            newest = {name: self.logs.newest(name) for name in sorted(names)}
            if None not in newest.values():
                return {name: None if one is None else one.number for name, one in newest.items()}
        with ThreadPoolExecutor(AT_ONCE) as pool:
            ordered = sorted(names)
            return dict(zip(ordered, pool.map(partial(newest_version, self.spark, self.tables), ordered), strict=True))


def logs_of(session: Asked, tables: Tables, store: StoreAddress | None) -> delta_log.Logs | None:
    """The logs of tables, by this process where it reaches them, else by Spark's driver; None where they have none."""
    if store is not None:
        return store.logs()
    return delta_log.logs_of(session(), tables.root) if isinstance(tables, DeltaTables) else None


def _ordered(rows: pa.Table, table: TableSchema) -> pa.Table:
    return nulls_first(rows.select(table.schema.names).cast(arrow_schema(table)), table.order)


def _same(table: TableSchema) -> str:
    """Whether two rows are the same one: columns that sort a table tell its rows apart, and may be null."""
    return " AND ".join(f"old.`{column}` <=> new.`{column}`" for column in table.order)


def _quoted(schema: str) -> str:
    return ".".join(f"`{part}`" for part in schema.split("."))


def is_missing(error: Exception) -> bool:
    """Whether Spark says that there is no such table."""
    return any(words in str(error) for words in _MISSING)
