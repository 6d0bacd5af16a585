"""``GroupConsumer`` beside a plain confluent-kafka consumer, on a real broker: what users of the one expect of both."""

from __future__ import annotations

import logging
import multiprocessing
import random
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from types import FrameType
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition
from kafka.errors import FencedInstanceIdError, KafkaError
from tests.support.examples import thorough

from apportion.clients.confluent import GroupConsumer
from apportion.clients.confluent.partitions import READING
from apportion.clients.group.adapter import Forked
from apportion.errors import BadInput
from apportion.testing.broker import Broker, BrokerCluster

from .groups import new_name

pytestmark = pytest.mark.broker
# Members leave when they are closed, so that nobody waits for this session.
QUICK = {"session.timeout.ms": 20_000, "heartbeat.interval.ms": 300, "fetch.wait.max.ms": 50}


def settings(broker: Broker | BrokerCluster, group: str, **more: object) -> dict[str, Any]:
    """Of a member that begins at the earliest record."""
    dotted = {name.replace("_", "."): value for name, value in more.items()}
    return {
        "bootstrap.servers": broker.bootstrap,
        "group.id": group,
        "auto.offset.reset": "earliest",
        **QUICK,
        **dotted,
    }


def write(broker: Broker | BrokerCluster, topic: str, count: int, partitions: int = 1) -> None:
    """``count`` records to each partition."""
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for n in range(count * partitions):
        producer.produce(topic, b"%d" % n, partition=n % partitions)
    producer.flush()


def committed(broker: Broker | BrokerCluster, group: str) -> dict[int, int]:
    """Partition to committed offset."""
    with broker.admin() as admin:
        offsets = admin.list_group_offsets([group])[group]
    return {part.partition: at.offset for part, at in offsets.items()}


def until(true: Callable[[], object], patience_s: float = 120) -> None:
    """Call it again and again until it is so."""
    end = time.monotonic() + patience_s
    while not true():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.002)


def note(read: list[Any], fields: Iterable[Any]) -> bool:
    """Add what was read, and say that this alone is no end of the wait."""
    read.extend(fields)
    return False


class Alarm(Exception):
    """What the signal handler raises."""


@pytest.fixture
def alarm() -> Iterator[Callable[[float], None]]:
    """Sets when a signal comes whose handler raises in a call of the consumer: the test's own lines are its own."""

    def ring(_: int, frame: FrameType | None) -> None:
        while frame is not None:
            if frame.f_code.co_filename.endswith("clients/confluent/consumer.py"):
                raise Alarm
            frame = frame.f_back
        signal.setitimer(signal.ITIMER_REAL, 0.002)

    before = signal.signal(signal.SIGALRM, ring)
    yield lambda seconds: signal.setitimer(signal.ITIMER_REAL, seconds)
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("batch", [1, 50], ids=["poll", "consume"])
def test_what_a_raising_handler_kept_from_the_application_is_given_again(
    broker: Broker, alarm: Callable[[float], None], batch: int
):
    """Thirty interruptions while records come in: every record is given once, and the committed offset is the last."""
    topic, group, r = new_name("alarm"), new_name("alarm"), random.Random(7)
    broker.create_topic(topic, 1)
    producer, more = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 0}), threading.Event()

    def feed() -> None:
        while not more.wait(0.002):
            producer.produce(topic, b"x", partition=0)
            producer.poll(0)
        producer.flush()

    feeder = threading.Thread(target=feed)
    read: list[int] = []
    with GroupConsumer(settings(broker, group), [topic], "sticky") as consumer:
        feeder.start()
        try:
            until(lambda: note(read, [m.offset() for m in consumer.consume(1, 0.5)]) or read)
            for _ in range(30):
                with suppress(Alarm):
                    alarm(r.uniform(0.01, 0.06))
                    while True:
                        messages = [consumer.poll(0.5)] if batch == 1 else consumer.consume(batch, 0.02)
                        read += [message.offset() for message in messages if message is not None]
        finally:
            alarm(0)
            more.set()
            feeder.join()
        until(lambda: not (late := consumer.consume(500, 1.0)) or note(read, [m.offset() for m in late]))
    assert read == list(range(len(read)))
    assert len(read) > 100
    assert committed(broker, group) == {0: len(read)}


