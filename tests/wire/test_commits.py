"""The fast decoder of commits answers as the plain one does, row for row, or leaves the row to it."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pytest
from tests.support.records import commit_key, commit_value

from apportion.wire.commits import BytesColumn, CommitColumns, decode_commits, topic_id_texts
from apportion.wire.coordinator import Commit, decode

from . import samples
from .samples import Pair


def column(rows: Sequence[bytes | None], junk: bytes = b"", wide: bool = False) -> BytesColumn:
    """Rows as Arrow holds them, ``junk`` lying before the first and under every null."""
    whole = [junk if row is None else row for row in rows]
    offsets = np.zeros(len(rows) + 1, np.int64 if wide else np.int32)
    offsets[0] = len(junk)
    offsets[1:] = len(junk) + np.cumsum([len(row) for row in whole])
    valid = None if all(row is not None for row in rows) else np.array([row is not None for row in rows])
    return BytesColumn(np.frombuffer(junk + b"".join(whole), np.uint8), offsets, valid)


def record(keys: BytesColumn, values: BytesColumn, found: CommitColumns, row: int) -> Commit:
    """A row of the fast decoder in the plain one's words."""

    def piece(data: np.ndarray, at: np.ndarray, size: np.ndarray) -> str:
        return data[at[row] : at[row] + size[row]].tobytes().decode()

    def known(value: np.ndarray) -> int | None:
        return None if value[row] == -1 else int(value[row])

    names = (
        piece(keys.octets, found.group_at, found.group_size),
        piece(keys.octets, found.topic_at, found.topic_size),
        int(found.partition[row]),
        1,
    )
    if found.tombstone[row]:
        assert found.metadata_size[row] == 0
        return Commit(*names, True)
    id_at = found.topic_id_at[row : row + 1]
    return Commit(
        *names,
        False,
        int(found.value_version[row]),
        int(found.committed[row]),
        known(found.leader_epoch),
        piece(values.octets, found.metadata_at, found.metadata_size),
        int(found.commit_time[row]),
        known(found.expire_time),
        topic_id_texts(values.octets, id_at)[0].tobytes().decode() if id_at[0] >= 0 else None,
    )


def compare(pairs: Sequence[Pair], junk: bytes = b"", wide: bool = False) -> int:
    """How many rows the fast decoder did; each is what the plain one says, which never refuses such a row."""
    keys = column([key for key, _ in pairs], junk, wide)
    values = column([value for _, value in pairs], junk, wide)
    found = decode_commits(keys, values)
    for row in np.flatnonzero(found.decoded).tolist():
        assert record(keys, values, found, row) == decode(*pairs[row]), pairs[row]
    return int(found.decoded.sum())


def test_every_usual_commit_is_done_here_and_equal() -> None:
    r = random.Random(1)
    pairs = [pair for pair in (samples.commit(r) for _ in range(5000)) if pair[0][1] == 1]
    assert compare(pairs) == len(pairs)


@pytest.mark.parametrize("size", [0, 1, 126, 127, 128, 16382, 16383])
@pytest.mark.parametrize("version", range(5))
def test_metadata_of_every_size_and_version(version: int, size: int) -> None:
    value = commit_value(7, version=version, metadata="m" * size, topic_id=bytes(range(16)))
    done = compare([(commit_key("g", "t", 1), value)] * 3)
    assert done == (0 if version == 4 and size >= 16383 else 3), "a length of three bytes is left to the plain decoder"


@pytest.mark.parametrize("batch", [0, 1, 2, 7, 100])
def test_batches_of_any_size_with_junk_under_the_nulls(batch: int) -> None:
    r = random.Random(batch)
    pairs = [samples.commit(r) for _ in range(batch)]
    for wide in (False, True):
        compare(pairs, junk=b"\xffjunk\xff\xff", wide=wide)


@pytest.mark.slow
def test_a_hundred_thousand_mutated_records_are_equal_or_left_alone() -> None:
    r = random.Random(2)
    done = 0
    for _ in range(10):
        pairs = [samples.mutated_record(r) if r.random() < 0.8 else samples.commit(r) for _ in range(10_000)]
        done += compare(pairs)
    assert done > 10_000


def test_mutated_commits_are_all_done_unless_they_are_odd() -> None:
    r = random.Random(3)
    pairs: list[Pair] = []
    for _ in range(20_000):
        key, value = samples.commit(r)
        pairs.append((key, None if value is None else samples.mutated(r, value)))
    assert compare(pairs) > 4000


def test_every_truncation_is_left_to_the_plain_decoder() -> None:
    for version in range(5):
        key, value = commit_key("group", "topic", 1), commit_value(1, version=version, topic_id=bytes(range(16)))
        pairs: list[Pair] = [(key[:cut], value) for cut in range(len(key))]
        pairs += [(key, value[:cut]) for cut in range(len(value))]
        assert compare(pairs) == 0


def test_a_topic_id_is_one_unless_all_of_it_is_zero() -> None:
    key = commit_key("g", "t", 0)
    ids = (bytes(8) + b"\x01" * 8, b"\x01" * 8 + bytes(8), bytes(16))
    assert compare([(key, commit_value(1, version=4, topic_id=topic_id)) for topic_id in ids]) == 3
