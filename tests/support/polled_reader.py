"""A consumer of kafka-python or aiokafka, read by turns: ``read(s)`` gives (partition, offset) pairs."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar


class PolledReader:
    """What the two clients' consumers have in common; ``client`` tells which one ``consumer`` is of."""

    loop: ClassVar[asyncio.AbstractEventLoop]
    """One for all of aiokafka's members: while one waits, the others live on."""
    client: str
    consumer: Any

    def start(self, topic: str, given: dict[str, Any]) -> Any:
        """A running consumer of aiokafka."""
        from aiokafka import AIOKafkaConsumer

        async def started() -> Any:
            consumer = AIOKafkaConsumer(topic, **given)
            await consumer.start()
            return consumer

        return self.loop.run_until_complete(started())

    def read(self, seconds: float = 0.2) -> list[tuple[int, int]]:
        """What comes in this time."""
        if self.client == "kafka-python":
            batches = self.consumer.poll(seconds * 1000)
        else:
            batches = self.loop.run_until_complete(self.consumer.getmany(timeout_ms=int(seconds * 1000)))
        return [(record.partition, record.offset) for batch in batches.values() for record in batch]

    def owned(self) -> list[int]:
        """Partition ids."""
        return sorted(at.partition for at in self.consumer.assignment())

    def close(self) -> None:
        """Leave."""
        if self.client == "aiokafka":
            self.loop.run_until_complete(self.consumer.stop())
        else:
            self.consumer.close()
