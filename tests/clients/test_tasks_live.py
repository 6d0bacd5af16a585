"""Tasks with state on a real broker: restored, kept warm, moved when warm, fenced from writers that were replaced."""

from __future__ import annotations

import logging
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaError, KafkaTimeoutError, RebalanceInProgressError
from tests.serve.running import until

from apportion.clients import leave
from apportion.clients.runtime.restore import EPOCH, Restorer
from apportion.clients.runtime.state_dir import StateFolder
from apportion.clients.runtime.stores import SqliteStore
from apportion.clients.tasks import TaskRunner
from apportion.errors import Unavailable
from apportion.tasks.settings import TaskSettings
from apportion.tasks.topology import Subtopology, Task, Topology
from apportion.testing.broker import Broker, BrokerCluster
from apportion.wire.task_data import TaskAssignment

from .groups import new_name

pytestmark = pytest.mark.broker

# Members leave when they are closed, so that nobody waits for this session.
QUICK = {"session_timeout_ms": 20_000, "heartbeat_interval_ms": 300}
"""They hear of a rebalance soon, and are not expelled where the machine is busy for some seconds."""


class App:
    """An application with one stateful sub-topology; its runners are polled from one thread."""

    def __init__(self, broker: Broker | BrokerCluster, folder: Path, partitions: int, **settings: Any) -> None:
        self.broker, self.folder = broker, folder
        self.source, self.changelog, self.name = new_name("source"), new_name("changelog"), new_name("app")
        broker.create_topic(self.source, partitions)
        broker.create_topic(self.changelog, partitions, cleanup_policy="compact")
        self.settings = TaskSettings(**settings)
        self.stack, self.runners = ExitStack(), dict[str, TaskRunner]()
        self.heard: list[tuple[str, str, str]] = []

    def start(self, name: str, process: str | None = None, **consumer: Any) -> TaskRunner:
        def hear(what: str) -> Callable[[Task], None]:
            return lambda task: self.heard.append((name, what, str(task)))

        runner = TaskRunner(
            Topology.of(Subtopology((self.source,), self.changelog)),
            application=self.name,
            bootstrap_servers=self.broker.bootstrap,
            state_dir=self.folder / (process or name),
            settings=self.settings,
            on_active=hear("active"),
            on_standby=hear("standby"),
            on_close=hear("close"),
            guarantee=consumer.pop("guarantee", "at_least_once"),
            consumer=QUICK | consumer,
        )
        self.runners[name] = runner
        self.stack.callback(self.stop, name)
        return runner

    def stop(self, name: str) -> None:
        if name in self.runners:
            self.runners.pop(name).close()

    def write(self, values: int) -> None:
        producer = KafkaProducer(bootstrap_servers=self.broker.bootstrap.split(","))
        partitions = sorted(producer.partitions_for(self.source))
        for n in range(values):
            producer.send(self.source, str(n).encode(), partition=partitions[n % len(partitions)])
        producer.close()

    def turn(self) -> None:
        """Every runner polls once, stores each value as a key and commits."""
        for runner in list(self.runners.values()):
            for task, records in runner.poll(20).items():
                for record in records:
                    runner.state(task).put(record.value, str(record.offset).encode())
            runner.commit()

    def until(self, what: str, true: Callable[[], bool], patience_s: float = 240) -> None:
        end = time.monotonic() + patience_s
        while not true():
            assert time.monotonic() < end, f"{what}: {self.shape()} {self.heard}"
            self.turn()

    def shape(self) -> dict[str, tuple[list[str], list[str]]]:
        """Runner to the tasks that run and those that are warm there."""
        return {n: (list(map(str, r.active)), list(map(str, r.standby))) for n, r in self.runners.items()}

    def stored(self) -> dict[str, str]:
        """Everything in the stores of running tasks."""
        found = {}
        for runner in self.runners.values():
            for task in runner.active:
                store = runner.state(task).store
                assert isinstance(store, SqliteStore)
                found |= {key.decode(): value.decode() for key, value in store.items()}
        return found


@pytest.fixture
def app(broker: Broker, tmp_path: Path) -> Iterator[Callable[..., App]]:
    with ExitStack() as stack:

        def make(partitions: int = 4, **settings: int) -> App:
            made = App(broker, tmp_path, partitions, **settings)
            stack.enter_context(made.stack)
            return made

        yield make


