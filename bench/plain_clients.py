"""What the Kafka clients do without us in the scenarios of docs/trouble.md: make plain-clients.

``python -m bench.plain_clients [NAME ...]`` runs some. A line for each scenario and client, as it was seen on a real
broker. Each runs in a process of its own, since some hang or end it: after two minutes it is called hanging.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from itertools import pairwise
from typing import Any
from uuid import uuid4

import confluent_kafka
from confluent_kafka import Producer
from kafka import ConsumerRebalanceListener, KafkaConsumer, KafkaProducer
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from kafka.protocol.consumer.metadata import ConsumerProtocolSubscription
from kafka.structs import OffsetAndMetadata, TopicPartition
from tests.support.polled_reader import PolledReader

from apportion.testing.broker import Broker, BrokerCluster, Client

LONGEST_S = 120
CLIENTS = ("confluent-kafka", "kafka-python", "aiokafka")
ENDS = (confluent_kafka.KafkaError._FATAL, confluent_kafka.KafkaError.FENCED_INSTANCE_ID)
"""Errors of librdkafka after which a member does no more."""
Place = tuple[int, int]
"""Partition, offset."""


class Reader(PolledReader):
    """A member in one of the clients, with the strategies that it brings along."""

    loop = asyncio.new_event_loop()

    def __init__(self, client: str, broker: Client, group: str, topic: str, **more: Any) -> None:
        self.client, self.topic = client, topic
        common = {
            "bootstrap.servers": broker.bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "session.timeout.ms": 6000,
            "heartbeat.interval.ms": 300,
            "auto.commit.interval.ms": 200,
            **{name.replace("_", "."): value for name, value in more.items() if name != "listener"},
        }
        self.consumer: Any
        if client == "confluent-kafka":
            self.consumer = confluent_kafka.Consumer(common)
            self.consumer.subscribe([topic], **more.get("listener", {}))
            return
        given = {name.replace(".", "_"): value for name, value in common.items()}
        given["bootstrap_servers"] = broker.bootstrap.split(",")
        if client == "kafka-python":
            self.consumer = KafkaConsumer(**given, partition_assignment_strategy=[StickyPartitionAssignor()])
            self.consumer.subscribe(topics=[topic], listener=more.get("listener"))
        else:
            self.consumer = self.start(topic, given)

    def read(self, seconds: float = 0.2) -> list[Place]:
        """What comes in this time."""
        if self.client == "confluent-kafka":
            messages = self.consumer.consume(50, seconds)
            if ends := [m.error() for m in messages if m.error() is not None and m.error().code() in ENDS]:
                raise confluent_kafka.KafkaException(ends[0])
            return [(m.partition(), m.offset()) for m in messages if m.error() is None]
        return super().read(seconds)


def until(true: Callable[[], object], patience_s: float = 40) -> bool:
    """Call it again and again; whether it was so in time."""
    end = time.monotonic() + patience_s
    while time.monotonic() < end:
        if true():
            return True
        time.sleep(0.002)
    return False


def note(read: list[Any], more: Iterable[Any]) -> bool:
    """Add what was read, and say that this alone is no end of the wait."""
    read.extend(more)
    return False


def write(broker: Client, topic: str, count: int, partitions: int = 1) -> None:
    """``count`` records to each partition."""
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for n in range(count * partitions):
        producer.produce(topic, b"%d" % n, partition=n % partitions)
    producer.flush()


def made(broker: Client, partitions: int, count: int = 0) -> tuple[str, str]:
    """A new topic with records, and a group's name."""
    topic = f"plain-{uuid4().hex[:8]}"
    broker.create_topic(topic, partitions)
    write(broker, topic, count, partitions)
    return topic, topic


def committed(broker: Client, group: str) -> dict[int, int]:
    """Partition to committed offset."""
    with broker.admin() as admin:
        return {at.partition: offset.offset for at, offset in admin.list_group_offsets([group])[group].items()}


@contextmanager
def feeding(broker: Client, topic: str, partitions: int, every_s: float = 0.005) -> Iterator[Callable[[], int]]:
    """Writes until the end of the block; gives how many records the brokers took."""
    producer, stop, taken = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 0}), threading.Event(), [0]

    def delivered(error: object, _: object) -> None:
        taken[0] += error is None

    def feed() -> None:
        n = 0
        while not stop.wait(every_s):
            producer.produce(topic, b"x", partition=(n := n + 1) % partitions, on_delivery=delivered)
            producer.poll(0)
        producer.flush()

    thread = threading.Thread(target=feed)
    thread.start()
    try:
        yield lambda: taken[0]
    finally:
        stop.set()
        thread.join(60)


