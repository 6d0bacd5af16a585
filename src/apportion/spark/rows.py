"""Records of ``__consumer_offsets`` to Arrow rows of the silver tables; the row decoder's word is law.

Plain Python and Arrow, no Spark: ``decode.py`` runs these functions inside ``mapInArrow``. Each takes a batch of
records (the columns of ``schemas.RECORDS``) and gives batches of its table. What cannot be read is nobody's row here
and appears in ``reject_rows`` alone, so that each record is counted exactly once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final

import numpy as np
import pyarrow as pa

from apportion.errors import UnreadableBytes
from apportion.spark import schemas
from apportion.wire.commits import (
    BytesColumn,
    CommitColumns,
    decode_commits,
    packed,
    sixteens,
    text_views,
    topic_id_texts,
)
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
    """Milliseconds as microseconds; None where no timestamp can hold them (beyond 292,000 years)."""
    return None if millis is None or not -MICROS_MAX <= millis * 1000 <= MICROS_MAX else millis * 1000


# -- commits ---------------------------------------------------------------------------------------------------------


def commit_rows(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The rows of ``silver/commits``: a column at a time, and one by one where that is not sure of itself."""
    keys, values = column(batch["key"]), column(batch["value"])
    columns = decode_commits(keys, values)
    decoded = np.flatnonzero(columns.decoded)
    fast = _commit_columns(batch, keys, values, columns, decoded)
    rest = np.flatnonzero(~columns.decoded)
    if not rest.size:
        return fast
    slow, slow_rows = _commits_one_by_one(batch, rest)
    both = pa.Table.from_batches([fast, slow]).combine_chunks()
    order = np.argsort(np.concatenate([decoded, slow_rows]), kind="stable")
    return both.take(pa.array(order)).combine_chunks().to_batches()[0] if order.size else fast


