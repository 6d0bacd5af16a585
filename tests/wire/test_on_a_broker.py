"""What a real broker writes into ``__consumer_offsets`` is read whole, and as Kafka reads it."""

from __future__ import annotations

import time
from typing import Any

import pytest
from confluent_kafka import Consumer as NativeConsumer
from confluent_kafka import TopicPartition as NativePartition
from kafka import KafkaConsumer, TopicPartition
from kafka.structs import OffsetAndMetadata

from apportion.testing import jars
from apportion.testing.broker import Broker
from apportion.wire.coordinator import Commit, EpochRecord, GroupGeneration, Other, Record, decode

from .conftest import Judge
from .samples import Pair
from .test_against_kafka import hexed, told
from .test_commits import compare

pytestmark = pytest.mark.broker

LONG = "m" * 128


def classic(broker: Broker) -> None:
    """A group of two by kafka-python that commits, with metadata around the old decoders' limit, and leaves."""
    members = [
        KafkaConsumer("clicks", bootstrap_servers=broker.bootstrap, group_id="klassisch-ö", enable_auto_commit=False)
        for _ in range(2)
    ]
    ends = time.monotonic() + 20
    while not all(member.assignment() for member in members) and time.monotonic() < ends:
        for member in members:
            member.poll(timeout_ms=100)
    for member in members:
        member.close()


def commit_only(broker: Broker) -> None:
    """Offsets of a group without members. (confluent-kafka would end the metadata with a NUL of its own.)"""
    simple = KafkaConsumer(bootstrap_servers=broker.bootstrap, group_id="simple", enable_auto_commit=False)
    where = [TopicPartition("clicks", n) for n in range(2)]
    simple.assign(where)
    simple.commit({where[0]: OffsetAndMetadata(5, LONG[:-1], -1), where[1]: OffsetAndMetadata(6, LONG, -1)})
    simple.close()


def modern(broker: Broker) -> None:
    """A KIP-848 group of one that commits and leaves."""
    native = NativeConsumer({"bootstrap.servers": broker.bootstrap, "group.id": "modern", "group.protocol": "consumer"})
    native.subscribe(["clicks"])
    ends = time.monotonic() + 20
    while len(native.assignment()) < 4 and time.monotonic() < ends:
        native.poll(0.2)
    native.commit(offsets=[NativePartition("clicks", 3, 9)], asynchronous=False)
    native.close()


def written(broker: Broker) -> list[Pair]:
    """Every record of the topic, read to its ends."""
    reader = KafkaConsumer(bootstrap_servers=broker.bootstrap, exclude_internal_topics=False)
    where = [TopicPartition("__consumer_offsets", n) for n in reader.partitions_for_topic("__consumer_offsets")]
    reader.assign(where)
    reader.seek_to_beginning()
    ends: dict[Any, int] = reader.end_offsets(where)
    found: list[Pair] = []
    while any(reader.position(one) < end for one, end in ends.items()):
        for batch in reader.poll(timeout_ms=500).values():
            found += [(record.key, record.value) for record in batch]
    reader.close()
    return found


@pytest.mark.parametrize(("version", "by"), [(jars.KAFKA[0], "judge"), (jars.KAFKA[-1], "newer_judge")])
def test_everything_that_a_broker_writes_is_read_as_kafka_reads_it(
    version: str, by: str, request: pytest.FixtureRequest
) -> None:
    judge: Judge = request.getfixturevalue(by)
    with Broker(version=version) as broker:
        broker.create_topic("clicks", 4)
        classic(broker)
        commit_only(broker)
        modern(broker)
        pairs = written(broker)
    records: list[Record] = [decode(*pair) for pair in pairs]
    questions = [{"op": "read record", "key": hexed(key), "value": hexed(value)} for key, value in pairs]
    for record, answer in zip(records, judge(questions), strict=True):
        assert isinstance(record, Other) or told(record) == answer
    assert compare(pairs) == sum(isinstance(record, Commit) for record in records), "all real commits take the fast way"
    commits = {(r.group, r.partition): r for r in records if isinstance(r, Commit) and not r.tombstone}
    assert (commits["simple", 1].committed, commits["simple", 1].metadata) == (6, LONG)
    assert commits["simple", 0].metadata == LONG[:-1]
    assert commits["modern", 3].value_version == 4
    # The last one: a leader that has no metadata yet may have given nothing to anybody before.
    settled = [r for r in records if isinstance(r, GroupGeneration) and len(r.members) == 2][-1]
    assert settled.group == "klassisch-ö"
    assert sorted(p for m in settled.members for _, ids in m.assigned for p in ids) == [0, 1, 2, 3]
    assert all(m.topics == ("clicks",) and m.unreadable is None for m in settled.members)
    assert {r.key_type for r in records if isinstance(r, EpochRecord)} >= {3, 5, 6, 7, 8}