class Alarm(Exception):
    """What the signal handler raises."""


def handler_raises(broker: Client, client: str) -> str:
    """A signal handler raises while records come, 30 times."""
    if client != "confluent-kafka":
        return "not tried: its loop swallows what a handler raises"
    topic, group = made(broker, 1)
    reader, read, raised = Reader(client, broker, group, topic), list[Place](), 0

    def ring(*_: object) -> None:
        raise Alarm

    signal.signal(signal.SIGALRM, ring)
    with feeding(broker, topic, 1) as taken:
        until(lambda: note(read, reader.read()) or read)
        for n in range(30):
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.011 + n / 500)
                while True:
                    message = reader.consumer.poll(0.5)
                    read += [] if message is None else [(message.partition(), message.offset())]
            except Alarm:
                raised += 1
    signal.setitimer(signal.ITIMER_REAL, 0)
    until(lambda: note(read, reader.read()) or len(set(read)) == taken(), 5)
    twice = sum(count - 1 for count in Counter(read).values())
    return f"{taken() - len(set(read))} of {taken()} records lost, {twice} read twice, in {raised} times"


def close_in_handler(broker: Client, client: str) -> str:
    """close() in a signal handler that interrupts poll."""
    topic, group = made(broker, 1, 20)
    reader, count = Reader(client, broker, group, topic), 0
    while count < 20:
        count += len(reader.read())

    def stop(*_: object) -> None:
        reader.close()

    def dies(*_: object) -> None:
        print(f"hangs; committed {committed(broker, group)}", flush=True)
        os._exit(0)

    signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    watch = threading.Timer(40, dies)
    watch.daemon = True
    watch.start()
    try:
        for _ in range(3):
            reader.read(10)
        ended = "poll goes on"
    except BaseException as error:
        ended = f"poll raises {type(error).__name__}: {error}"
    return f"{ended}; committed {committed(broker, group)}"


def with_raises(broker: Client, client: str) -> str:
    """An exception in a with block, at the sixth record."""
    if client != "confluent-kafka":
        return "no with block for polls"
    topic, group = made(broker, 1, 20)
    reader = Reader(client, broker, group, topic)
    with suppress(ZeroDivisionError), reader.consumer:
        while True:
            message = reader.consumer.poll(1.0)
            if message is not None and message.offset() == 5:
                raise ZeroDivisionError
    return f"the sixth record failed (offset 5), committed is {committed(broker, group)[0]}"


def leaderless(_: Client, client: str) -> str:
    """Partitions without a leader."""
    with BrokerCluster(["a", "b"], properties={"offsets.topic.replication.factor": "2"}) as cluster:
        topic, group = made(cluster, 6, 100)
        with cluster.admin() as admin:
            leaders = {p["partition_index"]: p["leader_id"] for p in admin.describe_topics([topic])[0]["partitions"]}
        cluster.brokers[1].kill()
        alive = sum(leader == 1 for leader in leaders.values())
        began = time.monotonic()
        reader, read, slowest = Reader(client, cluster.brokers[0], group, topic), list[Place](), 0.0
        started = time.monotonic() - began

        def turn() -> bool:
            nonlocal slowest
            began = time.monotonic()
            read.extend(reader.read(0.5))
            slowest = max(slowest, time.monotonic() - began)
            return len(read) == 100 * alive

        until(turn, 60)
        took = time.monotonic() - began
        return (
            f"{len(read)} of {100 * alive} healthy records after {took:.0f} s; made in {started:.1f} s, "
            f"the longest poll(0.5) took {slowest:.1f} s"
        )


def fenced(broker: Client, client: str) -> str:
    """The instance id is taken over, auto commit off."""
    topic, group = made(broker, 2, 10)
    more = {"group_instance_id": "one", "enable_auto_commit": False}
    first = Reader(client, broker, group, topic, **more)
    until(lambda: first.read() and first.owned())
    second = Reader(client, broker, group, topic, **more)
    until(lambda: second.read() or second.owned())
    began, read = time.monotonic(), list[Place]()

    def both() -> None:
        read.extend(first.read())
        second.read()

    with feeding(broker, topic, 2):
        try:
            until(both, 20)
        except Exception as error:
            return (
                f"raises {type(error).__name__} after {time.monotonic() - began:.1f} s, {len(read)} records read beside"
            )
    return f"reads on for 20 s beside its successor ({len(read)} records)"