class Interrupted:
    """A fetcher behind one of whose calls a signal handler raises, once, when the call has been carried out."""

    def __init__(self, fetcher: Any, call: str) -> None:
        self._fetcher, self._call = fetcher, call

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._fetcher, name)
        if name != self._call:
            return real

        def interrupted(*args: Any) -> None:
            self._call = ""
            real(*args)
            raise Alarm

        return interrupted


@pytest.mark.parametrize("call", ["incremental_assign", "incremental_unassign"])
def test_a_handler_that_raises_while_partitions_come_or_go_leaves_no_doubt(broker: Broker, call: str):
    """The fetcher has them, or has them no more, and nobody noted it: it begins anew where nothing was given out."""
    topic, group = new_name("between"), new_name("between")
    broker.create_topic(topic, 2)
    write(broker, topic, 30, 2)
    read: list[tuple[int, int]] = []
    with GroupConsumer(settings(broker, group), [topic], "sticky") as consumer:
        consumer._fetcher = Interrupted(consumer._fetcher, call)  # type: ignore[assignment]
        raised = 0

        def take() -> bool:
            nonlocal raised
            try:
                return note(read, [(m.partition(), m.offset()) for m in consumer.consume(7, 0.1)])
            except Alarm:
                raised += 1
                return False

        until(lambda: take() or read)
        if call == "incremental_unassign":
            with suppress(Alarm):
                consumer.pause([TopicPartition(topic, 0)])
            consumer.resume([TopicPartition(topic, 0)])
        until(lambda: take() or len(set(read)) == 60)
        assert raised == (call == "incremental_assign")
    assert sorted(read) == [(p, offset) for p in range(2) for offset in range(30)]
    assert committed(broker, group) == {0: 30, 1: 30}


CLOSES = """
    import signal, sys, time
    from apportion.clients.confluent import GroupConsumer
    bootstrap, group, topic, ends = sys.argv[1:]
    consumer = GroupConsumer(
        {"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest"}, [topic], "sticky"
    )
    def stop(*_):
        consumer.close()
        if ends == "exit":
            sys.exit(7)
    count = 0
    while count < 20:
        count += consumer.poll(1.0) is not None
    signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    started = time.monotonic()
    try:
        while True:
            count += consumer.poll(300.0) is not None
    except RuntimeError as closed:
        print(count, closed, time.monotonic() - started < 200)
"""


@pytest.mark.parametrize("ends", ["returns", "exit"])
def test_close_in_a_signal_handler_commits_and_leaves(broker: Broker, ends: str):
    """The poll that it interrupts ends and closes, whether the handler returns or raises; the next one is refused."""
    topic, group = new_name("handler"), new_name("handler")
    broker.create_topic(topic, 1)
    write(broker, topic, 20)
    command = [sys.executable, "-c", textwrap.dedent(CLOSES), broker.bootstrap, group, topic, ends]
    member = subprocess.run(command, capture_output=True, text=True, timeout=400, check=False)
    if ends == "exit":
        assert member.returncode == 7, member.stderr
    else:
        assert member.stdout == "20 this GroupConsumer is closed True\n", member.stderr
    assert committed(broker, group) == {0: 20}
    with broker.admin() as admin:
        assert not admin.describe_groups([group])[group]["members"]


