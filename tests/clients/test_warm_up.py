"""A partition whose new owner gets ready first is read meanwhile, and whoever dies then keeps nobody waiting."""

from __future__ import annotations

import logging
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from confluent_kafka import Producer, TopicPartition
from kafka import KafkaConsumer
from tests.support.examples import thorough

from apportion.assignors import find
from apportion.clients.confluent import GroupConsumer
from apportion.clients.group.bridge import Bridge
from apportion.clients.group.joined_group import JoinedGroup
from apportion.clients.group.options import Options
from apportion.clients.group.warm_up import AT_ONCE, FACT, WARM_UP, WarmUp, checksum, stays_until_warm
from apportion.clients.kafka_python import assignor
from apportion.errors import BadInput
from apportion.model.build import build
from apportion.strategy.codec import Holding, with_facts
from apportion.strategy.traits import traits_of
from apportion.testing.broker import Broker
from apportion.wire.assignment import Assignment
from apportion.wire.subscription import Subscription, write_subscription
from apportion.wire.user_data import write_facts, write_sticky

from .groups import Members, new_name, owned
from .test_group_consumer import committed, settings, until

SLOW_S = 5.0
"""Seconds for which the work of a new owner takes."""
WORKED: list[float] = []
"""When such work was done."""


@contextmanager
def records(broker: Broker, topic: str) -> Iterator[None]:
    """A record to each of two partitions every few milliseconds."""
    producer, enough = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 0}), threading.Event()

    def feed() -> None:
        while not enough.wait(0.01):
            for p in range(2):
                producer.produce(topic, b"x", partition=p)
            producer.poll(0)
        producer.flush()

    feeder = threading.Thread(target=feed)
    feeder.start()
    try:
        yield
    finally:
        enough.set()
        feeder.join()


class Reader(threading.Thread):
    """A member in a thread of its own, which notes when it read what."""

    def __init__(self, config: dict[str, Any], topic: str, **calls: Any) -> None:
        super().__init__(daemon=True)
        self.read: list[tuple[float, int, int]] = []
        self.ends, self.topic = threading.Event(), topic
        self.raised: BaseException | None = None
        self.consumer = GroupConsumer(config, [topic], "cooperative-sticky", **calls)
        self.start()

    def run(self) -> None:
        try:
            with self.consumer:
                while not self.ends.is_set():
                    for message in self.consumer.consume(20, 0.02):
                        self.read.append((time.monotonic(), message.partition(), message.offset()))
        except BaseException as error:  # the test tells of it
            self.raised = error

    def owns(self) -> list[int]:
        return self.consumer.assignment().get(self.topic, [])

    def end(self) -> None:
        self.ends.set()
        self.join(60)
        assert self.raised is None, self.raised


class KafkaPythonReader(Reader):
    """The same in kafka-python."""

    def __init__(self, config: dict[str, Any], topic: str, **calls: Any) -> None:
        threading.Thread.__init__(self, daemon=True)
        self.read, self.ends, self.topic, self.raised = [], threading.Event(), topic, None
        self.plain = KafkaConsumer(
            topic, bootstrap_servers=config["bootstrap.servers"], group_id=config["group.id"],
            auto_offset_reset="earliest", heartbeat_interval_ms=300,
            partition_assignment_strategy=[assignor("cooperative-sticky", **calls)],
        )  # fmt: skip
        self.start()

    def run(self) -> None:
        while not self.ends.is_set():
            for records in self.plain.poll(timeout_ms=20).values():
                self.read += [(time.monotonic(), record.partition, record.offset) for record in records]
        self.plain.close()

    def owns(self) -> list[int]:
        return sorted(part.partition for part in self.plain.assignment())


@contextmanager
def reader(config: dict[str, Any], topic: str, kind: type[Reader] = Reader, **calls: Any) -> Iterator[Reader]:
    """One that leaves in good order."""
    one = kind(config, topic, **calls)
    try:
        yield one
    finally:
        one.end()


def stood_still(members: list[Reader], partition: int) -> float:
    """The longest time in seconds for which nobody read a partition."""
    at = sorted(moment for one in members for moment, p, _ in one.read if p == partition)
    return float(np.diff(at).max())


def check_all_read_once(members: list[Reader], broker: Broker, group: str) -> None:
    """Every record was read by one of them, and once."""
    places = sorted((p, offset) for one in members for _, p, offset in one.read)
    ends = committed(broker, group)
    assert places == [(p, offset) for p in sorted(ends) for offset in range(ends[p])]


