"""confluent-kafka behind a thin member: hand-over in order, commits fenced by generation, nothing lost."""

from __future__ import annotations

import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from kafka.consumer.subscription_state import TopicPartitionState
from kafka.errors import CommitFailedError
from kafka.structs import TopicPartition as Part
from tests.serve.running import until
from tests.support.examples import thorough

from apportion.clients.confluent import GroupConsumer
from apportion.clients.confluent import consumer as confluent
from apportion.clients.confluent.settings import member_settings
from apportion.clients.kafka_python import assignor
from apportion.clients.lag_feed import LagFeed
from apportion.errors import BadInput
from apportion.testing.broker import Broker, BrokerCluster

from .groups import SHORT_MS, Members, new_name, owned, pairs, settle
from .judge import Life, backwards, read_again, two_owners, unread

pytestmark = pytest.mark.broker
SIZE, RECORDS = 6, 3000


@pytest.fixture
def topic(broker: Broker) -> str:
    name = new_name("fetched")
    broker.create_topic(name, SIZE)
    write(broker, name)
    return name


def write(broker: Broker, topic: str) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for n in range(RECORDS):
        producer.produce(topic, b"x", partition=n % SIZE)
    producer.flush()


@pytest.mark.parametrize("strategy", [*map(thorough, ("sticky", "range")), "cooperative-sticky"])
def test_it_shares_a_group_with_java_and_loses_nothing(broker: Broker, topic: str, strategy: str, tmp_path: Path):
    """One joins, one leaves, all in order: every record is read once, and every offset is committed."""
    with Members(broker, new_name("fetched"), [topic], tmp_path) as group:
        first = group.python("confluent", strategy, commit_ms=200)
        settle([first], {topic: SIZE}, calm_s=0.2)
        java = group.java(strategy, {"enable.auto.commit": "true", "auto.commit.interval.ms": "200"})
        second = group.python("confluent", strategy, commit_ms=200)
        settle([first, java, second], {topic: SIZE})
        before = pairs(first)
        write(broker, topic)
        ends = {(topic, p): 2 * RECORDS // SIZE for p in range(SIZE)}
        members: list[Any] = [first, java, second]

        def lives() -> list[Life]:
            coop = strategy.startswith("coop")
            return [Life(str(i), coop, m.events, None).live() for i, m in enumerate(members)]

        until(lambda: not unread(lives(), ends))
        second.leave()
        settle([first, java], {topic: SIZE})
        if strategy != "range":
            assert before <= pairs(first)
        with broker.admin() as admin:

            def said() -> dict[Any, int]:
                offsets = admin.list_group_offsets([group.group])[group.group]
                return {tuple(part): at.offset for part, at in offsets.items()}

            until(lambda: said() == ends)
        assert not read_again(lives())
        assert not list(two_owners(lives()))


def test_the_commits_of_an_expelled_member_are_refused(broker: Broker, topic: str, tmp_path: Path):
    """Frozen past its session while it reads: it wakes, its commits bounce, and no committed offset goes back."""
    with Members(broker, new_name("frozen"), [topic], tmp_path) as group:
        slow = group.python("confluent", "cooperative-sticky", commit_ms=200, session_ms=SHORT_MS)
        settle([slow], {topic: SIZE}, calm_s=0.2)
        slow.signal(signal.SIGSTOP)
        other = group.python("confluent", "cooperative-sticky", commit_ms=200)
        until(lambda: len(pairs(other)) == SIZE, 120)
        write(broker, topic)

        def lives() -> list[Life]:
            return [Life(m.name, True, m.events, None).live() for m in (slow, other)]

        until(lambda: not unread(lives(), {(topic, p): 2 * RECORDS // SIZE for p in range(SIZE)}))
        slow.signal(signal.SIGCONT)
        settle([slow, other], {topic: SIZE})
        assert slow.of("lost")
        assert not list(two_owners(lives()))
        assert not backwards(broker.bootstrap, [group.group])


def test_commit_waits_and_poll_counts_as_done_what_it_gave_out(broker: Broker, topic: str):
    """After ``commit`` a plain consumer of the group goes on at the very next record."""
    group = new_name("by-hand")
    settings = {"bootstrap.servers": broker.bootstrap, "group.id": group, "auto.offset.reset": "earliest"}
    with GroupConsumer({**settings, "enable.auto.commit": "false"}, [topic], "range") as consumer:
        seen: dict[int, int] = {}
        while sum(seen.values()) < 700:
            message = consumer.poll(1.0)
            if message is not None:
                seen[message.partition()] = seen.get(message.partition(), 0) + 1
        consumer.commit()
        assert consumer.assignment() == {topic: list(range(SIZE))}
    plain = Consumer(settings)
    plain.subscribe([topic])
    first: dict[int, int] = {}
    end = time.monotonic() + 90
    left = {p: seen.get(p, 0) for p in range(SIZE) if seen.get(p, 0) < RECORDS // SIZE}
    while len(first) < len(left) and time.monotonic() < end:
        message = plain.poll(0.5)
        if message is not None and message.error() is None:
            first.setdefault(int(message.partition() or 0), int(message.offset() or 0))
    plain.close()
    assert first == left


@pytest.mark.parametrize("strategy", ["sticky", thorough("cooperative-sticky")])
def test_what_was_fetched_ahead_of_poll_goes_to_the_new_owner(broker: Broker, topic: str, strategy: str):
    """One joins while the other polls one message at a time: what poll had in store of a lost partition is dropped."""
    settings = {"bootstrap.servers": broker.bootstrap, "group.id": new_name("ahead"), "auto.offset.reset": "earliest"}
    read: list[tuple[int, int]] = []

    def take(consumer: GroupConsumer, count: int) -> None:
        for message in [consumer.poll(0.1) for _ in range(count)]:
            if message is not None:
                read.append((message.partition(), message.offset()))

    with GroupConsumer(settings, [topic], strategy) as first:
        while len(read) < 150:
            take(first, 1)
        with GroupConsumer(settings, [topic], strategy) as second:
            end = time.monotonic() + 90
            while len(second.assignment().get(topic, ())) < SIZE // 2:
                assert time.monotonic() < end, (first, second)
                take(second, 1)
                take(first, 1)  # slowly: however long the other takes to join, there is something left to hand over
            assert len(read) < RECORDS
            end = time.monotonic() + 90
            while len(read) < RECORDS and time.monotonic() < end:
                take(first, 50)
                take(second, 50)
    assert sorted(read) == [(p, offset) for p in range(SIZE) for offset in range(RECORDS // SIZE)]


def test_settings_are_said_once_and_secrets_stay_out_of_reprs():
    told = member_settings(
        {"bootstrap.servers": "a:1,b:2", "group.id": "g", "session.timeout.ms": "6000", "security.protocol": "sasl_ssl"}
    )
    assert told == {
        "bootstrap_servers": ["a:1", "b:2"],
        "group_id": "g",
        "session_timeout_ms": 6000,
        "security_protocol": "SASL_SSL",
        "enable_auto_commit": True,
        "isolation_level": "read_committed",
    }
    loose = member_settings({"bootstrap.servers": "a:1", "isolation.level": "read_uncommitted"})
    assert loose["isolation_level"] == "read_uncommitted"
    assert member_settings({"metadata.broker.list": "a:1"})["bootstrap_servers"] == ["a:1"]
    with pytest.raises(BadInput, match=r"no 'group\.id'"):
        GroupConsumer({"bootstrap.servers": "a:1"}, ["t"])


def test_a_login_that_the_member_cannot_have_is_refused_by_its_name_alone():
    """It was left out, and the member looked for the brokers without it until its patience was over."""
    secret = {"ssl.ca.pem": "-----BEGIN", "enable.ssl.certificate.verification": "false", "ssl.key.password": "secret"}
    with pytest.raises(BadInput) as refused:
        GroupConsumer({"bootstrap.servers": "127.0.0.1:1", "group.id": "g", **secret}, ["t"])
    assert "found enable.ssl.certificate.verification, ssl.ca.pem; needed" in str(refused.value)
    assert "ssl.ca.location" in str(refused.value)
    assert "BEGIN" not in str(refused.value)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(("algorithm", "checks"), [("none", False), ("https", True)])
def test_the_member_looks_at_the_name_of_a_host_where_librdkafka_does(algorithm: str, checks: bool):
    checked = {"ssl.endpoint.identification.algorithm": algorithm, "ssl.crl.location": "revoked.pem"}
    given = member_settings({"bootstrap.servers": "a:1", **checked})
    assert given.get("ssl_check_hostname", True) is checks
    assert given["ssl_crlfile"] == "revoked.pem"


@pytest.mark.parametrize("said", ["false", "False", "f", "0", 0, False])
def test_whatever_librdkafka_takes_for_no_keeps_the_member_from_committing(said: object):
    assert member_settings({"bootstrap.servers": "a:1", "enable.auto.commit": said})["enable_auto_commit"] is False


class Subscription:
    """Which partitions a client has."""

    def __init__(self, assignment: dict[Any, Any]) -> None:
        self.assignment = assignment


class Alone:
    """A member without a group, which has one partition from the start."""

    def __init__(self, **settings: object) -> None:
        self.settings = settings
        state = TopicPartitionState()
        state.seek(7)
        self._subscription = Subscription(assignment={Part("t", 0): state})

    def subscribe(self, **_: object) -> None: ...

    def close(self) -> None: ...


@pytest.mark.parametrize(
    ("config", "argument", "told"),
    [
        ({"client.rack": "a"}, None, "a"),
        ({"client.rack": "a"}, "b", "b"),
        ({"client.rack": ""}, None, ""),
        ({}, None, ""),
    ],
)
def test_the_group_is_told_the_rack_that_librdkafka_has(
    monkeypatch: pytest.MonkeyPatch, config: dict[str, str], argument: str | None, told: str
):
    """Read from the bytes that the member sends; an argument wins over the setting, an empty setting is none."""
    monkeypatch.setattr(confluent, "KafkaConsumer", Alone)
    given = {"bootstrap.servers": "127.0.0.1:1", "group.id": "g", **config}
    with GroupConsumer(given, ["t"], "sticky", rack=argument) as it:
        (strategy,) = it._member.settings["partition_assignment_strategy"]
        assert (strategy.metadata({"t"}).rack_id or "") == told


def test_a_leader_gives_a_member_with_librdkafkas_rack_what_is_near(jars: str, tmp_path: Path):
    """Two brokers in two racks, a partition on each: with ``client.rack`` alone each member reads at home."""
    topic = new_name("near")
    with BrokerCluster(["a", "b"]) as cluster:
        cluster.create_topic(topic, 2)
        with cluster.admin() as admin:
            admin.alter_partition_reassignments({Part(topic, 0): [2], Part(topic, 1): [1]})
        with Members(cluster, new_name("near"), [topic], tmp_path) as group:
            members = [group.python("confluent", "sticky", consumer={"client.rack": rack}) for rack in "ab"]
            until(lambda: [owned(member).get(topic) for member in members] == [[1], [0]], 120)


@pytest.mark.parametrize(
    ("settings", "topics"), [({"no.such.setting": "1"}, ["t"]), ({}, ["no topic has blanks"])], ids=["setting", "topic"]
)
def test_one_that_cannot_be_made_leaves_no_client_behind(broker: Broker, settings: dict[str, str], topics: list[str]):
    before = set(threading.enumerate())
    config = {"bootstrap.servers": broker.bootstrap, "group.id": new_name("vain"), **settings}
    with pytest.raises((KafkaException, TypeError, ValueError)):
        GroupConsumer(config, topics)
    until(lambda: set(threading.enumerate()) <= before)


def test_what_the_member_lets_go_of_while_the_fetcher_is_told_is_told_the_next_time(monkeypatch: pytest.MonkeyPatch):
    """On its own thread, at any moment: what came in between was forgotten, and read on at a stale offset."""
    monkeypatch.setattr(confluent, "KafkaConsumer", Alone)
    told: list[tuple[str, list[int]]] = []

    def hear(what: str) -> Any:
        return lambda _, parts: told.append((what, [at.partition for at in parts]))

    with GroupConsumer(
        {"bootstrap.servers": "127.0.0.1:1", "group.id": "g"}, ["t"], on_revoked=hear("revoked"), on_lost=hear("lost")
    ) as it:
        fetcher = it._fetcher

        class LetsGo:
            def incremental_assign(self, partitions: Any) -> None:
                it._fetcher = fetcher
                fetcher.incremental_assign(partitions)
                it.given_up([Part("t", 0)], expelled=True)

        it._fetcher = LetsGo()  # type: ignore[assignment]
        it._follow()
        assert told == []
        it._fetched[Part("t", 0)] = 99
        it._follow()
        assert (told, it._fetched) == ([("lost", [0])], {Part("t", 0): 7})
        it._member._subscription.assignment.clear()
        it._follow()
    assert told == [("lost", [0]), ("revoked", [0])]


def test_a_commit_is_refused_while_a_loss_is_told_also_in_a_new_generation(monkeypatch: pytest.MonkeyPatch):
    """Others may have read on and committed: an offset of before would set theirs back."""
    monkeypatch.setattr(confluent, "KafkaConsumer", Alone)
    committed: list[Any] = []
    monkeypatch.setattr(Alone, "commit", lambda _, offsets: committed.append(offsets), raising=False)

    def hear(consumer: GroupConsumer, _: Any) -> None:
        with pytest.raises(CommitFailedError, match="were lost"):
            consumer.commit()

    with GroupConsumer({"bootstrap.servers": "127.0.0.1:1", "group.id": "g"}, ["t"], on_lost=hear) as it:
        it._follow()
        it.given_up([Part("t", 0)], expelled=True)
        with it._turn():
            it._follow()  # it has the partition again
        assert committed == []
        it.commit()
        assert [list(offsets) for offsets in committed] == [[Part("t", 0)]]


def test_close_waits_for_a_broker_that_does_not_answer_as_long_as_it_is_told(monkeypatch: pytest.MonkeyPatch):
    waits: list[dict[str, object]] = []
    monkeypatch.setattr(confluent, "KafkaConsumer", Alone)
    monkeypatch.setattr(Alone, "close", lambda _, **how: waits.append(how))
    for timeout in (None, 0, 3):
        consumer = GroupConsumer({"bootstrap.servers": "127.0.0.1:1", "group.id": "g"}, ["t"])
        consumer.close(timeout)
    assert waits == [{}, {"timeout_ms": 0}, {"timeout_ms": 1500}]
    with GroupConsumer({"bootstrap.servers": "127.0.0.1:1", "group.id": "g"}, ["t"]) as consumer:
        for wrong in (-1, float("nan"), float("inf")):
            with pytest.raises(BadInput, match="seconds, from 0 to"):
                consumer.close(wrong)


@pytest.mark.parametrize(
    ("config", "found", "needed"),
    [
        ({}, "no 'bootstrap.servers'", "addresses"),
        ({"bootstrap.servers": ""}, "no 'bootstrap.servers'", "addresses"),
        ({"partition.assignment.strategy": "range"}, "'range', which is not followed", "third argument"),
        ({"group.remote.assignor": "uniform"}, "'uniform', which is not followed", "third argument"),
        ({"enable.auto.offset.store": False}, "False, which is not followed", "enable.auto.commit=false"),
        ({"on_commit": print}, "which is not followed", "commit()"),
        ({"session.timeout.ms": "6 s"}, "config['session.timeout.ms']: found '6 s'", "a number of milliseconds"),
        ({"enable.auto.commit": "maybe"}, "config['enable.auto.commit']: found 'maybe'", "true or false"),
    ],
)
def test_a_setting_that_would_not_be_followed_or_means_nothing_is_refused_at_once_with_what_to_write_instead(
    config: dict[str, Any], found: str, needed: str
) -> None:
    before, began = set(threading.enumerate()), time.monotonic()
    settings = config if "servers" in found else {"bootstrap.servers": "127.0.0.1:1", **config}
    with pytest.raises(BadInput) as refused:
        GroupConsumer({"group.id": "g", **settings}, ["t"])
    assert found in str(refused.value)
    assert needed in str(refused.value)
    assert time.monotonic() - began < 10, "it looked for brokers"
    assert set(threading.enumerate()) <= before


@pytest.mark.parametrize("option", ["lag", "on_plan", "acting", "facts"])
def test_an_option_of_another_kind_is_refused_where_the_assignor_is_made(option: str) -> None:
    wrong: dict[str, Any] = {option: "x"}
    with pytest.raises(BadInput, match=rf"{option}: found 'x'; needed an? "):
        assignor("lag-aware", **wrong)


def test_a_topic_in_place_of_topics_is_refused():
    """Its letters would be subscribed to, and nothing ever read."""
    for make in (
        lambda: GroupConsumer({"group.id": "g"}, "clicks"),
        lambda: LagFeed("g", _no_offsets, topics="clicks"),
    ):
        with pytest.raises(BadInput, match=r"topics: found 'clicks'; needed a list of names, \['clicks'\]"):
            make()


def _no_offsets(group: str, topics: Any, deadline_s: float) -> Any:
    raise AssertionError("nothing is asked")
