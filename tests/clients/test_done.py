"""``done``: records that workers finish in any order are committed as far as all before them are done."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
from kafka import KafkaConsumer, TopicPartition
from tests.support.examples import thorough

from apportion.clients import done
from apportion.clients.confluent import GroupConsumer
from apportion.clients.kafka_python import assignor
from apportion.errors import BadInput
from apportion.testing.broker import Broker

from .groups import new_name
from .test_client_faults import until, write

KINDS = ["cooperative-sticky", thorough("sticky"), "GroupConsumer cooperative-sticky"]
EACH = 10


class Member:
    """A consumer of one of the kinds that commits by itself often; each record that it reads is kept open."""

    def __init__(self, broker: Broker, kind: str, topic: str, group: str, drain_s: float = 30.0) -> None:
        strategy = kind.split()[-1]
        self.consumer: Any
        self.grouped = kind.startswith("GroupConsumer")
        if self.grouped:
            config = {
                "bootstrap.servers": broker.bootstrap, "group.id": group, "auto.offset.reset": "earliest",
                "heartbeat.interval.ms": 500, "auto.commit.interval.ms": 100,
            }  # fmt: skip
            self.consumer = GroupConsumer(config, [topic], strategy, drain_s=drain_s)
        else:
            self.consumer = KafkaConsumer(
                topic, bootstrap_servers=broker.bootstrap, group_id=group, auto_offset_reset="earliest",
                heartbeat_interval_ms=500, auto_commit_interval_ms=100,
                partition_assignment_strategy=[assignor(strategy, drain_s=drain_s)],
            )  # fmt: skip
        self.read: list[Any] = []

    def poll(self) -> None:
        if self.grouped:
            self.read += [message for message in self.consumer.consume(100, 0.1) if message.error() is None]
        else:
            self.read += [record for batch in self.consumer.poll(timeout_ms=100).values() for record in batch]

    def polled(self) -> Member:
        self.poll()
        return self

    def places(self) -> list[tuple[int, int]]:
        if self.grouped:
            return [(message.partition(), message.offset()) for message in self.read]
        return [(record.partition, record.offset) for record in self.read]

    def committed(self, topic: str) -> int:
        member = self.consumer._member if self.grouped else self.consumer
        return int(member.committed(TopicPartition(topic, 0)) or 0)


@pytest.mark.broker
@pytest.mark.parametrize("kind", KINDS)
def test_a_commit_goes_as_far_as_everything_before_it_is_done(broker: Broker, kind: str) -> None:
    topic = new_name("done")
    broker.create_topic(topic, 1)
    write(broker, topic, EACH, 1)
    member = Member(broker, kind, topic, new_name("done"))
    try:
        until(lambda: len(member.polled().read) == EACH)
        assert done(member.consumer, reversed(member.read[3:])) == []
        end = time.monotonic() + 1
        while time.monotonic() < end:
            member.poll()
        assert member.committed(topic) == 0, "the first three are open"
        assert done(member.consumer, member.read[:2]) == []
        until(lambda: member.polled().committed(topic) == 2)
        done(member.consumer, member.read[2:3])
        until(lambda: member.polled().committed(topic) == EACH)
        assert done(member.consumer, member.read[:1]) == member.read[:1], "once"
    finally:
        member.consumer.close()


@pytest.mark.broker
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("late", [False, True])
def test_a_partition_goes_once_its_records_are_done_or_time_is_over(broker: Broker, kind: str, late: bool) -> None:
    """Its next owner reads on behind them; records that came too late it reads once more, and their worker is told."""
    topic, group = new_name("done"), new_name("done")
    broker.create_topic(topic, 2)
    write(broker, topic, EACH, 2)
    first = Member(broker, kind, topic, group, drain_s=1.0 if late else 30.0)
    over = threading.Event()
    members = [first]

    def run(member: Member) -> None:
        while not over.is_set():
            member.poll()

    threads = []
    try:
        until(lambda: len(first.polled().read) == 2 * EACH)
        members.append(Member(broker, kind, topic, group))
        threads = [threading.Thread(target=run, args=(member,)) for member in members]
        for thread in threads:
            thread.start()
        time.sleep(3)  # longer than a join takes: nothing may have gone by then
        assert late or not members[1].read
        if late:
            until(lambda: len(members[1].read) == EACH)
        too_late = done(first.consumer, first.read)
        write(broker, topic, 1, 2)
        until(lambda: len(first.read) + len(members[1].read) == 2 * EACH + 2 + late * EACH)
        time.sleep(0.5)
    finally:
        over.set()
        for thread in threads:
            thread.join()
        for member in members:
            done(member.consumer, member.read)
            member.consumer.close()
    again = set(first.places()) & set(members[1].places())
    assert len(again) == len(too_late) == late * EACH
    assert len({partition for partition, _ in again}) == late, "the partition that stayed is not fenced"


def test_a_consumer_that_notes_no_records_is_refused() -> None:
    with pytest.raises(BadInput, match="drain_s"):
        done(object(), [])
    with pytest.raises(BadInput, match="drain_s"):
        assignor("sticky", drain_s=0)