def slow(*_: object) -> None:
    """Work that takes its time."""
    time.sleep(SLOW_S)
    WORKED.append(time.monotonic())


@pytest.mark.broker
@pytest.mark.parametrize("how", ["warm", thorough("plain"), "warm in kafka-python"])
def test_a_partition_is_read_while_its_new_owner_gets_ready(broker: Broker, how: str):
    """With five seconds of work the partition that moves stands still for as long, or its owner reads on to the end."""
    WORKED.clear()
    topic, group = new_name("warm"), new_name("warm")
    broker.create_topic(topic, 2)
    calls: dict[str, Any] = {"on_assigned": slow} if how == "plain" else {"warm_up": slow}
    calls |= {"kind": KafkaPythonReader} if "kafka-python" in how else {}
    with records(broker, topic), reader(settings(broker, group), topic) as first:
        until(lambda: len(first.owns()) == 2 and len(first.read) > 20)
        with reader(settings(broker, group), topic, **calls) as second:
            until(lambda: len({p for _, p, _ in second.read}) == 1 and len(second.read) > 20)
            moved = second.owns()
            still = stood_still([first, second], moved[0])
    print(f"{how}: partition stood still for {still:.2f} s")
    last = max(moment for moment, p, _ in first.read if p == moved[0])
    assert (still > SLOW_S) if how == "plain" else (last > WORKED[0])
    check_all_read_once([first, second], broker, group)


MEMBER = """
    import sys, time
    from apportion.clients.confluent import GroupConsumer
    bootstrap, group, topic, warms = sys.argv[1:]
    config = {"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest",
              "session.timeout.ms": 6000, "heartbeat.interval.ms": 300, "auto.commit.interval.ms": 100}
    def warm_up(parts):
        print("warms", [at.partition for at in parts], flush=True)
        time.sleep(600)
    def assigned(_, parts):
        print("has", sorted(at.partition for at in parts), flush=True)
    with GroupConsumer(config, [topic], on_assigned=assigned, **({"warm_up": warm_up} if warms == "yes" else {})) as it:
        while True:
            it.consume(20, 0.05)
"""


@contextmanager
def process(broker: Broker, group: str, topic: str, *, warms: bool) -> Iterator[subprocess.Popen[str]]:
    """A member that can be killed; one that warms up is never ready."""
    told = [broker.bootstrap, group, topic, "yes" if warms else "no"]
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(MEMBER), *told], stdout=subprocess.PIPE, text=True
    ) as one:
        try:
            yield one
        finally:
            one.kill()


def line(one: subprocess.Popen[str]) -> str:
    """What it says next."""
    assert one.stdout is not None
    return one.stdout.readline().strip()


@pytest.mark.broker
def test_a_newcomer_that_dies_while_it_gets_ready_is_missed_by_nobody(broker: Broker):
    """The owner reads both partitions before, meanwhile, and after the group has noticed."""
    topic, group = new_name("newcomer"), new_name("newcomer")
    broker.create_topic(topic, 2)
    let_go: list[Any] = []
    config = settings(broker, group)
    with records(broker, topic), reader(config, topic, on_revoked=lambda *parts: let_go.append(parts)) as first:
        until(lambda: len(first.owns()) == 2 and len(first.read) > 20)
        with process(broker, group, topic, warms=True) as newcomer:
            assert line(newcomer).startswith("warms [")
            coordinator = first.consumer._member._coordinator
            generation = coordinator._generation.generation_id
            newcomer.kill()
        until(lambda: coordinator._generation.generation_id > generation)
        count = len(first.read)
        until(lambda: {p for _, p, _ in first.read[count:]} == {0, 1})
        assert not let_go
    check_all_read_once([first], broker, group)


@pytest.mark.broker
def test_an_owner_that_dies_while_the_newcomer_gets_ready_leaves_it_all(broker: Broker):
    """Once the session is over nobody holds anything: the newcomer gets both partitions, though it is not ready."""
    topic, group = new_name("owner"), new_name("owner")
    broker.create_topic(topic, 2)
    warmed, ready = threading.Event(), threading.Event()

    def work(_: list[TopicPartition]) -> None:
        warmed.set()
        ready.wait(240)

    with records(broker, topic), process(broker, group, topic, warms=False) as owner:
        assert line(owner) == "has [0, 1]"
        with reader(settings(broker, group), topic, warm_up=work) as second:
            assert warmed.wait(120)
            owner.kill()
            until(lambda: len(second.owns()) == 2 and len({p for _, p, _ in second.read}) == 2)
            ready.set()


