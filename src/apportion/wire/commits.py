"""Offset commits a column at a time: the same rows as ``coordinator.decode`` gives, at a small part of its price.

Keys and values come as Arrow lays binary columns out (all bytes in one buffer, n + 1 offsets), so that nothing is
copied on the way in. Every read is checked against its own row's end first; a row whose key or value is anything but
a plain, well-formed commit (another key type, a version or tag from the future, a length that cannot be, text that
is not UTF-8) is left to ``decode``, which then says what it is or why it is none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from apportion.arrays import Bools, Ints

Octets = NDArray[np.uint8]

_SPARE: Final = 32
"""Bytes that a buffer must have so that a read at its head is always inside, whatever the rows are."""

_ALPHABET: Final = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_", np.uint8)


@dataclass(frozen=True, slots=True)
class BytesColumn:
    """A column of N byte strings, as in Arrow's memory.

    octets
        (bytes,) all of them, uint8.
    offsets
        (N + 1,) int32 or int64; row n is ``octets[offsets[n]:offsets[n + 1]]``. The first need not be 0.
    valid
        (N,) bool, False where the row is null; None where none is.
    """

    octets: Octets
    offsets: NDArray[Any]
    valid: Bools | None = None


@dataclass(frozen=True, slots=True)
class CommitColumns:
    """N rows decoded together; a row counts only if ``decoded``, the others are for ``coordinator.decode``.

    group_at, group_size, topic_at, topic_size
        (N,) slices of the keys' buffer, valid UTF-8.
    metadata_at, metadata_size
        (N,) slices of the values' buffer, valid UTF-8; size 0 in a tombstone.
    partition, committed, commit_time, value_version
        (N,) as in ``coordinator.Commit``; 0 in a tombstone but for the partition.
    leader_epoch, expire_time
        (N,) -1 where there is none.
    topic_id_at
        (N,) where 16 bytes of id begin in the values' buffer; -1 where there is none.
    tombstone, decoded
        (N,) bool. Every row that is not decoded goes to the plain decoder, commits or not.
    """

    group_at: Ints
    group_size: Ints
    topic_at: Ints
    topic_size: Ints
    partition: NDArray[np.int32]
    committed: Ints
    leader_epoch: NDArray[np.int32]
    metadata_at: Ints
    metadata_size: Ints
    commit_time: Ints
    expire_time: Ints
    topic_id_at: Ints
    value_version: NDArray[np.int32]
    tombstone: Bools
    decoded: Bools


def decode_commits(keys: BytesColumn, values: BytesColumn) -> CommitColumns:
    """All rows at once; keys and values have the same N."""
    key = _Rows(keys)
    value = _Rows(values)
    group_at, group_size, topic_at, topic_size, partition, key_ok = _keys(key)
    out = _empty(key.at.size)
    tombstone = key_ok & ~value.valid
    decoded = tombstone.copy()
    version = value.int16(value.at, key_ok & value.valid & (value.end - value.at >= 2), -1)
    for number in range(5):
        rows = np.flatnonzero(version == number)
        if rows.size:
            decoded[rows] = _values(value, number, rows, out)
    commits = CommitColumns(
        group_at=group_at,
        group_size=group_size,
        topic_at=topic_at,
        topic_size=topic_size,
        partition=partition,
        value_version=np.where(decoded & ~tombstone, version, 0).astype(np.int32),
        tombstone=tombstone,
        decoded=decoded,
        **out,
    )
    _leave_bad_text(key, decoded, group_at, group_size)
    _leave_bad_text(key, decoded, topic_at, topic_size)
    _leave_bad_text(value, decoded, commits.metadata_at, commits.metadata_size)
    return commits


class _Rows:
    """A column ready for reading: rows' bounds as int64, and views that give big-endian numbers at any byte."""

    __slots__ = ("at", "end", "i16", "i32", "i64", "octets", "valid")

    def __init__(self, column: BytesColumn) -> None:
        octets = np.ascontiguousarray(column.octets, dtype=np.uint8)
        if octets.size < _SPARE:
            octets = np.concatenate([octets, np.zeros(_SPARE - octets.size, np.uint8)])
        self.octets = octets
        offsets = np.asarray(column.offsets, dtype=np.int64)
        self.at, self.end = offsets[:-1], offsets[1:]
        self.valid = np.ones(self.at.size, np.bool_) if column.valid is None else np.asarray(column.valid, np.bool_)
        self.i16 = np.ndarray((octets.size - 1,), ">i2", octets.data, strides=(1,))
        self.i32 = np.ndarray((octets.size - 3,), ">i4", octets.data, strides=(1,))
        self.i64 = np.ndarray((octets.size - 7,), ">i8", octets.data, strides=(1,))

    def int16(self, at: Ints, ok: Bools, otherwise: int) -> Ints:
        """(n,) an int16 at each byte for which ``ok`` says that it is inside its row."""
        return np.where(ok, self.i16[np.where(ok, at, 0)], otherwise).astype(np.int64)


