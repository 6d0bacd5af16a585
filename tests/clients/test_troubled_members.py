"""What clients do wrong, or users do to them, on a real broker: restarts, missed generations, threads, transactions."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from typing import Any

import pytest
from confluent_kafka import KafkaError as LibrdkafkaError
from confluent_kafka import KafkaException, Producer, TopicPartition
from kafka import ConsumerRebalanceListener, KafkaConsumer, KafkaProducer
from kafka.errors import CommitFailedError, CoordinatorNotAvailableError, KafkaError
from kafka.structs import OffsetAndMetadata
from kafka.structs import TopicPartition as Part
from tests.support.examples import thorough
from tests.support.polled_reader import PolledReader

from apportion.clients import aio_kafka, kafka_python
from apportion.clients.confluent import GroupConsumer
from apportion.testing.broker import Broker, BrokerCluster

from .groups import SESSION_MS, new_name
from .test_group_consumer import committed, note, settings, until, write

pytestmark = pytest.mark.broker
CLIENTS = ("kafka-python", "aiokafka", "confluent")


@pytest.fixture(autouse=True)
def loop() -> Iterator[None]:
    """One for all of aiokafka's members: while one waits, the others live on."""
    Reader.loop = asyncio.new_event_loop()
    yield
    Reader.loop.close()


class Reader(PolledReader):
    """A member in any of the three clients, read by turns: ``read(s)`` gives (partition, offset) pairs."""

    def __init__(self, client: str, broker: Broker | BrokerCluster, group: str, topic: str, **more: Any) -> None:
        self.client, self.broker, self.group, self.topic, self.more = client, broker, group, topic, more
        self.consumer: Any = self._made()

    def _made(self) -> Any:
        strategy, instance = self.more.get("strategy", "sticky"), self.more.get("instance")
        if self.client == "confluent":
            config = settings(self.broker, self.group, metadata_max_age_ms=1000, auto_commit_interval_ms=200)
            return GroupConsumer(config | ({"group.instance.id": instance} if instance else {}), [self.topic], strategy)
        ours = {"kafka-python": kafka_python, "aiokafka": aio_kafka}[self.client].assignor(strategy)
        given = {
            "bootstrap_servers": self.broker.bootstrap.split(","),
            "group_id": self.group,
            "group_instance_id": instance,
            "session_timeout_ms": self.more.get("session_ms", SESSION_MS),
            "heartbeat_interval_ms": 300,
            "metadata_max_age_ms": 1000,
            "auto_offset_reset": "earliest",
            "auto_commit_interval_ms": 200,
            "partition_assignment_strategy": [ours],
        }
        if self.client == "kafka-python":
            return KafkaConsumer(self.topic, **given)
        return self.start(self.topic, given)

    def read(self, seconds: float = 0.2) -> list[tuple[int, int]]:
        """What comes in this time."""
        if self.client == "confluent":
            return [(m.partition(), m.offset()) for m in self.consumer.consume(50, seconds) if m.error() is None]
        return super().read(seconds)

    def owned(self) -> list[int]:
        """Partition ids."""
        if self.client == "confluent":
            return list(self.consumer.assignment().get(self.topic, ()))
        return super().owned()

    def pause(self, *, again: bool = False) -> None:
        """Pause all that it has, or resume what is paused; aiokafka asks for its loop."""

        async def act() -> None:
            if again:
                self.consumer.resume(*self.consumer.paused())
            else:
                self.consumer.pause(*self.consumer.assignment())

        self.loop.run_until_complete(act())


@pytest.mark.parametrize("client", [*CLIENTS[:2], thorough(CLIENTS[2])])
def test_a_static_leader_that_restarts_still_watches_its_topics(broker: Broker, client: str):
    """It gets its place back without a rebalance, told that its own former id leads; then the topic grows."""
    topic, group = new_name("static"), new_name("static")
    broker.create_topic(topic, 1)
    for life in range(2):
        with closing(Reader(client, broker, group, topic, instance="one-1")) as reader:
            until(lambda: reader.read() or reader.owned())
            if life:
                broker.grow_topic(topic, 2)
                write(broker, topic, 3, 2)
                read: list[tuple[int, int]] = []
                until(lambda: note(read, reader.read()) or len(set(read)) == 6)  # noqa: B023