def test_a_newcomer_warms_up_first_and_gets_whole_tasks_when_it_has_caught_up(app: Callable[..., App]) -> None:
    """One process runs all; a second one joins: nothing moves until its copies are there, and nothing is read twice."""
    one = app(acceptable_recovery_lag=10, max_warmup_replicas=2)
    one.start("a")
    one.until("a runs all", lambda: len(one.runners["a"].active) == 4)
    one.write(400)
    one.until("all is stored", lambda: len(one.stored()) == 400)
    b = one.start("b")
    one.until("b runs half", lambda: sorted(len(r.active) for r in one.runners.values()) == [2, 2])
    assert b.restored == 0, "no task waited for state that was not warm"
    assert b.warmed == 200
    assert one.stored().keys() == set(map(str, range(400)))
    events = [(what, task) for who, what, task in one.heard if who == "b"]
    for task in map(str, b.active):
        assert events.index(("standby", task)) < events.index(("active", task))


def test_a_restart_on_its_folder_restores_the_tail_alone_and_a_lost_folder_everything(app: Callable[..., App]) -> None:
    one = app(partitions=2)
    one.start("a")
    one.write(200)
    one.until("200 are stored", lambda: len(one.stored()) == 200)
    one.stop("a")
    again = one.start("a")
    one.until("a runs again", lambda: len(again.active) == 2)
    assert again.restored == 0
    assert len(one.stored()) == 200
    one.stop("a")
    for file in (one.folder / "a").glob("*.store*"):
        file.unlink()
    empty = one.start("a")
    one.until("a runs again", lambda: len(empty.active) == 2)
    assert empty.restored == 200
    assert len(one.stored()) == 200


def test_a_store_that_cannot_be_read_is_restored_from_the_changelog(app: Callable[..., App]) -> None:
    one = app(partitions=1)
    one.start("a")
    one.write(50)
    one.until("50 are stored", lambda: len(one.stored()) == 50)
    one.stop("a")
    (one.folder / "a" / "0_0.store").write_bytes(b"this is no database" * 100)
    again = one.start("a")
    one.until("a runs again", lambda: len(again.active) == 1)
    assert again.restored == 50
    assert len(one.stored()) == 50


def test_what_a_replaced_writer_sends_after_its_successor_began_is_not_restored(app: Callable[..., App]) -> None:
    """The first owner's late record carries epoch 1; the second owner wrote with a higher one."""
    one = app(partitions=1)
    for turn in "01":
        one.start("a")
        one.write(1)
        one.until("its write is stored", lambda turn=turn: one.stored() == {"0": turn})  # type: ignore[misc]
        one.stop("a")
    late = KafkaProducer(bootstrap_servers=one.broker.bootstrap)
    late.send(one.changelog, b"stale", key=b"0", partition=0, headers=[(EPOCH, b"1")])
    late.send(one.changelog, b"nonsense", key=b"other", partition=0, headers=[(EPOCH, b"\xff" * 9)])
    late.close()
    for file in (one.folder / "a").glob("*.store*"):
        file.unlink()
    again = one.start("a")
    one.until("a runs again", lambda: len(again.active) == 1)
    assert one.stored() == {"0": "1"}
    assert again.restored == 4


def test_when_a_process_leaves_its_standby_takes_over_without_a_restore(app: Callable[..., App]) -> None:
    one = app(num_standby_replicas=1)
    one.start("a")
    one.start("b")
    one.until("two each, two warm", lambda: [(len(a), len(s)) for a, s in one.shape().values()] == [(2, 2), (2, 2)])
    one.write(400)
    one.until("all is stored", lambda: len(one.stored()) == 400)
    b = one.runners["b"]
    one.until("b's copies are whole", lambda: sum(b.lag[task] for task in b.standby) == 0)
    one.stop("a")
    one.until("b runs all", lambda: len(b.active) == 4)
    assert b.restored == 0
    assert len(one.stored()) == 400


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once"])
def test_a_process_that_leaves_runs_its_tasks_until_others_have_their_state(
    app: Callable[..., App], caplog: pytest.LogCaptureFixture, guarantee: str
) -> None:
    one = app(acceptable_recovery_lag=10)
    first = one.start("a", guarantee=guarantee)
    one.write(400)
    one.until("all is read", lambda: len(one.stored()) == 400)
    second = one.start("b", guarantee=guarantee)
    one.until("both run two", lambda: len(first.active) == len(second.active) == 2)
    restored = second.restored
    with caplog.at_level(logging.INFO, "apportion.clients"):
        one.until("a holds nothing", lambda: leave(first, 60))
    assert not first.active
    one.stop("a")
    one.until("b runs all", lambda: len(second.active) == 4)
    assert second.restored == restored, "their state was there"
    assert "without a hand-over" not in caplog.text
    one.write(800)
    one.until("all is read", lambda: len(one.stored()) == 800)