def test_an_exception_in_with_commits_nothing_that_failed(broker: Broker):
    """The application fails at its sixth record: five are committed, and the sixth comes again; so with ``consume``."""
    topic, group = new_name("fails"), new_name("fails")
    broker.create_topic(topic, 1)
    write(broker, topic, 20)

    def fails_at(offset: int, batch: int) -> None:
        with GroupConsumer(settings(broker, group), [topic]) as consumer:
            while True:
                messages = [consumer.poll(1.0)] if batch == 1 else consumer.consume(batch, 60.0)
                if offset in [message.offset() for message in messages if message is not None]:
                    raise ZeroDivisionError

    for offset, batch, done in ((5, 1, 5), (10, 4, 9), (9, 1, 9)):
        with pytest.raises(ZeroDivisionError):
            fails_at(offset, batch)
        assert committed(broker, group) == {0: done}
    with closing(GroupConsumer(settings(broker, group), [topic])) as consumer:
        until(lambda: [m.offset() for m in consumer.consume(11, 60.0)] == list(range(9, 20)))
    assert committed(broker, group) == {0: 20}


@pytest.mark.parametrize(("isolation", "count"), [(None, 3), ("read_uncommitted", 0)])
def test_a_group_that_begins_at_the_latest_begins_before_an_open_transaction(
    broker: Broker, isolation: str | None, count: int
):
    """As librdkafka, which reads what is committed: what is in the making at the first join comes when it is."""
    topic, group = new_name("open"), new_name("open")
    broker.create_topic(topic, 1)
    write(broker, topic, 5)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": new_name("open")})
    producer.init_transactions()
    producer.begin_transaction()
    for n in range(3):
        producer.produce(topic, b"in %d" % n, partition=0)
    producer.flush()
    more = {} if isolation is None else {"isolation_level": isolation}
    with GroupConsumer(settings(broker, group, auto_offset_reset="latest", **more), [topic]) as consumer:
        until(lambda: consumer.poll(0.1) or consumer._partitions.among(READING))
        producer.commit_transaction()
        write(broker, topic, 1)
        values: list[bytes] = []
        until(lambda: note(values, [m.value() for m in consumer.consume(4, 0.5)]) or b"0" in values)
        assert values == [*[b"in 0", b"in 1", b"in 2"][:count], b"0"]


@pytest.mark.parametrize("first", ["heartbeat", "commit", "join"])
@pytest.mark.parametrize("client", ["confluent", thorough("kafka-python")])
def test_a_member_whose_instance_id_was_taken_over_ends(broker: Broker, client: str, first: str):
    """Within a session, by whichever answer of the broker tells first: each call says it, and all is given up."""
    from kafka import KafkaConsumer

    from apportion.clients.kafka_python import assignor

    topic, group = new_name("fenced"), new_name("fenced")
    broker.create_topic(topic, 2)
    lost: list[Any] = []
    beat_ms = 300 if first == "heartbeat" else 100_000
    session_ms = 45_000 if first == "heartbeat" else 300_000

    def member() -> Any:
        times = {"session_timeout_ms": session_ms, "heartbeat_interval_ms": beat_ms}
        config = {"group_instance_id": "one", "enable_auto_commit": False, **times}
        if client == "confluent":
            on_lost = lambda _, parts: lost.extend(parts)  # noqa: E731
            return GroupConsumer(settings(broker, group, **config), [topic], on_lost=on_lost)
        return KafkaConsumer(
            topic,
            bootstrap_servers=broker.bootstrap,
            group_id=group,
            partition_assignment_strategy=[assignor("cooperative-sticky")],
            auto_offset_reset="earliest",
            **config,
        )

    def turn(consumer: Any) -> Any:
        return consumer.poll(0.1 if client == "confluent" else 100)

    def has_positions(consumer: Any) -> bool:
        turn(consumer)
        coordinator = (consumer._member if client == "confluent" else consumer)._coordinator
        return len(coordinator._subscription.all_consumed_offsets()) == 2

    with closing(member()) as old, closing(member()) as new:
        until(lambda: has_positions(old))
        until(lambda: has_positions(new))
        if first == "join":
            (old._member if client == "confluent" else old)._coordinator.request_rejoin()
        call = old.commit if first == "commit" else lambda: until(lambda: turn(old) and None, 45)
        more = [old.consumer_group_metadata] if client == "confluent" else []
        for again in (call, old.commit, lambda: turn(old), old.commit, *more):
            with pytest.raises(FencedInstanceIdError, match="give each member an id of its own"):
                again()
        assert not old.assignment()
        assert turn(new) in ({}, None)
        assert new.assignment()
        if client == "confluent":
            assert sorted(at.partition for at in lost) == [0, 1]


