"""kafka-python's and aiokafka's own codecs read what we write, and we read what they write."""

from __future__ import annotations

from typing import Any

import pytest
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyAssignorUserDataV1
from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment, ConsumerProtocolMemberMetadata
from kafka.coordinator.assignors.sticky.user_data import StickyAssignorUserData
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment, ConsumerProtocolSubscription

from apportion.wire.assignment import Assignment, read_assignment, write_assignment
from apportion.wire.partitions import Held
from apportion.wire.subscription import Subscription, read_subscription, write_subscription
from apportion.wire.user_data import read_sticky, write_capacity, write_sticky

OWNED: Held = (("clicks", (0, 2)), ("заказы", (7,)))


def listed(held: Held) -> list[tuple[str, list[int]]]:
    return [(topic, list(ids)) for topic, ids in held]


def said(version: int) -> Subscription:
    return Subscription(
        ("clicks", "заказы"),
        b"memory",
        OWNED if version >= 1 else (),
        5 if version >= 2 else None,
        "rack-a" if version >= 3 else None,
        version,
    )


@pytest.mark.parametrize("version", range(4))
def test_kafka_python_writes_a_subscription_that_we_read(version: int) -> None:
    one = said(version)
    pair = ConsumerProtocolSubscription.TopicPartition
    fields: dict[str, Any] = {"topics": list(one.topics), "user_data": one.user_data}
    fields |= {"owned_partitions": [pair(topic, list(ids)) for topic, ids in one.owned]} if version >= 1 else {}
    fields |= {"generation_id": one.generation} if version >= 2 else {}
    fields |= {"rack_id": one.rack} if version >= 3 else {}
    assert read_subscription(ConsumerProtocolSubscription(version=version, **fields).encode()) == one


@pytest.mark.parametrize("version", range(4))
def test_kafka_python_reads_a_subscription_that_we_write(version: int) -> None:
    one = said(version)
    theirs = ConsumerProtocolSubscription.decode(write_subscription(one))
    assert (theirs.version, theirs.topics, theirs.user_data) == (version, list(one.topics), one.user_data)
    assert [(pair.topic, pair.partitions) for pair in theirs.owned_partitions or []] == listed(one.owned)
    assert theirs.generation_id == (5 if version >= 2 else -1)
    assert (theirs.rack_id or None) == one.rack


@pytest.mark.parametrize("version", range(4))
def test_kafka_python_and_we_read_each_others_assignments(version: int) -> None:
    pair = ConsumerProtocolAssignment.TopicPartition
    pairs = [pair(topic, list(ids)) for topic, ids in OWNED]
    theirs = ConsumerProtocolAssignment(version=version, assigned_partitions=pairs, user_data=None)
    ours = Assignment(OWNED, None, version)
    assert read_assignment(theirs.encode()) == ours
    again = ConsumerProtocolAssignment.decode(write_assignment(ours))
    assert [(one.topic, one.partitions) for one in again.assigned_partitions] == listed(OWNED)


def test_aiokafka_and_we_read_each_other() -> None:
    theirs = ConsumerProtocolMemberMetadata(0, ["clicks", "заказы"], b"memory")
    assert read_subscription(theirs.encode()) == said(0)
    for version in range(4):
        again = ConsumerProtocolMemberMetadata.decode(write_subscription(said(version)))
        assert (again.subscription, again.user_data) == (["clicks", "заказы"], b"memory"), version
    told = ConsumerProtocolMemberAssignment(0, listed(OWNED), b"")
    assert read_assignment(told.encode()) == Assignment(OWNED, b"", 0)
    back = ConsumerProtocolMemberAssignment.decode(write_assignment(Assignment(OWNED, b"x")))
    assert [(topic, list(ids)) for topic, ids in back.assignment] == listed(OWNED)


def test_aiokafkas_sticky_memory_goes_both_ways() -> None:
    raw = StickyAssignorUserDataV1(listed(OWNED), 7).encode()
    assert raw == write_sticky(OWNED, 7)
    assert (read_sticky(raw).owned, read_sticky(raw).generation) == (OWNED, 7)
    behind = StickyAssignorUserDataV1.decode(raw + write_capacity(4))
    assert (listed(OWNED), 7) == ([(t, list(ids)) for t, ids in behind.previous_assignment], behind.generation)


@pytest.mark.parametrize("owned", [OWNED, ()])
def test_kafka_pythons_prefixed_sticky_memory_is_recognised(owned: Held) -> None:
    raw = StickyAssignorUserData(listed(owned), 7).encode()
    assert raw == b"\x00\x01" + write_sticky(owned, 7), "kafka-python puts an int16 version before Java's bytes"
    memory = read_sticky(raw)
    assert (memory.owned, memory.generation, memory.lost) == (owned, 7, None)
