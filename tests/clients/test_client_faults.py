"""What kafka-python does wrong by itself in rare moments, and a consumer of ours does not: a real broker each time."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import Producer
from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaTimeoutError
from kafka.structs import OffsetAndMetadata
from tests.support.examples import thorough
from tests.support.pauses import Pauses

from apportion.clients.confluent import GroupConsumer
from apportion.clients.kafka_python import assignor
from apportion.testing.broker import Broker

from .groups import new_name

pytestmark = pytest.mark.broker
KINDS = ["sticky", "cooperative-sticky", "GroupConsumer sticky", "GroupConsumer cooperative-sticky"]
KAFKA_PYTHON = KINDS[:2]


class Member:
    """A consumer of one of the kinds, with heartbeats each half second by default."""

    def __init__(
        self, broker: Broker, kind: str, topic: str, group: str, heartbeat_ms: int = 500, **settings: Any
    ) -> None:
        self.grouped, strategy = kind.startswith("GroupConsumer"), kind.split()[-1]
        self.consumer: Any
        if self.grouped:
            config = {
                "bootstrap.servers": broker.bootstrap, "group.id": group, "auto.offset.reset": "earliest",
                "heartbeat.interval.ms": heartbeat_ms, "max.poll.interval.ms": 60_000,
                "enable.auto.commit": settings.get("enable_auto_commit", True),
            }  # fmt: skip
            self.consumer = GroupConsumer(config, [topic], strategy)
        else:
            self.consumer = KafkaConsumer(
                topic, bootstrap_servers=broker.bootstrap, group_id=group, auto_offset_reset="earliest",
                heartbeat_interval_ms=heartbeat_ms, max_poll_interval_ms=60_000,
                partition_assignment_strategy=[assignor(strategy)], **settings,
            )  # fmt: skip

    def poll(self, timeout_s: float = 0.1) -> list[tuple[int, int]]:
        """(partition, offset) of what it read."""
        if self.grouped:
            return [(m.partition(), m.offset()) for m in self.consumer.consume(100, timeout_s) if m.error() is None]
        batches = self.consumer.poll(timeout_ms=int(timeout_s * 1000)).values()
        return [(record.partition, record.offset) for batch in batches for record in batch]

    def owned(self) -> int:
        held = self.consumer.assignment()
        return sum(map(len, held.values())) if self.grouped else len(held)

    def generation(self) -> int:
        member = self.consumer._member if self.grouped else self.consumer
        return int(member._coordinator._generation.generation_id)


def write(broker: Broker, topic: str, count: int, partitions: int) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for n in range(count * partitions):
        producer.produce(topic, b"x", partition=n % partitions)
        producer.poll(0)
    producer.flush()


def until(happened: Callable[[], object], patience_s: float = 60) -> None:
    end = time.monotonic() + patience_s
    while not happened():
        assert time.monotonic() < end


@contextmanager
def polled(*members: Member) -> Iterator[None]:
    """They poll in threads of their own meanwhile; what they raise is raised at the end."""
    over, wrong = threading.Event(), []

    def run(member: Member) -> None:
        try:
            while not over.is_set():
                member.poll()
        except Exception as error:
            wrong.append(error)

    threads = [threading.Thread(target=run, args=(member,)) for member in members]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()
    assert not wrong


@pytest.mark.parametrize("strategy", [thorough(KAFKA_PYTHON[0]), KAFKA_PYTHON[1]])
def test_a_look_up_of_offsets_that_timed_out_answers_no_later_one(broker: Broker, strategy: str) -> None:
    """The client keeps it under its set of partitions, and takes its old answer for new."""
    topic, group = new_name("stale"), new_name("stale")
    broker.create_topic(topic, 1)
    member = Member(broker, strategy, topic, group, enable_auto_commit=False)
    consumer, at = member.consumer, TopicPartition(topic, 0)
    try:
        until(lambda: member.poll() or member.owned())
        consumer.commit({at: OffsetAndMetadata(100, "", -1)})

        def times_out() -> bool:
            try:
                consumer.committed(at, timeout_ms=1)
            except KafkaTimeoutError:
                return True
            return False

        until(times_out)
        end = time.monotonic() + 1
        while time.monotonic() < end:  # its answer comes
            member.poll()
        consumer.commit({at: OffsetAndMetadata(500, "", -1)})
        assert consumer.committed(at) == 500
    finally:
        consumer.close()


def test_a_partition_that_comes_back_is_read_from_its_newest_commit(broker: Broker) -> None:
    """A look-up of the generation before must not answer: meanwhile another member read on and committed."""
    topic, group = new_name("comes-back"), new_name("comes-back")
    broker.create_topic(topic, 1)
    member = Member(broker, "cooperative-sticky", topic, group, enable_auto_commit=False)
    coordinator, at = member.consumer._coordinator, TopicPartition(topic, 0)
    try:
        until(lambda: member.poll() or member.owned())
        member.consumer.commit({at: OffsetAndMetadata(100, "", -1)})

        async def unanswered() -> None:
            with pytest.raises(KafkaTimeoutError):
                await coordinator.fetch_committed_offsets_async({at}, timeout_ms=0.01)

        coordinator._net.run(unanswered)
        before = member.generation()
        coordinator.request_rejoin()
        until(lambda: member.poll() or member.generation() > before)
        member.consumer.commit({at: OffsetAndMetadata(500, "", -1)})
        found = coordinator._net.run(coordinator.fetch_committed_offsets_async, {at}, 10_000)
        assert found[at].offset == 500
    finally:
        member.consumer.close()


@pytest.mark.parametrize("strategy", [thorough(KAFKA_PYTHON[0]), KAFKA_PYTHON[1]])
def test_partitions_paused_with_records_in_hand_are_read_to_their_end_once_resumed(
    broker: Broker, strategy: str
) -> None:
    """One after the other was paused: the client took the first one up again, and forgot the second for ever."""
    topic, group, count = new_name("parked"), new_name("parked"), 1000
    broker.create_topic(topic, 2)
    write(broker, topic, count, 2)
    member = Member(broker, strategy, topic, group, max_poll_records=50)
    read: Counter[int] = Counter()

    def of_these() -> set[int]:
        batch = Counter(partition for partition, _ in member.poll())
        read.update(batch)
        return set(batch)

    try:
        until(of_these)
        first = next(iter(read))
        member.consumer.pause(TopicPartition(topic, first))
        until(lambda: 1 - first in of_these())
        member.consumer.pause(TopicPartition(topic, 1 - first))
        assert not of_these()
        member.consumer.resume(*member.consumer.assignment())
        until(lambda: of_these() is not None and read == {0: count, 1: count})
    finally:
        member.consumer.close()


@pytest.mark.parametrize("kind", [*map(thorough, KINDS[:3]), KINDS[3]])
def test_close_takes_some_seconds_though_another_member_keeps_the_join_waiting(broker: Broker, kind: str) -> None:
    """And the broker knows at once that it is gone; a commit before it counts."""
    topic, group = new_name("closing"), new_name("closing")
    broker.create_topic(topic, 4)
    write(broker, topic, 20, 4)
    waiting, busy = (Member(broker, kind, topic, group) for _ in range(2))
    newcomer: Member | None = None
    try:
        with polled(waiting, busy):
            until(lambda: waiting.owned() == busy.owned() == 2 and waiting.generation() == busy.generation())
        newcomer = Member(broker, kind, topic, group)
        with polled(waiting, newcomer):  # the busy one does not poll: it holds up the join
            coordinator = (waiting.consumer._member if waiting.grouped else waiting.consumer)._coordinator
            until(coordinator.rebalance_in_progress)
        with Pauses() as pauses:
            began = time.monotonic()
            waiting.consumer.commit()
            waiting.consumer.close()
        assert time.monotonic() - began < 5 + pauses.allowance_s
        with broker.admin() as admin:
            members = admin.describe_groups([group])[group]["members"]
        assert len(members) == 2
    finally:
        for member in (busy, newcomer):
            if member is not None:
                member.consumer.close()


@pytest.mark.parametrize("kind", [kind for kind in KINDS if "cooperative" in kind])
def test_a_member_reads_on_and_commits_while_its_join_waits_for_another(broker: Broker, kind: str) -> None:
    """The client's own gives nothing until the slowest member has joined, and refuses each commit meanwhile."""
    topic, group = new_name("reads-on"), new_name("reads-on")
    broker.create_topic(topic, 4)
    reader, busy = (Member(broker, kind, topic, group, enable_auto_commit=False) for _ in range(2))
    newcomer: Member | None = None
    try:
        with polled(reader, busy):
            until(lambda: reader.owned() == busy.owned() == 2 and reader.generation() == busy.generation())
        newcomer = Member(broker, kind, topic, group, enable_auto_commit=False)
        coordinator = (reader.consumer._member if reader.grouped else reader.consumer)._coordinator
        with polled(newcomer):
            until(lambda: reader.poll() or coordinator.rebalance_in_progress())
            write(broker, topic, 25, 4)
            read: list[tuple[int, int]] = []

            def all_read() -> bool:
                read.extend(reader.poll())
                return len(read) == 50

            until(all_read)
            reader.poll()  # of a GroupConsumer, what the last call gave counts as done now
            reader.consumer.commit()
            assert coordinator.rebalance_in_progress(), "the join still waits"
            ends = {offset for _, offset in committed(broker, group).items() if offset}
            assert ends == {25}
    finally:
        for member in (reader, busy, newcomer):
            if member is not None:
                member.consumer.close()


