"""A member in aiokafka: one task reads, commits and obeys; the client rebalances in a task of its own."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.support.members.common import (
    Config,
    Done,
    Orders,
    Teller,
    by_topic,
    consumer_settings,
    strategies,
)


def run(config: Config, tell: Teller, orders: Orders) -> None:
    """Consume until told to leave."""
    asyncio.run(live(config, tell, orders))


async def live(config: Config, tell: Teller, orders: Orders) -> None:
    """Consume until told to leave, in an event loop."""
    from aiokafka.errors import KafkaError

    consumer, work = made(config, tell), Done(config, tell)
    watch = watcher(consumer, work, tell)
    consumer.subscribe(topics=config["topics"], listener=watch)
    await consumer.start()
    while (order := orders.next()) != "leave":
        try:
            if order.startswith("topics "):
                consumer.subscribe(topics=order[7:].split(","), listener=watch)
            for partition, records in (
                await consumer.getmany(timeout_ms=100, max_records=config.get("poll_records", 200))
            ).items():
                work.read(partition, records)
            await commit(consumer, work, tell)
            await asyncio.sleep(config.get("pause_ms", 0) / 1000)
        except KafkaError as error:
            tell("error", why=f"{type(error).__name__}: {error}")
            await asyncio.sleep(0.2)
    await commit(consumer, work, tell, last=True)
    await consumer.stop()
    tell("left")


def made(config: Config, tell: Teller) -> Any:
    """The consumer."""
    from aiokafka import AIOKafkaConsumer
    from aiokafka.coordinator.assignors.range import RangePartitionAssignor
    from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
    from aiokafka.helpers import create_ssl_context

    more = dict(config.get("consumer", {}))
    if "ssl_cafile" in more:
        more["ssl_context"] = create_ssl_context(cafile=more.pop("ssl_cafile"))
    plain = (RangePartitionAssignor, RoundRobinPartitionAssignor, StickyPartitionAssignor)
    settings = {
        **consumer_settings(config, tell.name),
        "rebalance_timeout_ms": config.get("rebalance_ms", 10000),
        "partition_assignment_strategy": strategies(config, tell, "aio_kafka", plain),
    }
    return AIOKafkaConsumer(**settings, **more)


def watcher(consumer: Any, work: Done, tell: Teller) -> Any:
    """Tells what is given and taken away."""
    from aiokafka import ConsumerRebalanceListener

    class Watch(ConsumerRebalanceListener):  # type: ignore[misc]
        async def on_partitions_revoked(self, revoked: Any) -> None:
            await hand_over(consumer, work, revoked, tell)
            if revoked:
                tell("revoked", generation=consumer._coordinator.generation, partitions=by_topic(revoked))

        async def on_partitions_assigned(self, assigned: Any) -> None:
            c = consumer._coordinator
            tell("assigned", generation=c.generation, member_id=c.member_id, partitions=by_topic(assigned))

    return Watch()


async def hand_over(consumer: Any, work: Done, revoked: Any, tell: Teller) -> None:
    """Commit what is done of these before they go."""
    from aiokafka.errors import KafkaError

    offsets = work.handed_over(revoked)
    try:
        if offsets:
            await consumer.commit(offsets)
    except KafkaError as error:
        tell("refused", why=type(error).__name__)


async def commit(consumer: Any, work: Done, tell: Teller, *, last: bool = False) -> None:
    """Commit what is due, and tell how it went."""
    from aiokafka.errors import KafkaError

    offsets = work.due(consumer.assignment(), last=last)
    if not offsets:
        return
    try:
        await consumer.commit(offsets)
        work.committed(offsets)
    except KafkaError as error:
        tell("refused", why=type(error).__name__)
