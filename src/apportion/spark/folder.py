"""Tables as folders of Parquet files, each of which is either the old one or the new one, whole.

A build writes beside the tables, in a ``.staging-*`` of its own, and only when every table is there does it write
``publish.json`` there and move them into their places. A build that dies before that has changed nothing; one that dies
after is finished by the next.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from apportion.errors import BadInput, Unavailable
from apportion.spark import lock
from apportion.spark.arrow_rows import ARROW, STATE, Delivery, counted
from apportion.spark.files import SHOWN, drafted, link, sync, write_rows, write_table
from apportion.spark.schemas import spark_schema
from apportion.spark.session import AS_IT_STANDS, is_connect
from apportion.spark.shelves import FolderShelf
from apportion.tables.schemas import TABLES, arrow_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

STAGING: Final = ".staging-"
LOCKS: Final = ".apportion_lock"
_JOURNAL: Final = "publish.json"
_EMPTY: Final = "empty.parquet"


@contextmanager
def staged(root: Path, progress: Callable[[str], None] = lambda line: None) -> Iterator[tuple[Path, lock.Held]]:
    """A folder for the drafts of a process that is alone with a place; half done work there is put right first."""
    if find_spec("fcntl") is None:
        raise Unavailable(
            "tables in a folder need a POSIX system, which this is not; on Windows run the pipeline in WSL"
        )
    fresh = not root.exists()
    try:
        root.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise BadInput(str(root), "a file", "a folder for the tables") from error
    try:
        with lock.held(FolderShelf(root / LOCKS), str(root), progress=progress) as held:
            recover(root)
            # A name of its own: workers of a build that was killed a moment ago may still be writing to theirs.
            staging = Path(tempfile.mkdtemp(prefix=STAGING, dir=root))
            staging.chmod(0o755)
            try:
                yield staging, held
                held.finished = True
            finally:
                if not (staging / _JOURNAL).exists():
                    shutil.rmtree(staging, ignore_errors=True)
    finally:
        if fresh and [entry.name for entry in root.iterdir()] == [LOCKS]:
            with suppress(OSError):
                shutil.rmtree(root)


def check_form(root: Path, form: str) -> None:
    """Refuse to write one form of tables over the other: who reads all files of a folder would see both."""
    holds_delta = any(root.glob("*/*/_delta_log"))
    if form == "delta" and not holds_delta and any(root.glob("silver/*/*.parquet")):
        needed = "a folder without tables, or one of Delta tables; or --format parquet"
        raise BadInput(str(root), "plain Parquet tables", needed)
    if holds_delta and form != "delta":
        raise BadInput(str(root), "Delta tables", "--format delta, or another folder")


def check_shared(staging: Path, spark: SparkSession) -> None:
    """Refuse a local folder that a cluster's executors do not see: their files would stay on their own disks."""
    sign = staging / "seen"
    sign.write_text("")
    sync(sign)
    folder = str(sign)

    def look(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            seen = pa.array([os.path.exists(folder)] * batch.num_rows)
            yield pa.RecordBatch.from_arrays([seen], names=["seen"])

    tasks = 2 if is_connect(spark) else max(2, spark.sparkContext.defaultParallelism)
    rows = spark.range(0, tasks, 1, tasks).mapInArrow(look, "seen boolean").collect()
    sign.unlink()
    if not all(row["seen"] for row in rows):
        why = "a folder of this machine, which the cluster's executors do not share"
        raise BadInput(str(staging.parent), why, "a URI such as s3a://bucket/prefix, catalog.schema, or a shared disk")


def recover(root: Path) -> None:
    """Finish a publication that a dead run had begun, or forget the part before that."""
    for staging in sorted(root.glob(f"{STAGING}*")):
        if (staging / _JOURNAL).exists():
            _move(root, staging)
        shutil.rmtree(staging, ignore_errors=True)


class FolderStore:
    """Tables as folders of Parquet files below ``root``."""

    def __init__(self, root: Path, staging: Path, held: lock.Held, spark: SparkSession) -> None:
        self.root, self._staging, self._lock, self._spark = root, staging, held, spark
        self._written: list[str] = []

    def names(self) -> set[str]:
        """The folders with files."""
        return {name for name in (*TABLES, STATE) if any((self.root / name).glob(SHOWN))}

    def read(self, name: str) -> DataFrame | None:
        """The published table, which stays in its place until ``publish``."""
        if not any((self.root / name).glob(SHOWN)):
            return None
        reader = self._spark.read.schema(spark_schema(name)).options(**AS_IT_STANDS)
        return reader.parquet(str(self.root / name))

    def text(self, name: str) -> str | None:
        """A published file of text."""
        try:
            return (self.root / name).read_text(encoding="utf-8", errors="replace")
        except (FileNotFoundError, NotADirectoryError):
            return None

    def keep(self, name: str, text: str) -> None:
        """Stage a file of text."""
        (self._staging / "new").mkdir(exist_ok=True)
        (self._staging / "new" / name).write_text(text, encoding="utf-8")
        sync(self._staging / "new" / name)
        self._written.append(name)

    def deliver(self, stage: str) -> Delivery:
        """Write rows to files, by the task that has them."""
        return partial(_written, str(self._staging / "new"), stage)

    def write(self, name: str, frames: Sequence[DataFrame], rows: int, newest: int | None, whole: bool) -> None:
        """Complete the tasks' output: by links to the files that are there, or by one that shows the columns.

        frames
            Rows of ``arrow_rows.ROW``, among them those that ``deliver`` gave.
        rows
            How many were delivered.
        newest
            Their newest time in microseconds; of files their footers tell it.
        whole
            They are all rows of the table; else they are added to those that are there.
        """
        stage = self._staging / "new" / name
        if whole and not rows:
            stage.mkdir(parents=True, exist_ok=True)
            schema = ARROW if name == STATE else arrow_schema(TABLES[name])
            write_rows(stage / _EMPTY, schema.empty_table())
        elif not whole:
            for file in sorted((self.root / name).glob(SHOWN)):
                if file.name != _EMPTY:
                    link(file, stage / file.name)
        sync(stage)
        self._written.append(name)

    def begin_again(self) -> None:
        """Forget all that was staged."""
        shutil.rmtree(self._staging / "new", ignore_errors=True)
        self._written = []

    def publish(self) -> None:
        """Move all that was written into its place; it is on the disk before the first move, and the moves after."""
        self._lock.check()
        for folder in {(self._staging / "new" / name).parent for name in self._written} | {self._staging / "new"}:
            if folder.exists():
                sync(folder)
        with drafted(self._staging / _JOURNAL) as draft:
            draft.write_text(json.dumps(self._written))
        sync(self._staging)
        sync(self.root)
        _move(self.root, self._staging)
        self._written = []


def _written(folder: str, stage: str, name: str, rows: pa.Table, part: str) -> Iterator[pa.RecordBatch]:
    if rows.num_rows:
        table_folder = Path(folder, name)
        if name == STATE:
            table_folder.mkdir(parents=True, exist_ok=True)
            write_rows(table_folder / f"{part}{stage}.parquet", rows, bundles=True)
        else:
            write_table(table_folder, TABLES[name], rows, f"{part}{stage}")
        yield from counted(name, rows)


def _move(root: Path, staging: Path) -> None:
    """Put the files that the journal names into place; can be begun again at any point."""
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