def listener_raises(broker: Client, client: str) -> str:
    """A listener always raises, somebody joins."""

    class Refuses(ConsumerRebalanceListener):  # type: ignore[misc]
        def on_partitions_revoked(self, revoked: object) -> None:
            raise ZeroDivisionError

        def on_partitions_assigned(self, assigned: object) -> None:
            raise ZeroDivisionError

    def refuse(*_: object) -> None:
        raise ZeroDivisionError

    if client == "aiokafka":
        return "not tried: its listeners are coroutines of the loop"
    topic, group = made(broker, 2)
    given = Refuses() if client == "kafka-python" else {"on_assign": refuse, "on_revoke": refuse}
    first, second, raised = (
        Reader(client, broker, group, topic, listener=given),
        Reader(client, broker, group, topic),
        0,
    )

    def turn() -> bool:
        nonlocal raised
        try:
            first.read(0.1)
        except Exception:
            raised += 1
        second.read(0.1)
        return len(second.owned()) == 1

    in_time = until(turn, 40)
    return f"the newcomer {'gets in' if in_time else 'is kept out for 40 s'}; {raised} errors come out of polls"


def paused(broker: Client, client: str) -> str:
    """What is paused, somebody joins."""
    topic, group = made(broker, 4)
    first = Reader(client, broker, group, topic)
    until(lambda: first.read() or len(first.owned()) == 4)

    async def pause() -> None:
        first.consumer.pause(*first.consumer.assignment())

    if client == "confluent-kafka":
        first.consumer.pause(first.consumer.assignment())
    else:
        Reader.loop.run_until_complete(pause())
    write(broker, topic, 10, 4)
    second, read = Reader(client, broker, group, topic), list[Place]()
    until(lambda: note(read, first.read()) or second.read() or len(second.owned()) == 2)
    until(lambda: note(read, first.read()) or (second.read(), False)[1], 5)
    return f"{len(read)} records of what was paused and stayed were read"


def coordinator_dies(_: Client, client: str) -> str:
    """The coordinator's broker is killed, another takes over."""
    with BrokerCluster(["a", "b"], properties={"offsets.topic.replication.factor": "2"}) as cluster:
        topic = f"plain-{uuid4().hex[:8]}"
        cluster.create_topic(topic, 4, replication=2)
        for attempt in range(100):
            group = f"{topic}-{attempt}"
            with cluster.admin() as admin, suppress(Exception):
                found = admin._manager.run(admin._find_coordinator_id, group)
                if str(found).removeprefix("coordinator-") == "2":
                    break
        reader, read, slowest = Reader(client, cluster, group, topic), list[Place](), 0.0

        def turn() -> bool:
            nonlocal slowest
            began = time.monotonic()
            read.extend(reader.read(0.1))
            slowest = max(slowest, time.monotonic() - began)
            return False

        with feeding(cluster, topic, 4, 0.01) as taken:
            until(lambda: turn() or len(read) > 100)
            cluster.brokers[1].kill()
            before = len(read)
            until(lambda: turn() or len(read) > before + 600, 60)
        until(lambda: turn() or len(set(read)) >= taken(), 20)
        reader.close()
        done = sum(committed(cluster.brokers[0], group).values())
        return f"{len(set(read))} of {taken()} read, {done} committed, the longest poll took {slowest:.1f} s"


