"""One promise for every client: a partition goes on where its last reader stopped, and each record is read once.

A second member joins while records come, and then the first one leaves, each in good order.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Protocol

import pytest
from tests.serve.running import until

from apportion.testing.broker import Broker

from .groups import SESSION_MS, Members, new_name

pytestmark = pytest.mark.broker
PARTITIONS, RECORDS = 4, 400

Offsets = list[tuple[int, int]]
"""(partition, offset) in the order in which they were read."""


class Reader(Protocol):
    """A member of a group, whatever client it is made of."""

    def offsets(self) -> Offsets:
        """What it has read so far."""

    def partitions(self) -> set[int]:
        """What it owns now."""

    def leave(self) -> None:
        """Go in good order."""


class OfClient:
    """A member in a process of its own: kafka-python, aiokafka, or GroupConsumer around confluent-kafka."""

    def __init__(self, members: Members, client: str) -> None:
        self.member = members.python(client, "cooperative-sticky", session_ms=SESSION_MS, poll_records=10)

    def offsets(self) -> Offsets:
        return [(one["partition"], at) for one in self.member.of("read") for at in range(one["first"], one["last"] + 1)]

    def partitions(self) -> set[int]:
        return {p for numbers in self.member.owned.values() for p in numbers}

    def leave(self) -> None:
        self.member.leave()


class OfTasks:
    """A TaskRunner in a thread, whose tasks read the topic without keeping state."""

    def __init__(self, broker: Broker, topic: str, application: str, folder: Path) -> None:
        from apportion.clients.tasks import TaskRunner
        from apportion.tasks.topology import Subtopology, Topology

        self.read: Offsets = []
        self.over = threading.Event()
        self.runner = TaskRunner(
            Topology.of(Subtopology((topic,))), application=application, bootstrap_servers=broker.bootstrap,
            state_dir=folder, guarantee="at_least_once",
            consumer={"session_timeout_ms": SESSION_MS, "heartbeat_interval_ms": 300},
        )  # fmt: skip
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        while not self.over.is_set():
            for records in self.runner.poll(20).values():
                self.read += [(record.partition, record.offset) for record in records]
            self.runner.commit()
        self.runner.close()

    def offsets(self) -> Offsets:
        return list(self.read)

    def partitions(self) -> set[int]:
        return {task.partition for task in self.runner.active}

    def leave(self) -> None:
        self.over.set()
        self.thread.join(60)


Start = Callable[[], Reader]


@contextmanager
def of_client(broker: Broker, topic: str, folder: Path, client: str) -> Iterator[Start]:
    with Members(broker, new_name("hand-over"), [topic], folder) as members:
        yield lambda: OfClient(members, client)


@contextmanager
def of_tasks(broker: Broker, topic: str, folder: Path, _: str) -> Iterator[Start]:
    application = new_name("hand-over")
    with ExitStack() as stack:

        def start() -> Reader:
            reader = OfTasks(broker, topic, application, folder / new_name("state"))
            stack.callback(reader.leave)
            return reader

        yield start


@pytest.mark.parametrize(
    ("starts", "client"),
    [(of_client, "kafka-python"), (of_client, "aiokafka"), (of_client, "confluent"), (of_tasks, "TaskRunner")],
    ids=["kafka-python", "aiokafka", "GroupConsumer", "TaskRunner"],
)
def test_a_partition_goes_on_where_its_last_reader_stopped(
    broker: Broker, starts: Callable[..., Iterator[Start]], client: str, tmp_path: Path
) -> None:
    topic = new_name("hand-over")
    broker.create_topic(topic, PARTITIONS)
    whole = set(range(PARTITIONS))
    with starts(broker, topic, tmp_path, client) as start:  # type: ignore[attr-defined]
        first = start()
        until(lambda: first.partitions() == whole)
        write(broker, topic, RECORDS // 4)
        until(lambda: len(first.offsets()) == RECORDS // 4)
        second = start()
        write(broker, topic, RECORDS // 2)
        until(lambda: len(first.partitions()) == len(second.partitions()) == PARTITIONS // 2)
        assert not first.partitions() & second.partitions()
        first.leave()
        write(broker, topic, RECORDS // 4)
        until(lambda: len(first.offsets()) + len(second.offsets()) >= RECORDS and second.partitions() == whole)
        read = [*first.offsets(), *second.offsets()]
    assert sorted(read) == [(p, at) for p in range(PARTITIONS) for at in range(RECORDS // PARTITIONS)], "each once"
    for partition in whole:
        assert [at for p, at in read if p == partition] == list(range(RECORDS // PARTITIONS)), "and in order"


def write(broker: Broker, topic: str, count: int) -> None:
    """So many records, as many to each partition."""
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=broker.bootstrap.split(","))
    for n in range(count):
        producer.send(topic, b"x", partition=n % PARTITIONS)
    producer.close()
