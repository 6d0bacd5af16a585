"""A table's files without the rows of some groups, and the rows of some groups out of them, without Spark.

Parquet has no way to take rows out of a file: it is written anew. A file that holds none of the groups is linked. What
is added by a build is a file of its own, so groups that are heard of again and again are soon in small files, and the
large ones, of groups that are silent, stay as they are. Some megabytes of a file are in memory at a time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from apportion.arrays import Bools
from apportion.spark import schemas
from apportion.spark.files import ROWS_A_GROUP, link, sync, table_writer

BYTES_AT_ONCE: Final = 64 << 20
RUNS_MAX: Final = 1_000
"""Runs of rows that are written one after the other; of more the rows are copied."""
_WORDS: Final = pa.dictionary(pa.int32(), pa.string())


def keep_others(file: Path, target: Path, groups: pa.Array, schema: pa.Schema) -> None:
    """Put the rows of all other groups at another place, in their order; no file where there are none.

    groups
        Names: rows with one of them in the column ``group`` are left out.
    """
    words = _as_words(schema, but="metadata")  # Kafka Streams writes another text for each partition there
    with pq.ParquetFile(file, read_dictionary=_texts(words)) as parquet:
        others = list(_others(parquet, groups))
        if not sum(len(mask) for mask in others):
            return  # a file that only shows the columns: another one does, or one is made
        if all(pc.all(mask).as_py() for mask in others):
            link(file, target)
            return
        if not any(pc.any(mask).as_py() for mask in others):
            return
        with table_writer(target, words) as writer:
            for number, mask in enumerate(others):
                stays, first = np.asarray(mask), 0
                for batch in _rows_of(parquet, number, None, words) if stays.any() else ():
                    rows = _chosen(batch, stays[first : first + batch.num_rows])
                    first += batch.num_rows
                    if rows.num_rows:
                        writer.write_table(rows, row_group_size=ROWS_A_GROUP)
    sync(target)


def _chosen(rows: pa.RecordBatch, stays: Bools) -> pa.Table:
    """Rows that stay, without the words that others alone have: of these nothing is written.

    A group's rows stand together, so what stays is a few runs of rows, which need not be copied.
    """
    ends = np.flatnonzero(np.diff(stays, prepend=False, append=False))
    if len(ends) > RUNS_MAX:
        rows, stays = rows.filter(pa.array(stays)), stays[stays]
        ends = np.array([0, len(stays)])
    columns = [_with_own_words(one, stays) if pa.types.is_dictionary(one.type) else one for one in rows.columns]
    whole = pa.RecordBatch.from_arrays(columns, schema=rows.schema)
    runs = [whole.slice(first, end - first) for first, end in ends.reshape(-1, 2).tolist()]
    return pa.Table.from_batches(runs, schema=rows.schema)


def _with_own_words(column: pa.DictionaryArray, stays: Bools) -> pa.DictionaryArray:
    """The column with the words of rows that stay; in rows that do not stands any of them, or null."""
    indices, words = column.indices, column.dictionary
    null = np.asarray(indices.is_null()) if indices.null_count else None
    number = np.asarray(indices.fill_null(0) if indices.null_count else indices)
    used = np.zeros(len(words), dtype=np.bool_)
    used[number[stays if null is None else stays & ~null]] = True
    if used.all():
        return column
    renumbered = np.maximum(used.cumsum(dtype=np.int32) - 1, 0)
    own = pa.array(renumbered[number], mask=null) if used.any() else pa.nulls(len(column), pa.int32())
    return pa.DictionaryArray.from_arrays(own, words.filter(pa.array(used)))


def _others(parquet: pq.ParquetFile, groups: pa.Array) -> Iterator[pa.Array]:
    """Of each row group, whether its rows stay; a row without a group does."""
    for number in range(parquet.num_row_groups):
        yield pc.invert(_is_in(parquet.read_row_group(number, columns=["group"])["group"], groups))


def _is_in(names: pa.ChunkedArray, wanted: pa.Array) -> pa.Array:
    """Whether each of some names is wanted, where each word of their dictionary is looked at once; null is not."""
    pieces = [pc.is_in(one.dictionary, value_set=wanted.cast(one.dictionary.type)).take(one.indices) for one in
              names.chunks]  # fmt: skip
    return pc.fill_null(pa.chunked_array(pieces, pa.bool_()), False).combine_chunks()


def _rows_of(
    parquet: pq.ParquetFile, number: int, mask: pa.Array | None, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """The chosen rows of a row group, all of them by default, some megabytes at a time."""
    group = parquet.metadata.row_group(number)
    rows = max(1, BYTES_AT_ONCE * group.num_rows // max(1, group.total_byte_size))
    first = 0
    if mask is not None and not pc.any(mask).as_py():
        return
    wanted = _stored(parquet, schema)
    # Threads of Arrow's, a column each, take a fifth more CPU time.
    for batch in parquet.iter_batches(min(rows, ROWS_A_GROUP), row_groups=[number], columns=wanted, use_threads=False):
        chosen = batch if mask is None else batch.filter(mask.slice(first, batch.num_rows))
        first += batch.num_rows
        if chosen.num_rows:
            yield chosen.select(schema.names).cast(schema)


def _stored(parquet: pq.ParquetFile, schema: pa.Schema) -> list[str]:
    """The columns of a file that hold those of a schema; of structs in a list those that hold its fields."""
    inside = {one.name: {inner.name for inner in one.type.value_type} for one in schema
              if pa.types.is_list(one.type) and pa.types.is_struct(one.type.value_type)}  # fmt: skip
    paths = [parquet.schema.column(number).path for number in range(len(parquet.schema))]
    parts = [(path, *path.split(".")) for path in paths]
    return [
        path for path, name, *rest in parts
        if name in schema.names and (name not in inside or not inside[name].isdisjoint(rest))
    ]  # fmt: skip


def rows_in(files: Iterable[Path]) -> int:
    """How many rows some files have, by their footers."""
    return sum(pq.read_metadata(file).num_rows for file in files)


def rows_with(
    files: Iterable[Path],
    schema: pa.Schema,
    column: str,
    values: Collection[Any] | None,
    columns: Sequence[str] | None = None,
    bytes_max: int | None = None,
    words: bool = False,
) -> pa.Table | None:
    """The rows of some files that have one of some values in a column; all rows where the values are None.

    columns
        Those that are wanted, in their order, as ``schemas.chosen`` takes them; all by default.
    bytes_max
        Where the rows are more than that, None.
    words
        Columns of texts are given as ``sorted_rows.coded`` gives them, and no text is made for a row.
    """
    chosen = schemas.chosen(schema, columns or schema.names)
    wanted = None if values is None else pa.array(sorted(values), schema.field(column).type)
    pieces, size = [], 0
    # Of a few rows out of many, a column of words is read as numbers: most of them are never looked up.
    asked = {*chosen.names} if wanted is None else {column, *chosen.names}
    texts = [name for name in asked if schema.field(name).type == pa.string()] if words or wanted is not None else []
    if words:
        chosen = _as_words(chosen)
    for file in files:
        with pq.ParquetFile(file, read_dictionary=texts) as parquet:
            for number in range(parquet.num_row_groups):
                mask = None
                if wanted is not None:
                    known = parquet.read_row_group(number, columns=[column])[column]
                    mask = (
                        _is_in(known, wanted) if column in texts else pc.is_in(known, value_set=wanted).combine_chunks()
                    )
                for batch in _rows_of(parquet, number, mask, chosen):
                    pieces.append(batch)
                    size += batch.nbytes
                    if bytes_max is not None and size > bytes_max:
                        return None
    return pa.Table.from_batches(pieces, schema=chosen).combine_chunks()


def _as_words(schema: pa.Schema, but: str = "") -> pa.Schema:
    """A schema where columns of texts, but one, have the numbers of their words."""
    texts = {field.name for field in schema if field.type == pa.string()} - {but}
    return pa.schema([field.with_type(_WORDS) if field.name in texts else field for field in schema])


def _texts(words: pa.Schema) -> list[str]:
    """Columns that are to be read as words."""
    return [field.name for field in words if field.type == _WORDS]


def rows_after(files: Iterable[Path], schema: pa.Schema, column: str, moment_us: int) -> pa.Table:
    """The rows of some files whose time is later, texts as words; a row group of which none is, is not read.

    moment_us
        Microseconds. A row without a time is not later.
    """
    chosen = _as_words(schema)
    moment = pa.scalar(moment_us).cast(schema.field(column).type)
    pieces: list[pa.RecordBatch] = []
    for file in files:
        with pq.ParquetFile(file, read_dictionary=_texts(chosen)) as one:
            index = one.schema_arrow.get_field_index(column)
            for number in range(one.num_row_groups):
                if _all_before(one.metadata.row_group(number).column(index).statistics, moment):
                    continue
                times = one.read_row_group(number, columns=[column])[column]
                mask = pc.fill_null(pc.greater(times, moment), False).combine_chunks()
                pieces += _rows_of(one, number, mask, chosen)
    return pa.Table.from_batches(pieces, schema=chosen).combine_chunks()


def _all_before(known: Any, moment: pa.Scalar) -> bool:
    """Whether the statistics of a row group say that no time in it is later than a moment."""
    if known is None or not known.has_min_max:
        return False
    try:
        return bool(pa.scalar(known.max).cast(moment.type).value <= moment.value)
    except (ValueError, OverflowError):  # a time that Python's calendar does not reach
        return False
