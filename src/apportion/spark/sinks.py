"""Where tables go: each a folder of Parquet files that is either the old one or the new one, whole.

A run writes beside the tables, in a ``.staging-*`` of its own, and only when every table is there does it write
``publish.json`` there and move them into their places. A run that dies before that has changed nothing; one that dies
after is finished by the next. Rows are sorted and files named by what they hold, so the same input gives the same
bytes.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import functions as sql
from pyspark.sql.types import StringType, StructField, StructType

from apportion.errors import BadInput, Unavailable
from apportion.spark.bundles import Bundled, in_folder
from apportion.spark.files import MADE, ROWS_A_GROUP, SHOWN, dictionaries, link, nulls_first, sync, write_empty, writing
from apportion.spark.other_groups import keep_others, rows_after, rows_with
from apportion.spark.schemas import TABLES, TableSchema, arrow_schema
from apportion.spark.session import AS_IT_STANDS
from apportion.spark.shelves import is_connect
from apportion.spark.sorted_rows import UNDATED, days

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

STAGING: Final = ".staging-"
_JOURNAL: Final = "publish.json"
_DAY: Final = "_day"
_GROUP: Final = StructType([StructField("group", StringType())])
_EMPTY: Final = "empty.parquet"
_PIECE: Final = "+"
"""Before the number of the build that added a file, in the file's name."""
PIECES: Final = 20
"""Added to so many times, a table is written anew, for many small files are slow to read."""


class RowKeeper(Protocol):
    """Keeps rows beside the tables for the next build, and tells which rows came after them."""

    def kept_rows(self, name: str) -> pa.Table | None:
        """Rows that the last whole build kept; None where it kept none."""

    def keep_rows(self, name: str, rows: pa.Table) -> None:
        """Keep rows, from ``publish`` on."""

    def rows_after(self, name: str, column: str, moment_us: int) -> pa.Table:
        """Rows of a table, as it will be, with a later time in a column, texts as ``sorted_rows.coded`` gives them."""


class Sink(Protocol):
    """How the tables of a build are kept; nothing else knows that, and a sink knows nothing of how rows are made.

    Whoever has a sink is alone with the place until its block ends: ``parquet(folder)`` for plain files in a local
    folder, ``lake.opened(...)`` for Delta and catalogs. What a build before left half done was put right by then, so
    ``read`` and ``text`` always give what the last whole build left, and ``write``, ``append`` and ``replace_groups``
    go from there. Each of the three is one commit of its table, and a build calls one of them at most once a table;
    ``now`` gives the table as it will be, for the tables that are made from it. ``publish`` comes last.

    An incremental build is: ``text`` of what it kept of the last one, ``read`` of what it goes on from, ``append`` of
    new facts, ``replace_groups`` of what was made anew, ``write`` of what is made anew as a whole, nothing at all for a
    table that did not change, ``keep`` of what the next one must know, ``publish``.
    """

    def names(self) -> set[str]:
        """The tables that the last whole build left and that are there."""

    def read(self, name: str) -> DataFrame | None:
        """The rows that the last whole build left of a table; None where there is no such table."""

    def now(self, name: str) -> DataFrame | None:
        """The rows of a table as this build leaves it; None where there is no such table."""

    def rows_with(
        self,
        name: str,
        column: str,
        values: Collection[Any] | None,
        columns: Sequence[str] | None = None,
        bytes_max: int | None = None,
        words: bool = False,
    ) -> pa.Table | None:
        """Rows of a table, as it will be, with one of some values in a column: few, since they are kept in memory.

        values
            None: all rows.
        bytes_max
            Where the rows are more than about that, None.
        columns
            Those that are wanted; all by default.
        words
            Columns of texts as ``sorted_rows.coded`` gives them.
        """

    def write(self, name: str, rows: DataFrame | Bundled | pa.Table, table: TableSchema, files: int) -> None:
        """Replace a table whole, dealt to at most ``files`` files (a day, where it has days)."""

    def append(self, name: str, rows: DataFrame | pa.Table, table: TableSchema, files: int) -> None:
        """Add rows to a table that is there, or make it of them."""

    def replace_groups(
        self, name: str, rows: DataFrame | pa.Table, touched: DataFrame | pa.Table, table: TableSchema, files: int
    ) -> None:
        """Replace the rows of some groups by ``rows``; those of the others stay.

        touched
            (group), one row for each. ``rows`` has rows of these alone, and none for one that is gone.
        """

    def text(self, name: str) -> str | None:
        """A small text that the last whole build kept beside its tables; None where it kept none."""

    def keep(self, name: str, text: str) -> None:
        """Keep a small text (some MB at most) beside the tables, from ``publish`` on; others that were kept stay."""

    @property
    def keeper(self) -> RowKeeper | None:
        """Who keeps rows beside the tables; None where that is not done, and a build reads all rows."""

    def publish(self) -> None:
        """Let everybody see all that was written and kept since the last time."""


