"""What each reader makes of good, odd and hostile bytes."""

from __future__ import annotations

import struct
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.assignors.failover import Priority
from apportion.assignors.sticky_stream_join import StreamJoin
from apportion.errors import UnreadableBytes
from apportion.model.group_json import read_group
from apportion.model.plan import Answer, Plan
from apportion.strategy.codec import Claim, Holding
from apportion.wire.assignment import Assignment, read_assignment, write_assignment
from apportion.wire.partitions import Held, in_order, merged
from apportion.wire.primitives import Reader, text, uuid_text
from apportion.wire.subscription import Subscription, read_subscription, write_subscription
from apportion.wire.user_data import (
    read_cooperative,
    read_sticky,
    write_cooperative,
    write_sticky,
)
from apportion.wire.writer import Writer

names = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
int32s = st.integers(-(2**31), 2**31 - 1)
numbers = st.integers(0, 2**31 - 1)
helds = st.dictionaries(names, st.lists(numbers, min_size=1, max_size=5, unique=True), max_size=4).map(
    lambda whole: in_order(tuple((topic, tuple(ids)) for topic, ids in whole.items()))
)


@given(st.integers(0, 2**31 - 1))
def test_a_varint_comes_back(value: int) -> None:
    assert Reader(Writer().uvarint(value).done()).uvarint() == value


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        ("7f", 127),
        ("8001", 128),
        ("ff7f", 16383),
        ("8000", 0),
        ("ffffffff07", 2**31 - 1),
        ("ffffffff0f", -1),
        ("8080808010", 0),
        ("8080808008", -(2**31)),
    ],
)
def test_varints_wrap_at_32_bits_as_in_java(raw: str, value: int) -> None:
    assert Reader(bytes.fromhex(raw)).uvarint() == value


@pytest.mark.parametrize("raw", ["", "80", "80808080", "8080808080", "ffffffffff01"])
def test_a_varint_that_is_cut_off_or_too_long_is_refused(raw: str) -> None:
    with pytest.raises(UnreadableBytes):
        Reader(bytes.fromhex(raw)).uvarint()


def test_an_id_prints_as_kafka_prints_it() -> None:
    assert uuid_text(bytes(range(16))) == "AAECAwQFBgcICQoLDA0ODw"


def test_malformed_text_is_replaced_and_never_an_error() -> None:
    assert text(b"ok\xff\xed\xa0\x80") == "ok\ufffd\ufffd"


@given(
    st.lists(names, max_size=5, unique=True),
    st.none() | st.binary(max_size=20),
    helds,
    st.none() | numbers,
    st.none() | names.filter(bool),
    st.integers(0, 3),
)
def test_a_subscription_comes_back(
    topics: list[str], data: bytes | None, owned: Held, generation: int | None, rack: str | None, version: int
) -> None:
    said = Subscription(tuple(topics), data, owned, generation, rack, version)
    back = read_subscription(write_subscription(said))
    assert set(back.topics) == set(topics)
    assert (back.user_data, back.version) == (data, version)
    assert back.owned == (owned if version >= 1 else ())
    assert back.generation == (generation if version >= 2 else None)
    assert back.rack == (rack if version >= 3 else None)


@given(helds, st.none() | st.binary(max_size=20), st.integers(0, 3))
def test_an_assignment_comes_back(partitions: Held, data: bytes | None, version: int) -> None:
    told = Assignment(partitions, data, version)
    assert read_assignment(write_assignment(told)) == told


@pytest.mark.parametrize("version", [4, 9, 32767])
def test_a_higher_version_is_read_as_3_and_its_tail_left_alone(version: int) -> None:
    said = Subscription(("clicks",), None, (("clicks", (1,)),), 5, "a", 3)
    raw = struct.pack(">h", version) + write_subscription(said)[2:] + b"what is yet to come"
    back = read_subscription(raw)
    assert (back.topics, back.owned, back.generation, back.rack) == (said.topics, said.owned, 5, "a")
    assert back.version == version


@pytest.mark.parametrize("raw", [b"", b"\x00", b"\xff\xff" + bytes(20)])
def test_no_version_or_a_negative_one_is_refused(raw: bytes) -> None:
    for read in (read_subscription, read_assignment):
        with pytest.raises(UnreadableBytes):
            read(raw)


def test_a_negative_generation_and_an_empty_rack_are_none() -> None:
    back = read_subscription(write_subscription(Subscription(("a",), None, (), None, "", 3)))
    assert (back.generation, back.rack) == (None, None)


def test_topics_repeated_by_the_next_member_are_told_apart_from_longer_lists() -> None:
    short = write_subscription(Subscription(("a", "b"), None, version=0))
    longer = write_subscription(Subscription(("a", "b", "c"), None, version=0))
    for raw, topics in [(short, ("a", "b")), (longer, ("a", "b", "c")), (short, ("a", "b"))] * 2:
        assert read_subscription(raw).topics == topics
        with pytest.raises(UnreadableBytes):
            read_subscription(raw[:-5])


def test_every_truncation_of_good_bytes_is_refused() -> None:
    said = Subscription(("clicks", "заказы"), b"memory", (("clicks", (0, 1)),), 5, "a", 3)
    told = Assignment((("clicks", (0, 1)), ("заказы", (3,))), b"x", 1)
    for raw, read in [(write_subscription(said), read_subscription), (write_assignment(told), read_assignment)]:
        for cut in range(len(raw)):
            with pytest.raises(UnreadableBytes):
                read(raw[:cut])