@pytest.mark.broker
def test_after_the_deadline_a_partition_is_handed_over_though_the_work_is_not_done(
    broker: Broker, caplog: pytest.LogCaptureFixture
):
    """The log names what comes cold; ``on_assigned`` is called for it all the same."""
    topic, group = new_name("late"), new_name("late")
    broker.create_topic(topic, 2)
    ready, came = threading.Event(), list[int]()
    with (
        caplog.at_level(logging.WARNING, "apportion.clients"),
        records(broker, topic),
        reader(settings(broker, group), topic) as first,
    ):
        until(lambda: len(first.owns()) == 2 and len(first.read) > 20)
        began = time.monotonic()
        calls: dict[str, Any] = {
            "warm_up": lambda _: ready.wait(240),
            "warm_up_s": 2.0,
            "on_assigned": lambda _, parts: came.extend(at.partition for at in parts),
        }
        with reader(settings(broker, group), topic, **calls) as second:
            until(lambda: second.owns() and len(second.read) > 5)
            assert time.monotonic() - began > 2
            assert came == second.owns()
            ready.set()
    assert "1 partitions that are not warm after 2 s" in caplog.text
    check_all_read_once([first, second], broker, group)


@pytest.mark.broker
@pytest.mark.parametrize("leader", ["java", "ours"])
def test_beside_java_the_leader_decides(broker: Broker, tmp_path: Path, leader: str):
    """Where Java leads, partitions come as ever; where we lead, a Java member reads on until the newcomer is ready."""
    topic, group = new_name("beside"), new_name("beside")
    broker.create_topic(topic, 4)
    warmed, ready, told = threading.Event(), threading.Event(), list[str]()

    def work(parts: list[TopicPartition]) -> None:
        told.extend(str(at.partition) for at in parts)
        warmed.set()
        ready.wait(240)

    def join_java() -> Any:
        return members.java("cooperative-sticky")

    with Members(broker, group, [topic], tmp_path) as members:
        if leader == "java":
            java = join_java()
            until(lambda: sum(len(ids) for ids in owned(java).values()) == 4)
            with reader(settings(broker, group), topic, warm_up=work) as second:
                until(lambda: len(second.owns()) == 2)
            assert not told
            return
        with reader(settings(broker, group), topic) as first:
            until(lambda: len(first.owns()) == 4)
            java = join_java()
            until(lambda: sum(len(ids) for ids in owned(java).values()) == len(first.owns()) == 2)
            with reader(settings(broker, group), topic, warm_up=work) as third:
                assert warmed.wait(120)
                assert not third.owns()
                ready.set()
                until(lambda: sorted(map(str, third.owns())) == sorted(told))


@pytest.mark.broker
def test_what_was_warmed_up_and_goes_elsewhere_is_revoked(broker: Broker):
    """The next answer neither promises nor gives it: ``on_revoked`` tells that what was made ready can be dropped."""
    topic, group = new_name("drop"), new_name("drop")
    broker.create_topic(topic, 2)  # it has both; a third is to come
    warm, dropped = list[int](), list[int]()
    with closing(
        GroupConsumer(
            settings(broker, group),
            [topic],
            warm_up=lambda parts: warm.extend(at.partition for at in parts),
            on_revoked=lambda _, parts: dropped.extend(at.partition for at in parts),
        )
    ) as consumer:
        told = write_sticky(((topic, (2,)),), None)
        until(lambda: consumer.poll(0.05) or consumer.assignment())
        up = consumer._warm_up
        assert up is not None
        consumer._assignor.may_join = lambda: False  # no answer but those below
        up.assigned(Assignment(((topic, (0,)),), told))
        until(lambda: consumer.poll(0.05) or warm == [2])
        up.assigned(Assignment(((topic, (0,)),)))
        until(lambda: consumer.poll(0.05) or dropped)
        assert dropped == [2]


# -- without a broker --------------------------------------------------------------------------------------------------


