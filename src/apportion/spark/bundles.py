"""Many rows of a table in one row of Spark's, as Arrow's bytes: how a million rows reach a task without being touched.

Spark carries a row to Python and back cell by cell, and shuffles it by itself: for a million rows of ten columns that
is most of what a table costs. A bundle is rows of one kind for one task; Spark copies its bytes. So what all tables of
a group are made from meets in one task, once, as whole columns.

Where all tasks run on this machine, the bytes go into files of a scratch folder, and Spark carries their names: what a
worker wrote the next one maps into its memory, and nothing passes through the JVM, its shuffle or its cache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final
from uuid import uuid4
from weakref import WeakKeyDictionary
from zlib import crc32

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from apportion.spark import settings
from apportion.spark.files import SHOWN
from apportion.spark.scratch import scratch_folder
from apportion.spark.shelves import is_connect
from apportion.spark.slices import BYTES, ROWS, Batches, Slice, batches_of, gathered, slices_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

Tables = Mapping[str, pa.Table]
"""Kind to its rows."""

Shrink = Mapping[str, Callable[[pa.Table], pa.Table]]
"""Kind to what leaves out its needless rows."""
BUNDLE: Final = "task int, kind string, rows binary, file string"
"""Columns of bundles: ``rows`` are the bytes, or null where ``file`` names what holds them."""
_ARROW: Final = pa.schema([("task", pa.int32()), ("kind", pa.string()), ("rows", pa.binary()), ("file", pa.string())])
TASK: Final = "_task"
"""A column beside a kind's rows: the task that each row goes to."""
ROWS_A_TASK: Final = 500_000
"""So many rows are about what one task sorts, and what one file has."""
MOST_ROWS: Final = 4_000_000
"""Rows of a kind that shrinks which are gathered before it does."""


_FOLDERS: Final[WeakKeyDictionary[DataFrame, Path]] = WeakKeyDictionary()


def in_folder(table: DataFrame, folder: Path) -> DataFrame:
    """The table, which is what our own Parquet files in a folder of this machine hold: see ``bundled``."""
    _FOLDERS[table] = folder
    return table


def files_of(table: DataFrame) -> list[Path] | None:
    """The files of a table that is ``in_folder``, if all tasks run on this machine."""
    folder = _FOLDERS.get(table)
    return sorted(folder.glob(SHOWN)) if folder is not None and is_here(table.sparkSession) else None


def is_here(spark: SparkSession) -> bool:
    """Whether all tasks run on this machine."""
    return not is_connect(spark) and settings.is_local(spark.sparkContext.master or "")


def shelf(spark: SparkSession) -> Path | None:
    """A fresh folder for the bytes of bundles, which whoever asked has to remove; None where tasks run elsewhere."""
    if not is_here(spark):
        return None
    folder = spark.sparkContext.getConf().get("spark.local.dir", "") or ""
    return scratch_folder(folder.split(",")[0].strip() or None)


def bundled(
    table: DataFrame, columns: Sequence[str], kind: str, by: str, tasks: int, shelf: Path | None = None
) -> DataFrame:
    """Some columns of a table as bundles; rows with one value of a column meet in one task, below ``tasks``.

    shelf
        As ``shelf()`` gives it: where the bytes are put; None: into the rows themselves.

    Where all tasks run on the machine that has the table's files, Arrow reads them: half of Spark's own time goes into
    taking rows apart.
    """
    read: Callable[[Batches], Iterator[pa.RecordBatch]] = iter
    files, spark = files_of(table), table.sparkSession
    if files is not None:
        slices = slices_of(files, 2 * spark.sparkContext.defaultParallelism)
        rows = spark.range(0, len(slices), 1, len(slices))
        read = partial(_rows_of, slices=slices, columns=list(columns))
    else:
        rows = table.select(*[F.col(f"`{name}`") for name in columns])

    def pack(batches: Batches) -> Iterator[pa.RecordBatch]:
        for some in gathered(read(batches)):
            yield from for_tasks(some.append_column(TASK, task_of(some[by], tasks)), kind, shelf)

    return rows.mapInArrow(pack, BUNDLE)


def sent(spark: SparkSession, table: pa.Table, kind: str, by: str, tasks: int, shelf: Path | None = None) -> DataFrame:
    """Rows of this process, one at least, as ``bundled`` gives them."""
    rows = table.combine_chunks()
    bundles = for_tasks(rows.append_column(TASK, task_of(rows[by], tasks)), kind, shelf)
    return spark.createDataFrame(pa.Table.from_batches(bundles).combine_chunks(), schema=BUNDLE)