def test_a_member_that_missed_a_generation_takes_up_what_was_committed_meanwhile(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
):
    """It joined and then worked on for long; another read and committed its partition, and left."""

    class Later:
        """The adapter's clock once that was long: the answer that came meanwhile is too old."""

        monotonic, perf_counter = staticmethod(lambda: time.monotonic() + 1000), staticmethod(time.perf_counter)

    topic, group = new_name("missed"), new_name("missed")
    broker.create_topic(topic, 2)
    write(broker, topic, 100, 2)
    read: dict[str, list[tuple[int, int]]] = {"a": [], "b": []}
    # No session ends by itself: a member that was expelled has lost what it paused.
    with closing(Reader("kafka-python", broker, group, topic, session_ms=120_000)) as slow:
        until(lambda: note(read["a"], slow.read()) or len(read["a"]) == 200)
        until(lambda: note(read["a"], slow.read()) or committed(broker, group) == {0: 100, 1: 100})
        slow.pause()
        write(broker, topic, 50, 2)

        def other() -> None:
            with closing(Reader("kafka-python", broker, group, topic)) as quick:
                until(lambda: note(read["b"], quick.read()) or len(read["b"]) >= 50)

        thread = threading.Thread(target=other)
        thread.start()
        until(lambda: slow.read(0.005) or slow.consumer._coordinator.rejoining)
        thread.join(120)
        monkeypatch.setattr(kafka_python.coordinator, "time", Later)
        before = committed(broker, group)
        assert sorted(before.values()) == [100, 150]
        coordinator = slow.consumer._coordinator
        until(lambda: slow.read(0.05) or (len(slow.owned()) == 2 and coordinator.stable()))
        end = time.monotonic() + 1.5
        while time.monotonic() < end:  # still paused: nothing is read, and the clock commits
            assert not slow.read(0.1)
        after = committed(broker, group)
        assert all(after[p] >= offset for p, offset in before.items())
        slow.pause(again=True)
        until(lambda: note(read["a"], slow.read()) or committed(broker, group) == {0: 150, 1: 150})
    assert not set(read["a"]) & set(read["b"])
    assert set(read["a"]) | set(read["b"]) == {(p, offset) for p in range(2) for offset in range(150)}


class Refuses(ConsumerRebalanceListener):  # type: ignore[misc]
    """Raises whatever it is told."""

    calls = 0

    def on_partitions_revoked(self, revoked: Any) -> None:
        self.calls += 1
        raise ZeroDivisionError("revoked")

    def on_partitions_assigned(self, assigned: Any) -> None:
        self.calls += 1
        raise ZeroDivisionError("assigned")


@pytest.mark.parametrize("strategy", ["sticky", thorough("cooperative-sticky")])
def test_a_listener_that_always_raises_keeps_no_newcomer_out(broker: Broker, strategy: str):
    """Its errors come out of ``poll``, each once, and the member joins all the same, as Java's client does."""
    topic, group = new_name("raises"), new_name("raises")
    broker.create_topic(topic, 2)
    with (
        closing(Reader("kafka-python", broker, group, topic, strategy=strategy)) as first,
        closing(Reader("kafka-python", broker, group, topic, strategy=strategy)) as second,
    ):
        first.consumer.subscribe(topics=[topic], listener=(refuses := Refuses()))
        raised = 0

        def poll() -> int:
            nonlocal raised
            try:
                first.read(0.1)
            except KafkaError as error:
                raised += isinstance(error.__cause__, ZeroDivisionError)
            return len(first.owned())

        until(lambda: poll() == 2)
        until(lambda: poll() and (second.read(0.1) or len(second.owned()) == len(first.owned()) == 1))
        first.consumer._subscription.rebalance_listener = None  # else ``close`` raises too
        assert 2 <= raised <= refuses.calls


def test_aiokafka_keeps_what_was_paused_through_a_rebalance(broker: Broker):
    """As kafka-python does: paused partitions that stay are silent, and go on where they were."""
    topic, group = new_name("paused"), new_name("paused")
    broker.create_topic(topic, 4)
    with closing(Reader("aiokafka", broker, group, topic)) as first:
        until(lambda: first.read() or len(first.owned()) == 4)
        first.pause()
        write(broker, topic, 10, 4)
        with closing(Reader("aiokafka", broker, group, topic)) as second:
            read: list[tuple[int, int]] = []
            until(lambda: first.read() or note(read, second.read()) or len(second.owned()) == 2)
            until(lambda: not first.read() and (note(read, second.read()) or len(read) == 20))
            assert {at.partition for at in first.consumer.paused()} == set(first.owned())
            assert not first.read(1.0)
            first.pause(again=True)
            until(lambda: note(read, first.read()) or len(read) == 40)
    assert sorted(read) == [(p, offset) for p in range(4) for offset in range(10)]