def transactions(broker: Client, client: str) -> str:
    """A transactional producer beside each of two members, one comes and goes."""
    if client == "aiokafka":
        return "not tried"
    source, group = made(broker, 4, 200)
    sink, _ = made(broker, 1)
    errors: list[str] = []

    class Copies(threading.Thread):
        def __init__(self) -> None:
            super().__init__(daemon=True)
            self.reader, self.count, self.stop = (
                Reader(client, broker, group, source, enable_auto_commit=False),
                0,
                False,
            )
            name = f"copies-{uuid4().hex[:6]}"
            if client == "confluent-kafka":
                self.producer: Any = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": name})
            else:
                self.producer = KafkaProducer(bootstrap_servers=broker.bootstrap, transactional_id=name)
            self.producer.init_transactions()
            self.start()

        def run(self) -> None:
            try:
                while not self.stop:
                    if batch := self.reader.read(0.1):
                        self.copy(batch)
                        self.count += len(batch)
            except Exception as error:
                errors.append(f"{type(error).__name__}: {error}")
            self.reader.close()

        def copy(self, batch: Sequence[Place]) -> None:
            ends, consumer = {p: offset + 1 for p, offset in batch}, self.reader.consumer
            self.producer.begin_transaction()
            if client == "confluent-kafka":
                for p, offset in batch:
                    self.producer.produce(sink, b"%d-%d" % (p, offset))
                offsets: Any = [confluent_kafka.TopicPartition(source, p, offset) for p, offset in ends.items()]
                self.producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata())
            else:
                for p, offset in batch:
                    self.producer.send(sink, b"%d-%d" % (p, offset))
                offsets = {TopicPartition(source, p): OffsetAndMetadata(offset, "", -1) for p, offset in ends.items()}
                self.producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
            self.producer.commit_transaction()

    first = Copies()
    until(lambda: first.count >= 50)
    second = Copies()
    until(lambda: second.reader.owned())
    write(broker, source, 200, 4)
    until(lambda: second.count >= 50 and first.count + second.count >= 1200)
    second.stop = True
    second.join(30)
    write(broker, source, 100, 4)
    until(lambda: first.count + second.count >= 2000, 20)
    first.stop = True
    first.join(30)
    reader = KafkaConsumer(
        sink, bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest", isolation_level="read_committed"
    )
    copied: Counter[bytes] = Counter()
    until(lambda: copied.update(r.value for b in reader.poll(200).values() for r in b) or len(copied) >= 2000, 15)
    again = f", {sum(copied.values()) - len(copied)} twice"
    return f"{len(copied)} of 2000 copied{again}{'; ' + errors[0][:90] if errors else ''}"


def slow_start(broker: Client, client: str) -> str:
    """A new owner needs 5 s to get ready; one partition moves."""
    if client != "kafka-python":
        return "not tried"
    topic, group = made(broker, 2)

    class Slow(ConsumerRebalanceListener):  # type: ignore[misc]
        def on_partitions_revoked(self, revoked: object) -> None: ...

        def on_partitions_assigned(self, assigned: object) -> None:
            time.sleep(5)

    seen: list[tuple[float, int]] = []
    stop = threading.Event()

    def life(reader: Reader) -> None:
        while not stop.is_set():
            seen.extend((time.monotonic(), p) for p, _ in reader.read(0.02))
        reader.close()

    with feeding(broker, topic, 2):
        first = Reader(client, broker, group, topic)
        threads = [threading.Thread(target=life, args=(first,))]
        threads[0].start()
        until(lambda: len(seen) > 50)
        second = Reader(client, broker, group, topic, listener=Slow())
        threads.append(threading.Thread(target=life, args=(second,)))
        threads[1].start()
        until(lambda: len(second.owned()) == 1 and len(first.owned()) == 1)
        time.sleep(8)
        stop.set()
        for thread in threads:
            thread.join(30)
    longest = {}
    for p in range(2):
        at = sorted(moment for moment, partition in seen if partition == p)
        longest[p] = max((later - sooner for sooner, later in pairwise(at)), default=0.0)
    return f"a partition stood still for {max(longest.values()):.1f} s"


def seek_in_listener(broker: Client, client: str) -> str:
    """seek in a listener."""
    topic, group = made(broker, 2, 50)
    if client == "aiokafka":
        return "not tried"

    class Seeks(ConsumerRebalanceListener):  # type: ignore[misc]
        def on_partitions_revoked(self, revoked: object) -> None: ...

        def on_partitions_assigned(self, assigned: Any) -> None:
            for at in assigned:
                reader.consumer.seek(at, 45)

    def seek(consumer: Any, parts: Any) -> None:
        for at in parts:
            at.offset = 45
        consumer.assign(parts)

    reader = Reader(client, broker, group, topic, listener=Seeks() if client == "kafka-python" else {"on_assign": seek})
    read: list[Place] = []
    until(lambda: note(read, reader.read()) or len(read) >= 10, 10)
    until(lambda: note(read, reader.read()) or False, 2)
    return f"reading begins at {min((offset for _, offset in read), default=None)}, {len(read)} records"


