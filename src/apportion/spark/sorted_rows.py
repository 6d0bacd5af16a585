"""Which rows of Arrow tables belong together, on sorted columns: runs of equal values, lists out of them, joins."""

from __future__ import annotations

from collections.abc import Sequence
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


def runs(rows: pa.Table, *names: str) -> Longs:
    """(R + 1,) where each run of rows with equal values begins, and the end of the last one."""
    changes = np.ones(rows.num_rows, dtype=np.bool_)
    changes[1:] = False
    for name in names:
        codes = one(rows[name]).dictionary_encode().indices.fill_null(-1).to_numpy(zero_copy_only=False)
        changes[1:] |= codes[1:] != codes[:-1]
    return np.append(np.flatnonzero(changes), rows.num_rows).astype(np.int64)


def spans(values: pa.Array, start: Longs, end: Longs) -> pa.Array:
    """(R,) lists: the values from each start to its end."""
    counts = end - start
    offsets = np.concatenate(([0], np.cumsum(counts)))
    rows = np.repeat(start - offsets[:-1], counts) + np.arange(offsets[-1])
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values.take(pa.array(rows)))


def millis(column: Any) -> pa.Array:
    """A timestamp as milliseconds since 1970, rounded down."""
    micros = one(column).cast(pa.int64())
    values = micros.fill_null(0).to_numpy(zero_copy_only=False) // 1000
    return pa.array(values, mask=micros.is_null().to_numpy(zero_copy_only=False))


def timestamps(ms: pa.Array) -> pa.Array:
    """Milliseconds as a timestamp."""
    return pc.multiply(ms, 1000).cast(pa.timestamp("us", tz="UTC"))


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


def codes(every: pa.Array, names: Any) -> Longs:
    """(N,) where each name stands among all names."""
    places: Longs = pc.index_in(one(names), every).to_numpy(zero_copy_only=False).astype(np.int64)
    return places


def index_of(rows: pa.Table, table: pa.Table, names: Sequence[str]) -> pa.Array:
    """(N,) the row of a table with the same values in some columns; null where it has none. It has each once."""
    keys = list(names)
    asked = rows.select(keys).append_column("asked", pa.array(np.arange(rows.num_rows)))
    there = table.select(keys).append_column("place", pa.array(np.arange(table.num_rows)))
    joined = asked.join(there, keys=keys, join_type="left outer")
    return one(joined.take(pc.sort_indices(joined["asked"]))["place"])


def by_group(every: pa.Array, groups: Any, values: pa.Array) -> pa.Array:
    """Lists of values, one for each of all groups; values are sorted by group."""
    bounds = np.searchsorted(codes(every, groups), np.arange(len(every) + 1)).astype(np.int64)
    return pa.ListArray.from_arrays(pa.array(bounds, pa.int32()), values)


def flattened(rows: pa.Table, lists: str, field: str) -> pa.Table:
    """(group, field): the values of a field in a column of lists of structs, each with its row's group; lists flat."""
    column = one(rows[lists])
    groups = one(rows["group"]).take(pc.list_parent_indices(column))
    values = pc.struct_field(column.flatten(), field)
    if pa.types.is_list(values.type):
        groups, values = groups.take(pc.list_parent_indices(values)), values.flatten()
    return pa.table({"group": groups, field: values})