def _keys(key: _Rows) -> tuple[Ints, Ints, Ints, Ints, NDArray[np.int32], Bools]:
    """Group and topic slices, partitions, and whether a key of type 1 is whole. Bytes behind it are left alone."""
    size = key.end - key.at
    ok = key.valid & (size >= 10)
    ok &= key.int16(key.at, ok, -1) == 1
    group_size = key.int16(key.at + 2, ok, -1)
    ok &= (group_size >= 0) & (group_size + 10 <= size)
    group_at = key.at + 4
    topic_at = group_at + group_size + 2
    topic_size = key.int16(topic_at - 2, ok, -1)
    ok &= (topic_size >= 0) & (group_size + topic_size + 10 <= size)
    partition = key.i32[np.where(ok, topic_at + topic_size, 0)].astype(np.int32)
    return group_at, group_size, topic_at, topic_size, partition, ok


def _empty(n: int) -> dict[str, Any]:
    """The value's columns, as a tombstone has them."""
    zeros = ("committed", "metadata_at", "metadata_size", "commit_time")
    out: dict[str, Any] = {name: np.zeros(n, np.int64) for name in zeros}
    out["leader_epoch"] = np.full(n, -1, np.int32)
    out["expire_time"] = np.full(n, -1, np.int64)
    out["topic_id_at"] = np.full(n, -1, np.int64)
    return out


def _values(value: _Rows, version: int, rows: Ints, out: dict[str, Any]) -> Bools:
    """Read the rows of one version into ``out``; (len(rows),) which of them are whole."""
    at, end = value.at[rows], value.end[rows]
    length_at = at + (14 if version >= 3 else 10)
    # What a value has at the very least, with empty metadata and no tags.
    ok = end - length_at >= (18 if version == 1 else 10)
    length_at = np.where(ok, length_at, 0)
    head = np.where(ok, at, 0)
    if version >= 4:
        text_at, text_size, ok = _compact_size(value, length_at, ok)
    else:
        text_at, text_size = length_at + 2, value.i16[length_at].astype(np.int64)
        ok &= text_size >= 0
    tail = np.where(ok, text_at + text_size, 0)
    ok &= end - tail >= {1: 16, 4: 9}.get(version, 8)
    tail = np.where(ok, tail, 0)
    out["committed"][rows] = value.i64[head + 2]
    out["metadata_at"][rows], out["metadata_size"][rows] = text_at, np.where(ok, text_size, 0)
    out["commit_time"][rows] = value.i64[tail]
    if version == 1:
        out["expire_time"][rows] = value.i64[tail + 8]
    if version >= 3:
        out["leader_epoch"][rows] = value.i32[head + 10]
    if version >= 4:
        out["topic_id_at"][rows], ok = _topic_ids(value, tail + 8, end, ok)
    return ok


