"""A few new records of a dump to rows of the silver tables, in this process: ``rows.py`` without Spark's jobs.

Starting a job, and sending rows to Python and back, costs more than to decode some thousand records.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from apportion.arrays import Ints
from apportion.errors import BadInput
from apportion.inputs.dump_files import DumpFiles
from apportion.spark import rows, schemas
from apportion.spark.dump_sums import as_typed, behind, places
from apportion.spark.session import ROWS_A_BATCH

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

RECORDS_MAX: Final = 1_000_000
BYTES_MAX: Final = 256 << 20
"""More new records, or bytes of row groups that hold some, are Spark's."""

_COLUMNS: Final = ("key", "value", "partition", "offset", "timestamp")
_KINDS: Final = ("key_type", "value_version", "tombstone")

Decoder = Callable[[pa.RecordBatch], Iterator[pa.RecordBatch]]


def new_records(
    files: DumpFiles, read: Mapping[int, int], count: int, settled: Collection[Path] = ()
) -> pa.Table | None:
    """The records behind what was read, each place once; None where they are too many or too large.

    count
        How many rows of the files these are.
    settled
        Files that hold none of them.
    Raises
        BadInput: two records of one place differ, so the folder holds records of two clusters.
    """
    if count > RECORDS_MAX:
        return None
    pieces = []
    size = 0
    for file in (one for one in files.records if one not in settled):
        with pq.ParquetFile(file, coerce_int96_timestamp_unit="us") as parquet:
            for number in range(parquet.num_row_groups):
                new = behind(*places(parquet.read_row_group(number, columns=["partition", "offset"])), read)
                if not new.any():
                    continue
                size += parquet.metadata.row_group(number).total_byte_size
                if size > BYTES_MAX:
                    return None
                records = parquet.read_row_group(number, columns=list(_COLUMNS)).filter(pa.array(new))
                pieces.append(as_typed(records, _COLUMNS, schemas.RECORDS))
    empty = schemas.arrow_schema(schemas.RECORDS, _COLUMNS).empty_table()
    return _once(pa.concat_tables([empty, *pieces]).combine_chunks())


def new_records_by_spark(records: DataFrame, count: int) -> pa.Table | None:
    """The same of a dump that is not in plain files of this machine; ``records`` are those behind what was read."""
    if count > RECORDS_MAX:
        return None
    chosen = records.select(*_COLUMNS).persist()
    try:
        size = F.sum(F.coalesce(F.length("key"), F.lit(0)) + F.coalesce(F.length("value"), F.lit(0)))
        if (chosen.agg(size.alias("size")).collect()[0]["size"] or 0) > BYTES_MAX:
            return None
        table = chosen.toArrow()
    finally:
        chosen.unpersist()
    return _once(table.cast(schemas.arrow_schema(schemas.RECORDS, _COLUMNS)).combine_chunks())


def _once(records: pa.Table) -> pa.Table:
    """Each (partition, offset) once."""
    places = records.group_by(["partition", "offset"]).aggregate([([], "count_all")])
    if places.num_rows == records.num_rows:
        return records
    first: dict[tuple[int, int], tuple[int, Any, Any]] = {}
    differ = set()
    columns = (records[name].to_pylist() for name in ("partition", "offset", "key", "value"))
    for row, (partition, offset, *content) in enumerate(zip(*columns, strict=True)):
        if first.setdefault((partition, offset), (row, *content))[1:] != tuple(content):
            differ.add((partition, offset))
    if differ:
        raise BadInput("records", f"{len(differ)} offsets with two different records", "records of one cluster alone")
    return records.take(pa.array([row for row, *_ in first.values()], pa.int64()))


def silver(records: pa.Table, read: Mapping[int, int]) -> dict[str, pa.Table]:
    """Rows that these records add to the silver tables; of ``silver/counts`` those of these records alone."""
    tables = {
        "silver/commits": _decoded("silver/commits", of_type(records, 0, 1), lambda b: iter([rows.commit_rows(b)])),
        "silver/generations": _decoded("silver/generations", of_type(records, 2, 2), rows.generation_rows),
        "silver/epochs": _decoded("silver/epochs", of_type(records, 3, 23), rows.epoch_rows),
        "silver/rejects": _decoded("silver/rejects", records, lambda b: iter([rows.reject_rows(b)])),
        "silver/gaps": gaps(records, read),
    }
    other = records.filter(pc.invert(pc.fill_null(_types(records, 0, 8), False)))
    counted = [_decoded("silver/counts", other, lambda b: iter([rows.other_counts(b)]))]
    for name in ("silver/commits", "silver/epochs", "silver/generations"):
        counted.append(counts_of(tables[name]))
    return {**tables, "silver/counts": added_up(pa.concat_tables(counted))}


def counts_of(table: pa.Table) -> pa.Table:
    """Rows of ``silver/counts`` for those of ``silver/commits``, ``generations`` or ``epochs``."""
    if "key_type" not in table.column_names:  # all records of a generation are of one kind
        table = table.append_column("key_type", pa.array(np.full(table.num_rows, 2), pa.int32()))
    return added_up(table.append_column("records", pa.array(np.ones(table.num_rows, dtype=np.int64))))


def added_up(counts: pa.Table) -> pa.Table:
    """``silver/counts``, kinds that stand there more than once added up."""
    summed = counts.group_by(list(_KINDS)).aggregate([("records", "sum")])
    columns = [summed[name] for name in (*_KINDS, "records_sum")]
    schema = rows.arrow_schema("silver/counts")
    return pa.table([one.cast(field.type) for one, field in zip(columns, schema, strict=True)], schema=schema)


def gaps(records: pa.Table, read: Mapping[int, int]) -> pa.Table:
    """``silver/gaps`` of records that follow those that were read."""
    partition, offset = (records[name].to_numpy().astype(np.int64) for name in ("partition", "offset"))
    order = np.lexsort((offset, partition))
    partition, offset = partition[order], offset[order]
    before = np.roll(offset, 1)
    first = np.ones(len(offset), dtype=np.bool_)
    first[1:] = partition[1:] != partition[:-1]
    before[first] = [read.get(number, -1) for number in partition[first].tolist()]
    return gaps_before(partition, before, offset)


def gaps_before(partition: Ints, before: Ints, offset: Ints) -> pa.Table:
    """``silver/gaps``: where offsets are missing between a record and the one before it in its partition."""
    gap = np.flatnonzero(offset > before + 1)
    columns = [partition[gap], before[gap], offset[gap], offset[gap] - before[gap] - 1]
    schema = rows.arrow_schema("silver/gaps")
    return pa.table([pa.array(values).cast(field.type) for values, field in zip(columns, schema, strict=True)], schema)


def _types(records: pa.Table, first: int, last: int) -> pa.ChunkedArray:
    """Whether a key begins with one of these types; null where there is no key."""
    low, high = (pa.scalar(number.to_bytes(2, "big"), pa.binary()) for number in (first, last + 1))
    return pc.and_(pc.greater_equal(records["key"], low), pc.less(records["key"], high))


def of_type(records: pa.Table, first: int, last: int) -> pa.Table:
    """Records whose key begins with one of these types."""
    return records.filter(_types(records, first, last))


def _decoded(name: str, records: pa.Table, decoder: Decoder) -> pa.Table:
    batches = records.combine_chunks().to_batches(max_chunksize=ROWS_A_BATCH)
    decoded = [row for batch in batches if batch.num_rows for row in decoder(batch)]
    return pa.Table.from_batches(decoded, schema=rows.arrow_schema(name))