class Told:
    """Callbacks that write down what they are told, and commit when partitions go."""

    def __init__(self, name: str, log_of_all: list[tuple[str, str, list[int]]]) -> None:
        self.name, self.log = name, log_of_all

    def assigned(self, _: GroupConsumer, parts: list[TopicPartition]) -> None:
        self.log.append((self.name, "assigned", [at.partition for at in parts]))

    def revoked(self, consumer: GroupConsumer, parts: list[TopicPartition]) -> None:
        consumer.commit()
        self.log.append((self.name, "revoked", [at.partition for at in parts]))

    def lost(self, consumer: GroupConsumer, parts: list[TopicPartition]) -> None:
        with pytest.raises(KafkaError):
            consumer.commit()
        self.log.append((self.name, "lost", [at.partition for at in parts]))

    def member(self, config: dict[str, Any], topic: str, strategy: str) -> GroupConsumer:
        calls: dict[str, Any] = {"on_assigned": self.assigned, "on_revoked": self.revoked, "on_lost": self.lost}
        return GroupConsumer(config, [topic], strategy, **calls)


@pytest.mark.parametrize("strategy", [thorough("sticky"), "cooperative-sticky"])
def test_callbacks_tell_in_the_callers_thread_and_commits_in_them_count(broker: Broker, strategy: str):
    """Without auto commit, one joins and one leaves: what is committed as partitions go is all that was read."""
    topic, group = new_name("told"), new_name("told")
    broker.create_topic(topic, 4)
    write(broker, topic, 50, 4)
    events: list[tuple[str, str, list[int]]] = []
    config = settings(broker, group, enable_auto_commit=False)
    read: list[tuple[int, int]] = []

    def take(consumer: GroupConsumer) -> bool:
        return note(read, [(m.partition(), m.offset()) for m in consumer.consume(3, 0.02)])

    with Told("a", events).member(config, topic, strategy) as first:
        until(lambda: take(first) or len(read) > 20)
        assert events == [("a", "assigned", [0, 1, 2, 3])]
        with Told("b", events).member(config, topic, strategy) as second:
            until(lambda: take(first) or take(second) or events[-1][:2] == ("b", "assigned"))
            until(lambda: take(first) or take(second) or len(first.assignment().get(topic, ())) == 2)
            gone, came = (
                events[1][2],
                next(parts for name, event, parts in events if (name, event) == ("b", "assigned")),
            )
            assert events[1][:2] == ("a", "revoked")
            assert (gone == [0, 1, 2, 3]) if strategy == "sticky" else (gone == came)
        until(lambda: take(first) or len(first.assignment().get(topic, ())) == 4)
        until(lambda: take(first) or len(set(read)) == 200)
    assert events[-1][:2] == ("a", "revoked")
    assert sorted(read) == [(p, offset) for p in range(4) for offset in range(50)]
    assert committed(broker, group) == dict.fromkeys(range(4), 50)