def committed(broker: Broker, group: str) -> dict[int, int]:
    with broker.admin() as admin:
        return {at.partition: offset.offset for at, offset in admin.list_group_offsets([group])[group].items()}


@pytest.mark.parametrize("strategy", [thorough(KAFKA_PYTHON[0]), KAFKA_PYTHON[1]])
def test_a_rebalance_that_follows_another_is_heard_before_the_next_heartbeat(broker: Broker, strategy: str) -> None:
    """A newcomer waits for a heartbeat of each other member, here 40 s; two rounds of them in a cooperative group."""
    topic, group = new_name("beats"), new_name("beats")
    broker.create_topic(topic, 6)
    members = [Member(broker, strategy, topic, group, heartbeat_ms=40_000)]
    try:
        for _ in range(2):
            until(
                lambda: members[0].poll() or (sum(map(Member.owned, members)) == 6 and all(map(Member.owned, members)))
            )
            members.append(Member(broker, strategy, topic, group, heartbeat_ms=40_000))
            began = time.monotonic()
            with polled(*members):
                until(lambda: sorted(map(Member.owned, members)) == [6 // len(members)] * len(members))
            assert time.monotonic() - began < 30
    finally:
        for member in members:
            member.consumer.close()


@pytest.mark.parametrize("kind", [thorough(KINDS[2]), KINDS[3]])
def test_a_commit_in_a_group_whose_members_come_and_go_raises_nothing(broker: Broker, kind: str) -> None:
    """Plain confluent's never does."""
    topic, group = new_name("come-and-go"), new_name("come-and-go")
    broker.create_topic(topic, 6)
    write(broker, topic, 500, 6)
    over, wrong, commits = threading.Event(), list[Exception](), list[int]()

    def run(ends: Callable[[], bool]) -> None:
        member = Member(broker, kind, topic, group, enable_auto_commit=False)
        while not ends():
            member.poll()
            try:
                member.consumer.commit()
                commits.append(1)
            except Exception as error:
                wrong.append(error)
        member.consumer.close()

    def visit() -> None:
        end = time.monotonic() + 2
        run(lambda: time.monotonic() > end)

    residents = [threading.Thread(target=run, args=(over.is_set,)) for _ in range(2)]
    for thread in residents:
        thread.start()
    for _ in range(4):
        visit()
    over.set()
    for thread in residents:
        thread.join()
    assert (wrong, len(commits) > 20) == ([], True)
