"""Columns of Arrow tables as numbers, and which of their rows belong together: ranks, runs of equal values, lists."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import date, timedelta
from itertools import pairwise
from typing import Any, Final
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from apportion.arrays import Bools, Ints, Longs
from apportion.history.lag_time import Samples
from apportion.tables.schemas import Table, arrow_schema

_HALF: Final = 2**31
"""Makes a partition id, which hostile records have of any 32 bits, a number from 0 on."""

_YEAR_10000: Final = 253_402_300_800_000_000
_A_DAY: Final = 86_400_000_000
UNDATED: Final = "undated"
TASK: Final = "_task"
"""A column beside a kind's rows: the task that each row goes to."""


def ranked(*columns: pa.ChunkedArray | pa.Array) -> tuple[list[Longs], pa.Array]:
    """Columns of texts as ranks among the distinct ones of them all, and these, by their bytes; null is -1."""
    pieces = [piece_of(column) for column in columns]
    whole = pa.chunked_array(pieces, pa.string()).combine_chunks().dictionary_encode()
    names = whole.dictionary
    order = pc.array_sort_indices(names).to_numpy()
    rank = np.empty(len(names) + 1, dtype=np.int64)
    rank[order], rank[-1] = np.arange(len(names)), -1
    code = rank[whole.indices.fill_null(len(names)).to_numpy(zero_copy_only=False)]
    bounds = np.cumsum([0, *map(len, pieces)])
    return [code[a:b] for a, b in pairwise(bounds)], names.take(pa.array(order))


def longs(column: pa.ChunkedArray | pa.Array) -> Longs:
    """Numbers, 0 for null."""
    return np.asarray(column.fill_null(0), dtype=np.int64)


def valid(column: pa.ChunkedArray | pa.Array) -> Bools:
    """Whether a column is not null, row by row."""
    return np.asarray(column.is_valid())


def millis(column: pa.ChunkedArray | pa.Array) -> Longs:
    """Times as milliseconds, rounded down as Spark's ``unix_millis`` does; 0 for null."""
    return longs(column.cast(pa.int64())) // 1000


def millis_or_null(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """Times as milliseconds, as ``millis`` gives them; null if there is none."""
    return pa.array(millis(column), mask=~valid(column))


def numbered(code: Longs, partition: Longs) -> Longs:
    """A number for each code and partition, in their order."""
    return (code << 32) + partition + _HALF


def unnumbered(number: Longs) -> tuple[Longs, Longs]:
    """The codes and partitions in the result of ``numbered``."""
    return number >> 32, (number & (2 * _HALF - 1)) - _HALF


def united(*numbers: Longs) -> Longs:
    """All numbers of some columns, ascending, each once: ``np.unique``, which hashes them first."""
    # Mostly each column is sorted, or nearly: runs are merged, in a fortieth of the time that a quick sort takes.
    ordered = np.sort(np.concatenate(numbers), kind="stable")
    return ordered[starts_of(ordered)[:-1]]


def starts_of(*keys: Longs) -> Ints:
    """The starts of runs of equal keys in sorted columns, and the end of the last one."""
    n = len(keys[0])
    if not n:
        return np.zeros(1, dtype=np.int64)
    new = np.ones(n, dtype=np.bool_)
    new[1:] = keys[0][1:] != keys[0][:-1]
    for key in keys[1:]:
        new[1:] |= key[1:] != key[:-1]
    return np.append(np.flatnonzero(new), n)


def ascending(*keys: Longs) -> bool:
    """Whether rows are in the order of some keys, the first of which counts most."""
    equal = np.ones(max(len(keys[0]) - 1, 0), dtype=np.bool_)
    for key in keys:
        if (equal & (key[1:] < key[:-1])).any():
            return False
        equal &= key[1:] == key[:-1]
    return True


def in_order(*keys: Longs) -> Ints:
    """(N,) the rows by some keys, the first counts most, equal ones as they come; runs already in order are merged."""
    if ascending(*keys):
        return np.arange(len(keys[0]))
    merged = np.argsort(keys[0], kind="stable")
    return merged if len(keys) == 1 or ascending(*[key[merged] for key in keys]) else np.lexsort(keys[::-1])


def spans(first: Ints, count: Ints) -> Ints:
    """The numbers from each first on, so many of them, one after the other."""
    ends = np.cumsum(count)
    return np.repeat(first - (ends - count), count) + np.arange(ends[-1] if len(ends) else 0)


def listed(counts: Ints, values: pa.Array) -> pa.Array:
    """A column of lists of so many values each."""
    offsets = np.concatenate(([0], np.cumsum(counts))).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), values)


def piece_of(column: Any) -> pa.Array:
    """A column without chunks."""
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def with_columns(rows: pa.Table, **columns: Any) -> pa.Table:
    """Rows with some columns more."""
    for name, values in columns.items():
        rows = rows.append_column(name, values)
    return rows


def fields_of(structs: pa.StructArray) -> dict[str, pa.Array]:
    """The fields of structs by name, null if the struct is."""
    return dict(zip([field.name for field in structs.type], structs.flatten(), strict=True))


def with_fields(structs: pa.StructArray, columns: Mapping[str, pa.Array | None]) -> pa.StructArray:
    """Structs with some fields replaced; None for nulls."""
    fields, arrays = list(structs.type), fields_of(structs)
    for name, column in columns.items():
        arrays[name] = pa.nulls(len(structs), arrays[name].type) if column is None else column
    mask = structs.is_null() if structs.null_count else None
    return pa.StructArray.from_arrays([arrays[field.name] for field in fields], fields=fields, mask=mask)