def test_two_sources_of_one_number_move_as_one(broker: Broker, app: Callable[..., App]) -> None:
    """While three processes come and go no two ever run one task, and a task has both partitions or none."""
    clicks, views, changelog, name = (new_name(stem) for stem in ("clicks", "views", "changelog", "app"))
    one = app()
    for topic in (clicks, views, changelog):
        broker.create_topic(topic, 6)

    def start(who: str) -> None:
        topology = Topology.of(Subtopology((clicks, views), changelog))
        one.runners[who] = TaskRunner(
            topology, application=name, bootstrap_servers=broker.bootstrap, state_dir=one.folder / who, consumer=QUICK
        )
        one.stack.callback(one.stop, who)

    def whole() -> bool:
        running = [task for runner in one.runners.values() for task in runner.active]
        assert len(running) == len(set(running)), one.shape()
        for runner in one.runners.values():
            held = {(pair.topic, pair.partition) for pair in runner._consumer.assignment()}
            for number in range(6):
                assert ((clicks, number) in held) == ((views, number) in held), "whole or not at all"
        return len(running) == 6

    for who in "abc":
        start(who)
        one.until("all run", whole)
    one.until("two each", lambda: whole() and [len(a) for a, _ in one.shape().values()] == [2, 2, 2])
    one.stop("b")
    one.until("all run", whole)


def test_bytes_that_are_no_memory_leave_the_group_running(
    app: Callable[..., App], caplog: pytest.LogCaptureFixture
) -> None:
    one = app(partitions=2)
    a = one.start("a")
    one.until("a runs all", lambda: len(a.active) == 2)
    b = one.start("b")
    subscription = b.bridge.subscription

    def lie(*args: object, **kwargs: object) -> object:
        from dataclasses import replace

        return replace(subscription(*args, **kwargs), user_data=b"\x00\x01\x7f\xff nonsense")  # type: ignore[arg-type]

    b.bridge.subscription = lie  # type: ignore[method-assign, assignment]
    with caplog.at_level(logging.WARNING):
        one.until(
            "the group settles", lambda: len(a.active) + len(b.active) == 2 and "remembers no tasks" in caplog.text
        )


def test_a_missing_changelog_is_refused_with_what_to_do(broker: Broker, tmp_path: Path) -> None:
    source = new_name("source")
    broker.create_topic(source, 1)
    with pytest.raises(Unavailable, match=r"changelog 'nowhere' needs 1 partitions; create it"):
        TaskRunner(
            Topology.of(Subtopology((source,), "nowhere")),
            application=new_name("app"),
            bootstrap_servers=broker.bootstrap,
            state_dir=tmp_path,
        )


@pytest.mark.parametrize(
    ("changelog", "consumer"), [("nowhere", {}), (None, {"no_such_setting": 1})], ids=["changelog", "setting"]
)
def test_a_runner_that_cannot_be_made_leaves_nothing_behind(
    broker: Broker, tmp_path: Path, changelog: str | None, consumer: dict[str, Any]
) -> None:
    """No client's thread, and a folder that another process may have, but for a runner of ours that has it too."""
    source = new_name("source")
    broker.create_topic(source, 1)
    before, ours = set(threading.enumerate()), StateFolder.of(tmp_path)
    for _ in range(2):
        with pytest.raises((Unavailable, AssertionError, KafkaError)):
            TaskRunner(
                Topology.of(Subtopology((source,), changelog)),
                application=new_name("app"),
                bootstrap_servers=broker.bootstrap,
                state_dir=tmp_path,
                consumer=consumer,
            )
    until(lambda: set(threading.enumerate()) <= before)
    take = f"from apportion.clients.runtime.state_dir import StateFolder; StateFolder.of({str(tmp_path)!r}).close()"
    assert subprocess.run([sys.executable, "-c", take], check=False, capture_output=True).returncode == 1
    ours.close()
    subprocess.run([sys.executable, "-c", take], check=True)


