"""A topic that is deleted holds nobody up: of it there is nothing to commit before the next join."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer
from kafka import KafkaConsumer, KafkaProducer

from apportion.clients import aio_kafka, kafka_python
from apportion.testing.broker import Broker

from .groups import new_name

pytestmark = pytest.mark.broker
PATIENCE_S = 120


@pytest.fixture
def topics(broker: Broker) -> tuple[str, str]:
    """One that stays, and one that will be deleted."""
    names = new_name("kept"), new_name("deleted")
    for name in names:
        broker.create_topic(name, 2)
    return names


def settings(broker: Broker) -> dict[str, Any]:
    return {"bootstrap_servers": broker.bootstrap, "group_id": new_name("deletion"), "metadata_max_age_ms": 500}


def committable(subscription: Any) -> set[str]:
    """Topics of which a commit before a join says an offset."""
    return {partition.topic for partition in subscription.all_consumed_offsets()}


def test_who_iterates_over_records_of_kafka_python_reads_on(broker: Broker, topics: tuple[str, str]) -> None:
    """Its poll has no end, and the commit was tried as long."""
    kept, deleted = topics
    consumer = KafkaConsumer(
        kept, deleted, **settings(broker), partition_assignment_strategy=[kafka_python.assignor("cooperative-sticky")]
    )

    def read_one() -> None:
        next(consumer)
        consumer.close()

    reader = threading.Thread(target=read_one, daemon=True)
    reader.start()
    until = time.monotonic() + PATIENCE_S
    while committable(consumer._subscription) != {kept, deleted}:
        assert time.monotonic() < until
        time.sleep(0.05)
    broker.delete_topic(deleted)
    while {partition.topic for partition in consumer.assignment()} != {kept}:
        assert time.monotonic() < until, "the member still holds what is deleted"
        time.sleep(0.05)
    with KafkaProducer(bootstrap_servers=broker.bootstrap) as producer:
        while reader.is_alive():
            assert time.monotonic() < until, "nothing is read"
            producer.send(kept, b"one")
            reader.join(0.5)


def test_a_consumer_of_aiokafka_reads_on_and_can_be_stopped(broker: Broker, topics: tuple[str, str]) -> None:
    """The client tries a commit again and again where the topic is gone (aiokafka #1095)."""
    kept, deleted = topics

    async def read() -> None:
        consumer = AIOKafkaConsumer(
            kept, deleted, **settings(broker), partition_assignment_strategy=[aio_kafka.assignor("sticky")]
        )
        await consumer.start()
        try:
            while committable(consumer._subscription.subscription.assignment) != {kept, deleted}:
                await asyncio.sleep(0.05)
            await asyncio.to_thread(broker.delete_topic, deleted)
            while {partition.topic for partition in consumer.assignment()} != {kept}:
                await asyncio.sleep(0.05)
            with KafkaProducer(bootstrap_servers=broker.bootstrap) as producer:
                producer.send(kept, b"one")
            assert (await consumer.getone()).topic == kept
        finally:
            await asyncio.wait_for(consumer.stop(), PATIENCE_S / 2)

    asyncio.run(asyncio.wait_for(read(), PATIENCE_S))
