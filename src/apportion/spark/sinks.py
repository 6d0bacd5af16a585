"""Where tables go: each a folder of Parquet files that is either the old one or the new one, whole.

A run writes beside the tables, in a ``.staging-*`` of its own, and only when every table is there does it write
``publish.json`` there and move them into their places. A run that dies before that has changed nothing; one that dies
after is finished by the next. Rows are sorted and files named by what they hold, so the same input gives the same
bytes.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from pyspark.sql import functions as sql

from apportion.errors import BadInput, MissingExtra, Unavailable
from apportion.spark.files import MADE, write_empty, writing
from apportion.spark.schemas import TableSchema, arrow_schema

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

STAGING: Final = ".staging-"
_JOURNAL: Final = "publish.json"
_DAY: Final = "_day"


class Sink(Protocol):
    """What a pipeline's run needs of the place that it writes to."""

    def write(self, name: str, made: DataFrame, table: TableSchema, files: int) -> DataFrame:
        """Compute a table and keep it aside; gives it back for the tables that are made from it."""

    def keep(self, name: str, text: str) -> None:
        """Put a small file of text aside, to be published with the tables."""

    def publish(self) -> None:
        """Let everybody see all that was written since the last time."""


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


def check_form(root: Path, delta: bool) -> None:
    """Refuse to write one form of tables over the other: who reads all files of a folder would see both."""
    there = any(root.glob("*/*/_delta_log"))
    if delta and not there and any(root.glob("silver/*/*.parquet")):
        raise BadInput(str(root), "plain Parquet tables", "a folder without tables, or one of Delta tables (--delta)")
    if there and not delta:
        raise BadInput(str(root), "Delta tables", "--delta, or another folder")


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
        self.reader: SparkSession | None = None
        """The session that reads what was staged; that of the table by default."""

    def write(self, name: str, made: DataFrame, table: TableSchema, files: int) -> DataFrame:
        """Stage a table of at most ``files`` files (a day) and give it back as it stands there."""
        stage = self.staging / "new" / name
        stage.mkdir(parents=True)
        schema = arrow_schema(table)
        frame = _in_order(made.select(*[sql.col(f"`{field.name}`") for field in table.schema]), table, files)
        rows = frame.mapInArrow(writing(stage, schema, _DAY if table.day else None), MADE).collect()
        if not rows:
            write_empty(stage / "empty.parquet", schema)
        self.written.append(name)
        return (self.reader or made.sparkSession).read.schema(table.schema).parquet(str(stage))

    def keep(self, name: str, text: str) -> None:
        """Stage a file of text."""
        (self.staging / "new").mkdir(exist_ok=True)
        (self.staging / "new" / name).write_text(text)
        self.written.append(name)

    def publish(self) -> None:
        """Move all that was written into its place."""
        draft = self.staging / (_JOURNAL + ".draft")
        draft.write_text(json.dumps(self.written))
        os.replace(draft, self.staging / _JOURNAL)
        _move(self.root, self.staging)
        self.written = []


def _in_order(frame: DataFrame, table: TableSchema, files: int) -> DataFrame:
    """Rows sorted, and dealt to a number of tasks by value alone; with the day first where the table has days."""
    order: list[Column] = [sql.col(f"`{name}`") for name in table.order]
    if table.day is not None:
        day = sql.when(sql.year(table.day).between(1970, 9999), sql.date_format(table.day, "yyyy-MM-dd"))
        frame = frame.select(sql.coalesce(day, sql.lit("undated")).alias(_DAY), "*")
        order = [sql.col(_DAY), *order]
    # A number given here is kept by Spark, whatever it would rather have: names and bytes depend on it.
    dealt = frame.repartition(files, *order[:2]) if files > 1 else frame.repartition(1)
    return dealt.sortWithinPartitions(*order)


def _move(root: Path, staging: Path) -> None:
    """Put what the journal names into place; can be begun again at any point."""
    for name in json.loads((staging / _JOURNAL).read_text()):
        fresh, place, old = staging / "new" / name, root / name, staging / "old" / name
        if not fresh.exists():
            continue  # moved already
        place.parent.mkdir(parents=True, exist_ok=True)
        old.parent.mkdir(parents=True, exist_ok=True)
        if place.exists():
            shutil.rmtree(old, ignore_errors=True)
            os.rename(place, old)
        os.rename(fresh, place)
    (staging / _JOURNAL).unlink()


class DeltaSink:
    """The same tables in Delta's form, through the ``deltalake`` package: every run is one version of each table."""

    def __init__(self, inner: ParquetSink) -> None:
        try:
            import deltalake  # type: ignore[import-not-found, unused-ignore] # noqa: F401
        except ImportError as error:
            raise MissingExtra("The Delta sink", "delta") from error
        self.inner = inner

    def write(self, name: str, made: DataFrame, table: TableSchema, files: int) -> DataFrame:
        """Stage it as Parquet; Delta gets it when all are there."""
        return self.inner.write(name, made, table, files)

    def keep(self, name: str, text: str) -> None:
        """Stage it as a plain file, which it stays."""
        self.inner.keep(name, text)

    def publish(self) -> None:
        """A new version of each table, by what was staged; plain files last, which tell of the tables."""
        import pyarrow.dataset as ds
        from deltalake import write_deltalake  # type: ignore[import-not-found, unused-ignore]

        staged = {name: self.inner.staging / "new" / name for name in self.inner.written}
        tables = [name for name in staged if staged[name].is_dir()]
        for name in tables:
            rows = ds.dataset(staged[name]).scanner().to_reader()
            write_deltalake(str(self.inner.root / name), rows, mode="overwrite")
        self.inner.written = [name for name in staged if name not in tables]
        self.inner.publish()


def read_table(spark: SparkSession, root: Path, name: str, table: TableSchema) -> DataFrame:
    """A published table."""
    return spark.read.schema(table.schema).parquet(str(root / name))
