"""What befalls a changelog itself: its beginning is deleted, its end is lost, or it has forgotten deletions of keys.

A store is built upon only if it can have missed nothing. Else it begins anew, as Kafka Streams does it
(TaskCorruptedException), and the log says why.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from apportion.clients.runtime.restore import EPOCH, Restorer
from apportion.clients.runtime.state_dir import StateFolder
from apportion.clients.runtime.stores import SqliteStore
from apportion.tasks.topology import Subtopology, Task, Topology
from apportion.testing.broker import Broker

from .groups import new_name

pytestmark = pytest.mark.broker
TASK = Task(0, 0)
FORGETFUL: dict[str, Any] = {
    "cleanup_policy": "compact",
    "delete_retention_ms": "100",
    "segment_ms": "200",
    "min_cleanable_dirty_ratio": "0.01",
    "max_compaction_lag_ms": "200",
    "file_delete_delay_ms": "100",
}
"""A changelog that forgets a deletion within seconds; the default is a day."""


@pytest.fixture(scope="module")
def own_broker(jars: str) -> Iterator[Broker]:
    """It compacts all the time, and may be killed and lose files."""
    with Broker(properties={"log.cleaner.backoff.ms": "100"}) as broker:
        yield broker


class Changelog:
    """A changelog of one partition, and stores that are made of it."""

    def __init__(self, broker: Broker, folder: Path, **configs: Any) -> None:
        self.broker, self.folder, self.name = broker, folder, new_name("changelog")
        broker.create_topic(self.name, 1, **configs)

    def write(self, *changes: tuple[str, str | None]) -> None:
        with KafkaProducer(bootstrap_servers=self.broker.bootstrap, linger_ms=20) as producer:
            for key, value in changes:
                sent = None if value is None else value.encode()
                producer.send(self.name, key=key.encode(), value=sent, partition=0, headers=[(EPOCH, b"1")])

    def records_of(self) -> list[str]:
        """The keys of all records that are still there."""
        pair = TopicPartition(self.name, 0)
        with KafkaConsumer(bootstrap_servers=self.broker.bootstrap, auto_offset_reset="earliest") as reader:
            reader.assign([pair])
            [end], found, patience = reader.end_offsets([pair]).values(), list[str](), time.monotonic() + 30
            while reader.position(pair) < end and time.monotonic() < patience:
                found += [record.key.decode() for batch in reader.poll(200).values() for record in batch]
            return found

    @contextmanager
    def copies(self) -> Iterator[Restorer]:
        """Stores as a process on the folder has them; the task's is open."""
        topology = Topology((Subtopology(("clicks",), self.name),))
        with closing(StateFolder.of(self.folder)) as folder:
            connection = {"bootstrap_servers": self.broker.bootstrap}
            with closing(Restorer(topology, connection, folder, SqliteStore)) as restorer:
                restorer.keep({TASK})
                yield restorer


def stored(copies: Restorer) -> dict[str, str]:
    return {key.decode(): value.decode() for key, value in copies.open[TASK].items()}  # type: ignore[attr-defined]


def step(copies: Restorer, finished: Callable[[], bool], waiting: frozenset[Task] = frozenset()) -> None:
    end = time.monotonic() + 60
    while not finished():
        copies.step(waiting, 50)
        assert time.monotonic() < end, (copies.open[TASK].position, copies.lags())


def until_whole(copies: Restorer, waits: bool) -> None:
    """As a task that waits to run, or as a copy that is kept warm."""
    if not waits:
        step(copies, lambda: copies.lags() == {TASK: 0})
    end = time.monotonic() + 60
    while waits and copies.step({TASK}, 50) != [TASK]:
        assert time.monotonic() < end, copies.open[TASK].position


@pytest.mark.parametrize("waits", [True, False], ids=["a task that waits", "a copy"])
def test_a_restore_whose_next_part_is_deleted_begins_anew(own_broker: Broker, tmp_path: Path, waits: bool) -> None:
    """A key whose deletion was in that part does not come back."""
    changelog = Changelog(own_broker, tmp_path, cleanup_policy="compact,delete")
    changelog.write(
        *[(f"k{n}", "v" * 300) for n in range(6000)], ("k0", None), *[(f"k{n}", "w") for n in range(20)][1:]
    )
    with changelog.copies() as copies:
        step(copies, lambda: copies.open[TASK].position > 0)
        assert "k0" in stored(copies)
        assert copies.open[TASK].position < 6000
        with own_broker.admin() as admin:
            admin.delete_records({TopicPartition(changelog.name, 0): 6010})
        until_whole(copies, waits)
        assert stored(copies) == {f"k{n}": "w" for n in range(10, 20)}


@pytest.mark.parametrize("waits", [True, False], ids=["a task that waits", "a copy"])
def test_a_changelog_that_lost_its_end_gets_a_new_goal(
    own_broker: Broker, tmp_path: Path, caplog: pytest.LogCaptureFixture, waits: bool
) -> None:
    """An unclean election or a lost disk: the end that a task waited for never comes, and what it read is not there."""
    changelog = Changelog(own_broker, tmp_path)
    changelog.write(*[(f"k{n}", "v" * 300) for n in range(6000)])
    with changelog.copies() as copies:
        step(copies, lambda: copies.open[TASK].position > 0, frozenset({TASK} if waits else ()))
        own_broker.kill()
        for file in (own_broker.folder / "data" / f"{changelog.name}-0").iterdir():
            file.unlink()
        own_broker.start()
        if waits:
            until_whole(copies, waits)
            assert stored(copies) == {}
        changelog.write(("new", "1"))
        step(copies, lambda: stored(copies) == {"new": "1"})
    assert "the state of task 0_0 starts again from the beginning: " in caplog.text
    assert not waits or "lost its end at the broker: it ended at 6000, and ends at 0 now" in caplog.text


@pytest.mark.parametrize("why", ["stopped", "suspended", "clock ahead"])
def test_a_deleted_key_does_not_come_back_once_the_changelog_forgot_its_deletion(
    own_broker: Broker, tmp_path: Path, why: str
) -> None:
    """Whether the process was stopped or suspended meanwhile, or its clock was ahead when it wrote its store.

    It waits for Kafka's cleaner, which takes some seconds to forget even what may be forgotten at once.
    """
    changelog = Changelog(own_broker, tmp_path, **FORGETFUL)

    def forget() -> None:
        changelog.write(("gone", None))
        end, turn = time.monotonic() + 60, 0
        while "gone" in changelog.records_of():
            assert time.monotonic() < end
            turn += 1
            changelog.write(("fill", str(turn)))
            time.sleep(0.5)

    changelog.write(("gone", "1"), ("kept", "1"))
    with changelog.copies() as copies:
        until_whole(copies, waits=False)
        assert stored(copies).keys() == {"gone", "kept"}
        if why == "clock ahead":
            store = copies.open[TASK]
            store.apply({}, store.position, store.epoch, copies.origin(TASK, (time.time() + 3600) * 1000))
        if why == "suspended":
            forget()
            time.sleep(1.5)  # a pause longer than any between two polls, as of a suspended process
            step(copies, lambda: "fill" in stored(copies))
            assert stored(copies).keys() == {"kept", "fill"}
            return
    forget()
    with changelog.copies() as copies:
        until_whole(copies, waits=False)
        assert stored(copies).keys() == {"kept", "fill"}
