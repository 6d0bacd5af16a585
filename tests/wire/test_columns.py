"""Texts and names by the column: texts side by side, ids of sixteen bytes, and numbers of names, at every edge."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from tests.support.records import commit_key, commit_value

from apportion.errors import UnreadableBytes
from apportion.wire.columns import Buffer, number_names
from apportion.wire.commits import decode_commits, packed, sixteens
from apportion.wire.primitives import MAX_STRING, Reader

from .test_commits import column

OCTETS = np.frombuffer(bytes(range(1, 64)), np.uint8)


def test_texts_one_after_the_other_with_offsets() -> None:
    offsets, octets = packed(OCTETS, np.array([5, 0, 61]), np.array([2, 0, 2]))
    assert (offsets.tolist(), octets.tolist()) == ([0, 2, 2, 4], [6, 7, 62, 63])


def test_sixteen_bytes_from_any_place_to_the_last() -> None:
    places = [0, 1, 30, 63 - 16]
    assert sixteens(OCTETS, np.array(places)).tobytes() == b"".join(OCTETS[a : a + 16].tobytes() for a in places)
    assert sixteens(OCTETS[:16], np.array([0])).tolist() == OCTETS[:16].tolist()
    with pytest.raises(ValueError, match="16 bytes at each place, of 15"):
        sixteens(OCTETS[:15], np.array([0]))


def test_a_value_that_is_left_alone_or_gone_has_version_0() -> None:
    key = commit_key("g", "t", 0)
    values = [commit_value(7, version=3), None, commit_value(7, version=3)[:-1], commit_value(7, version=1)[:-9]]
    commits = decode_commits(column([key] * 4), column(values))
    assert commits.decoded.tolist() == [True, True, False, False]
    assert commits.value_version.tolist() == [3, 0, 0, 0]


def test_a_name_that_no_topic_can_have_costs_no_memory_for_each_name_that_is_read() -> None:
    """One member may want a topic of 32,767 letters."""
    short, long = [f"t{n}".encode() for n in range(20)], b"x" * MAX_STRING
    names = [*short * 100, long, b"t20"]
    size = np.array([len(name) for name in names])
    at = size.cumsum() - size
    buffer, known = Buffer(names), {name: number for number, name in enumerate([*short, long])}
    tracemalloc.start()
    numbers = number_names(buffer, at, size, known)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert numbers.tolist() == [*list(range(20)) * 100, 20, -1]
    assert peak < 4 << 20


@pytest.mark.parametrize(("kind", "size"), [("int8", 1), ("int16", 2), ("int32", 4), ("int64", 8)])
def test_a_number_that_is_cut_off_is_told_with_its_size(kind: str, size: int) -> None:
    with pytest.raises(UnreadableBytes, match=f"{size} bytes needed for a number, {size - 1} left at byte 0"):
        getattr(Reader(bytes(size - 1)), kind)()