def _compact_size(value: _Rows, at: Ints, ok: Bools) -> tuple[Ints, Ints, Bools]:
    """The start of the text, its size, and whether its length took one or two bytes and is no null."""
    low, high = value.octets[at].astype(np.int64), value.octets[at + 1].astype(np.int64)
    two = low >= 0x80
    size = np.where(two, (low & 0x7F) | (high << 7), low) - 1
    return at + 1 + two, size, ok & (size >= 0) & ~(two & (high >= 0x80))


def _topic_ids(value: _Rows, at: Ints, end: Ints, ok: Bools) -> tuple[Ints, Bools]:
    """(n,) the start of the id or -1, and whether the tags are none, or one that is an id of 16 bytes."""
    count = value.octets[at]
    single = ok & (count == 1) & (end - at >= 19)
    at_id = np.where(single, at, 0)
    single &= (value.octets[at_id + 1] == 0) & (value.octets[at_id + 2] == 16)
    at_id = np.where(single, at, 0) + 3
    given = single & ((value.i64[at_id] != 0) | (value.i64[at_id + 8] != 0))
    return np.where(given, at_id, -1), ok & ((count == 0) | single)


def _leave_bad_text(column: _Rows, decoded: Bools, at: Ints, size: Ints) -> None:
    """Clear ``decoded`` if a slice is not UTF-8: Kafka reads that with replacements, as the plain decoder does."""
    rows = np.flatnonzero(decoded & (size > 0))
    octets = column.octets
    if not rows.size or int(octets[column.at[0] : column.end[-1]].max()) < 0x80:
        return
    bounds = np.empty(2 * rows.size, np.int64)
    bounds[0::2], bounds[1::2] = at[rows], at[rows] + size[rows]
    # A slice is always followed by a number of its own record, so its end is inside the buffer too.
    with_high = np.bitwise_or.reduceat(octets, bounds)[0::2] >= 0x80
    for row in rows[with_high].tolist():
        piece = octets[at[row] : at[row] + size[row]].tobytes()
        try:
            piece.decode("utf-8")
        except UnicodeDecodeError:
            decoded[row] = False


def packed(octets: Octets, at: Ints, size: Ints) -> tuple[NDArray[np.int32], Octets]:
    """The slices side by side, as Arrow wants a column of text: (n + 1,) int32 offsets and the bytes.

    ValueError where they come to 2 GiB or more, which int32 offsets cannot say: take fewer rows.
    """
    ends = np.cumsum(size, dtype=np.int64)
    total = int(ends[-1]) if ends.size else 0
    if total > np.iinfo(np.int32).max:
        raise ValueError(f"{total} bytes of text in one batch do not fit int32 offsets")
    offsets = np.zeros(ends.size + 1, np.int32)
    offsets[1:] = ends
    where = np.arange(total, dtype=np.int64) + np.repeat(at - offsets[:-1], size)
    return offsets, octets[where]


def sixteens(octets: Octets, at: Ints) -> Octets:
    """(16 n,) the 16 bytes at each place, one after the other; every place must have them."""
    halves = np.empty((at.size, 2), np.int64)
    if octets.size < 16:
        raise ValueError(f"16 bytes at each place, of {octets.size}")
    eights = np.ndarray((octets.size - 7,), np.int64, octets.data, strides=(1,))
    halves[:, 0], halves[:, 1] = eights[at], eights[at + 8]
    return halves.view(np.uint8).reshape(-1)


def topic_id_texts(octets: Octets, at: Ints) -> Octets:
    """(n, 22) the letters of the ids that begin at ``at``: Kafka's base64url, as ASCII."""
    raw = np.zeros((at.size, 18), np.int64)
    raw[:, :16] = octets[at[:, None] + np.arange(16)]
    words = (raw[:, 0::3] << 16) | (raw[:, 1::3] << 8) | raw[:, 2::3]
    letters = np.stack([words >> 18, words >> 12 & 63, words >> 6 & 63, words & 63], axis=2)
    return _ALPHABET[letters.reshape(at.size, 24)[:, :22]]