@contextmanager
def feeding(cluster: BrokerCluster, topic: str, partitions: int) -> Iterator[list[int]]:
    """Writes until the end of the block; the list counts what the brokers took."""
    producer, stop, taken = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"}), threading.Event(), [0]

    def delivered(error: Any, _: Any) -> None:
        taken[0] += error is None

    def feed() -> None:
        n = 0
        while not stop.wait(0.01):
            producer.produce(topic, b"x", partition=(n := n + 1) % partitions, on_delivery=delivered)
            producer.poll(0)
        producer.flush()

    thread = threading.Thread(target=feed)
    thread.start()
    try:
        yield taken
    finally:
        stop.set()
        thread.join(60)


def coordinator(admin: Any, group: str) -> int:
    """The broker that coordinates the group; the admin client has no call for that alone."""
    return int(str(admin._manager.run(admin._find_coordinator_id, group)).removeprefix("coordinator-"))


def test_members_follow_a_coordinator_that_moves_to_another_broker():
    """The broker that coordinates, and leads half of the partitions, is killed: all go on, and none waits long."""
    groups: dict[str, str] = {}
    with BrokerCluster(["a", "b"], properties={"offsets.topic.replication.factor": "2"}) as cluster:
        topic = new_name("moves")
        cluster.create_topic(topic, 4, replication=2)
        with cluster.admin() as admin:
            while len(groups) < 3:
                name = new_name("moves")
                with suppress(CoordinatorNotAvailableError):  # while the topic of offsets is made
                    if coordinator(admin, name) == 2:
                        groups[CLIENTS[len(groups)]] = name
        readers = [Reader(client, cluster, group, topic) for client, group in groups.items()]
        read: list[list[tuple[int, int]]] = [[], [], []]
        slowest = [0.0, 0.0, 0.0]

        def turn() -> bool:
            for n, reader in enumerate(readers):
                began = time.monotonic()
                note(read[n], reader.read(0.1))
                slowest[n] = max(slowest[n], time.monotonic() - began)
            return False

        with feeding(cluster, topic, 4) as taken:
            until(lambda: turn() or all(len(reads) > 100 for reads in read))
            cluster.brokers[1].kill()
            before = [len(reads) for reads in read]
            until(lambda: turn() or all(len(reads) > n + 600 for reads, n in zip(read, before, strict=True)), 120)
        until(lambda: turn() or all(len(set(reads)) >= taken[0] for reads in read))
        with cluster.brokers[0].admin() as admin:
            for group in groups.values():
                assert coordinator(admin, group) == 1
        assert max(slowest) < 25, slowest  # a request that is not answered is given 30 s
        for reader in readers:
            reader.close()
        for client, group in groups.items():
            assert sum(committed(cluster.brokers[0], group).values()) >= taken[0], client


def test_seek_in_a_listener_is_where_reading_begins_also_after_a_rebalance(broker: Broker):
    """kafka-python's listener seeks to offsets of the application's own; sticky strategies keep the partition."""
    topic, group = new_name("sought"), new_name("sought")
    broker.create_topic(topic, 2)
    write(broker, topic, 50, 2)

    class Seeks(ConsumerRebalanceListener):  # type: ignore[misc]
        def on_partitions_revoked(self, revoked: Any) -> None: ...

        def on_partitions_assigned(self, assigned: Any) -> None:
            for at in assigned:
                first.consumer.seek(at, 45)

    read: list[tuple[int, int]] = []
    with closing(Reader("kafka-python", broker, group, topic)) as first:
        first.consumer.subscribe(topics=[topic], listener=Seeks())
        until(lambda: note(read, first.read()) or len(read) == 10)
        assert sorted(read) == [(p, offset) for p in range(2) for offset in range(45, 50)]
        with closing(Reader("kafka-python", broker, group, topic)) as second:
            until(lambda: note(read, first.read(0.1)) or second.read(0.1) or len(second.owned()) == 1)
        until(lambda: note(read, first.read(0.1)) or len(first.owned()) == 2)
        until(lambda: note(read, first.read(0.1)) or Counter(read)[first.owned()[0], 49] >= 2)
    assert min(offset for _, offset in read) == 45


def test_a_consumer_made_in_one_thread_may_be_polled_in_another_and_closed_in_a_third(broker: Broker):
    """Strategies keep nothing of a thread: kafka-python's consumer moves between them as it would without ours."""
    topic, group = new_name("threads"), new_name("threads")
    broker.create_topic(topic, 2)
    write(broker, topic, 20, 2)
    for client in ("kafka-python", "confluent"):
        reader, read = Reader(client, broker, f"{group}-{client}", topic), []  # type: ignore[var-annotated]
        for call in (lambda: until(lambda: note(read, reader.read()) or len(read) == 40), reader.close):  # noqa: B023
            thread = threading.Thread(target=call)
            thread.start()
            thread.join(60)
            assert not thread.is_alive()
        assert committed(broker, f"{group}-{client}") == {0: 20, 1: 20}


