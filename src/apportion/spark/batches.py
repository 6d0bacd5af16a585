"""One Python pass per group inside Arrow batches: rows in as dicts, a few at a time, rows out as batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

Rows = Iterable[Mapping[str, Any]]
AT_ONCE: Final = 64
"""Groups that are Python objects at one time, if they are small."""
BYTES_AT_ONCE: Final = 2 << 20
"""Of Arrow's bytes, which are some 20 times as many as Python objects; one group may be larger."""
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
                for row in few.to_pylist(maps_as_pydicts="strict"):
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


def pieces(batch: pa.RecordBatch, rows: int = AT_ONCE, size: int = BYTES_AT_ONCE) -> Iterator[pa.RecordBatch]:
    """The batch in slices of at most so many rows and, but for a single row, bytes."""
    first = 0
    while first < batch.num_rows:
        n = rows
        while n > 1 and batch.slice(first, n).nbytes > size:
            n //= 2
        yield batch.slice(first, n)
        first += n