def values_of(column: pa.Array) -> list[Any]:
    """A column's values as Python's, as ``to_pylist`` gives them; a text that occurs often is one object."""
    kind, values = column.type, list[Any]()
    if pa.types.is_struct(kind):
        names = [field.name for field in kind]
        values = [dict(zip(names, row, strict=True)) for row in zip(*map(values_of, column.flatten()), strict=True)]
    elif pa.types.is_list(kind):
        entries = values_of(column.flatten())
        ends = np.cumsum(longs(column.value_lengths())).tolist()
        values = [entries[first:behind] for first, behind in pairwise([0, *ends])]
    elif pa.types.is_string(kind):
        encoded = column.dictionary_encode()
        words = np.array([*encoded.dictionary.to_pylist(), None], dtype=object)
        values = words[encoded.indices.fill_null(len(words) - 1).to_numpy(zero_copy_only=False)].tolist()
    elif pa.types.is_integer(kind):
        values = column.fill_null(0).to_numpy().tolist()
    else:
        values = column.to_pylist(maps_as_pydicts="strict")
    for row in np.flatnonzero(~valid(column)).tolist() if column.null_count else ():
        values[row] = None
    return values


def flattened(rows: pa.Table, lists: str, field: str) -> pa.Table:
    """(group, field): the values of a field in a column of lists of structs, each with its row's group; lists flat."""
    column = piece_of(rows[lists])
    groups = piece_of(rows["group"]).take(pc.list_parent_indices(column))
    values = pc.struct_field(column.flatten(), field)
    if pa.types.is_list(values.type):
        groups, values = groups.take(pc.list_parent_indices(values)), values.flatten()
    return pa.table({"group": groups, field: values})


def day_codes(times: pa.ChunkedArray | pa.Array) -> Longs:
    """(N,) the days of some times, since 1970 and before the year 10,000, as numbers; those of no day come last."""
    micros = np.asarray(times.cast(pa.int64()).fill_null(-1), dtype=np.int64)
    return np.where((micros >= 0) & (micros < _YEAR_10000), micros // _A_DAY, _YEAR_10000 // _A_DAY)


def days(times: pa.ChunkedArray | pa.Array) -> pa.DictionaryArray:
    """The day of each time as its files are called: ``2026-01-31``, or ``undated``; codes are in the days' order."""
    numbers, codes = np.unique(day_codes(times), return_inverse=True)
    dated = [number for number in numbers.tolist() if number < _YEAR_10000 // _A_DAY]
    names = [(date(1970, 1, 1) + timedelta(days=number)).isoformat() for number in dated]
    names += [UNDATED] * (len(numbers) - len(dated))
    return pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), pa.array(names, pa.string()))


def pieces(batch: pa.RecordBatch, rows: int, size: int) -> Iterator[pa.RecordBatch]:
    """The batch in slices of at most so many rows and, but for a single row, bytes."""
    first = 0
    while first < batch.num_rows:
        n = rows
        while n > 1 and batch.slice(first, n).nbytes > size:
            n //= 2
        yield batch.slice(first, n)
        first += n


def samples(moments: pa.ListArray, offsets: pa.ListArray) -> Samples:
    """Two list columns of one shape, moments (ms; null is NaN) and offsets; a null list is an empty one."""
    counts = np.maximum(longs(moments.value_lengths()), 0)
    return Samples(
        np.asarray(moments.flatten().to_numpy(zero_copy_only=False), dtype=np.float64),
        np.asarray(offsets.flatten().to_numpy(zero_copy_only=False), dtype=np.int64),
        np.concatenate(([0], np.cumsum(counts))),
    )


def in_table_order(rows: pa.Table, table: Table) -> pa.Table:
    """Exactly a table's columns, its rows by day and by ``table.order``, nulls before all values."""
    rows = rows.select(arrow_schema(table).names).cast(arrow_schema(table)).combine_chunks()
    keys = [] if table.day is None else [day_codes(rows[table.day])]
    for name in table.order:
        column = rows[name]
        if column.null_count:
            keys.append(valid(column).astype(np.int64))
        keys.append(ranked(column)[0][0] if pa.types.is_string(column.type) else longs(column.cast(pa.int64())))
    return rows if ascending(*keys) else rows.take(pa.array(np.lexsort(keys[::-1])))


def of_groups(rows: pa.Table, groups: pa.Array, inverted: bool = False) -> pa.Table:
    """Rows of some groups; or of all others."""
    chosen = pc.is_in(rows["group"], value_set=groups)
    return rows.filter(pc.invert(chosen) if inverted else chosen).combine_chunks()


def bucket_of(names: pa.ChunkedArray | pa.Array, buckets: int) -> pa.Array:
    """The bucket of each name: the same on every machine."""
    distinct = piece_of(names).dictionary_encode()
    bucket = [crc32((text or "").encode()) % buckets for text in distinct.dictionary.to_pylist()]
    return pa.array(bucket, pa.int32()).take(distinct.indices).fill_null(0)


def member_topics(members: pa.ChunkedArray) -> tuple[pa.Array, pa.Array]:
    """Rows and topics of a column of lists of members: a pair for each topic that one subscribes to."""
    lists = members.combine_chunks()
    topics = pc.struct_field(pc.list_flatten(lists), "topics")
    member = pc.list_parent_indices(topics)
    return pc.list_parent_indices(lists).take(member), pc.list_flatten(topics)
