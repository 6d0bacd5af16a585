"""A member in kafka-python: its consumer polls in one loop, which also commits and obeys."""

from __future__ import annotations

import time
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
    from kafka.errors import KafkaError

    consumer, work = made(config, tell), Done(config, tell)
    watch = watcher(consumer, work, tell)
    consumer.subscribe(topics=config["topics"], listener=watch)
    tell_assignments(consumer, tell)
    while (order := orders.next()) != "leave":
        try:
            if order.startswith("topics "):
                consumer.subscribe(topics=order[7:].split(","), listener=watch)
            for partition, records in consumer.poll(timeout_ms=config.get("poll_ms", 100)).items():
                work.read(partition, records)
            commit(consumer, work, tell)
            time.sleep(config.get("pause_ms", 0) / 1000)
        except KafkaError as error:
            tell("error", why=f"{type(error).__name__}: {error}")
            time.sleep(0.2)
    commit(consumer, work, tell, last=True)
    consumer.close(autocommit=False)
    tell("left")


def made(config: Config, tell: Teller) -> Any:
    """The consumer."""
    from kafka import KafkaConsumer
    from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
    from kafka.coordinator.assignors.range import RangePartitionAssignor
    from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

    plain = (CooperativeStickyAssignor, RangePartitionAssignor, RoundRobinPartitionAssignor, StickyPartitionAssignor)
    settings = {
        **consumer_settings(config, tell.name),
        "max_poll_records": config.get("poll_records", 200),
        "partition_assignment_strategy": strategies(config, tell, "kafka_python", plain),
    }
    return KafkaConsumer(**settings, **config.get("consumer", {}))


def watcher(consumer: Any, work: Done, tell: Teller) -> Any:
    """Tells what is taken away."""
    from kafka import ConsumerRebalanceListener

    class Watch(ConsumerRebalanceListener):  # type: ignore[misc]
        def on_partitions_revoked(self, revoked: Any) -> None:
            hand_over(consumer, work, revoked)
            generation = consumer._coordinator._generation.generation_id
            tell("revoked", generation=generation, partitions=by_topic(revoked))

        def on_partitions_lost(self, lost: Any) -> None:
            work.forget(lost)
            tell("lost", partitions=by_topic(lost))

        def on_partitions_assigned(self, assigned: Any) -> None:
            """Only what is new, under cooperative; ``tell_assignments`` tells all."""

    return Watch()


def hand_over(consumer: Any, work: Done, revoked: Any) -> None:
    """Commit what is done of these without waiting: we are on the client's IO thread, and it goes out in order."""
    from kafka.structs import OffsetAndMetadata

    offsets = {part: OffsetAndMetadata(at, "", -1) for part, at in work.handed_over(revoked).items()}
    if offsets:
        consumer.commit_async(offsets)


def tell_assignments(consumer: Any, tell: Teller) -> None:
    """After each join tell all that the member has, also where nothing is new."""
    coordinator = consumer._coordinator
    complete = coordinator._on_join_complete_async

    async def tells(generation: int, member_id: str, protocol: str, raw: bytes) -> None:
        try:
            await complete(generation, member_id, protocol, raw)
        finally:
            owned = by_topic(consumer._subscription.assigned_partitions())
            tell("assigned", generation=generation, member_id=member_id, protocol=protocol, partitions=owned)

    coordinator._on_join_complete_async = tells


def commit(consumer: Any, work: Done, tell: Teller, *, last: bool = False) -> None:
    """Commit what is due, and tell how it went."""
    from kafka.errors import KafkaError
    from kafka.structs import OffsetAndMetadata

    offsets = work.due(consumer.assignment(), last=last)
    if not offsets:
        return
    try:
        consumer.commit({part: OffsetAndMetadata(at, "", -1) for part, at in offsets.items()}, timeout_ms=2000)
        work.committed(offsets)
    except KafkaError as error:
        tell("refused", why=type(error).__name__)
