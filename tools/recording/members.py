"""Python members for the workload: kafka-python and aiokafka, each in a thread, told what to do like a Java one."""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tests.support.members.common import by_topic, consumer_settings

Holding = dict[str, list[int]]


class RecordedMember(threading.Thread, ABC):
    """What both have in common: events as a Java member tells them, and commands between two polls."""

    def __init__(self, bootstrap: str, group: str, topics: Sequence[str], client_id: str) -> None:
        super().__init__(daemon=True, name=client_id)
        self.topics = list(topics)
        config = {"bootstrap": bootstrap, "group": group, "session_ms": 10_000, "metadata_ms": 300_000}
        self.settings = consumer_settings(config, client_id) | {"heartbeat_interval_ms": 300}
        self.events: list[dict[str, Any]] = []
        self.commands: queue.Queue[tuple[Callable[[Any], Any], threading.Event]] = queue.Queue()
        self.open = True
        self.start()

    @property
    def assignment(self) -> Holding:
        """What it holds, as it was told last."""
        return dict(self.events[-1]["holds"]) if self.events else {}

    @property
    def generation(self) -> int:
        """The generation of its last assignment; -1 before the first."""
        return int(self.events[-1]["generation"]) if self.events else -1

    def assigned(self, generation: int, member_id: str, held: Any) -> None:
        """Note what it was given."""
        event = {"event": "assigned", "generation": generation, "member": member_id, "holds": by_topic(held)}
        self.events.append({**event, "instance": None, "at": time.time()})

    def do(self, command: Callable[[Any], Any]) -> None:
        """Run something with the consumer in its own thread, and wait for it."""
        done = threading.Event()
        self.commands.put((command, done))
        if not done.wait(30):
            raise TimeoutError(f"{self.name} did not answer")

    def commit(self, offsets: Mapping[str, Mapping[int, int]]) -> None:
        """Commit these offsets."""
        told = [(topic, p, offset) for topic, of_topic in offsets.items() for p, offset in of_topic.items()]
        self.do(lambda consumer: self.commits(consumer, told))

    @abstractmethod
    def commits(self, consumer: Any, offsets: Sequence[tuple[str, int, int]]) -> Any:
        """The client's own call for (topic, partition, offset)."""

    def leave(self) -> None:
        """Leave the group."""
        self.open = False
        self.join(20)


class KafkaPythonMember(RecordedMember):
    """A kafka-python consumer that reads all it gets."""

    def run(self) -> None:
        """Poll, and obey in between."""
        from kafka import ConsumerRebalanceListener, KafkaConsumer
        from kafka.coordinator.assignors.range import RangePartitionAssignor

        member = self
        consumer = KafkaConsumer(**self.settings, partition_assignment_strategy=[RangePartitionAssignor])

        class Outbox(ConsumerRebalanceListener):  # type: ignore[misc]  # the client has no types
            def on_partitions_revoked(self, revoked: Any) -> None:
                pass

            def on_partitions_assigned(self, assigned: Any) -> None:
                me = consumer.group_metadata()
                member.assigned(me.generation_id, me.member_id, consumer.assignment())

        consumer.subscribe(self.topics, listener=Outbox())
        while self.open:
            consumer.poll(100)
            while not self.commands.empty():
                command, done = self.commands.get()
                command(consumer)
                done.set()
        consumer.close()

    def commits(self, consumer: Any, offsets: Sequence[tuple[str, int, int]]) -> Any:
        """All in one request."""
        from kafka import TopicPartition
        from kafka.structs import OffsetAndMetadata

        return consumer.commit({TopicPartition(t, p): OffsetAndMetadata(offset, "", -1) for t, p, offset in offsets})


class AioKafkaMember(RecordedMember):
    """An aiokafka consumer in an event loop of its own."""

    def run(self) -> None:
        """Live in a loop."""
        asyncio.run(self._live())

    async def _live(self) -> None:
        from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener
        from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

        member = self
        consumer = AIOKafkaConsumer(**self.settings, partition_assignment_strategy=[RoundRobinPartitionAssignor])

        class Outbox(ConsumerRebalanceListener):  # type: ignore[misc]  # the client has no types
            def on_partitions_revoked(self, revoked: Any) -> None:
                pass

            def on_partitions_assigned(self, assigned: Any) -> None:
                me = consumer._coordinator
                member.assigned(me.generation, me.member_id, assigned)

        consumer.subscribe(self.topics, listener=Outbox())
        await consumer.start()
        while self.open:
            await consumer.getmany(timeout_ms=100)
            while not self.commands.empty():
                command, done = self.commands.get()
                await command(consumer)
                done.set()
        await consumer.stop()

    def commits(self, consumer: Any, offsets: Sequence[tuple[str, int, int]]) -> Any:
        """All in one request, to be awaited."""
        from aiokafka import TopicPartition

        return consumer.commit({TopicPartition(t, p): offset for t, p, offset in offsets})