def test_a_callback_is_told_what_was_lost_and_one_that_raises_keeps_nobody_out(broker: Broker):
    """A member that was silent for too long has lost its partitions; the error of a callback comes out of poll once."""
    topic, group = new_name("lost"), new_name("lost")
    broker.create_topic(topic, 2)
    events: list[tuple[str, str, list[int]]] = []
    config = settings(broker, group, session_timeout_ms=6000, max_poll_interval_ms=7000, enable_auto_commit=False)

    def refuses(_: GroupConsumer, parts: list[TopicPartition]) -> None:
        events.append(("b", "refused", [at.partition for at in parts]))
        raise Alarm("not now")

    with Told("a", events).member(config, topic, "sticky") as first:
        until(lambda: first.poll(0.1) or len(first._partitions.among(READING)) == 2)  # it knows what it would commit
        coordinator = first._member._coordinator
        until(lambda: coordinator._generation.is_lost())  # without a poll
        until(lambda: first.poll(0.1) or len(events) == 3)
        assert [event for _, event, _ in events] == ["assigned", "lost", "assigned"]
    with GroupConsumer(config, [topic], "sticky", on_revoked=refuses) as stubborn:
        until(lambda: stubborn.poll(0.1) or stubborn.assignment())
        with GroupConsumer(config, [topic], "sticky") as newcomer:
            raised = 0

            def both() -> bool:
                nonlocal raised
                newcomer.poll(0.02)
                try:
                    stubborn.poll(0.02)
                except Alarm:
                    raised += 1
                return len(newcomer.assignment()) == len(stubborn.assignment()) == 1

            until(both)
            assert raised == 1
        with pytest.raises(Alarm):
            stubborn.close()


@pytest.mark.parametrize("strategy", [thorough("sticky"), "cooperative-sticky"])
def test_pause_lasts_over_a_rebalance_and_loses_nothing(broker: Broker, strategy: str):
    """Paused partitions are silent through a rebalance; after ``resume`` they go on behind what was given out."""
    topic, group = new_name("pause"), new_name("pause")
    broker.create_topic(topic, 4)
    write(broker, topic, 200, 4)
    read: list[tuple[int, int]] = []

    def take(consumer: GroupConsumer, count: int = 7) -> bool:
        return note(read, [(m.partition(), m.offset()) for m in consumer.consume(count, 0.05)])

    with GroupConsumer(settings(broker, group), [topic], strategy) as first:
        until(lambda: take(first) or {p for p, _ in read} == {0, 1, 2, 3})
        paused = [TopicPartition(topic, p) for p in range(4)]
        first.pause(paused)
        assert first.assignment() == {topic: [0, 1, 2, 3]}
        count = len(read)
        with GroupConsumer(settings(broker, group), [topic], strategy) as second:
            until(
                lambda: (
                    take(first)
                    or take(second, 1)
                    or (second.assignment() and len(first.assignment().get(topic, ())) == 2)
                )
            )
            mine = first.assignment()[topic]
            theirs = second.assignment()[topic]
            until(lambda: take(first) or take(second, 100) or len({at for at in read if at[0] in theirs}) == 400)
            assert not [p for p, _ in read[count:] if p in mine]
            first.resume([TopicPartition(topic, p) for p in mine])
            until(lambda: take(first, 100) or len(read) == 800)
            with pytest.raises(BadInput, match="partitions that this member has"):
                first.pause([TopicPartition(topic, theirs[0])])
    assert sorted(read) == [(p, offset) for p in range(4) for offset in range(200)]


def test_seek_begins_elsewhere_also_in_a_callback(broker: Broker):
    """An application with offsets of its own begins at them, and goes back when it likes."""
    topic, group = new_name("seek"), new_name("seek")
    broker.create_topic(topic, 2)
    write(broker, topic, 50, 2)

    def own_offsets(consumer: GroupConsumer, parts: list[TopicPartition]) -> None:
        for at in parts:
            consumer.seek(TopicPartition(at.topic, at.partition, 40 + at.partition))

    read: list[tuple[int, int]] = []
    with GroupConsumer(settings(broker, group), [topic], on_assigned=own_offsets) as consumer:
        until(lambda: note(read, [(m.partition(), m.offset()) for m in consumer.consume(9, 0.1)]) or len(read) == 19)
        assert sorted(read) == [(0, n) for n in range(40, 50)] + [(1, n) for n in range(41, 50)]
        consumer.seek(TopicPartition(topic, 1, 48))
        until(lambda: [(m.partition(), m.offset()) for m in consumer.consume(2, 60.0)] == [(1, 48), (1, 49)])
        for wrong in (TopicPartition(topic, 9, 1), TopicPartition(topic, 0, -2)):
            with pytest.raises(BadInput):
                consumer.seek(wrong)
    assert committed(broker, group) == {0: 50, 1: 50}