class Copies:
    """Reads one topic and writes another with the offsets in one transaction, in a thread, until told to stop."""

    def __init__(self, client: str, broker: Broker, group: str, source: str, sink: str) -> None:
        self.client, self.sink, self.stop, self.count = client, sink, threading.Event(), 0
        self.reader = Reader(client, broker, group, source)
        name = new_name("copies")
        if client == "confluent":
            self.producer: Any = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": name})
        else:
            self.producer = KafkaProducer(bootstrap_servers=broker.bootstrap, transactional_id=name)
        self.producer.init_transactions()
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        while not self.stop.is_set():
            batch = self.reader.read(0.1)
            if batch:
                self._copy(batch)
                self.count += len(batch)
        self.reader.close()

    def _copy(self, batch: Sequence[tuple[int, int]]) -> None:
        nexts = {p: offset + 1 for p, offset in batch}
        consumer, topic = self.reader.consumer, self.reader.topic
        self.producer.begin_transaction()
        for p, offset in batch:
            if self.client == "confluent":
                self.producer.produce(self.sink, b"%d-%d" % (p, offset))
            else:
                self.producer.send(self.sink, b"%d-%d" % (p, offset))
        if self.client == "confluent":
            ends = [TopicPartition(topic, p, offset) for p, offset in nexts.items()]
            self.producer.send_offsets_to_transaction(ends, consumer.consumer_group_metadata())
        else:
            offsets = {Part(topic, p): OffsetAndMetadata(offset, "", -1) for p, offset in nexts.items()}
            self.producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
        self.producer.commit_transaction()


@pytest.mark.parametrize("client", ["kafka-python", "confluent"])
def test_transactions_beside_a_member_copy_every_record_once(broker: Broker, client: str, monkeypatch: Any):
    """Two members with a transactional producer each, one of which comes later and leaves: no record twice or never."""
    source, sink, group = new_name("source"), new_name("sink"), new_name("copies")
    broker.create_topic(source, 4)
    broker.create_topic(sink, 1)
    made: Callable[..., dict[str, Any]] = settings
    monkeypatch.setattr(f"{__name__}.settings", lambda *args, **more: made(*args, **more, enable_auto_commit=False))
    write(broker, source, 200, 4)
    first = Copies(client, broker, group, source, sink)
    until(lambda: first.count >= 50)
    second = Copies(client, broker, group, source, sink)
    until(lambda: second.reader.owned())
    write(broker, source, 200, 4)
    until(lambda: second.count >= 50 and first.count + second.count >= 1200)
    second.stop.set()
    second.thread.join(60)
    write(broker, source, 100, 4)
    until(lambda: first.count + second.count == 2000)
    first.stop.set()
    first.thread.join(60)
    reader = KafkaConsumer(
        sink, bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest", isolation_level="read_committed"
    )
    copied: list[bytes] = []
    until(lambda: note(copied, [r.value for b in reader.poll(200).values() for r in b]) or len(copied) >= 2000)
    assert not reader.poll(500)
    reader.close()
    assert Counter(copied) == Counter(b"%d-%d" % (p, offset) for p in range(4) for offset in range(500))
    assert committed(broker, group) == dict.fromkeys(range(4), 500)


def test_offsets_of_a_transaction_that_an_expelled_member_began_are_refused(broker: Broker):
    """What GroupConsumer tells the producer names its generation; a member of librdkafka's own would be let through."""
    topic, group = new_name("zombie"), new_name("zombie")
    broker.create_topic(topic, 1)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": new_name("zombie")})
    producer.init_transactions()
    with closing(GroupConsumer(settings(broker, group, enable_auto_commit=False), [topic])) as zombie:
        with pytest.raises(CommitFailedError, match="no member of group"):
            zombie.consumer_group_metadata()
        coordinator = zombie._member._coordinator
        until(lambda: zombie.poll(0.1) or (zombie.assignment() and coordinator.stable()))
        # Not 1 at all times: a leader that knew no topics yet joins again at once.
        metadata, generation = zombie.consumer_group_metadata(), coordinator._generation.generation_id
        with closing(GroupConsumer(settings(broker, group), [topic])) as other:
            both = (zombie, other)
            until(lambda: [m.poll(0.1) for m in both] and coordinator._generation.generation_id > generation)
            producer.begin_transaction()
            with pytest.raises(KafkaException) as refused:
                producer.send_offsets_to_transaction([TopicPartition(topic, 0, 7)], metadata)
            assert refused.value.args[0].code() == LibrdkafkaError.ILLEGAL_GENERATION
            producer.abort_transaction()
    assert committed(broker, group).get(0, 0) == 0
