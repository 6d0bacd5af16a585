"""A real broker assigns ten topics by uniform while members come and go; its log then predicts every target."""

from __future__ import annotations

import os
import time
from typing import Any

import pytest
from tests.clients.groups import new_name
from tests.clients.test_broker_takeover import Newcomer, until

from apportion.errors import UnreadableBytes
from apportion.history.predicted_targets import score
from apportion.history.records import GroupRecord
from apportion.sources.cluster import connect
from apportion.testing.broker import Broker
from apportion.wire.coordinator import EpochRecord, decode

MEMBERS = 8 if os.environ.get("APPORTION_THOROUGH") == "1" else 4


def log_of(broker: Broker, group: str) -> list[GroupRecord]:
    """The group's records of the new protocol, as they stand in the broker's log."""
    from kafka import KafkaConsumer, TopicPartition

    consumer: Any = KafkaConsumer(bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest")
    found = []
    try:
        parts = [TopicPartition("__consumer_offsets", p) for p in consumer.partitions_for_topic("__consumer_offsets")]
        consumer.assign(parts)
        consumer.seek_to_beginning()
        ends = consumer.end_offsets(parts)
        while any(consumer.position(part) < end for part, end in ends.items()):
            for records in consumer.poll(500).values():
                for record in records:
                    try:
                        decoded = decode(record.key, record.value)
                    except UnreadableBytes:
                        continue
                    if isinstance(decoded, EpochRecord) and decoded.group == group:
                        found.append(GroupRecord(record.offset, record.timestamp, decoded))
    finally:
        consumer.close()
    return found


def shares(partitions: int, members: int) -> list[int]:
    """Partitions each, fewest first, where all are shared evenly."""
    return sorted(partitions // members + (m < partitions % members) for m in range(members))


@pytest.mark.broker
def test_a_living_groups_targets_are_all_predicted_from_its_log(broker: Broker) -> None:
    topics, group = [new_name("one-of-ten") for _ in range(10)], new_name("predicted")
    for topic in topics:
        broker.create_topic(topic, 12)
    with connect(broker.bootstrap) as cluster:
        names = {str(one.topic_id): one.topic for one in cluster.partitions(topics)}
    members: list[Newcomer] = []
    try:
        for n in range(MEMBERS):
            members.append(Newcomer(broker, group, topics))
            until(lambda n=n: sorted(len(m.held) for m in members) == shares(120, n + 1))
        for gone in (members.pop(1), members.pop(0)):
            gone.leave()
            time.sleep(1)  # so that the two leave in two epochs
        until(lambda: sum(len(m.held) for m in members) == 120)
    finally:
        for member in members:
            member.leave()
    one = score(log_of(broker, group), names)
    print(f"{MEMBERS} members came and two left: {one}")
    assert one.epochs > MEMBERS
    assert one.predicted == one.epochs