def test_two_consumers_of_one_process_share_its_folder_and_hand_tasks_over(
    broker: Broker, app: Callable[..., App]
) -> None:
    """The second thread's tasks come with their state: nothing is restored, no file is open twice."""
    one = app(num_standby_replicas=1)
    first = one.start("a")
    one.write(400)
    one.until("all is stored", lambda: len(one.stored()) == 400)
    second = TaskRunner(
        first.topology,
        application=one.name,
        bootstrap_servers=broker.bootstrap,
        state_dir=one.folder / "a",
        settings=one.settings,
        consumer=QUICK,
    )
    one.runners["a2"] = second
    one.stack.callback(one.stop, "a2")
    one.until("two each", lambda: [len(active) for active, _ in one.shape().values()] == [2, 2])
    assert second.process == first.process
    assert second.restored == 0
    assert one.stored().keys() == set(map(str, range(400)))
    one.stop("a")
    one.until("the second runs all", lambda: len(second.active) == 4)
    assert second.restored == 0
    assert len(one.stored()) == 400


def test_a_process_that_joins_takes_its_share_though_every_thread_had_at_most_one_task(
    app: Callable[..., App],
) -> None:
    """Three threads of one process run three tasks; the newcomer's threads get theirs once they are warm."""
    one = app(partitions=4, acceptable_recovery_lag=2)
    for n in range(4):
        one.start(f"a{n}", process="a")
    one.until("a thread each", lambda: [len(runner.active) for runner in one.runners.values()] == [1] * 4)
    one.write(40)
    one.until("40 are stored", lambda: len(one.stored()) == 40)
    one.heard.clear()
    for n in range(4):
        one.start(f"b{n}", process="b")

    def share(process: str) -> int:
        return sum(len(runner.active) for name, runner in one.runners.items() if name.startswith(process))

    one.until("two tasks for each process", lambda: share("a") == share("b") == 2)
    warmed = [task for name, what, task in one.heard if name.startswith("b") and what == "standby"]
    assert {task for name, what, task in one.heard if name.startswith("b") and what == "active"} <= set(warmed)
    one.write(40)
    one.until("all goes on", lambda: set(one.stored().values()) >= {"19"})


def test_a_folder_that_another_process_has_is_refused(tmp_path: Path) -> None:
    with (tmp_path / "lock").open("a") as lock:
        command = "import fcntl, sys; fcntl.flock(0, fcntl.LOCK_EX); print('locked', flush=True); "
        command += "import time; time.sleep(300)"
        other = subprocess.Popen([sys.executable, "-c", command], stdin=lock, stdout=subprocess.PIPE)
    try:
        assert other.stdout is not None
        other.stdout.readline()
        with pytest.raises(Unavailable, match="in use by another process"):
            StateFolder.of(tmp_path)
    finally:
        other.kill()
        other.communicate()
    StateFolder.of(tmp_path).close()


def test_a_folder_of_the_process_that_forked_is_refused_to_the_fork(tmp_path: Path) -> None:
    """Two processes would write one store; and the lock must not outlive the process that has it in its forks."""
    script = f"""
import os, time
from apportion.clients.runtime.state_dir import StateFolder
ours = StateFolder.of({str(tmp_path)!r})
if os.fork():
    print(os.wait()[1])
    if not os.fork():
        time.sleep(300)
else:
    try:
        StateFolder.of({str(tmp_path)!r})
    except Exception as error:
        print(type(error).__name__, error, flush=True)
    ours.close()
    os._exit(0)
"""
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, start_new_session=True)
    try:
        assert parent.stdout is not None
        assert parent.stdout.readline().startswith("Unavailable the state folder")
        assert parent.stdout.readline() == "0\n"
        parent.wait(120)
        StateFolder.of(tmp_path).close()
    finally:
        os.killpg(parent.pid, signal.SIGKILL)
        parent.communicate()


def test_a_folder_on_a_disk_that_was_full_is_begun_once_there_is_room(tmp_path: Path) -> None:
    """No file may grow in the child: what it leaves is no torn id, at which every later start would fail."""
    begins = f"""
import resource
from apportion.clients.runtime.state_dir import StateFolder
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
StateFolder.of({str(tmp_path)!r})
"""
    child = subprocess.run([sys.executable, "-c", begins], check=False, capture_output=True, text=True)
    assert "File too large" in child.stderr
    folder = StateFolder.of(tmp_path)
    assert len(folder.process_id) == 36
    folder.close()