@contextmanager
def parquet(root: Path) -> Iterator[ParquetSink]:
    """A sink for one run; what a run before left half done is put right first, what this one leaves is removed."""
    fresh = not root.exists()
    try:
        root.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise BadInput(str(root), "a file", "a folder for the tables") from error
    try:
        with _alone(root):
            recover(root)
            # A name of its own: workers of a run that was killed a moment ago may still be writing to theirs.
            staging = Path(tempfile.mkdtemp(prefix=STAGING, dir=root))
            staging.chmod(0o755)
            try:
                yield ParquetSink(root, staging)
            finally:
                if not (staging / _JOURNAL).exists():
                    shutil.rmtree(staging, ignore_errors=True)
    finally:
        if fresh:
            with suppress(OSError):  # something was made in it
                root.rmdir()


@contextmanager
def _alone(root: Path) -> Iterator[None]:
    """Nobody else writes to the folder during the block; the lock's file goes with its end."""
    try:
        import fcntl
    except ImportError:
        raise Unavailable(
            "this system has no POSIX file locks, with which builds of tables keep out of each other's way; "
            "on Windows run the pipeline in WSL"
        ) from None
    file = root / ".lock"
    while True:
        with file.open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise Unavailable(f"another run is writing to {root}; wait for it to end") from error
            if not _is_still(lock.fileno(), file):
                continue  # the run that had it ended between the two steps, and took the file away
            try:
                yield
            finally:
                file.unlink(missing_ok=True)
            return


def _is_still(opened: int, file: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(opened), file.stat())
    except FileNotFoundError:
        return False


def check_form(root: Path, form: str) -> None:
    """Refuse to write one form of tables over the other: who reads all files of a folder would see both."""
    there = any(root.glob("*/*/_delta_log"))
    if form == "delta" and not there and any(root.glob("silver/*/*.parquet")):
        needed = "a folder without tables, or one of Delta tables; or --format parquet"
        raise BadInput(str(root), "plain Parquet tables", needed)
    if there and form != "delta":
        raise BadInput(str(root), "Delta tables", "--format delta, or another folder")


