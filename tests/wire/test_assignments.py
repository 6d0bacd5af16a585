"""All members' assignments written at once are the bytes that the writer of one gives."""

from __future__ import annotations

import random

import numpy as np

from apportion.wire.assignment import Assignment, write_assignment
from apportion.wire.assignment_columns import write_assignments

from .samples import NAMES


def test_the_bytes_of_every_member_are_those_of_the_writer_of_one() -> None:
    r = random.Random(8)
    topics = sorted({*NAMES, *(f"topic{t}" for t in range(0, 1200, 40))})
    for _ in range(300):
        members = r.randrange(1, 8)
        data = r.choice((None, b"", b"\x00\x01\x00\x00\x00\x05"))
        shares = [
            {t: sorted(r.sample(range(9), r.randrange(1, 4))) for t in sorted(r.sample(range(len(topics)), k))}
            for k in (r.choice((0, 1, 3, 12)) for _ in range(members))
        ]
        flat = [(t, p) for share in shares for t, ids in share.items() for p in ids]
        topic = np.array([t for t, _ in flat], dtype=np.int64)
        number = np.array([p for _, p in flat], dtype=np.int64)
        held = np.array([sum(map(len, share.values())) for share in shares])
        expected = [
            write_assignment(Assignment(tuple((topics[t], tuple(ids)) for t, ids in share.items()), data))
            for share in shares
        ]
        assert write_assignments(topics, topic, number, held, data) == expected


def test_one_partition_each_and_nobody_at_all() -> None:
    none = np.empty(0, dtype=np.int64)
    assert write_assignments([], none, none, none) == []
    assert write_assignments(["t"], none, none, np.zeros(2, dtype=np.int64)) == [write_assignment(Assignment())] * 2
    zero, many = np.zeros(1000, dtype=np.int64), np.arange(1000)
    written = write_assignments(["t"], zero, many, np.ones(1000, dtype=np.int64))
    assert written == [write_assignment(Assignment((("t", (p,)),))) for p in range(1000)]
