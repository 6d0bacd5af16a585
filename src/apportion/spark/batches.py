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
"""Groups that are Python objects at one time: memory is bounded by the widest of them."""
OUT: Final = 20_000
"""Rows of an answer's batch."""


def each(table: DataFrame, make: Callable[[Mapping[str, Any]], Rows], schema: StructType) -> DataFrame:
    """The table of all rows that ``make`` gives for each row; it is called in the workers and must pickle."""
    from pyspark.sql.pandas.types import to_arrow_schema

    arrow = to_arrow_schema(schema, timezone="UTC")
    names = arrow.names

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        done: list[Mapping[str, Any]] = []
        for batch in batches:
            for first in range(0, batch.num_rows, AT_ONCE):
                for row in batch.slice(first, AT_ONCE).to_pylist(maps_as_pydicts="strict"):
                    done.extend(make(row))
                    if len(done) >= OUT:
                        yield packed(done)
                        done = []
        if done:
            yield packed(done)

    def packed(rows: list[Mapping[str, Any]]) -> pa.RecordBatch:
        columns = [pa.array([row[name] for row in rows], arrow.field(name).type) for name in names]
        return pa.RecordBatch.from_arrays(columns, schema=arrow)

    return table.mapInArrow(run, schema)