def plain_commit_rows(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The rows of ``silver/commits``, all one by one: the reference."""
    return _commits_one_by_one(batch, np.arange(batch.num_rows))[0]


def not_done(batch: pa.RecordBatch) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Rows that the fast decoder of commits leaves to the plain one."""
    columns = decode_commits(column(batch["key"]), column(batch["value"]))
    return np.flatnonzero(~columns.decoded)


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
    fits = (millis >= -MICROS_MAX // 1000 + 1) & (millis <= MICROS_MAX // 1000)
    return pa.array(np.where(fits, millis, 0) * 1000, mask=~(valid & fits)).cast(pa.timestamp("us", tz="UTC"))


def _text(
    source: BytesColumn, at: np.ndarray[Any, Any], size: np.ndarray[Any, Any], valid: np.ndarray[Any, Any] | None = None
) -> pa.Array:
    mask = None if valid is None or valid.all() else pa.array(valid).buffers()[1]
    if not size.any():
        return pa.StringArray.from_buffers(at.size, pa.py_buffer(bytes(4 * at.size + 4)), pa.py_buffer(b""), mask)
    views = text_views(source.octets, at, size) if _casts_views() else None
    if views is not None:
        # Arrow copies texts out of views at half the price of gathering them byte by byte here.
        buffers = [mask, pa.py_buffer(views), pa.py_buffer(source.octets)]
        return pa.Array.from_buffers(pa.string_view(), at.size, buffers).cast(pa.string())
    offsets, octets = packed(source.octets, at, size)
    return pa.StringArray.from_buffers(at.size, pa.py_buffer(offsets), pa.py_buffer(octets), mask)


@cache
def _casts_views() -> bool:
    """Whether this pyarrow makes texts of views; older ones do not."""
    try:
        pa.array([], pa.string_view()).cast(pa.string())
    except pa.ArrowNotImplementedError:
        return False
    return True


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


def _commits_one_by_one(
    batch: pa.RecordBatch, rows: np.ndarray[Any, Any]
) -> tuple[pa.RecordBatch, np.ndarray[Any, np.dtype[np.int64]]]:
    """The commits among some rows, and which rows they are."""
    lines: list[dict[str, Any]] = []
    kept: list[int] = []
    keys, values = batch["key"], batch["value"]
    for row in rows.tolist():
        record = read(keys[row].as_py(), values[row].as_py())
        if isinstance(record, Commit):
            lines.append(_commit(record))
            kept.append(row)
    where = np.array(kept, np.int64)
    return _with_source("silver/commits", lines, batch, where), where


def _commit(commit: Commit) -> dict[str, Any]:
    return {
        "group": commit.group,
        "topic": commit.topic,
        "partition": commit.partition,
        "committed": commit.committed,
        "leader_epoch": commit.leader_epoch,
        "metadata": commit.metadata,
        "commit_time": micros(commit.commit_time),
        "expire_time": micros(commit.expire_time),
        "topic_id": commit.topic_id,
        "tombstone": commit.tombstone,
        "value_version": commit.value_version,
        "key_type": commit.key_type,
    }


# -- generations and epochs ------------------------------------------------------------------------------------------


def generation_rows(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The rows of ``silver/generations``."""
    return _nested("silver/generations", GroupGeneration, _generation, batch)


def epoch_rows(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The rows of ``silver/epochs``."""
    return _nested("silver/epochs", EpochRecord, _epoch, batch)


def _nested(name: str, kind: type, line: Any, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    lines: list[dict[str, Any]] = []
    rows: list[int] = []
    size = 0
    for row, (key, value) in enumerate(zip(batch["key"], batch["value"], strict=True)):
        raw = value.as_py()
        record = read(key.as_py(), raw)
        if isinstance(record, kind):
            lines.append(line(record))
            rows.append(row)
            size += len(raw or b"")
        if size > PIECE_BYTES:
            yield _with_source(name, lines, batch, np.array(rows, np.int64))
            lines, rows, size = [], [], 0
    yield _with_source(name, lines, batch, np.array(rows, np.int64))


def _generation(generation: GroupGeneration) -> dict[str, Any]:
    return {
        "group": generation.group,
        "generation": generation.generation,
        "protocol_type": generation.protocol_type,
        "protocol": generation.protocol,
        "leader": generation.leader,
        "tombstone": generation.tombstone,
        "members": [_member(member) for member in generation.members],
        "state_time": micros(generation.state_time),
        "value_version": generation.value_version,
    }


def _member(member: Member) -> dict[str, Any]:
    return {
        "member_id": member.member_id,
        "instance_id": member.instance_id,
        "client_id": member.client_id,
        "host": member.host,
        "rack": member.rack,
        "topics": list(member.topics),
        "owned": _held(member.owned),
        "owned_generation": member.owned_generation,
        "assigned": _held(member.assigned),
        "user_data": member.user_data,
        "rebalance_timeout_ms": member.rebalance_timeout_ms,
        "session_timeout_ms": member.session_timeout_ms,
        "unreadable": member.unreadable,
    }


def _held(held: Held) -> list[dict[str, Any]]:
    return [{"topic": topic, "partitions": list(ids)} for topic, ids in held]


def _epoch(record: EpochRecord) -> dict[str, Any]:
    return {
        "group": record.group,
        "key_type": record.key_type,
        "member_id": record.member_id,
        "epoch": record.epoch,
        "tombstone": record.tombstone,
        "body": record.body_json,
        "value_version": record.value_version,
    }


def every_row(batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Rows of ``commits``, ``generations``, ``epochs``, ``rejects`` and ``counts`` (of what is only counted), by name.

    Each record is looked at once: what the functions above give of it, and those below.
    """
    keys, values = column(batch["key"]), column(batch["value"])
    columns = decode_commits(keys, values)
    decoded = np.flatnonzero(columns.decoded)
    if decoded.size:
        yield "commits", _commit_columns(batch, keys, values, columns, decoded)
    others = _Others(batch)
    for row in np.flatnonzero(~columns.decoded).tolist():
        if others.take(row) > PIECE_BYTES:
            yield from others.rows()
            others = _Others(batch)
    yield from others.rows()


class _Others:
    """Records that were decoded one by one, table by table."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self._batch, self._keys, self._values = batch, batch["key"], batch["value"]
        self._lines: dict[str, list[dict[str, Any]]] = {}
        self._rows: dict[str, list[int]] = {}
        self._reasons: list[str] = []
        self._counts: Counter[tuple[int, int | None, bool]] = Counter()
        self._size = 0

    def take(self, row: int) -> int:
        """Decode one; how many bytes all of them have."""
        key, value = self._keys[row].as_py(), self._values[row].as_py()
        self._size += len(key or b"") + len(value or b"")
        record = read(key, value)
        if isinstance(record, str):
            self._rows.setdefault("rejects", []).append(row)
            self._reasons.append(record)
        elif isinstance(record, Other):
            self._counts[record.key_type, record.value_version, record.tombstone] += 1
        else:
            name, line = _line(record)
            self._lines.setdefault(name, []).append(line)
            self._rows.setdefault(name, []).append(row)
        return self._size

    def rows(self) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Their rows, by the name of the table."""
        for name, lines in self._lines.items():
            yield name, _with_source(f"silver/{name}", lines, self._batch, np.array(self._rows[name], np.int64))
        if self._reasons:
            yield "rejects", _rejected(self._batch, self._rows["rejects"], self._reasons)
        if self._counts:
            yield "counts", _counted(self._counts)


def _line(record: Commit | GroupGeneration | EpochRecord) -> tuple[str, dict[str, Any]]:
    if isinstance(record, Commit):
        return "commits", _commit(record)
    return ("generations", _generation(record)) if isinstance(record, GroupGeneration) else ("epochs", _epoch(record))


# -- rejects and counts ----------------------------------------------------------------------------------------------


def reject_rows(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The rows of ``silver/rejects``."""
    rows: list[int] = []
    reasons: list[str] = []
    keys, values = batch["key"], batch["value"]
    for row in not_done(batch).tolist():
        record = read(keys[row].as_py(), values[row].as_py())
        if isinstance(record, str):
            rows.append(row)
            reasons.append(record)
    return _rejected(batch, rows, reasons)


def _rejected(batch: pa.RecordBatch, rows: list[int], reasons: list[str]) -> pa.RecordBatch:
    keys, values, where = batch["key"], batch["value"], pa.array(rows, pa.int64())
    columns = {
        "source_partition": batch["partition"].take(where),
        "source_offset": batch["offset"].take(where),
        "reason": pa.array(reasons, pa.string()),
        "key": keys.take(where),
        "value": values.take(where),
        "at": batch["timestamp"].take(where),
    }
    return _as("silver/rejects", columns)


def other_counts(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Rows of ``silver/counts`` for the records of this batch that are only counted."""
    counts: Counter[tuple[int, int | None, bool]] = Counter()
    for key, value in zip(batch["key"], batch["value"], strict=True):
        record = read(key.as_py(), value.as_py())
        if isinstance(record, Other):
            counts[record.key_type, record.value_version, record.tombstone] += 1
    return _counted(counts)


def _counted(counts: Mapping[tuple[int, int | None, bool], int]) -> pa.RecordBatch:
    names = ("key_type", "value_version", "tombstone", "records")
    lines = [dict(zip(names, (*kind, count), strict=True)) for kind, count in counts.items()]
    return pa.RecordBatch.from_pylist(lines, schema=arrow_schema("silver/counts"))


# -- shared ----------------------------------------------------------------------------------------------------------


def _with_source(
    name: str, lines: Sequence[dict[str, Any]], batch: pa.RecordBatch, rows: np.ndarray[Any, Any]
) -> pa.RecordBatch:
    """Decoded fields with the columns that say where the record was."""
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
    arrays = []
    for field in schema:
        array = columns[field.name]
        arrays.append(array if array.type == field.type else array.cast(field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