def check_shared(staging: Path, spark: SparkSession) -> None:
    """Refuse a local folder that a cluster's executors do not see: what they wrote would stay on their own disks."""
    sign = staging / "seen"
    sign.write_text("")
    sync(sign)
    folder = str(sign)

    def look(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            seen = pa.array([os.path.exists(folder)] * batch.num_rows)
            yield pa.RecordBatch.from_arrays([seen], names=["seen"])

    tasks = max(2, spark.sparkContext.defaultParallelism) if not is_connect(spark) else 2
    rows = spark.range(0, tasks, 1, tasks).mapInArrow(look, "seen boolean").collect()
    sign.unlink()
    if not all(row["seen"] for row in rows):
        why = "a folder of this machine, which the cluster's executors do not share"
        raise BadInput(str(staging.parent), why, "a URI such as s3a://bucket/prefix, catalog.schema, or a shared disk")


def recover(root: Path) -> None:
    """Finish what a dead run had begun to publish, or forget what it had not."""
    for staging in sorted(root.glob(f"{STAGING}*")):
        if (staging / _JOURNAL).exists():
            _move(root, staging)
        shutil.rmtree(staging, ignore_errors=True)


class ParquetSink:
    """Tables as folders of Parquet files below ``root``; see ``parquet``."""

    def __init__(self, root: Path, staging: Path) -> None:
        self.root, self.staging = root, staging
        self.written: list[str] = []
        self.reader: Callable[[], SparkSession] | None = None
        """Asked for the session that reads tables; by default that of the rows that were written last."""
        self._writer: SparkSession | None = None

    def names(self) -> set[str]:
        """The folders with files."""
        return {name for name in TABLES if any((self.root / name).glob(SHOWN))}

    def read(self, name: str) -> DataFrame | None:
        """The published table, which stays in its place until ``publish``."""
        if self.reader is None or not any((self.root / name).glob(SHOWN)):
            return None
        return in_folder(read_table(self.reader(), self.root, name, TABLES[name]), self.root / name)

    def now(self, name: str) -> DataFrame | None:
        """The staged table, else the published one."""
        if name not in self.written:
            return self.read(name)
        spark = self._writer if self.reader is None else self.reader()
        if spark is None:
            raise ValueError("rows of this process need a sink with a session to read them")
        stage = self.staging / "new" / name
        return in_folder(plain_files(spark, TABLES[name], str(stage)), stage)

    def rows_with(
        self,
        name: str,
        column: str,
        values: Collection[Any] | None,
        columns: Sequence[str] | None = None,
        bytes_max: int | None = None,
        words: bool = False,
    ) -> pa.Table | None:
        """Out of the staged files, else the published ones, without Spark."""
        return rows_with(self._files(name), arrow_schema(TABLES[name]), column, values, columns, bytes_max, words)

    def rows_after(self, name: str, column: str, moment_us: int) -> pa.Table:
        """Out of the same files, by the statistics of their row groups."""
        return rows_after(self._files(name), arrow_schema(TABLES[name]), column, moment_us)

    def _files(self, name: str) -> list[Path]:
        """The staged files, else the published ones."""
        staged = self.staging / "new" / name
        return sorted((staged if staged.is_dir() else self.root / name).glob(SHOWN))

    def write(self, name: str, rows: DataFrame | Bundled | pa.Table, table: TableSchema, files: int) -> None:
        """Stage a table of at most ``files`` files (a day)."""
        stage = self._stage(name)
        if not self._write(stage, rows, table, files, ""):
            write_empty(stage / _EMPTY, arrow_schema(table))
        self._staged(name, rows)

    def append(self, name: str, rows: DataFrame | pa.Table, table: TableSchema, files: int) -> None:
        """Stage the files that are there, as links, and new ones beside them; a table of many pieces is made one."""
        old, pieces = self._pieces(name)
        if not old or len(pieces) > PIECES:
            before = self.read(name)
            whole = rows
            if before is not None:
                whole = before.unionByName(columns_of(as_frame(before.sparkSession, rows, table), table))
            self.write(name, whole, table, files)
            return
        stage = self._stage(name)
        added = self._write(stage, rows, table, files, _next(pieces))
        for file in old:
            if not (added and file.name == _EMPTY):
                link(file, stage / file.name)
        self._staged(name, rows)

    def replace_groups(
        self, name: str, rows: DataFrame | pa.Table, touched: DataFrame | pa.Table, table: TableSchema, files: int
    ) -> None:
        """Stage the files that hold none of the groups as links, the others without these groups, and the new rows.

        A table of many pieces is made one.
        """
        old, pieces = self._pieces(name)
        if not old:
            self.write(name, rows, table, files)
            return
        if len(pieces) > PIECES and (before := self.read(name)) is not None:
            self.write(name, replaced(before, rows, touched, table), table, files)
            return
        stage = self._stage(name)
        self._write(stage, rows, table, 1, _next(pieces))
        groups = (touched if isinstance(touched, pa.Table) else touched.toArrow())["group"]
        for file in old:
            keep_others(file, stage / file.name, groups.combine_chunks(), arrow_schema(table))
        if not any(stage.iterdir()):
            write_empty(stage / _EMPTY, arrow_schema(table))
        self._staged(name, rows)

    def text(self, name: str) -> str | None:
        """A published file of text."""
        try:
            return (self.root / name).read_text(encoding="utf-8", errors="replace")
        except (FileNotFoundError, NotADirectoryError):
            return None

    def keep(self, name: str, text: str) -> None:
        """Stage a file of text."""
        (self.staging / "new").mkdir(exist_ok=True)
        (self.staging / "new" / name).write_text(text, encoding="utf-8")
        sync(self.staging / "new" / name)
        self.written.append(name)

    @property
    def keeper(self) -> RowKeeper:
        """Files beside the tables."""
        return self

    def kept_rows(self, name: str) -> pa.Table | None:
        """A published file."""
        try:
            return pq.read_table(self.root / name, read_dictionary=["topic"], partitioning=None)
        except (OSError, pa.ArrowException):
            return None

    def keep_rows(self, name: str, rows: pa.Table) -> None:
        """Stage a file of rows."""
        file = self.staging / "new" / name
        file.parent.mkdir(exist_ok=True)
        pq.write_table(rows, file, row_group_size=ROWS_A_GROUP, use_dictionary=dictionaries(rows.schema))
        sync(file)
        self.written.append(name)

    def publish(self) -> None:
        """Move all that was written into its place; it is on the disk before the first move, and the moves after."""
        for folder in {(self.staging / "new" / name).parent for name in self.written} | {self.staging / "new"}:
            if folder.exists():
                sync(folder)
        draft = self.staging / (_JOURNAL + ".draft")
        draft.write_text(json.dumps(self.written))
        sync(draft)
        os.replace(draft, self.staging / _JOURNAL)
        sync(self.staging)
        sync(self.root)
        _move(self.root, self.staging)
        self.written = []

    def _stage(self, name: str) -> Path:
        stage = self.staging / "new" / name
        stage.mkdir(parents=True)
        return stage

    def _pieces(self, name: str) -> tuple[list[Path], set[str]]:
        """A published table's files, and the numbers of the builds that added some of them ("" for the first)."""
        old = sorted((self.root / name).glob(SHOWN))
        return old, {file.stem.partition(_PIECE)[2] for file in old}

    def _write(
        self, stage: Path, rows: DataFrame | Bundled | pa.Table, table: TableSchema, files: int, suffix: str
    ) -> bool:
        """Whether there were rows to write."""
        schema, day = arrow_schema(table), _DAY if table.day else None
        if isinstance(rows, pa.Table):
            batches = sorted_rows(rows, table, schema).to_batches()
            written = pa.Table.from_batches(writing(stage, schema, day, suffix)(batches))
            return bool(written.num_rows)
        if isinstance(rows, Bundled):
            write, opened, of_day = writing(stage, schema, day, suffix), rows.opened(), table.day
            return bool(
                rows.of_kind().mapInArrow(lambda bundles: write(_dated(opened(bundles), of_day)), MADE).collect()
            )
        dealt = in_order(columns_of(rows, table), table, files)
        return bool(dealt.mapInArrow(writing(stage, schema, day, suffix), MADE).collect())

    def _staged(self, name: str, rows: DataFrame | Bundled | pa.Table) -> None:
        self.written.append(name)
        sync(self.staging / "new" / name)
        if not isinstance(rows, pa.Table):
            self._writer = rows.sparkSession


def _next(pieces: Iterable[str]) -> str:
    """What ends the names of the files that a build adds."""
    return f"{_PIECE}{1 + max((int(piece) for piece in pieces if piece.isdigit()), default=0)}"


def replaced(
    before: DataFrame, rows: DataFrame | pa.Table, touched: DataFrame | pa.Table, table: TableSchema
) -> DataFrame:
    """A table's rows with those of the touched groups replaced."""
    spark = before.sparkSession
    some = names_of(spark, touched)
    kept = before.join(some.distinct(), some.columns, "left_anti")
    return kept.unionByName(columns_of(as_frame(spark, rows, table), table))


def as_frame(spark: SparkSession, rows: DataFrame | Bundled | pa.Table, table: TableSchema) -> DataFrame:
    """Rows as Spark's, whoever has them."""
    if isinstance(rows, Bundled):
        return rows.rows()
    if not isinstance(rows, pa.Table):
        return rows
    return frame_of(spark, rows.select(table.schema.names).cast(arrow_schema(table)), table.schema)


def frame_of(spark: SparkSession, rows: pa.Table, schema: StructType) -> DataFrame:
    """Rows of this process as Spark's."""
    # Spark 4.2 fails on a table of Arrow's that has no rows, and of one in pieces it loses all behind an empty piece.
    whole = rows.combine_chunks()
    return spark.createDataFrame(whole, schema=schema) if whole.num_rows else spark.createDataFrame([], schema)


def names_of(spark: SparkSession, groups: DataFrame | pa.Table) -> DataFrame:
    """(group), whoever has them."""
    return frame_of(spark, groups, _GROUP) if isinstance(groups, pa.Table) else groups


def columns_of(rows: DataFrame | Bundled, table: TableSchema) -> DataFrame:
    """Exactly the table's columns, in its order."""
    if isinstance(rows, Bundled):
        rows = rows.rows()
    return rows.select(*[sql.col(f"`{field.name}`") for field in table.schema])


def sorted_rows(rows: pa.Table, table: TableSchema, schema: pa.Schema) -> pa.Table:
    """What ``in_order`` makes of rows, for one file: sorted, with the day first where the table has days."""
    rows = rows.select(schema.names).cast(schema)
    keys = list(table.order)
    if table.day is not None:
        rows = rows.add_column(0, _DAY, days(rows[table.day]).cast(pa.string()))
        keys.insert(0, _DAY)
    return nulls_first(rows, keys)


def _dated(batches: Iterable[pa.RecordBatch], day: str | None) -> Iterator[pa.RecordBatch]:
    """Batches with the day of a time before their columns; None: as they are."""
    for batch in batches:
        yield batch if day is None else batch.add_column(0, _DAY, days(batch[day]))


def in_order(frame: DataFrame, table: TableSchema, files: int) -> DataFrame:
    """Rows sorted, and dealt to a number of tasks by value alone; with the day first where the table has days."""
    order: list[Column] = [sql.col(f"`{name}`") for name in table.order]
    if table.day is not None:
        day = sql.when(sql.year(table.day).between(1970, 9999), sql.date_format(table.day, "yyyy-MM-dd"))
        frame = frame.select(sql.coalesce(day, sql.lit(UNDATED)).alias(_DAY), "*")
        order = [sql.col(_DAY), *order]
    # A number given here is kept by Spark, whatever it would rather have: names and bytes depend on it.
    dealt = frame.repartition(files, *order[:2]) if files > 1 else frame.repartition(1)
    return dealt.sortWithinPartitions(*order)


def _move(root: Path, staging: Path) -> None:
    """Put what the journal names into place; can be begun again at any point."""
    places = [(root / name, staging / "new" / name, staging / "old" / name) for name in _journal(staging)]
    for target, fresh, old in places:
        if not fresh.exists():
            continue  # moved already
        target.parent.mkdir(parents=True, exist_ok=True)
        old.parent.mkdir(parents=True, exist_ok=True)
        if target.exists():
            shutil.rmtree(old, ignore_errors=True)
            os.rename(target, old)
        os.rename(fresh, target)
    # The journal goes when the moves are on the disk: after a power cut they would be made again.
    for folder in {target.parent for target, _, _ in places} | {root}:
        sync(folder)
    (staging / _JOURNAL).unlink()


def _journal(staging: Path) -> list[str]:
    file = staging / _JOURNAL
    try:
        names: list[str] = json.loads(file.read_text())
    except ValueError as error:  # it was whole when it got its name: only a disk that lost it can do that
        needed = f"the names of the tables in {staging / 'new'}; move them to their places, or remove {staging}"
        raise BadInput(str(file), "what no run wrote", needed) from error
    return names


def read_table(spark: SparkSession, root: Path, name: str, table: TableSchema) -> DataFrame:
    """A published table."""
    return plain_files(spark, table, str(root / name))


def plain_files(spark: SparkSession, table: TableSchema, *paths: str) -> DataFrame:
    """Parquet files, or folders of them, with a table's columns; a path is taken as it is, with its ``[``, ``*``."""
    return spark.read.schema(table.schema).options(**AS_IT_STANDS).parquet(*paths)
