"""Rows in this process for the functions that Spark's workers call on batches: the same answers, and no job."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


@dataclass(frozen=True)
class InProcess:
    """A table of Arrow's where a function only has the batches of Spark's table mapped: it gets all of them at once."""

    rows: pa.Table

    def mapInArrow(
        self, run: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]], schema: StructType
    ) -> pa.Table:
        """The table of all rows that ``run`` gives."""
        from pyspark.sql.pandas.types import to_arrow_schema

        batches = self.rows.combine_chunks().to_batches()
        return pa.Table.from_batches(list(run(iter(batches))), schema=to_arrow_schema(schema, timezone="UTC"))


def mapped(rows: pa.Table) -> Any:
    """Rows for ``map_groups`` and ``map_columns``, which give a table of Arrow's then."""
    return InProcess(rows)