def _rows_of(batches: Batches, slices: Sequence[Slice], columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The rows of the slices whose numbers come."""
    for batch in batches:
        for number in batch.column(0).to_pylist():
            yield from batches_of(slices[number], columns)


def task_of(column: pa.ChunkedArray, tasks: int) -> pa.Array:
    """The task of each row by a column of texts: the same on every machine."""
    distinct = column.combine_chunks().dictionary_encode()
    task = [crc32((text or "").encode()) % tasks for text in distinct.dictionary.to_pylist()]
    return pa.array(task, pa.int32()).take(distinct.indices).fill_null(0)


def for_tasks(table: pa.Table, kind: str, shelf: Path | None = None) -> Iterator[pa.RecordBatch]:
    """Rows with their task beside, as a bundle for each task that has some."""
    if not table.num_rows:
        return
    task = table.column(TASK).to_numpy()
    rows = table.drop_columns([TASK])
    if (task[1:] < task[:-1]).any():
        order = np.argsort(task, kind="stable")
        task, rows = task[order], rows.take(pa.array(order))
    cuts = [0, *(np.flatnonzero(np.diff(task)) + 1).tolist(), len(task)]
    for first, behind in pairwise(cuts):
        yield from packed(kind, rows.slice(first, behind - first), int(task[first]), shelf)


def packed(kind: str, table: pa.Table, task: int, shelf: Path | None = None) -> Iterator[pa.RecordBatch]:
    """A table as bundles for one task; of no rows there is one too, which tells the columns."""
    size = max(1, table.nbytes)
    at_once = max(1, min(ROWS, table.num_rows * BYTES // size)) if table.num_rows else 1
    for first in range(0, max(1, table.num_rows), at_once):
        file = None if shelf is None else str(shelf / f"{kind}-{task}-{uuid4().hex}")
        out = pa.BufferOutputStream() if file is None else pa.OSFile(file, "wb")
        with out, pa.ipc.new_stream(out, table.schema) as stream:
            stream.write_table(table.slice(first, at_once))
        rows = out.getvalue().to_pybytes() if file is None else None
        bundle = [pa.array([task], pa.int32()), pa.array([kind]), pa.array([rows], pa.binary())]
        yield pa.RecordBatch.from_arrays([*bundle, pa.array([file], pa.string())], schema=_ARROW)


def unpacked(bundles: Batches) -> Iterator[tuple[int, str, pa.Table]]:
    """Task, kind and rows of each bundle."""
    for batch in bundles:
        tasks, kinds, files = (batch.column(name).to_pylist() for name in ("task", "kind", "file"))
        for task, kind, file, rows in zip(tasks, kinds, files, batch.column("rows"), strict=True):
            yield task, kind, pa.ipc.open_stream(rows.as_buffer() if file is None else pa.memory_map(file)).read_all()


class _Arrived:
    """The rows of a kind that came to a task so far."""

    def __init__(self, shrink: Callable[[pa.Table], pa.Table] | None) -> None:
        self._shrink, self._pieces = shrink, list[pa.Table]()
        self._rows, self._most = 0, MOST_ROWS

    def take(self, rows: pa.Table) -> None:
        """Some more."""
        self._pieces.append(rows)
        self._rows += rows.num_rows
        if self._shrink is not None and self._rows > self._most:
            few = self._shrink(self.whole())
            self._pieces, self._rows = [few], few.num_rows
            self._most = max(MOST_ROWS, 2 * self._rows)

    def whole(self) -> pa.Table:
        """All of them, which are forgotten here."""
        pieces, self._pieces = self._pieces, []
        return pa.concat_tables(pieces).combine_chunks()


def met(
    bundles: Sequence[DataFrame],
    tasks: int,
    make: Callable[[Tables], Tables],
    shrink: Shrink | None = None,
    shelf: Path | None = None,
) -> DataFrame:
    """Bundles of what ``make`` gives for all rows of each task, each kind with all its rows.

    shrink
        Of a kind of which a task may get more rows than it has memory: what leaves out rows that others make needless.
    shelf
        As in ``bundled``.
    """
    whole = reduce(lambda one, other: one.unionByName(other), bundles)

    def run(batches: Batches) -> Iterator[pa.RecordBatch]:
        own = 0
        arrived: dict[str, _Arrived] = {}
        for task, kind, rows in unpacked(batches):
            own = task
            if kind not in arrived:
                arrived[kind] = _Arrived((shrink or {}).get(kind))
            arrived[kind].take(rows)
        if arrived:
            tables = {kind: some.whole() for kind, some in arrived.items()}
            arrived.clear()
            for kind, table in make(tables).items():
                if TASK in table.column_names:
                    yield from for_tasks(table, kind, shelf)
                else:
                    yield from packed(kind, table, own, shelf)

    return whole.repartitionById(tasks, F.col("task")).mapInArrow(run, BUNDLE)


def _as_it_is(table: pa.Table) -> pa.Table:
    return table


@dataclass(frozen=True)
class Bundled:
    """A table whose rows are in bundles: each task has its own, in the table's order.

    bundles
        Of several tables; ``kind`` names the one.
    make
        The table's rows from those of a bundle; they stay in its order.
    """

    bundles: DataFrame
    kind: str
    schema: StructType
    make: Callable[[pa.Table], pa.Table] = _as_it_is

    @property
    def sparkSession(self) -> SparkSession:
        """Whose bundles they are."""
        return self.bundles.sparkSession

    def opened(self) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
        """A function for ``mapInArrow`` that gives the table's rows of a task, in the order of its bundles."""
        kind, make = self.kind, self.make

        def rows(batches: Batches) -> Iterator[pa.RecordBatch]:
            for _, name, table in unpacked(batches):
                if name == kind and table.num_rows:
                    yield from make(table).combine_chunks().to_batches()

        return rows

    def of_kind(self) -> DataFrame:
        """The bundles of this table alone."""
        return self.bundles.where(F.col("kind") == self.kind)

    def rows(self) -> DataFrame:
        """The table row by row, for whoever wants it so."""
        return self.of_kind().mapInArrow(self.opened(), self.schema)
