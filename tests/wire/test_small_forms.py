"""Forms that are rare on the wire: null beside empty, tags at their default, topic ids that are half zero."""

from __future__ import annotations

import pytest

from apportion.wire.partitions import in_order
from apportion.wire.primitives import Reader
from apportion.wire.record_fields import struct
from apportion.wire.task_data import TaskMemory, read_memory, write_memory


@pytest.mark.parametrize(
    ("sent", "told"),
    [
        (b"\x00", {}),
        (b"\x01\x00\x01\x05", {}),
        (b"\x01\x00\x01\x06", {"kind": 6}),
        (b"\x01\x09\x01\x06", {}),
    ],
)
def test_a_tagged_field_is_told_where_it_is_not_at_its_default(sent: bytes, told: dict[str, int]) -> None:
    """Tags are counted, then number, size and bytes of each; one that nobody knows is stepped over."""
    read = struct({}, {0: ("kind", lambda reader: reader.int8(), 5)})
    assert read(Reader(sent)) == told


def test_topics_stand_as_java_sorts_them() -> None:
    """By UTF-16: what is beyond the basic plane begins with a surrogate, below U+FFEE."""
    names = ("\uffee", "\U00010000", "a")
    ordered = [topic for topic, _ in in_order(tuple((name, (1, 0)) for name in names))]
    assert ordered == ["a", "\U00010000", "\uffee"]


def test_a_lag_beyond_63_bits_is_written_as_the_most_there_is() -> None:
    memory = TaskMemory(process="p", lag={(0, 1): 2**70, (0, 2): 5})
    assert dict(read_memory(write_memory(memory)).lag) == {(0, 1): 2**63 - 1, (0, 2): 5}
