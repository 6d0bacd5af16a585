"""Sorted rows to Parquet files, by the task that has them: the same rows always give the same bytes and names.

Spark's own writer lists a column's encodings in an order that changes from run to run, and puts a random number into
each name; Arrow's does neither. Every file appears whole, and on the disk: it is written under another name first.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    import pyarrow.parquet as pq

SHOWN: Final = "[!._]*.parquet"
"""A table's files, as a pattern of names: hidden ones are drafts and a desktop's own, which readers leave out too."""

ROWS_A_GROUP: Final = 128 * 1024
"""Rows of a row group: the piece of a file that one task reads."""

VALUES_AT_ONCE: Final = 64 * 1024
"""Values of a column that are encoded at a time. By Arrow's default of 1,024 the least and the greatest word are looked
for in each lot, which takes a tenth of the time."""

_A_PARTITION: Final = frozenset(("group", "topic", "partition"))

MADE: Final = "file string, rows bigint"
"""What a writing task gives back, one row a file."""


def writing(
    folder: Path, schema: pa.Schema, day: str | None, suffix: str = ""
) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """A function for ``mapInArrow`` that writes what it is given and yields the columns of ``MADE``.

    day
        The column, before those of the schema, whose value begins each file's name; rows are sorted by it.
    suffix
        Ends each file's name, before ``.parquet``.
    """

    def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        part, attempt = (context.partitionId(), context.taskAttemptId()) if context else (0, 0)
        written = _write_all(_pieces(batches, day), folder, schema, f"{part:05d}{suffix}", f".{part}-{attempt}")
        yield pa.RecordBatch.from_pylist(written, schema=pa.schema([("file", pa.string()), ("rows", pa.int64())]))

    return write


def table_writer(file: Path, schema: pa.Schema) -> pq.ParquetWriter:
    """Writes rows into a file of a table; in the schema texts may be words, which no reader of the file sees."""
    import pyarrow.parquet as pq  # only here: executors, which may lack what it needs, import this file

    stored = dictionaries(schema)
    return pq.ParquetWriter(file, schema, use_dictionary=stored, store_schema=False, write_batch_size=VALUES_AT_ONCE)


def dictionaries(schema: pa.Schema) -> list[str]:
    """Columns of a file that are stored as a dictionary and numbers of its words: ``use_dictionary`` of Arrow's writer.

    In a table with a row a partition offsets, times and rates hardly repeat, and neither do the numbers inside of
    nested columns, which are partitions and offsets: to look for words there takes a fifth to more than half of the
    time in which a file is written, and makes most files hardly smaller.
    """
    a_partition = set(schema.names) >= _A_PARTITION
    hardly_repeat = (pa.types.is_int64, pa.types.is_timestamp, pa.types.is_floating) if a_partition else ()
    flat = [field for field in schema if not pa.types.is_nested(field.type)]
    nested = [path for field in schema if field not in flat for path in _texts_in(field.name, field.type)]
    return [field.name for field in flat if not any(is_one(field.type) for is_one in hardly_repeat)] + nested


def _texts_in(path: str, kind: pa.DataType) -> Iterator[str]:
    """The texts of a nested column, by their paths in a file."""
    if pa.types.is_list(kind):
        yield from _texts_in(f"{path}.list.element", kind.value_type)
    elif pa.types.is_struct(kind):
        for field in kind:
            yield from _texts_in(f"{path}.{field.name}", field.type)
    elif pa.types.is_string(kind):
        yield path


def write_empty(file: Path, schema: pa.Schema) -> None:
    """A file that shows the columns of a table without rows."""
    import pyarrow.parquet as pq

    pq.write_table(schema.empty_table(), file)
    sync(file)


def _pieces(batches: Iterable[pa.RecordBatch], day: str | None) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Runs of rows with the first part of the name of the file that they belong to."""
    for batch in batches:
        if day is None:
            yield "part", batch
            continue
        days = batch[day]
        batch = batch.drop_columns([day])
        plain = days.indices if pa.types.is_dictionary(days.type) else pc.rank(days, tiebreaker="dense")
        codes = plain.to_numpy(zero_copy_only=False)
        cuts = [0, *(np.flatnonzero(np.diff(codes)) + 1).tolist(), len(codes)]
        for start, end in pairwise(cuts):
            if end > start:
                yield days[start].as_py(), batch.slice(start, end - start)


def _write_all(
    pieces: Iterable[tuple[str, pa.RecordBatch]], folder: Path, schema: pa.Schema, part: str, draft: str
) -> list[dict[str, Any]]:
    written: list[dict[str, Any]] = []
    writer: pq.ParquetWriter | None = None
    name = ""
    try:
        for first, batch in pieces:
            if writer is None or first != name:
                _finish(writer, folder, draft, name, part)
                name = first
                writer = table_writer(folder / draft, schema)
                written.append({"file": f"{name}-{part}.parquet", "rows": 0})
            arrays = [column.cast(field.type) for column, field in zip(batch.columns, schema, strict=True)]
            writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=schema), row_group_size=ROWS_A_GROUP)
            written[-1]["rows"] += batch.num_rows
        _finish(writer, folder, draft, name, part)
    except BaseException:
        (folder / draft).unlink(missing_ok=True)
        raise
    return written


def _finish(writer: pq.ParquetWriter | None, folder: Path, draft: str, name: str, part: str) -> None:
    if writer is not None:
        writer.close()
        sync(folder / draft)
        os.replace(folder / draft, folder / f"{name}-{part}.parquet")


def sync(path: Path) -> None:
    """Have a file's bytes, or a folder's names, on the disk: a power cut takes what is in memory alone."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def nulls_first(rows: pa.Table, names: Iterable[str]) -> pa.Table:
    """Rows sorted by some columns, nulls before all values, as Spark sorts them."""
    # Arrow has changed the way in which it is told where nulls go; a column that says whether there is one serves all.
    keys = []
    beside = rows
    names = list(names)
    if _in_order(rows, names):
        # To copy a large table into one piece takes as long as to see that it is sorted.
        pieces = max((column.num_chunks for column in rows.columns), default=0)
        return rows if rows.num_rows > pieces * ROWS_A_GROUP else rows.combine_chunks()
    for name in names:
        if rows[name].null_count:
            keys.append((f"{name} is there", "ascending"))
            beside = beside.append_column(keys[-1][0], rows[name].is_valid().cast(pa.int8()))
        keys.append((name, "ascending"))
    return rows.take(pc.sort_indices(beside, sort_keys=keys)).combine_chunks()


def _in_order(rows: pa.Table, names: Iterable[str]) -> bool:
    """Whether rows without nulls in these columns are sorted by them already, which is seen much sooner than done."""
    names = list(names)
    if any(rows[name].null_count for name in names):
        return False
    last = max(0, rows.num_rows - 1)
    equal = np.ones(last, dtype=np.bool_)  # in the columns before
    for name in names:
        column = rows[name].combine_chunks()
        before, behind = column.slice(0, last), column.slice(1)
        same = np.asarray(pc.equal(before, behind))
        # Neighbours mostly have the same names: what comes after what is asked of the others alone.
        other = pa.array(np.flatnonzero(equal & ~same))
        if pc.any(pc.greater(before.take(other), behind.take(other))).as_py():
            return False
        equal &= same
    return True


def link(file: Path, other: Path) -> None:
    """The same file under another name; a copy where the file system has no links."""
    try:
        os.link(file, other)
    except OSError:
        shutil.copy2(file, other)
        sync(other)
