"""Task memories and orders travel whole, and hostile bytes are no memory."""

from __future__ import annotations

import struct
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.wire.task_data import (
    TaskAssignment,
    TaskMemory,
    read_memory,
    read_orders,
    write_memory,
    write_orders,
)

PAIR = st.tuples(st.integers(0, 2**31 - 1), st.integers(0, 2**31 - 1))
TASKS = st.sets(PAIR, max_size=8).map(lambda pairs: tuple(sorted(pairs)))
CODECS = st.builds(
    TaskMemory,
    process=st.text(max_size=20),
    asks=st.integers(0, 2**31 - 1),
    active=TASKS,
    standby=TASKS,
    lag=st.dictionaries(PAIR, st.integers(0, 2**63 - 1), max_size=5),
    tags=st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=3),
    run=st.text(max_size=5),
)
ORDERS = st.builds(
    TaskAssignment,
    active=TASKS,
    standby=TASKS,
    warmup=TASKS,
    coming=TASKS,
    probe_ms=st.none() | st.integers(0, 10**9),
    asker=st.booleans(),
    not_its_own=st.text(max_size=5),
)


@given(CODECS)
def test_a_memory_comes_back_as_it_went(memory: TaskMemory) -> None:
    assert read_memory(write_memory(memory)) == memory


@given(ORDERS)
def test_orders_come_back_as_they_went(orders: TaskAssignment) -> None:
    assert read_orders(write_orders(orders)) == orders


@given(st.binary(max_size=200))
def test_whatever_the_bytes_reading_answers(raw: bytes) -> None:
    assert isinstance(read_memory(raw), TaskMemory)
    assert isinstance(read_orders(raw), TaskAssignment)


@given(CODECS, st.data())
def test_a_memory_that_is_cut_off_is_none_and_says_why(memory: TaskMemory, data: st.DataObject) -> None:
    raw = write_memory(memory)
    cut = read_memory(raw[: data.draw(st.integers(1, len(raw) - 1))])
    assert cut == TaskMemory(lost=cut.lost)
    assert cut.lost


def test_the_bytes_of_a_small_memory_are_these() -> None:
    """Written by hand from the layout in the docstring."""
    raw = struct.pack(">hh1si", 1, 1, b"p", 7)  # version, process, asks
    raw += struct.pack(">iiiii", 1, 0, 2, 1, 3)  # one sub-topology, 0, two partitions: 1, 3
    raw += struct.pack(">i", 0)  # no standby
    raw += struct.pack(">iiiq", 1, 2, 5, 99)  # one lag: task 2_5, 99 messages
    raw += struct.pack(">ih4sh1s", 1, 4, b"zone", 1, b"a")
    memory = TaskMemory("p", 7, ((0, 1), (0, 3)), (), {(2, 5): 99}, {"zone": "a"}, topology="d1", run="r")
    assert read_memory(raw) == replace(memory, topology="", run=""), "version 1 ends here"
    raw = b"\x00\x02" + raw[2:] + struct.pack(">h2s", 2, b"d1")
    assert read_memory(raw) == replace(memory, run=""), "version 2 ends here"
    raw = b"\x00\x03" + raw[2:] + struct.pack(">h1s", 1, b"r")
    assert write_memory(memory) == raw
    assert read_memory(raw) == memory


def test_a_count_of_two_thousand_million_takes_no_memory() -> None:
    raw = struct.pack(">hhii", 1, 0, 0, 2**31 - 1)
    assert "claimed" in (read_memory(raw).lost or "")
    assert "claimed" in (read_orders(struct.pack(">hi", 1, 2**31 - 1)).lost or "")


def test_a_newer_version_is_read_as_far_as_it_is_known() -> None:
    raw = write_memory(TaskMemory("p"))
    assert read_memory(b"\x00\x04" + raw[2:] + b"more").process == "p"
    assert "version 0" in (read_memory(b"\x00\x00" + raw[2:]).lost or "")


def test_negative_numbers_name_no_task() -> None:
    raw = struct.pack(">hhi", 1, 0, 0) + struct.pack(">iiii", 1, 0, 1, -4) + struct.pack(">i", 0)
    raw += struct.pack(">iiiqi", 1, 0, 0, -5, 0)
    assert read_memory(raw) == TaskMemory()


@pytest.mark.parametrize("many", [1, 2, 12])
def test_as_many_of_the_smallest_elements_as_fit_are_believed(many: int) -> None:
    """A list of rows that are as short as can be, with nothing behind it but what must stand there."""
    head = b"\0\x01" + b"\0\0" + bytes(4)  # version 1, no process, asks 0
    count, rows = many.to_bytes(4, "big"), range(many)
    lags = b"".join(n.to_bytes(4, "big") + bytes(4) + n.to_bytes(8, "big") for n in rows)
    assert read_memory(head + bytes(8) + count + lags + bytes(4)).lag == {(n, 0): n for n in rows}
    tags = b"\0\0\0\0" * many
    assert read_memory(head + bytes(12) + count + tags) == TaskMemory(tags={"": ""})
    empty = b"".join(n.to_bytes(4, "big") + bytes(4) for n in rows)
    assert read_memory(head + count + empty + bytes(12)) == TaskMemory()
    for cut in (count + lags + bytes(3), count + lags[:-1]):
        assert "user data are no memory of tasks" in str(read_memory(head + bytes(8) + cut).lost)
    assert read_orders(b"\0\x01" + bytes(12) + count + empty + bytes(8) + b"\x01") == TaskAssignment(
        probe_ms=0, asker=True
    )
