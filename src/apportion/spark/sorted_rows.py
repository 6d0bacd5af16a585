"""Which rows of Arrow tables belong together, on sorted columns: runs of equal values, lists out of them, joins."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from apportion.spark.files import nulls_first

Longs = npt.NDArray[np.int64]


def in_order(rows: pa.Table, *names: str) -> pa.Table:
    """Rows sorted by some columns, nulls first."""
    return nulls_first(rows, names)


def millis(column: Any) -> pa.Array:
    """A timestamp as milliseconds since 1970, rounded down."""
    micros = one(column).cast(pa.int64())
    values = micros.fill_null(0).to_numpy(zero_copy_only=False) // 1000
    return pa.array(values, mask=micros.is_null().to_numpy(zero_copy_only=False))


def one(column: Any) -> pa.Array:
    """A column in one piece."""
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def with_columns(rows: pa.Table, **columns: Any) -> pa.Table:
    """Rows with some columns more."""
    for name, values in columns.items():
        rows = rows.append_column(name, values)
    return rows


def distinct(rows: pa.Table, *names: str) -> pa.Table:
    """The values of some columns, each combination once."""
    return rows.select(list(names)).group_by(list(names)).aggregate([]).combine_chunks()


def flattened(rows: pa.Table, lists: str, field: str) -> pa.Table:
    """(group, field): the values of a field in a column of lists of structs, each with its row's group; lists flat."""
    column = one(rows[lists])
    groups = one(rows["group"]).take(pc.list_parent_indices(column))
    values = pc.struct_field(column.flatten(), field)
    if pa.types.is_list(values.type):
        groups, values = groups.take(pc.list_parent_indices(values)), values.flatten()
    return pa.table({"group": groups, field: values})
