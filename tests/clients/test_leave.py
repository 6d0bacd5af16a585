"""``leave``: a member that goes reads on until the others can take over, and nobody waits for a heartbeat."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer
from confluent_kafka import Producer
from tests.support.examples import thorough
from tests.support.pauses import Pauses

from apportion.clients import aio_kafka, leave
from apportion.errors import BadInput
from apportion.testing.broker import Broker
from apportion.testing.peers import JavaMember
from apportion.testing.simulation import simulate
from apportion.testing.simulation.members import consumer_of

from .groups import new_name
from .test_client_faults import Member, until

HEARTBEAT_S = 8


@pytest.mark.parametrize(
    ("consumer", "deadline_s", "words"), [(object(), 20, "consumer: found object"), (None, 0, "deadline_s")]
)
def test_what_cannot_leave_is_refused(consumer: Any, deadline_s: float, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        leave(consumer, deadline_s)


@pytest.fixture
def stream(broker: Broker) -> Iterator[tuple[str, list[int]]]:
    """A topic of six partitions with 60 messages a second, and how many of each were written."""
    topic, over = new_name("stream"), threading.Event()
    broker.create_topic(topic, 6)
    written = [0] * 6

    def write() -> None:
        producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 1})
        while not over.wait(0.1):
            for partition in range(6):
                producer.produce(topic, b"x", partition=partition)
                written[partition] += 1
            producer.poll(0)
        producer.flush()

    thread = threading.Thread(target=write)
    thread.start()
    yield topic, written
    over.set()
    thread.join()


class Reading(threading.Thread):
    """A member that notes when it read what, until it is to go."""

    def __init__(self, member: Member) -> None:
        super().__init__()
        self.member, self.goes, self.closes = member, threading.Event(), threading.Event()
        self.reads: list[tuple[float, int, int]] = []
        self.left_after_s = 0.0

    def run(self) -> None:
        while not self.closes.is_set():
            if self.goes.is_set():
                began = self.left_after_s or time.monotonic()
                self.left_after_s = began
                if leave(self.member.consumer, 30):
                    break
            self.reads += [(time.monotonic(), *read) for read in self.member.poll()]
        self.left_after_s = time.monotonic() - self.left_after_s
        self.member.consumer.close()


class AioReading(threading.Thread):
    """The same of an aiokafka member, whose loop runs in the thread."""

    def __init__(self, broker: Broker, topic: str, group: str) -> None:
        super().__init__()
        self.settings: dict[str, Any] = {
            "bootstrap_servers": broker.bootstrap, "group_id": group, "auto_offset_reset": "earliest",
            # Heartbeats are so far apart that a pause of one would show; a session is longer than three of them.
            "heartbeat_interval_ms": HEARTBEAT_S * 1000, "session_timeout_ms": 45_000,
        }  # fmt: skip
        self.member, self.topic, self.count = self, topic, 0
        self.goes, self.closes = threading.Event(), threading.Event()
        self.reads: list[tuple[float, int, int]] = []

    def owned(self) -> int:
        return self.count

    def run(self) -> None:
        asyncio.run(self.consume())

    async def consume(self) -> None:
        strategy = [aio_kafka.assignor("sticky")]
        consumer = AIOKafkaConsumer(self.topic, partition_assignment_strategy=strategy, **self.settings)
        await consumer.start()
        while not self.closes.is_set() and not (self.goes.is_set() and leave(consumer, 30)):
            for partition, records in (await consumer.getmany(timeout_ms=100)).items():
                self.reads += [(time.monotonic(), partition.partition, record.offset) for record in records]
            self.count = len(consumer.assignment())
        await consumer.stop()


KINDS = [thorough("cooperative-sticky"), "GroupConsumer cooperative-sticky", thorough("sticky"), "aiokafka"]


@pytest.mark.broker
@pytest.mark.parametrize("kind", KINDS)
def test_a_member_that_leaves_reads_on_and_its_partitions_wait_for_no_heartbeat(
    broker: Broker, stream: tuple[str, list[int]], kind: str
) -> None:
    """The others hear of it with their heartbeats, here 8 s apart; no partition of its own stands still so long, and
    under a cooperative strategy nor does any other.
    """
    topic, _ = stream
    group = new_name("leaves")

    def member() -> Reading | AioReading:
        if kind == "aiokafka":
            return AioReading(broker, topic, group)
        return Reading(Member(broker, kind, topic, group, heartbeat_ms=HEARTBEAT_S * 1000))

    readings = [member() for _ in range(3)]
    for reading in readings:
        reading.start()
    try:
        until(lambda: [reading.member.owned() for reading in readings] == [2, 2, 2])
        time.sleep(HEARTBEAT_S)  # behind the quick heartbeats that follow a join
        leaver, others = readings[0], readings[1:]
        with Pauses() as pauses:
            began = time.monotonic()
            leaver.goes.set()
            leaver.join(60)
            assert not leaver.is_alive()
            until(lambda: sum(reading.member.owned() for reading in others) == 6)
            time.sleep(2)  # whoever had to join again would have done so
    finally:
        for reading in readings:
            reading.closes.set()
        for reading in readings:
            reading.join(60)
    counts = Counter(read[1:] for reading in readings for read in reading.reads)
    assert max(counts.values()) == 1, "some were read twice"
    for partition in range(6):
        offsets = sorted(offset for p, offset in counts if p == partition)
        assert offsets == list(range(len(offsets))), "some were left out"
        moments = sorted(at for reading in readings for at, p, _ in reading.reads if p == partition and at > began)
        if "cooperative" in kind or partition in {p for at, p, _ in leaver.reads if at > began}:
            assert max(after - before for before, after in pairwise(moments)) < HEARTBEAT_S / 2 + pauses.allowance_s


@pytest.mark.broker
def test_a_java_leader_gives_a_leavers_partitions_away_once_it_has_let_go(
    broker: Broker, stream: tuple[str, list[int]]
) -> None:
    """Java's followers hear of the second round with their heartbeats; until then nobody reads, and never two do."""
    topic, _ = stream
    group, properties = new_name("java-leads"), {"heartbeat.interval.ms": 1000}
    java = [JavaMember(broker.bootstrap, group, [topic], properties, strategy="cooperative-sticky") for _ in range(2)]
    try:
        until(lambda: [sum(map(len, member.assignment.values())) for member in java] == [3, 3])
        leaver = Reading(Member(broker, "cooperative-sticky", topic, group, heartbeat_ms=1000))
        leaver.start()
        until(lambda: leaver.member.owned() == 2 and leaver.reads)
        leaver.goes.set()
        leaver.join(60)
        assert not leaver.is_alive()
        gone = time.time()
        until(lambda: [sum(map(len, member.assignment.values())) for member in java] == [3, 3])
        time.sleep(2)  # whoever had to join again would have done so
    finally:
        for member in java:
            member.close()
    last_read = {p: offset for _, p, offset in leaver.reads}
    for partition, offset in last_read.items():
        firsts = [
            event["firsts"][topic][str(partition)]
            for member in java
            for event in member.events
            if event["event"] == "records"
            and event["at"] > gone - 1
            and str(partition) in event["firsts"].get(topic, {})
        ]
        assert min(firsts) == offset + 1, "read twice, or left out"


