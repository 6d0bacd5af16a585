"""Python members for the workload: kafka-python and aiokafka, each in a thread, told what to do like a Java one."""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Holding = dict[str, list[int]]


class PythonMember(threading.Thread):
    """What both have in common: events as a Java member tells them, and commands between two polls."""

    def __init__(self, bootstrap: str, group: str, topics: Sequence[str], client_id: str) -> None:
        super().__init__(daemon=True, name=client_id)
        self.bootstrap, self.group, self.topics, self.client_id = bootstrap.split(","), group, list(topics), client_id
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
        holds: Holding = {}
        for topic, partition in sorted(held):
            holds.setdefault(topic, []).append(partition)
        event = {"event": "assigned", "generation": generation, "member": member_id, "holds": holds}
        self.events.append({**event, "instance": None, "at": time.time()})

    def do(self, command: Callable[[Any], Any]) -> None:
        """Run something with the consumer in its own thread, and wait for it."""
        done = threading.Event()
        self.commands.put((command, done))
        if not done.wait(30):
            raise TimeoutError(f"{self.name} did not answer")

    def leave(self) -> None:
        """Leave the group."""
        self.open = False
        self.join(20)


class KafkaPythonMember(PythonMember):
    """A kafka-python consumer that reads all it gets."""

    def run(self) -> None:
        """Poll, and obey in between."""
        from kafka import ConsumerRebalanceListener, KafkaConsumer
        from kafka.coordinator.assignors.range import RangePartitionAssignor

        member = self
        consumer = KafkaConsumer(
            bootstrap_servers=self.bootstrap,
            group_id=self.group,
            client_id=self.client_id,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            heartbeat_interval_ms=300,
            session_timeout_ms=10000,
            partition_assignment_strategy=[RangePartitionAssignor],
        )

        class Told(ConsumerRebalanceListener):  # type: ignore[misc]  # the client has no types
            def on_partitions_revoked(self, revoked: Any) -> None:
                pass

            def on_partitions_assigned(self, assigned: Any) -> None:
                me = consumer.group_metadata()
                member.assigned(me.generation_id, me.member_id, consumer.assignment())

        consumer.subscribe(self.topics, listener=Told())
        while self.open:
            consumer.poll(100)
            while not self.commands.empty():
                command, done = self.commands.get()
                command(consumer)
                done.set()
        consumer.close()

    def commit(self, offsets: Mapping[str, Mapping[int, int]]) -> None:
        """Commit these offsets."""
        from kafka import TopicPartition
        from kafka.structs import OffsetAndMetadata

        all_of = {
            TopicPartition(topic, partition): OffsetAndMetadata(offset, "", -1)
            for topic, partitions in offsets.items()
            for partition, offset in partitions.items()
        }
        self.do(lambda consumer: consumer.commit(all_of))


class AioKafkaMember(PythonMember):
    """An aiokafka consumer in an event loop of its own."""

    def run(self) -> None:
        """Live in a loop."""
        asyncio.run(self._live())

    async def _live(self) -> None:
        from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener
        from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

        member = self
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self.bootstrap,
            group_id=self.group,
            client_id=self.client_id,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            heartbeat_interval_ms=300,
            session_timeout_ms=10000,
            partition_assignment_strategy=[RoundRobinPartitionAssignor],
        )

        class Told(ConsumerRebalanceListener):  # type: ignore[misc]  # the client has no types
            def on_partitions_revoked(self, revoked: Any) -> None:
                pass

            def on_partitions_assigned(self, assigned: Any) -> None:
                me = consumer._coordinator
                member.assigned(me.generation, me.member_id, assigned)

        consumer.subscribe(self.topics, listener=Told())
        await consumer.start()
        while self.open:
            await consumer.getmany(timeout_ms=100)
            while not self.commands.empty():
                command, done = self.commands.get()
                await command(consumer)
                done.set()
        await consumer.stop()

    def commit(self, offsets: Mapping[str, Mapping[int, int]]) -> None:
        """Commit these offsets."""
        from aiokafka import TopicPartition

        all_of = {
            TopicPartition(topic, partition): offset
            for topic, partitions in offsets.items()
            for partition, offset in partitions.items()
        }
        self.do(lambda consumer: consumer.commit(all_of))