@pytest.mark.parametrize(
    "raw",
    [
        "0000 7fffffff",  # topics
        "0000 00000001 7fff",  # one name
        "0000 00000000 7fffffff",  # user data
        "0001 00000000 ffffffff 7fffffff",  # owned
        "0001 00000000 ffffffff 00000001 0000 7fffffff",  # ids
        "0000 00000001 ffff",  # a null name
        "0000 ffffffff",  # a null list
    ],
)
def test_a_length_that_cannot_be_is_refused_before_anything_is_allocated(raw: str) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(UnreadableBytes):
            read_subscription(bytes.fromhex(raw) + bytes(3))
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("length", ["ffff", "8000"])
def test_a_null_name_is_refused_even_where_65535_bytes_follow(length: str) -> None:
    with pytest.raises(UnreadableBytes, match="null string"):
        read_subscription(bytes.fromhex("0000 00000001" + length) + bytes(80_000))
    with pytest.raises(UnreadableBytes, match="null string"):
        read_assignment(bytes.fromhex("0000 00000001" + length) + bytes(80_000))


def test_the_error_says_what_and_where() -> None:
    with pytest.raises(UnreadableBytes, match="5 bytes claimed, 2 left at byte 8") as caught:
        read_subscription(bytes.fromhex("0000 00000001 0005 6162"))
    assert caught.value.offset == 8


# -- memories --------------------------------------------------------------------------------------------------------


@given(helds, st.none() | numbers)
def test_a_sticky_memory_comes_back(owned: Held, generation: int | None) -> None:
    memory = read_sticky(write_sticky(owned, generation))
    assert (memory.owned, memory.generation, memory.lost) == (owned, generation, None)
    old = read_sticky(write_sticky(owned, generation, version=0))
    assert (old.owned, old.generation, old.lost) == (owned, None, None)


def read_stream_join(raw: bytes | None) -> Claim:
    return StreamJoin().read(Subscription(("t",), raw))


def read_failover(raw: bytes | None) -> Claim:
    return Priority().read(Subscription(("t",), raw))


def sent_by_the_leader(epoch: int) -> bytes:
    group = read_group({"topics": {"t": 1}, "members": {"m": {"topics": ["t"]}}})
    data = StreamJoin().assignment_data(Plan(group, "", {}, Answer(group.owner, extra={"epoch": epoch})))
    assert data is not None
    return data


@given(st.lists(numbers, min_size=1, max_size=9, unique=True).map(sorted), numbers, st.binary(max_size=9))
def test_a_stream_joins_memory_comes_back_with_any_tail(ids: list[int], epoch: int, tail: bytes) -> None:
    sent = StreamJoin().user_data(Holding(owned=(("t", tuple(ids)),), epoch=epoch))
    assert sent is not None
    memory = read_stream_join(sent + tail)
    assert (memory.owned, memory.generation, memory.lost) == ({"t": ids}, epoch, None)
    assert StreamJoin().epoch(sent_by_the_leader(epoch) + tail) == epoch


def test_a_member_that_claims_the_last_epoch_makes_no_rebalance_fail() -> None:
    assert StreamJoin().epoch(sent_by_the_leader(2**31 - 1 + 1)) == 2**31 - 1


@given(st.none() | st.integers(-(2**63), 2**63 - 1), helds, st.none() | numbers, st.binary(max_size=9))
def test_a_failovers_memory_comes_back_with_any_tail(
    priority: int | None, owned: Held, generation: int | None, tail: bytes
) -> None:
    facts = {} if priority is None else {"priority": priority}
    sent = Priority().user_data(Holding(owned, generation, facts=facts))
    assert sent is not None
    memory = read_failover(sent + tail)
    assert (memory.facts, memory.owned, memory.generation, memory.lost) == (facts, merged(owned), generation, None)


def test_a_newer_version_of_our_own_layouts_is_read() -> None:
    sent = Priority().user_data(Holding((("a", (1,)),), 4, facts={"priority": 3}))
    assert sent is not None
    newer = read_failover(b"\x00\x02" + sent[2:] + b"more")
    assert (newer.facts, newer.owned) == ({"priority": 3}, {"a": [1]})


def test_four_bytes_are_the_plain_priority_of_the_first_failover_assignor() -> None:
    assert read_failover(struct.pack(">i", 100)).facts == {"priority": 100}


def test_nothing_said_is_no_memory_and_nothing_lost() -> None:
    for read in (read_sticky, read_cooperative, read_stream_join, read_failover):
        for nothing in (None, b""):
            assert read(nothing) == read(None)
            assert read(nothing).lost is None  # type: ignore[attr-defined]


@given(st.binary(min_size=1, max_size=40))
def test_no_bytes_make_a_memory_fail(raw: bytes) -> None:
    for read in (read_sticky, read_cooperative, read_stream_join, read_failover):
        memory = read(raw)
        assert memory.lost is None or str(len(raw)) in memory.lost  # type: ignore[attr-defined]
    StreamJoin().epoch(raw)


def test_garbage_is_lost_with_a_reason() -> None:
    assert read_sticky(b"garbage").lost == "7 bytes of user data are no memory of a sticky assignor"
    assert "version 0" in (read_stream_join(bytes(8)).lost or "")
    assert read_cooperative(write_cooperative(5)).generation == 5
    assert read_cooperative(b"\x05").lost