def test_a_store_that_outgrows_its_disk_says_so_and_keeps_what_it_had(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "0_0.store")
    store.apply({b"k": b"old"}, 1, 1)
    [pages] = store._db.execute("PRAGMA page_count").fetchone()
    store._db.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(sqlite3.OperationalError, match="full"):
        store.apply({b"k": b"new", b"large": bytes(1 << 20)}, 2, 1)
    assert (store.get(b"k"), store.get(b"large"), store.position) == (b"old", None, 1)
    store._db.execute("PRAGMA max_page_count = 100000")
    store.apply({b"k": b"new", b"large": bytes(1 << 20)}, 2, 1)
    assert (store.get(b"k"), store.position) == (b"new", 2)
    store.close()


@pytest.mark.parametrize("use", ["get", "apply"])
def test_a_store_with_a_page_that_cannot_be_read_is_begun_anew_at_the_next_start(tmp_path: Path, use: str) -> None:
    """Opening looks at the first pages alone: else each start would fail at the same page, for ever."""
    path = tmp_path / "0_0.store"
    keys = {str(n).encode(): b"" for n in range(10_000)}
    store = SqliteStore(path)
    store.apply(keys, 1000, 1)
    store.close()
    with path.open("r+b") as file:
        file.seek(4096 * 10)
        file.write(b"torn" * 1024)
    store = SqliteStore(path)
    assert store.position == 1000
    look = store.get if use == "get" else lambda key: store.apply({key: b"new"}, 1001, 1)
    with pytest.raises(Unavailable, match=r"0_0\.store cannot be read .* start it again"):
        any(map(look, keys))
    store.close()
    assert not list(tmp_path.iterdir())
    again = SqliteStore(path)
    assert (again.position, again.get(b"1")) == (0, None)
    again.close()


def test_an_owner_that_wrote_nothing_takes_the_next_ones_writes_for_what_they_are(app: Callable[..., App]) -> None:
    """Epochs that were taken and never written are known to nobody else: who counts them passes over others' writes."""
    one = app(partitions=1)

    def life(name: str, values: int) -> dict[str, str]:
        runner = one.start(name)
        one.until("it runs", lambda: len(runner.active) == 1)
        one.write(values)
        end = runner._consumer.end_offsets([TopicPartition(one.source, 0)])
        one.until("all is read", lambda: runner._consumer.committed(TopicPartition(one.source, 0)) in end.values())
        stored = one.stored()
        one.stop(name)
        return stored

    life("a", 10)
    for _ in range(3):
        life("b", 0)
    newest = life("a", 10)
    assert newest["9"] == "19"
    assert life("b", 0) == newest


def test_a_running_task_whose_changelog_somebody_else_wrote_to_is_restored_and_goes_on(app: Callable[..., App]) -> None:
    """A replaced writer's late record lands between two commits: it does not count, and nothing of ours is lost."""
    one = app(partitions=1)
    for turn in "01":  # the second run writes with epoch 2
        a = one.start("a")
        one.write(1)
        one.until("its write is stored", lambda turn=turn: one.stored() == {"0": turn})  # type: ignore[misc]
        if turn == "0":
            one.stop("a")
    late = KafkaProducer(bootstrap_servers=one.broker.bootstrap)
    late.send(one.changelog, b"stale", key=b"0", partition=0, headers=[(EPOCH, b"1")]).get(60)
    late.close()
    before = len([event for event in one.heard if event == ("a", "active", "0_0")])
    epoch = a._ledger.running[Task(0, 0)].epoch
    one.write(5)
    one.until("all five are stored", lambda: one.stored().keys() == set("01234") and one.stored()["0"] != "stale")
    assert len([event for event in one.heard if event == ("a", "active", "0_0")]) == before + 1
    assert a._ledger.running[Task(0, 0)].epoch > epoch


def test_what_a_replaced_writer_wrote_over_is_written_once_more(app: Callable[..., App]) -> None:
    """Compaction keeps the newest record of a key, which nobody restores: the key would be gone for the next owner."""
    one = app(partitions=1)
    for turn in (0, 1):  # the second run writes with epoch 2
        one.start("a")
        one.write(10)
        one.until("ten are stored", lambda turn=turn: one.stored().get("9") == str(10 * turn + 9))  # type: ignore[misc]
        if turn == 0:
            one.stop("a")
    late = KafkaProducer(bootstrap_servers=one.broker.bootstrap)
    for key in (b"7", b"never"):
        late.send(one.changelog, b"stale", key=key, partition=0, headers=[(EPOCH, b"1")]).get(60)
    late.close()
    one.write(3)
    one.until("it goes on", lambda: one.stored().get("2") == "22")
    one.turn()
    rightful = {key.encode(): value.encode() for key, value in one.stored().items()}
    assert len(rightful) == 10
    assert changelog_of(one) == {**rightful, b"never": None}


