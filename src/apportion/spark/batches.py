"""Rows in Arrow batches as Python sees them: dicts, a few at a time, for one pass per group; or whole columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from apportion.arrays import Longs
from apportion.history.lag_time import Samples
from apportion.history.lags import Known
from apportion.spark.python_rows import rows_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

Rows = Iterable[Mapping[str, Any]]
Columns = Mapping[str, pa.Array]
AT_ONCE: Final = 64
"""Groups that are Python objects at one time, if they are small."""
BYTES_AT_ONCE: Final = 2 << 20
"""Of Arrow's bytes, which are some 20 times as many as Python objects; one group may be larger."""
ROWS_AT_ONCE: Final = 2_000
"""Rows whose columns, with the lists in them, are in memory at one time."""
OUT: Final = 500
"""Rows that make a batch."""


def map_groups(table: DataFrame, make: Callable[[Mapping[str, Any]], Rows], schema: StructType) -> DataFrame:
    """The table of all rows that ``make`` gives for each row; it is called in the workers and must pickle."""
    from pyspark.sql.pandas.types import to_arrow_schema

    arrow = to_arrow_schema(schema, timezone="UTC")
    names = arrow.names

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows_out: list[Mapping[str, Any]] = []
        for batch in batches:
            for few in pieces(batch):
                for row in rows_of(few):
                    rows_out.extend(make(row))
                if len(rows_out) >= OUT or few.nbytes > BYTES_AT_ONCE // 4:
                    yield packed(rows_out)
                    rows_out = []
        if rows_out:
            yield packed(rows_out)

    def packed(rows: list[Mapping[str, Any]]) -> pa.RecordBatch:
        columns = [pa.array([row[name] for row in rows], arrow.field(name).type) for name in names]
        return pa.RecordBatch.from_arrays(columns, schema=arrow)

    return table.mapInArrow(run, schema)


def map_columns(table: DataFrame, answer: Callable[[pa.RecordBatch], Columns], schema: StructType) -> DataFrame:
    """Each row with what ``answer`` gives for some rows at a time; columns that it does not give are the rows' own.

    answer
        Column to its values, of the rows of a batch; it is called in the workers and must pickle.
    """
    from pyspark.sql.pandas.types import to_arrow_schema

    arrow = to_arrow_schema(schema, timezone="UTC")

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for first in range(0, batch.num_rows, ROWS_AT_ONCE):
                yield whole(batch.slice(first, ROWS_AT_ONCE))

    def whole(some: pa.RecordBatch) -> pa.RecordBatch:
        answers = answer(some)
        columns = [
            answers[field.name] if field.name in answers else some.column(field.name).cast(field.type)
            for field in arrow
        ]
        return pa.RecordBatch.from_arrays(columns, schema=arrow)

    return table.mapInArrow(run, schema)


def pieces(batch: pa.RecordBatch, rows: int = AT_ONCE, size: int = BYTES_AT_ONCE) -> Iterator[pa.RecordBatch]:
    """The batch in slices of at most so many rows and, but for a single row, bytes."""
    first = 0
    while first < batch.num_rows:
        n = rows
        while n > 1 and batch.slice(first, n).nbytes > size:
            n //= 2
        yield batch.slice(first, n)
        first += n


def known(batch: pa.RecordBatch, name: str) -> Known:
    """A column of numbers, some of them null."""
    column = batch.column(name)
    return Known(_longs(column), ~np.asarray(column.is_null()))


def lists(batch: pa.RecordBatch, at: str, offset: str) -> Samples:
    """Two columns of a batch as ``samples``."""
    return samples(batch.column(at), batch.column(offset))


def samples(moments: pa.ListArray, offsets: pa.ListArray) -> Samples:
    """Two list columns of one shape, moments (ms; null is NaN) and offsets; a null list is an empty one."""
    counts = np.maximum(_longs(moments.value_lengths()), 0)
    return Samples(
        np.asarray(moments.flatten().to_numpy(zero_copy_only=False), dtype=np.float64),
        np.asarray(offsets.flatten().to_numpy(zero_copy_only=False), dtype=np.int64),
        np.concatenate(([0], np.cumsum(counts))),
    )


def _longs(column: pa.Array) -> Longs:
    return np.asarray(column.fill_null(0).to_numpy(zero_copy_only=False), dtype=np.int64)