def group_of(ready: int | None, *claimers: str) -> tuple[Any, ...]:
    """Two partitions that ``claimers`` hold, and a newcomer that says so much; the target gives it the second."""
    members = {m: {"topics": ["t"], "owned": {"t": [0, 1]}, "generation": 3} for m in claimers} | {
        "z": {"topics": ["t"]}
    }
    group = build({"topics": {"t": 2}, "members": members})
    data = None if ready is None else b"\0\0\0\x03" + write_sticky((), None) + write_facts({FACT: ready})
    sent = [write_subscription(Subscription(("t",), data if m == "z" else None)) for m in group.members]
    joined = JoinedGroup(list(group.members), [None] * group.M, sent)
    z = list(group.members).index("z")
    return group, np.array([0, z]), np.array([False, True]), joined, np.arange(group.M)


def test_a_partition_stays_until_its_new_owner_is_ready_for_just_that():
    told = write_sticky((("t", (1,)),), None)
    for ready, claimers, stays, tells in (
        (0, "a", True, True),
        (checksum(told), "a", False, True),
        (checksum(told) + 1, "a", True, True),
        (AT_ONCE, "a", False, True),
        (None, "a", False, False),
        (0, "ab", False, True),  # both read it: one of them must let go
    ):
        kept, words = stays_until_warm(*group_of(ready, *claimers))
        assert kept.tolist() == [False, stays], (ready, claimers)
        assert list(words.values()) == ([told] if tells else []), (ready, claimers)


@pytest.mark.parametrize("name", ["cooperative-sticky", "cooperative-lag-aware", "cooperative-failover"])
def test_every_cooperative_memory_is_read_the_same_with_readiness_behind_it(name: str):
    traits = traits_of(find(name))
    assert Bridge(name, Options()).can_warm_up
    for holding in (Holding(), Holding((("t", (0, 1)),), 4, keeps=True), Holding((("t", (0, 1)),), 4)):
        plain = traits.codec.user_data(holding)
        more = with_facts(traits.codec, plain, {FACT: 7}, {FACT: WARM_UP})
        owned = holding.owned if holding.keeps else ()
        read = [traits.codec.read(Subscription(("t",), data, owned, holding.generation)) for data in (plain, more)]
        assert read[0] == read[1]


def test_strategies_without_a_place_for_it_are_refused():
    assert Bridge("cooperative-sticky", Options()).can_warm_up
    for strategy in ("sticky", "range", "sticky-stream-join"):
        with pytest.raises(BadInput, match="a cooperative strategy"):
            GroupConsumer({"bootstrap.servers": "x:1", "group.id": "g"}, ["t"], strategy, warm_up=slow)
    with pytest.raises(BadInput, match="warm_up_s"):
        GroupConsumer({"bootstrap.servers": "x:1", "group.id": "g"}, ["t"], warm_up=slow, warm_up_s=0)


def looks(up: WarmUp, until_: Callable[[tuple[bool, Any]], bool]) -> tuple[bool, Any]:
    """Look until it is so."""
    seen = up.look()
    end = time.monotonic() + 10
    while not until_(seen):
        assert time.monotonic() < end
        time.sleep(0.005)
        seen = up.look()
    return seen


def test_work_that_fails_counts_as_ready_and_more_that_is_to_come_is_worked_on_alone(caplog: pytest.LogCaptureFixture):
    calls: list[list[tuple[str, int]]] = []

    def work(places: list[tuple[str, int]]) -> None:
        calls.append(places)
        raise ValueError("no such cache")

    up = WarmUp(work, 60)
    told = [write_sticky((("t", ids),), None) for ids in ((1,), (1, 2))]
    up.assigned(Assignment((), told[0]))
    looks(up, lambda seen: seen[0])
    assert up.fact() == checksum(told[0])
    assert up.look() == (False, {("t", 1)})  # ready once
    up.assigned(Assignment((), told[1]))
    assert up.fact() == 0
    looks(up, lambda seen: seen[0])
    assert calls == [[("t", 1)], [("t", 2)]]
    assert "no such cache" in caplog.text
    up.assigned(Assignment((("t", (1,)),)))  # 2 goes elsewhere
    assert up.look() == (False, {("t", 1)})
    assert up.fact() == 0
    up.assigned(Assignment((), told[0]))  # lost again, and to come again: it is cold now
    looks(up, lambda seen: seen[0])
    assert calls[-1] == [("t", 1)]
    assert up.look()[0], "until a join has said so: one that is under way does not, and ends what was asked for"
    assert up.fact() == checksum(told[0])
    assert up.look() == (False, {("t", 1)})