def changelog_of(app: App) -> dict[bytes, bytes | None]:
    """The newest record of each key, whoever wrote it: what is left after compaction."""
    reader = KafkaConsumer(bootstrap_servers=app.broker.bootstrap, group_id=None, auto_offset_reset="earliest")
    parts = [TopicPartition(app.changelog, p) for p in sorted(reader.partitions_for_topic(app.changelog))]
    reader.assign(parts)
    ends, newest = reader.end_offsets(parts), dict[bytes, bytes | None]()
    while any(reader.position(part) < ends[part] for part in parts):
        for records in reader.poll(timeout_ms=500).values():
            newest |= {record.key: record.value for record in records}
    reader.close()
    return newest


def test_nothing_is_written_while_the_group_may_count_on_somebody_else(
    app: Callable[..., App], monkeypatch: pytest.MonkeyPatch
) -> None:
    one = app(partitions=1)
    a = one.start("a")
    one.write(1)
    one.until("it is stored", lambda: len(one.stored()) == 1)
    heartbeat = a._consumer._coordinator.heartbeat
    monkeypatch.setattr(heartbeat, "session_timeout_expired", lambda: True)
    a.state(Task(0, 0)).put(b"new", b"1")
    a.commit()
    assert "new" not in one.stored()
    monkeypatch.undo()
    a.commit()
    assert "new" in one.stored()


def test_an_application_grows_source_first_while_its_tasks_run_on(
    app: Callable[..., App], caplog: pytest.LogCaptureFixture
) -> None:
    """A task whose changelog has no such partition yet waits, and no question for it holds up the others."""
    one = app(partitions=2)
    a = one.start("a", metadata_max_age_ms=500)
    one.until("a runs both", lambda: len(a.active) == 2)
    one.write(40)
    one.until("40 are stored", lambda: len(one.stored()) == 40)
    one.broker.grow_topic(one.source, 3)
    one.until("the third waits", lambda: a.restoring == [Task(0, 2)])
    one.write(60)
    one.until("the others go on", lambda: len(one.stored()) == 53)  # 40 to 59 but for those of the third partition
    one.until("it is told", lambda: "has no partition 2: task 0_2 waits" in caplog.text)
    assert "not known yet" not in caplog.text
    one.broker.grow_topic(one.changelog, 3)
    one.until("the third runs, and commits at once", lambda: len(one.stored()) == 60)
    assert len(a.active) == 3


def test_an_output_waits_for_a_partition_that_its_topic_does_not_have_yet(app: Callable[..., App]) -> None:
    """Topics of an application grow one after the other; the client itself raises ValueError until it has looked."""
    one, out = app(partitions=1), new_name("out")
    one.broker.create_topic(out, 1)
    a = one.start("a")
    one.until("a runs", lambda: len(a.active) == 1)
    a.send(out, b"k", b"1", partition=0)
    a.commit()
    one.broker.grow_topic(out, 2)
    a.send(out, b"k", b"2", partition=1)
    a.commit()
    a.send(out, b"k", b"3", partition=2)
    with pytest.raises(KafkaTimeoutError, match=f"the topic '{out}' has no partition 2 to send to"):
        a.commit()
    one.broker.grow_topic(out, 3)
    a.commit()
    with KafkaConsumer(bootstrap_servers=one.broker.bootstrap) as reader:
        ends = reader.end_offsets([TopicPartition(out, p) for p in range(3)])
    assert set(ends.values()) == {1}


