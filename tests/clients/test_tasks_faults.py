"""What befalls tasks with state on a real broker: state that is not their own, brokers away, members taken over."""

from __future__ import annotations

import itertools
import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import FencedInstanceIdError, KafkaError, MessageSizeTooLargeError

from apportion.clients.tasks import TaskRunner
from apportion.errors import BadInput, Unavailable
from apportion.tasks.topology import Subtopology, Task, Topology
from apportion.testing.broker import Broker, BrokerCluster

from .groups import new_name
from .test_tasks_live import QUICK, App, app

pytestmark = pytest.mark.broker
__all__ = ["app"]


def counts(runner: TaskRunner, patience_s: float, finished: Callable[[], bool]) -> None:
    """A loop that counts values, until it is finished."""
    end = time.monotonic() + patience_s
    while not finished():
        assert time.monotonic() < end, (runner.active, runner.restoring)
        for task, records in runner.poll(50).items():
            state = runner.state(task)
            for record in records:
                state.put(record.value, b"%d" % (int(state.get(record.value) or 0) + 1))
        runner.commit()


def test_sub_topologies_in_another_order_on_one_folder_have_the_state_of_their_own_changelogs(
    broker: Broker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Task 0_0 was about apples and is about birds now: its file is another's, and says so."""
    parts, name = [], new_name("app")
    for kind in ("apple", "bird"):
        topic, changelog = new_name(kind), new_name(f"{kind}-changelog")
        broker.create_topic(topic, 1)
        broker.create_topic(changelog, 1, cleanup_policy="compact")
        parts.append(Subtopology((topic,), changelog))

    def life(topology: Topology, values: int) -> dict[str, dict[bytes, bytes]]:
        with KafkaProducer(bootstrap_servers=broker.bootstrap) as producer:
            for part in parts:
                for _ in range(values):
                    producer.send(part.topics[0], part.topics[0][:4].encode())
        with TaskRunner(
            topology, application=name, bootstrap_servers=broker.bootstrap, state_dir=tmp_path, consumer=QUICK
        ) as runner:
            given = [TopicPartition(part.topics[0], 0) for part in parts]
            ends = runner._consumer.end_offsets(given)
            counts(runner, 60, lambda: all(runner._consumer.committed(pair) == ends[pair] for pair in given))
            return {
                topology.subtopologies[task.subtopology].topics[0][:4]: dict(runner.state(task).store.items())  # type: ignore[attr-defined]
                for task in runner.active
            }

    assert life(Topology.of(*parts), 5) == {"appl": {b"appl": b"5"}, "bird": {b"bird": b"5"}}
    assert "starts again from the beginning" not in caplog.text
    assert life(Topology.of(*reversed(parts)), 1) == {"appl": {b"appl": b"6"}, "bird": {b"bird": b"6"}}
    assert (
        "the state of task 0_0 starts again from the beginning: it is of the changelog 'apple-changelog" in caplog.text
    )
    assert f"the state folder {tmp_path} was last used for" in caplog.text


@pytest.mark.parametrize("why", ["forgotten", "made anew", "earlier version"])
def test_a_store_that_cannot_be_built_upon_begins_anew_and_says_why(
    app: Callable[..., App], caplog: pytest.LogCaptureFixture, why: str
) -> None:
    """Its changelog forgot deletions since, is another topic of the name, or is not known to be the store's."""
    one = app(partitions=1)
    if why == "forgotten":
        one.changelog = new_name("forgets")
        one.broker.create_topic(one.changelog, 1, cleanup_policy="compact", delete_retention_ms="100")
    one.start("a")
    one.write(20)
    one.until("20 are stored", lambda: len(one.stored()) == 20)
    one.stop("a")
    path = one.folder / "a" / "0_0.store"
    if why == "forgotten":  # another process has the task meanwhile
        one.start("b")
        one.write(1)
        one.until("one more", lambda: one.stored().get("0") == "20")
        one.stop("b")
        expected, restored = "delete.retention.ms", 21
    elif why == "made anew":
        one.broker.delete_topic(one.changelog)
        end = time.monotonic() + 30
        while True:
            try:
                one.broker.create_topic(one.changelog, 1, cleanup_policy="compact")
                break
            except KafkaError:  # the old one is still being deleted
                assert time.monotonic() < end
        with KafkaProducer(bootstrap_servers=one.broker.bootstrap) as producer:
            for n in range(25):  # longer than the old one: offsets alone would not tell
                producer.send(one.changelog, key=b"new-%d" % n, value=b"1")
        expected, restored = "was deleted and created again since", 25
    else:
        with sqlite3.connect(path) as db:
            for column in ("name", "topic_id", "whole_ms"):
                db.execute(f"ALTER TABLE changelog DROP COLUMN {column}")
        db.close()
        expected, restored = "it is of the changelog ''", 20
    again = one.start("a")
    one.until("a runs again", lambda: len(again.active) == 1)
    assert again.restored == restored
    assert (
        f"the state of task 0_0 starts again from the beginning: {'it' if why != 'made anew' else 'the changelog'}"
        in caplog.text
    )
    assert expected in caplog.text
    assert all(key.startswith("new-") for key in one.stored()) == (why == "made anew")


def test_a_store_that_missed_nothing_is_built_upon_however_old_it_is(app: Callable[..., App]) -> None:
    """Nothing was written since: there is no deletion that it could have missed."""
    one = app(partitions=1)
    one.changelog = new_name("forgets")
    one.broker.create_topic(one.changelog, 1, cleanup_policy="compact", delete_retention_ms="1")
    one.start("a")
    one.write(20)
    one.until("20 are stored", lambda: len(one.stored()) == 20)
    one.stop("a")
    again = one.start("a")
    one.until("a runs again", lambda: len(again.active) == 1)
    assert (again.restored, len(one.stored())) == (0, 20)


def test_a_value_too_large_stops_its_own_task_and_the_commit_is_tried_again_with_success(
    app: Callable[..., App], caplog: pytest.LogCaptureFixture
) -> None:
    """What came to stand in the changelog before the refusal is the task's own: no "somebody else"."""
    one = app(partitions=3)
    a = one.start("a")
    one.until("all run", lambda: len(a.active) == 3)
    one.write(60)
    given = 0
    while given < 60:
        for task, records in a.poll(100).items():
            given += len(records)
            for record in records:
                a.state(task).put(record.value, b"1")
    ill = a.state(Task(0, 1))
    ill.put(b"large", bytes(2_000_000))
    with pytest.raises(MessageSizeTooLargeError):
        a.commit()
    at = [a._consumer.committed(TopicPartition(one.source, p)) for p in range(3)]
    assert at == [20, None, 20], "the others are committed"
    assert ill.get(b"1") == b"1"
    ill.put(b"large", b"small")
    a.commit()
    assert [a._consumer.committed(TopicPartition(one.source, p)) for p in range(3)] == [20, 20, 20]
    assert one.stored()["large"] == "small"
    assert len(one.stored()) == 61
    assert "what task 0_1 changed is not written" in caplog.text
    assert "somebody else" not in caplog.text


@pytest.mark.parametrize("first", ["poll", "commit"])
def test_a_runner_whose_instance_id_was_taken_over_while_idle_ends(app: Callable[..., App], first: str) -> None:
    """The client stops its heartbeats and tells nobody: the older one read on for ever, committing nothing."""
    one = app(partitions=2)
    old = one.start("old", group_instance_id="i1")
    one.until("it runs", lambda: len(old.active) == 2)
    new = one.start("new", group_instance_id="i1")
    del one.runners["old"]  # polled below

    def on() -> None:
        end = time.monotonic() + 60
        while time.monotonic() < end:
            getattr(old, first)()
            new.poll(20)

    with pytest.raises(FencedInstanceIdError, match=r"another member of group .* has group_instance_id 'i1' now"):
        on()
    for call in (old.commit, old.poll, old.commit):
        with pytest.raises(FencedInstanceIdError):
            call()
    old.close()
    one.write(10)
    one.until("the new one has all", lambda: len(one.stored()) == 10)


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once"])
def test_a_runner_that_hears_at_a_commit_that_it_was_taken_over_ends(app: Callable[..., App], guarantee: str) -> None:
    """Before any heartbeat says so: the next poll went on, and its records were given by two members."""
    one = app(partitions=2)
    # No heartbeat is to come before the commit; nobody waits for this session.
    seldom: dict[str, Any] = {"heartbeat_interval_ms": 100_000, "session_timeout_ms": 300_000}
    old = one.start("old", group_instance_id="i1", guarantee=guarantee, **seldom)
    one.until("it runs", lambda: len(old.active) == 2)
    one.write(10)
    del one.runners["old"]  # polled here
    while not (given := old.poll(100)):
        pass
    for task, records in given.items():
        old.state(task).put(records[0].value, b"old")
    new = one.start("new", group_instance_id="i1", guarantee=guarantee)
    end = time.monotonic() + 120
    while len(new.active) < 2:  # it commits nothing yet, which would tell the old one in another way
        assert time.monotonic() < end
        for task, records in new.poll(20).items():
            for record in records:
                new.state(task).put(record.value, b"new")
    for call in (old.commit, old.poll, old.commit):
        with pytest.raises(FencedInstanceIdError, match=r"another member of group .* has group_instance_id 'i1' now"):
            call()
    old.close()
    one.until("the new one has all", lambda: len(one.stored()) == 10 and "old" not in one.stored().values())


def test_no_records_are_given_that_cannot_be_committed(
    app: Callable[..., App], monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a member does not hear from its group its commits wait: what it was given would pile up."""
    one = app(partitions=1)
    a = one.start("a")
    one.until("a runs", lambda: len(a.active) == 1)
    monkeypatch.setattr(a._consumer._coordinator.heartbeat, "session_timeout_expired", lambda: True)
    one.write(50)
    for _ in range(20):
        assert a.poll(100) == {}
    monkeypatch.undo()
    one.until("all are stored", lambda: len(one.stored()) == 50)


def test_records_that_retention_took_are_a_warning_with_their_number(
    app: Callable[..., App], caplog: pytest.LogCaptureFixture
) -> None:
    one = app(partitions=1)
    one.start("a")
    one.write(10)
    one.until("ten are stored", lambda: len(one.stored()) == 10)
    one.stop("a")
    one.write(30)
    with one.broker.admin() as admin:
        admin.delete_records({TopicPartition(one.source, 0): 25})
    one.start("a")
    one.until("the rest is stored", lambda: one.stored().get("29") == "39")
    assert (
        f"15 records of {one.source}, partition 0, were deleted before they were read (offsets 10 to 24)" in caplog.text
    )


def test_a_fork_of_a_running_runner_is_refused_and_harms_nothing(app: Callable[..., App]) -> None:
    one = app(partitions=1)
    a = one.start("a")
    one.write(10)
    one.until("ten are stored", lambda: len(one.stored()) == 10)
    child = os.fork()
    if not child:
        code = 1
        try:
            for call in (a.poll, a.commit):
                try:
                    call()
                except Unavailable as refused:
                    code = 0 if "fork of it" in str(refused) else 2
            a.close()
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    one.write(20)
    one.until("the parent goes on", lambda: one.stored().get("19") == "29")


def test_two_applications_of_one_process_need_a_folder_each(app: Callable[..., App], tmp_path: Path) -> None:
    """A task's number means other work in each: they would wait for each other's files for ever."""
    one = app(partitions=1)
    a = one.start("a")
    settings: dict[str, Any] = {"bootstrap_servers": one.broker.bootstrap, "consumer": QUICK}
    with pytest.raises(BadInput, match="in use by this process"):
        TaskRunner(a.topology, application=new_name("other"), state_dir=one.folder / "a", **settings)
    with TaskRunner(a.topology, application=new_name("other"), state_dir=tmp_path / "own", **settings) as other:
        one.until("one runs", lambda: len(a.active) == 1)
        counts(other, 60, lambda: len(other.active) == 1)


@pytest.fixture(scope="module")
def two_brokers(jars: str) -> Iterator[BrokerCluster]:
    """The second may be killed; what is not a test's own topic has a replica on both."""
    both = {"offsets.topic.replication.factor": "2", "offsets.topic.num.partitions": "6"}
    with BrokerCluster(["a", "b"], properties=both) as cluster:
        yield cluster


def led_by_second(cluster: BrokerCluster, topic: str) -> set[int]:
    """Partitions of a topic whose leader is the second broker."""
    with cluster.admin() as admin:
        [described] = admin.describe_topics([topic])
    return {part["partition_index"] for part in described["partitions"] if part["leader_id"] == 2}


def coordinated_by_second(cluster: BrokerCluster) -> str:
    """A group id whose coordinator is the second broker: of the partition of its commits that its hash names."""
    with KafkaConsumer(bootstrap_servers=cluster.bootstrap.split(","), group_id="any") as first:
        first.committed(TopicPartition("any", 0))  # the topic of the commits is made at the first use
    of_second, names = led_by_second(cluster, "__consumer_offsets"), (new_name("app") for _ in itertools.count())
    return next(name for name in names if partition_of_commits(name, 6) in of_second)


def partition_of_commits(group: str, partitions: int) -> int:
    """Kafka's ``Utils.abs(groupId.hashCode) % partitions``."""
    code = 0
    for letter in group:
        code = (31 * code + ord(letter)) & 0xFFFFFFFF
    return (code & 0x7FFFFFFF if code < 1 << 31 else -(code - (1 << 32))) % partitions


def test_tasks_whose_broker_dies_wait_by_themselves_and_the_coordinator_moves(
    two_brokers: BrokerCluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Sources and changelogs on the broker that stays are read, committed and restored meanwhile; then all go on."""
    with ExitStack() as stack:
        one = App(two_brokers, tmp_path, 4, num_standby_replicas=1)
        stack.enter_context(one.stack)
        one.name, ill = coordinated_by_second(two_brokers), led_by_second(two_brokers, one.source)
        while led_by_second(two_brokers, one.changelog) != ill:
            one.changelog = new_name("changelog")
            two_brokers.create_topic(one.changelog, 4, cleanup_policy="compact")
        healthy = set(range(4)) - ill
        assert ill
        assert healthy
        a = one.start("a")
        one.until("all run", lambda: len(a.active) == 4)
        one.write(40)
        one.until("40 are stored", lambda: len(one.stored()) == 40)
        assert a._consumer._coordinator.coordinator_id == "coordinator-2"
        for task in a.active:  # what the second broker will not take
            a.state(task).put(b"late-%d" % task.partition, b"1")
        two_brokers.brokers[1].kill()
        caplog.clear()
        write_to(one, healthy, 40, 100)
        wanted = {str(n) for n in range(100) if n % 4 in healthy or n < 40}
        one.until("the healthy go on", lambda: wanted <= one.stored().keys())
        assert a._consumer._coordinator.coordinator_id == "coordinator-1"
        assert f"late-{min(healthy)}" in one.stored()
        one.until("the log names what waits", lambda: f"task 0_{min(ill)} waits for it" in caplog.text)
        b = one.start("b")
        one.until(
            "a newcomer copies what has a leader",
            lambda: any(task.partition in healthy and not b.lag.get(task) for task in b.standby + b.active),
        )
        two_brokers.brokers[1].start()
        write_to(one, ill, 40, 100)
        everything = {str(n) for n in range(100)} | {f"late-{p}" for p in range(4)}
        one.until("all go on", lambda: one.stored().keys() == everything)
        assert "somebody else" not in caplog.text


def write_to(app: App, partitions: set[int], first: int, behind: int) -> None:
    """Numbers to those partitions alone, each where ``App.write`` would send it."""
    with KafkaProducer(bootstrap_servers=app.broker.bootstrap.split(",")) as producer:
        for n in range(first, behind):
            if n % 4 in partitions:
                producer.send(app.source, str(n).encode(), partition=n % 4)