def threads(broker: Client, client: str) -> str:
    """Made in one thread, polled in another, closed in a third."""
    if client == "aiokafka":
        return "not tried: a consumer belongs to its loop"
    topic, group = made(broker, 2, 20)
    reader, read, errors = Reader(client, broker, group, topic), list[Place](), list[str]()

    def call(what: Callable[[], object]) -> None:
        try:
            what()
        except Exception as error:
            errors.append(f"{type(error).__name__}: {error}")

    for what in (lambda: until(lambda: note(read, reader.read()) or len(read) == 40), reader.close):
        thread = threading.Thread(target=call, args=(what,))
        thread.start()
        thread.join(50)
    return f"{len(read)} of 40 read, committed {committed(broker, group)}{errors or ''}"


def forks(broker: Client, client: str) -> str:
    """fork after the start; the child polls."""
    topic, group = made(broker, 1)
    reader = Reader(client, broker, group, topic)
    until(lambda: reader.read() or reader.owned())
    write(broker, topic, 5)
    pid = os.fork()
    if not pid:
        code = 1
        with suppress(Exception):
            code = 3 if reader.read(3) else 2
        os._exit(code)
    end = time.monotonic() + 30
    status: int | None = None
    while status is None and time.monotonic() < end:
        ended, how = os.waitpid(pid, os.WNOHANG)
        status = os.waitstatus_to_exitcode(how) if ended else None
        time.sleep(0.05)
    child = {None: "waits for ever", 1: "raises", 2: "gets nothing, and no error", 3: "reads"}.get(
        status, f"ends {status}"
    )
    if status is None:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    read: list[Place] = []
    goes_on = until(lambda: note(read, reader.read()) or len(read) >= 5, 20)
    return f"poll in the child {child}; the parent {'reads on' if goes_on else f'got {len(read)} of 5'}"


def listed_twice(_: Client, client: str) -> str:
    """A member is listed twice in one JoinGroup answer, and range deals six partitions."""
    if client != "kafka-python":
        return "not tried"

    class Cluster:
        def partitions_for_topic(self, _: str) -> set[int]:
            return set(range(6))

    class Member:
        def __init__(self, member_id: str) -> None:
            sent = ConsumerProtocolSubscription(version=1, topics=["t"], user_data=b"", owned_partitions=[]).encode()
            self.member_id, self.group_instance_id = member_id, None
            self.metadata = ConsumerProtocolSubscription.decode(bytes(sent))

    answer = RangePartitionAssignor().assign(Cluster(), [Member(name) for name in "aba"])
    given = {p for share in answer.values() for _, ids in share.assigned_partitions for p in ids}
    return f"partitions that nobody reads: {sorted(set(range(6)) - given)}"


SCENARIOS: dict[str, Callable[[Client, str], str]] = {
    one.__name__: one
    for one in (
        handler_raises, close_in_handler, with_raises, leaderless, fenced, listener_raises, paused, coordinator_dies,
        transactions, slow_start, seek_in_listener, threads, forks, listed_twice,
    )
}  # fmt: skip


class _Address(Client):
    """A broker that another process started."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap


def main(words: Sequence[str]) -> int:
    """All scenarios, or those named; ``--at ADDRESS NAME CLIENT`` is one, in this process."""
    if words[:1] == ["--at"]:
        _, address, name, client = words
        print(SCENARIOS[name](_Address(address), client), flush=True)
        os._exit(0)  # some leave threads behind that never end
    with Broker() as broker, ThreadPoolExecutor(len(CLIENTS)) as pool:
        for name in words or SCENARIOS:
            seen = pool.map(lambda client, name=name: _alone(broker.bootstrap, name, client), CLIENTS)  # type: ignore[misc]
            for client, line in zip(CLIENTS, seen, strict=True):
                print(f"{SCENARIOS[name].__doc__} {client}: {line}", flush=True)
    return 0


def _alone(address: str, name: str, client: str) -> str:
    """What one scenario says in a process of its own."""
    command = [sys.executable, "-m", "bench.plain_clients", "--at", address, name, client]
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST_S, check=False)
    except subprocess.TimeoutExpired:
        return f"hangs for {LONGEST_S} s"
    return ended.stdout.strip() or f"ends {ended.returncode}: {ended.stderr.strip()[-300:]}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
