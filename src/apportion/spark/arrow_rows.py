"""Many rows of a table in one row of Spark's, as Arrow's bytes: how a million rows reach a task without being touched.

Spark carries a row to Python and back cell by cell, and shuffles it by itself: for a million rows of ten columns that
is most of what a table costs. Here it shuffles, spills and retries rows of (kind, bucket, Arrow's bytes), on one
machine and on a cluster alike, and the work in tasks is Arrow in, Arrow out.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from apportion.pipeline.columns import TASK, bucket_of, with_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Batches = Iterable[pa.RecordBatch]
Tables = Mapping[str, pa.Table]
"""Kind to its rows."""
Delivery = Callable[[str, pa.Table, str], Iterator[pa.RecordBatch]]
"""How a task hands over rows of a table, as the place of the tables wants it: from the table's name, rows of it and a
name of this part of them, which no other part of the stage has, to rows of ``ROW``: one ``written`` for the driver with
how many there are, and what ``TableStore.write`` needs."""

STATE: Final = "apportion_state"
"""The table, of rows of ``ROW``, of what a build keeps for the next one."""

ROW: Final = "kind string, bucket int, payload binary"
ARROW: Final = pa.schema([("kind", pa.string()), ("bucket", pa.int32()), ("payload", pa.binary())])
DRIVER: Final = -1
"""The bucket of rows that the driver collects: counts and names, of which there are few."""
DELIVERED: Final = -2
"""The bucket of rows that are a table's own."""
PAYLOAD_BYTES: Final = 8 << 20
_PACKING: Final = pa.ipc.IpcWriteOptions(compression="zstd")
"""Spark copies a payload from file to shuffle to task, and compresses it each time: it gets a third of the bytes."""
ROWS_AT_ONCE: Final = 128 * 1024
BYTES_AT_ONCE: Final = 32 << 20
"""Batches of cells are put together up to so many rows and bytes, about."""


def packed(kind: str, bucket: int, rows: pa.Table) -> Iterator[pa.RecordBatch]:
    """Rows of a table as some of Spark's; none if there are none."""
    at_once = max(1, rows.num_rows * PAYLOAD_BYTES // max(1, rows.nbytes))
    for first in range(0, rows.num_rows, at_once):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, rows.schema, options=_PACKING) as stream:
            stream.write_table(rows.slice(first, at_once))
        payload = pa.array([sink.getvalue().to_pybytes()], pa.binary())
        columns = [pa.array([kind]), pa.array([bucket], pa.int32()), payload]
        yield pa.RecordBatch.from_arrays(columns, schema=ARROW)


def counted(name: str, rows: pa.Table) -> Iterator[pa.RecordBatch]:
    """For the driver: how many rows of a table there are, and their newest time in microseconds."""
    newest = pc.max(rows["at"]).cast(pa.int64()).as_py() if "at" in rows.column_names else None
    facts = [name], [rows.num_rows], pa.array([newest], pa.int64())
    yield from packed("written", DRIVER, pa.table(facts, ["name", "rows", "newest"]))


def latest(*times: int | None) -> int | None:
    """The latest of some times; None is none."""
    return max((time for time in times if time is not None), default=None)


def unpacked(batches: Batches) -> Iterator[tuple[str, int, pa.Table]]:
    """Kind, bucket and rows of each of Spark's rows; one without a payload has no rows."""
    gc.freeze()  # PySpark collects after each task, and would look at all modules and kept plans each time
    for batch in batches:
        kinds, buckets = (batch.column(name).to_pylist() for name in ("kind", "bucket"))
        for kind, bucket, payload in zip(kinds, buckets, batch.column("payload"), strict=True):
            octets = payload.as_buffer()
            yield kind, bucket, pa.ipc.open_stream(octets).read_all() if octets else pa.table({})


def distributed(kind: str, rows: pa.Table) -> Iterator[pa.RecordBatch]:
    """Rows with their bucket as a column ``TASK``, packed for each bucket."""
    bucket = np.asarray(rows[TASK], dtype=np.int64)
    rows = rows.drop_columns([TASK])
    if (bucket[1:] < bucket[:-1]).any():
        order = np.argsort(bucket, kind="stable")
        bucket, rows = bucket[order], rows.take(pa.array(order))
    for first, behind in pairwise([0, *(np.flatnonzero(np.diff(bucket)) + 1).tolist(), len(bucket)]):
        if behind > first:
            yield from packed(kind, int(bucket[first]), rows.slice(first, behind - first))


def distributed_by(kind: str, rows: pa.Table, by: str, buckets: int) -> Iterator[pa.RecordBatch]:
    """Rows packed for the buckets of the names in a column."""
    return distributed(kind, with_columns(rows, **{TASK: bucket_of(rows[by], buckets)}))


def gathered(batches: Batches) -> Iterator[pa.Table]:
    """Small batches of cells put together."""
    gc.freeze()
    together: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        together.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= ROWS_AT_ONCE or size >= BYTES_AT_ONCE:
            yield pa.Table.from_batches(together)
            together, rows, size = [], 0, 0
    if rows:
        yield pa.Table.from_batches(together)


def united(frames: Sequence[DataFrame]) -> DataFrame:
    """Frames of ``ROW`` as one."""
    return reduce(lambda left, right: left.unionByName(right), frames)


def of_kinds(frame: DataFrame, *kinds: str) -> DataFrame:
    """The rows of some kinds."""
    from pyspark.sql import functions as sql

    return frame.where(sql.col("kind").isin(*kinds))


def met(frame: DataFrame, buckets: int, make: Callable[[int, Tables], Iterator[pa.RecordBatch]]) -> DataFrame:
    """A function's result for each bucket's rows, all kinds of which meet in one task."""

    def run(batches: Batches) -> Iterator[pa.RecordBatch]:
        pieces: dict[int, dict[str, list[pa.Table]]] = {}
        for kind, bucket, rows in unpacked(batches):
            pieces.setdefault(bucket, {}).setdefault(kind, []).append(rows)
        for bucket in sorted(pieces):
            tables = {kind: pa.concat_tables(parts) for kind, parts in pieces.pop(bucket).items()}
            yield from make(bucket, tables)

    return frame.repartitionById(buckets, "bucket").mapInArrow(run, ROW)


def cells(frame: DataFrame, make: Callable[[pa.Table], Iterator[pa.RecordBatch]]) -> DataFrame:
    """A function's result for a frame's rows, many at a time."""

    def run(batches: Batches) -> Iterator[pa.RecordBatch]:
        for rows in gathered(batches):
            yield from make(rows)

    return frame.mapInArrow(run, ROW)


def opened(kind: str) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    """A function for ``mapInArrow`` that gives the cells of a kind again."""

    def run(batches: Batches) -> Iterator[pa.RecordBatch]:
        for name, _, rows in unpacked(batches):
            if name == kind:
                yield from rows.combine_chunks().to_batches()

    return run


def collected(frame: DataFrame) -> dict[str, pa.Table]:
    """The rows that are the driver's, by kind."""
    from pyspark.sql import functions as sql

    tables: dict[str, list[pa.Table]] = {}
    for row in frame.where(sql.col("bucket") == DRIVER).collect():
        tables.setdefault(row["kind"], []).append(pa.ipc.open_stream(pa.py_buffer(bytes(row["payload"]))).read_all())
    return {kind: pa.concat_tables(parts) for kind, parts in tables.items()}


def part_of_task() -> int:
    """The number of the task that asks."""
    from pyspark import TaskContext

    context: Any = TaskContext.get()
    return int(context.partitionId()) if context else 0