@pytest.mark.broker
def test_a_static_member_goes_at_once_and_says_why(broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    topic = new_name("at-once")
    broker.create_topic(topic, 2)
    member = Member(broker, "cooperative-sticky", topic, new_name("at-once"), group_instance_id="a")
    try:
        until(lambda: member.poll() or member.owned() == 2)
        with caplog.at_level("INFO", "apportion.clients"):
            assert leave(member.consumer)
        assert "static" in caplog.messages[-1]
    finally:
        member.consumer.close()


STEPS = [
    {"at": 26.5, "do": "kill", "member": "a", "for": 3},
    {"at": 26.5, "do": "kill", "member": "b", "for": 3},
    {"at": 25.5, "do": "kill", "member": "a", "for": 5, "when": "JoinGroup"},
    {"at": 25.5, "do": "kill", "member": "a", "for": 5, "when": "SyncGroup"},
    {"at": 25.5, "do": "freeze", "member": "c", "for": 12, "when": "JoinGroup"},
    {"at": 25.5, "do": "drop", "member": "a", "when": "SyncGroup"},
    {"at": 25.5, "do": "lose answer", "member": "a", "when": "SyncGroup"},
    {"at": 25.5, "do": "move coordinator", "node": 2},
    {"at": 25.5, "do": "close", "member": "b"},
    {"at": 25.5, "do": "leave", "member": "b"},
]


@pytest.mark.broker
@pytest.mark.parametrize("step", [None, *STEPS], ids=str)
def test_a_hand_over_survives_what_happens_in_its_middle(step: dict[str, Any] | None) -> None:
    """In virtual time, with Kafka's own coordinator: no two readers, nothing lost, no commit goes back."""
    script: list[dict[str, Any]] = [
        {"at": 0, "do": "traffic", "topic": "records", "per_s": 12},
        *({"at": n, "do": "start", "member": member} for n, member in enumerate("abc")),
        {"at": 25, "do": "leave", "member": "a"},
        {"at": 60, "do": "end of traffic", "topic": "records"},
    ]
    script[-1:-1] = [] if step is None else [step]
    make = consumer_of("cooperative-sticky", heartbeat_interval_ms=3000)
    events = simulate(make, None, script, topics={"records": 6}, seed=5)
    if step is None:
        gone = next(event["at"] for event in events if event["event"] == "revoked" and event["at"] > 25)
        taken = [event["at"] for event in events if event["event"] == "assigned" and event["at"] > gone]
        assert min(taken) - gone < 0.6, "nobody waits for a heartbeat"
        read = [event for event in events if event["event"] == "read" and 25 < event["at"] < gone]
        assert {event["member"] for event in read} == {"a", "b", "c"}, "all read on until then"