def test_partitions_without_a_leader_keep_no_other_one_waiting(caplog: pytest.LogCaptureFixture):
    """Some stand on a broker that is down: polls end in time, the others are read, and the log names what waits."""
    caplog.set_level(logging.WARNING, "apportion.clients")
    topic, group = new_name("half"), new_name("half")
    with BrokerCluster(["a", "b"], properties={"offsets.topic.replication.factor": "2"}) as cluster:
        cluster.create_topic(topic, 6)
        write(cluster, topic, 100, 6)
        with cluster.admin() as admin:
            leaders = {p["partition_index"]: p["leader_id"] for p in admin.describe_topics([topic])[0]["partitions"]}
        cluster.brokers[1].kill()
        alive = {p for p, leader in leaders.items() if leader == 1}
        assert 0 < len(alive) < 6
        read: dict[int, int] = {}

        def take(seconds: float) -> float:
            began = time.monotonic()
            message = consumer.poll(seconds)
            if message is not None and message.error() is None:
                read[message.partition()] = read.get(message.partition(), 0) + 1
            return time.monotonic() - began

        with closing(GroupConsumer(settings(cluster.brokers[0], group), [topic], "sticky")) as consumer:
            slowest = 0.0
            end = time.monotonic() + 90
            while sum(read.values()) < 100 * len(alive) or "no broker has answered yet" not in caplog.text:
                slowest = max(slowest, take(0.5))
                assert time.monotonic() < end, (read, alive)
            assert read == dict.fromkeys(alive, 100)
            assert slowest < 20, "nobody waits for a request to those brokers, which is given 30 s"
            assert caplog.text.count("no broker has answered yet where to begin in") == 1
            cluster.brokers[1].start()
            until(lambda: take(0.5) and sum(read.values()) == 600)


def test_close_from_another_thread_ends_the_poll_that_waits(broker: Broker):
    """A call under way ends soon, gives nothing, and closes in its own thread; two threads do not poll at once."""
    topic = new_name("thread")
    broker.create_topic(topic, 1)
    consumer = GroupConsumer(settings(broker, new_name("thread")), [topic])
    until(lambda: consumer.poll(0.1) or consumer.assignment())
    timer = threading.Timer(0.3, consumer.close)
    timer.start()
    began = time.monotonic()
    assert consumer.poll(600) is None
    assert time.monotonic() - began < 300
    timer.join()
    with pytest.raises(RuntimeError, match="closed"):
        consumer.poll(0)


def test_a_forked_process_is_told_to_make_a_consumer_of_its_own(broker: Broker):
    """It waited for ever for threads that stayed in the parent; the parent's consumer goes on."""
    topic = new_name("fork")
    broker.create_topic(topic, 1)
    with GroupConsumer(settings(broker, new_name("fork")), [topic]) as consumer:
        until(lambda: consumer.poll(0.1) or consumer.assignment())
        context = multiprocessing.get_context("fork")
        answers = context.SimpleQueue()

        def child() -> None:
            for call in (consumer.poll, consumer.commit, consumer._member.poll, consumer._member.commit):
                try:
                    call()
                    answers.put("went on")
                except Forked as error:
                    answers.put(str(error))
            consumer.close()

        process = context.Process(target=child)
        process.start()
        process.join(120)
        assert process.exitcode == 0
        for whose in ("GroupConsumer", "GroupConsumer", "KafkaConsumer", "KafkaConsumer"):
            assert answers.get().startswith(f"this {whose} was made before this process was forked")
        write(broker, topic, 1)
        until(lambda: consumer.poll(0.5) is not None)
