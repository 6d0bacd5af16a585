"""Records of ``__consumer_offsets`` to rows of the silver tables: each is looked at once, and lands in one place.

``wire.coordinator.decode`` is the reference; commits that are plain are decoded by the column.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from functools import cache
from typing import Any, Final

import numpy as np
import pyarrow as pa

from apportion.arrays import Longs
from apportion.errors import UnreadableBytes
from apportion.model.to_names import collector_paused
from apportion.pipeline.columns import longs
from apportion.tables import schemas
from apportion.wire.commits import BytesColumn, CommitColumns, decode_commits, packed, sixteens, topic_id_texts
from apportion.wire.coordinator import Commit, EpochRecord, GroupGeneration, Member, Other, Record, decode
from apportion.wire.partitions import Held

MICROS_MAX: Final = 2**63 - 1
PIECE_BYTES: Final = 4 << 20
"""Nested rows are handed on after this many bytes of values, so that hostile ones cannot fill the memory."""


@cache
def arrow_schema(name: str) -> pa.Schema:
    """The Arrow form of a table's schema."""
    return schemas.arrow_schema(schemas.TABLES[name])


def read(key: bytes | None, value: bytes | None) -> Record | str:
    """The record, or the reason why it is none."""
    try:
        return decode(key, value)
    except UnreadableBytes as error:
        return str(error)
    except Exception as error:  # other people's bytes must never stop the job, even if we read them wrongly
        return f"the decoder failed: {type(error).__name__}: {error}"


def micros(millis: int | None) -> int | None:
    """Milliseconds as microseconds; None if no timestamp can hold them (beyond 292,000 years)."""
    return None if millis is None or not -MICROS_MAX <= millis * 1000 <= MICROS_MAX else millis * 1000


# -- commits ---------------------------------------------------------------------------------------------------------


def column(array: pa.Array) -> BytesColumn:
    """A binary array as NumPy sees it, copying nothing."""
    if pa.types.is_large_binary(array.type):
        kind: Any = np.int64
    elif pa.types.is_binary(array.type):
        kind = np.int32
    else:
        return column(array.cast(pa.binary()))
    _, offsets, buffer = array.buffers()
    n = len(array)
    bounds = np.frombuffer(offsets, kind)[array.offset : array.offset + n + 1] if n else np.zeros(1, kind)
    octets = np.frombuffer(buffer, np.uint8) if buffer is not None and buffer.size else np.zeros(0, np.uint8)
    valid = None if array.null_count == 0 else np.asarray(array.is_valid().to_numpy(zero_copy_only=False))
    return BytesColumn(octets, bounds, valid)