def test_records_that_were_fetched_by_a_poll_that_failed_are_given_later(
    app: Callable[..., App], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that is full for a moment, a callback that raises: who polls on after it must miss nothing."""
    one = app(partitions=2)
    a = one.start("a")
    one.until("a runs both", lambda: len(a.active) == 2)
    one.write(100)
    fetched: list[Any] = []
    poll, step = a._consumer.poll, a._restorer.step

    def seen(**options: Any) -> Any:
        records = poll(**options)
        fetched.extend(records)
        return records

    def fails(*args: Any) -> Any:
        if fetched:
            raise OSError("No space left on device")
        return step(*args)

    monkeypatch.setattr(a._consumer, "poll", seen)
    monkeypatch.setattr(a._restorer, "step", fails)
    while not fetched:
        with suppress(OSError):
            a.poll(100)
    monkeypatch.undo()
    one.until("all are stored", lambda: len(one.stored()) == 100)


@pytest.mark.parametrize("step", ["open_store", "apply", "anew"])
def test_a_disk_that_is_full_while_a_task_begins_holds_it_up_only_so_long(
    app: Callable[..., App], monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    one = app(partitions=1)
    if step == "anew":  # a store ahead of its changelog, which is of another life of the topic
        folder = StateFolder.of(one.folder / "a")
        store = SqliteStore(folder.file(Task(0, 0)))
        store.apply({b"old": b"1"}, 1000, 1)
        store.close()
        folder.close()
    a = one.start("a")
    failed: list[Any] = []
    original = a._restorer.open_store

    def full(*args: Any) -> Any:
        if len(failed) < 3 and (step != "anew" or a._restorer._known.get(Task(0, 0))):
            failed.append(args)
            raise sqlite3.OperationalError("database or disk is full")
        return original(*args) if step != "apply" else apply(*args)

    apply = SqliteStore.apply
    if step == "apply":
        monkeypatch.setattr(SqliteStore, "apply", full)
    else:
        monkeypatch.setattr(a._restorer, "open_store", full)
    end = time.monotonic() + 60
    while not a.active:
        assert time.monotonic() < end, (a.restoring, failed)
        with suppress(sqlite3.OperationalError):
            a.poll(50)
    assert len(failed) == 3
    one.write(5)
    one.until("all is stored", lambda: one.stored().keys() == set("01234"))


def test_offsets_that_a_broker_did_not_take_are_committed_by_the_next_call(
    app: Callable[..., App], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a new record too: a partition may be silent for days."""
    one = app(partitions=2)
    a = one.start("a")
    one.until("a runs both", lambda: len(a.active) == 2)
    monkeypatch.setattr(a._consumer, "commit", _refuses(KafkaTimeoutError("away")))
    one.write(40)
    given = 0
    while given < 40:
        for task, records in a.poll(100).items():
            given += len(records)
            a.state(task).put(b"newest", records[-1].value)
    with pytest.raises(KafkaTimeoutError, match="away"):
        a.commit()
    monkeypatch.setattr(a._consumer, "commit", _refuses(RebalanceInProgressError()))
    a.commit()  # the group goes on with this member, so nobody else reads these records again
    monkeypatch.undo()
    a.commit()
    assert [a._consumer.committed(TopicPartition(one.source, p)) for p in (0, 1)] == [20, 20]


def _refuses(error: Exception) -> Callable[..., None]:
    def refuse(*args: Any, **options: Any) -> None:
        raise error

    return refuse


def test_a_callback_that_raises_leaves_nothing_open_and_a_second_close_does_nothing(app: Callable[..., App]) -> None:
    """The second runner of the process goes on with the folder, which nobody else may have meanwhile."""
    one = app(partitions=2)
    a = one.start("a")
    one.until("a runs both", lambda: len(a.active) == 2)
    other = StateFolder.of(one.folder / "a")

    def fails(task: Task) -> None:
        raise RuntimeError(f"no closing of {task}")

    a._listeners["close"] = fails
    with pytest.raises(RuntimeError, match="no closing of 0_"):
        a.close()
    assert (a.active, other.claimed(), a._consumer._closed, a._restorer._consumer._closed) == ([], {}, True, True)
    a.close()
    command = f"from apportion.clients.runtime.state_dir import StateFolder; StateFolder.of({str(other.path)!r})"
    for taken in (True, False):
        stranger = subprocess.run([sys.executable, "-c", command], check=False, capture_output=True, text=True)
        assert ("in use by another process" in stranger.stderr) == taken == bool(stranger.returncode)
        if taken:
            other.close()


def test_a_task_that_stops_and_keeps_its_partitions_gets_what_it_had_not_committed_again(
    app: Callable[..., App],
) -> None:
    """As where a leader's orders cannot be read, and the next ones can."""
    one = app(partitions=2)
    a = one.start("a")
    one.until("both run", lambda: len(a.active) == 2)
    one.write(20)
    given = 0
    while given < 20:
        given += sum(map(len, a.poll(100).values()))
    orders = a.bridge.orders
    for changed in (TaskAssignment(lost="cut off"), orders):
        a.bridge.orders, a.bridge.rounds = changed, a.bridge.rounds + 1
        a.poll(20)
    one.until("all is stored", lambda: len(one.stored()) == 20)


def test_threads_that_begin_in_a_fresh_folder_at_the_same_moment_share_it(tmp_path: Path) -> None:
    """Each writes what the folder is used for: no one takes another's half-written file away."""
    topology = Topology.of(Subtopology(("clicks",), "clicks-changelog"))
    together = threading.Barrier(8)

    def begin(_: int) -> str:
        folder = StateFolder.of(tmp_path)
        together.wait()
        for _ in range(50):
            folder.used_for("clicks", topology)
        return folder.process_id

    with ThreadPoolExecutor(8) as threads:
        assert len(set(threads.map(begin, range(8)))) == 1
    assert not list(tmp_path.glob("*.draft"))


def test_a_task_whose_file_another_thread_of_the_process_keeps_says_which(
    app: Callable[..., App], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """That thread hangs in its work, and so has not heard that the task is another's."""
    monkeypatch.setattr("apportion.clients.runtime.restore.ABSENT_S", 0.5)
    one = app(partitions=1)
    hanging = one.start("hanging", process="p", session_timeout_ms=3000)
    one.until("it runs", lambda: len(hanging.active) == 1)
    del one.runners["hanging"]
    hanging._consumer._coordinator._disable_heartbeat()
    waiting = one.start("waiting", process="p")
    one.until("it is told", lambda: "still has its file open" in caplog.text)
    assert "task 0_0 waits: another runner of this process, in thread 'MainThread', still has its file" in caplog.text
    assert waiting.active == []
    hanging.close()
    one.write(5)
    one.until("it runs", lambda: len(one.stored()) == 5)


@pytest.mark.slow
def test_a_broker_that_is_killed_and_comes_back_finds_everything_as_it_was(tmp_path: Path) -> None:
    with Broker() as own, ExitStack() as stack:
        one = App(own, tmp_path, 2, num_standby_replicas=1)
        stack.enter_context(one.stack)
        one.start("a")
        one.start("b")
        one.until("one each, one warm", lambda: [(len(a), len(s)) for a, s in one.shape().values()] == [(1, 1), (1, 1)])
        one.write(100)
        one.until("100 are stored", lambda: len(one.stored()) == 100)
        own.kill()
        away = time.monotonic() + 4
        while time.monotonic() < away:
            with suppress(KafkaError):
                one.turn()
        own.start()
        one.write(120)
        one.until("120 are stored", lambda: len(one.stored()) == 120, patience_s=120)


@pytest.mark.parametrize("more", [5, 45], ids=["shorter", "longer"])
def test_a_copy_follows_a_changelog_that_was_deleted_and_made_anew(broker: Broker, tmp_path: Path, more: int) -> None:
    """It has what the new one has, and no more: nothing of the old one, and all from the new one's beginning."""
    changelog, task = new_name("again"), Task(0, 0)

    def write(first: int, behind: int) -> None:
        producer = KafkaProducer(bootstrap_servers=broker.bootstrap)
        for n in range(first, behind):
            producer.send(changelog, key=b"%d" % n, value=b"x", partition=0, headers=[(EPOCH, b"1")])
        producer.close()

    broker.create_topic(changelog, 1)
    write(0, 30)
    topology = Topology((Subtopology(("clicks",), changelog),))
    folder = StateFolder.of(tmp_path)
    copies = Restorer(topology, {"bootstrap_servers": broker.bootstrap}, folder, SqliteStore)
    try:
        copies.keep({task})
        step_until(copies, lambda: copies.open[task].position == 30)
        broker.delete_topic(changelog)
        step_until(copies, lambda: not copies._there([copies._pair(task)]))
        broker.create_topic(changelog, 1)
        write(100, 100 + more)
        step_until(copies, lambda: copies.open[task].position == more and copies.lags() == {task: 0})
        keys = {int(key) for key, _ in copies.open[task].items()}  # type: ignore[attr-defined]
        assert keys == set(range(100, 100 + more))
        assert copies.warmed == 30 + more
    finally:
        copies.close()
        folder.close()


def step_until(copies: Restorer, done: Callable[[], bool], patience_s: float = 60) -> None:
    end = time.monotonic() + patience_s
    while not done():
        copies.step((), 50)
        assert time.monotonic() < end, (copies.open, copies.lags())