def _commit_columns(
    batch: pa.RecordBatch, keys: BytesColumn, values: BytesColumn, columns: CommitColumns, rows: np.ndarray[Any, Any]
) -> pa.RecordBatch:
    whole = rows.size == batch.num_rows

    def pick(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return array if whole else array[rows]

    tombstone = pick(columns.tombstone)
    stands = ~tombstone
    key_type = np.ones(rows.size, np.int32)
    record = batch if whole else batch.take(pa.array(rows))
    commit_time = pick(columns.commit_time)
    expire_time = pick(columns.expire_time)
    epoch = pick(columns.leader_epoch)
    id_at = pick(columns.topic_id_at)
    table = {
        "group": _text(keys, pick(columns.group_at), pick(columns.group_size)),
        "topic": _text(keys, pick(columns.topic_at), pick(columns.topic_size)),
        "partition": pa.array(pick(columns.partition)),
        "committed": _numbers(pick(columns.committed), stands),
        "leader_epoch": _numbers(epoch, stands & (epoch != -1)),
        "metadata": _text(values, pick(columns.metadata_at), pick(columns.metadata_size), stands),
        "commit_time": _times(commit_time, stands),
        "expire_time": _times(expire_time, stands & (expire_time != -1)),
        "topic_id": _topic_ids(values, id_at, stands & (id_at >= 0)),
        "tombstone": pa.array(tombstone),
        "value_version": _numbers(pick(columns.value_version), stands),
        "source_partition": record["partition"],
        "source_offset": record["offset"],
        "at": record["timestamp"],
        "key_type": pa.array(key_type),
    }
    return _as("silver/commits", table)


def _numbers(values: np.ndarray[Any, Any], valid: np.ndarray[Any, Any]) -> pa.Array:
    return pa.array(values, mask=~valid)


def _times(millis: np.ndarray[Any, Any], valid: np.ndarray[Any, Any]) -> pa.Array:
    """Microseconds; null if no timestamp can hold them."""
    fits = (millis >= -MICROS_MAX // 1000 + 1) & (millis <= MICROS_MAX // 1000)
    return pa.array(np.where(fits, millis, 0) * 1000, mask=~(valid & fits))


def _text(
    source: BytesColumn, at: np.ndarray[Any, Any], size: np.ndarray[Any, Any], valid: np.ndarray[Any, Any] | None = None
) -> pa.Array:
    mask = None if valid is None or valid.all() else pa.array(valid).buffers()[1]
    if not size.any():
        return pa.StringArray.from_buffers(at.size, pa.py_buffer(bytes(4 * at.size + 4)), pa.py_buffer(b""), mask)
    offsets, octets = packed(source.octets, at, size)
    return pa.StringArray.from_buffers(at.size, pa.py_buffer(offsets), pa.py_buffer(octets), mask)


def _topic_ids(values: BytesColumn, at: np.ndarray[Any, Any], valid: np.ndarray[Any, Any]) -> pa.Array:
    if not valid.any():
        return pa.nulls(at.size, pa.string())
    # Few topics in many commits: each id is written out once.
    mask = None if valid.all() else pa.array(valid).buffers()[1]
    raw = pa.py_buffer(sixteens(values.octets, np.where(valid, at, 0)))
    ids = pa.FixedSizeBinaryArray.from_buffers(pa.binary(16), at.size, [mask, raw]).dictionary_encode()
    distinct = np.frombuffer(ids.dictionary.buffers()[1], np.uint8)[: 16 * len(ids.dictionary)]
    letters = np.ascontiguousarray(topic_id_texts(distinct, np.arange(len(ids.dictionary)) * 16))
    ends = pa.py_buffer(np.arange(len(letters) + 1, dtype=np.int32) * 22)
    return pa.StringArray.from_buffers(len(letters), ends, pa.py_buffer(letters)).take(ids.indices)


# -- generations, epochs and others ------------------------------------------------------------------------------------


def _row(record: Commit | GroupGeneration | EpochRecord | Member, **other_columns: Any) -> dict[str, Any]:
    """The fields of a record by name, which are the columns' names too, and those that a table has in another form."""
    return {field.name: getattr(record, field.name) for field in fields(record)} | other_columns


def _member(member: Member) -> dict[str, Any]:
    return _row(member, owned=_held(member.owned), assigned=_held(member.assigned))


def _held(held: Held) -> list[dict[str, Any]]:
    return [{"topic": topic, "partitions": list(ids)} for topic, ids in held]


def every_row(batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Rows of ``commits``, ``generations``, ``epochs``, ``rejects`` and ``counts`` (for records only counted), by name.

    Each record is looked at once: what the functions above give of it, and those below.
    """
    keys, values = column(batch["key"]), column(batch["value"])
    columns = decode_commits(keys, values)
    decoded = np.flatnonzero(columns.decoded)
    if decoded.size:
        yield "commits", _commit_columns(batch, keys, values, columns, decoded)
    other_records = _Others(batch)
    for row in np.flatnonzero(~columns.decoded).tolist():
        if other_records.take(row) > PIECE_BYTES:
            yield from other_records.rows()
            other_records = _Others(batch)
    yield from other_records.rows()


class _Others:
    """Records that were decoded one by one, table by table."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self._batch, self._keys, self._values = batch, batch["key"], batch["value"]
        self._lines: dict[str, list[dict[str, Any]]] = {}
        self._rows: dict[str, list[int]] = {}
        self._counts: Counter[tuple[int, int | None, bool]] = Counter()
        self._size = 0

    def take(self, row: int) -> int:
        """Decode one; how many bytes all of them have."""
        key, value = self._keys[row].as_py(), self._values[row].as_py()
        self._size += len(key or b"") + len(value or b"")
        record = read(key, value)
        if isinstance(record, Other):
            self._counts[record.key_type, record.value_version, record.tombstone] += 1
            return self._size
        name, line = (
            ("rejects", {"reason": record, "key": key, "value": value}) if isinstance(record, str) else _line(record)
        )
        self._lines.setdefault(name, []).append(line)
        self._rows.setdefault(name, []).append(row)
        return self._size

    def rows(self) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Their rows, by the name of the table."""
        for name, lines in self._lines.items():
            yield name, _with_source(f"silver/{name}", lines, self._batch, np.array(self._rows[name], np.int64))
        if self._counts:
            yield "counts", _counted(self._counts)


def _line(record: Commit | GroupGeneration | EpochRecord) -> tuple[str, dict[str, Any]]:
    if isinstance(record, Commit):
        times = {"commit_time": micros(record.commit_time), "expire_time": micros(record.expire_time)}
        return "commits", _row(record, **times)
    if isinstance(record, GroupGeneration):
        members = [_member(member) for member in record.members]
        return "generations", _row(record, members=members, state_time=micros(record.state_time))
    return "epochs", _row(record, body=record.body_json)


# -- counts ----------------------------------------------------------------------------------------------------------


def _counted(counts: Mapping[tuple[int, int | None, bool], int]) -> pa.RecordBatch:
    names = ("key_type", "value_version", "tombstone", "records")
    lines = [dict(zip(names, (*kind, count), strict=True)) for kind, count in counts.items()]
    return pa.RecordBatch.from_pylist(lines, schema=arrow_schema("silver/counts"))


# -- shared ----------------------------------------------------------------------------------------------------------


def _with_source(
    name: str, lines: Sequence[dict[str, Any]], batch: pa.RecordBatch, rows: np.ndarray[Any, Any]
) -> pa.RecordBatch:
    """Decoded fields with the columns that locate the record."""
    where = pa.array(rows)
    source = {
        "source_partition": batch["partition"].take(where),
        "source_offset": batch["offset"].take(where),
        "at": batch["timestamp"].take(where),
    }
    schema = arrow_schema(name)
    rest = pa.schema([field for field in schema if field.name not in source])
    batch_out = pa.RecordBatch.from_pylist(list(lines), schema=rest)
    return _as(name, source | {field.name: batch_out[field.name] for field in rest})


def _as(name: str, columns: dict[str, pa.Array]) -> pa.RecordBatch:
    """Columns in the table's order and types."""
    schema = arrow_schema(name)
    return pa.RecordBatch.from_arrays([columns[field.name].cast(field.type) for field in schema], schema=schema)


# -- what is counted of records --------------------------------------------------------------------------------------

DECODED: Final = ("commits", "generations", "epochs", "rejects")
COLUMNS: Final = ("key", "value", "partition", "offset", "timestamp")
_KINDS: Final = ("key_type", "value_version", "tombstone")
HOLES: Final = pa.schema([("source_partition", pa.int32()), ("source_offset", pa.int64()), ("holes", pa.int64())])
RUNS: Final = pa.schema([("partition", pa.int32()), ("first", pa.int64()), ("last", pa.int64())])


def decoded(records: pa.Table) -> dict[str, pa.Table]:
    """Rows of ``commits``, ``generations``, ``epochs`` and ``rejects``; ``counts`` of all; ``runs`` of their offsets.

    records
        The columns ``COLUMNS``.
    """
    pieces: dict[str, list[pa.RecordBatch]] = {}
    # Nothing that is decoded stands in a cycle; to look for such among so many small objects costs a quarter.
    with collector_paused():
        for batch in records.combine_chunks().to_batches():
            for name, rows in every_row(batch):
                pieces.setdefault(name, []).append(rows)
    tables = {
        name: pa.Table.from_batches(pieces.get(name, []), schema=arrow_schema(f"silver/{name}"))
        for name in (*DECODED, "counts")
    }
    counts = [tables["counts"], *(_counts_of(tables[name]) for name in DECODED[:-1])]
    return {**tables, "counts": added_up(pa.concat_tables(counts)), "runs": runs_of(records)}


def _counts_of(rows: pa.Table) -> pa.Table:
    """Rows of ``silver/counts`` for those of ``silver/commits``, ``generations`` or ``epochs``."""
    if "key_type" not in rows.column_names:  # all records of a generation are of one kind
        rows = rows.append_column("key_type", pa.array(np.full(rows.num_rows, 2), pa.int32()))
    return added_up(rows.append_column("records", pa.array(np.ones(rows.num_rows, dtype=np.int64))))


def added_up(counts: pa.Table) -> pa.Table:
    """``silver/counts``, kinds that occur more than once added up."""
    summed = counts.group_by(list(_KINDS)).aggregate([("records", "sum")])
    schema = arrow_schema("silver/counts")
    return pa.table([summed[name] for name in (*_KINDS, "records_sum")], names=schema.names).cast(schema)


def runs_of(records: pa.Table) -> pa.Table:
    """(partition, first, last): the offsets of some records, following ones together; one that is there twice twice."""
    return _runs(longs(records["partition"]), longs(records["offset"]), longs(records["offset"]))


def joined_runs(runs: pa.Table) -> pa.Table:
    """Runs of several places together, those that follow each other as one."""
    return _runs(*(longs(runs[name]) for name in RUNS.names))


def _runs(partition: Longs, first: Longs, last: Longs) -> pa.Table:
    order = np.lexsort((first, partition))
    partition, first, last = partition[order], first[order], last[order]
    new = np.ones(len(first) + 1, dtype=np.bool_)
    new[1:-1] = (partition[1:] != partition[:-1]) | (first[1:] != last[:-1] + 1)
    start = np.flatnonzero(new)
    columns = (partition[start[:-1]], first[start[:-1]], last[start[1:] - 1])
    arrays = [pa.array(values).cast(field.type) for values, field in zip(columns, RUNS, strict=True)]
    return pa.Table.from_arrays(arrays, schema=RUNS)


def stand_twice(runs: pa.Table) -> bool:
    """Whether two runs, as ``joined_runs`` gives them, share an offset: a record has one place twice."""
    partition, first, last = (longs(runs[name]) for name in RUNS.names)
    return bool(((partition[1:] == partition[:-1]) & (first[1:] <= last[:-1])).any())


def come_late(runs: pa.Table, read: Mapping[int, int]) -> bool:
    """Whether a run begins at or before the last offset that was read of its partition."""
    partition, first = (runs[name].to_pylist() for name in RUNS.names[:2])
    return any(begin <= read.get(number, -1) for number, begin in zip(partition, first, strict=True))


def last_offsets(runs: pa.Table, read: Mapping[int, int]) -> dict[int, int]:
    """Partition to the last offset that was read, with these runs."""
    last = dict(read)
    for number, offset in zip(runs["partition"].to_pylist(), runs["last"].to_pylist(), strict=True):
        last[number] = max(last.get(number, -1), offset)
    return dict(sorted(last.items()))


def gaps(runs: pa.Table, read: Mapping[int, int]) -> pa.Table:
    """``silver/gaps``: the missing offsets before a run, as ``joined_runs`` gives them, in its partition."""
    partition, first, last = (longs(runs[name]) for name in RUNS.names)
    begins = np.ones(len(first), dtype=np.bool_)
    begins[1:] = partition[1:] != partition[:-1]
    before = np.roll(last, 1)
    before[begins] = [read.get(number, -1) for number in partition[begins].tolist()]
    gap = np.flatnonzero(first > before + 1)
    columns = [partition[gap], before[gap], first[gap], first[gap] - before[gap] - 1]
    schema = arrow_schema("silver/gaps")
    return pa.table([pa.array(values).cast(field.type) for values, field in zip(columns, schema, strict=True)], schema)


def holes(gaps: pa.Table, missing: Mapping[int, int], read: Mapping[int, int]) -> pa.Table:
    """How many offsets are missing in each partition up to some, in their order: columns of ``HOLES``.

    gaps
        New ones, as ``gaps`` gives them.
    missing, read
        Of each partition how many were missing among the offsets before those, and the last of these.
    """
    partition, offset, less = (longs(gaps[name]) for name in ("source_partition", "before_offset", "missing"))
    pieces = [HOLES.empty_table()]
    for number in sorted({*missing, *np.unique(partition).tolist()}):
        first, behind = np.searchsorted(partition, [number, number + 1])
        up_to = np.append(read.get(number, -1) + 1, offset[first:behind])
        total = missing.get(number, 0) + np.cumsum(np.append(0, less[first:behind]))
        pieces.append(pa.table([pa.array([number] * len(total), pa.int32()), up_to, total], schema=HOLES))
    return pa.concat_tables(pieces).combine_chunks()
