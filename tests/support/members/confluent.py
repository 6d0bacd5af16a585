"""A member in confluent-kafka behind our thin member, ``GroupConsumer``."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from tests.support.members.common import Config, Orders, Teller, by_topic, options, ours


def run(config: Config, tell: Teller, orders: Orders) -> None:
    """Consume until told to leave; it cannot change its topics."""
    from kafka.errors import KafkaError

    consumer = made(config, tell)
    tell_revoked(consumer, tell)
    tell_assigned = assignments(consumer, tell)
    while orders.next() != "leave":
        try:
            messages = [m for m in consumer.consume(config.get("poll_records", 200), 0.1) if m.error() is None]
            tell_assigned()
            for (topic, partition), offsets in batches(messages).items():
                tell("read", topic=topic, partition=partition, first=offsets[0], last=offsets[-1])
            time.sleep(config.get("pause_ms", 0) / 1000)
            if messages and config.get("commit_ms", 0) == 0:
                consumer.commit()
        except KafkaError as error:
            tell("refused", why=f"{type(error).__name__}: {error}")
            time.sleep(0.1)
    consumer.close()
    tell("left")


def made(config: Config, tell: Teller) -> Any:
    """The consumer; it commits by itself every ``commit_ms`` where that is given."""
    session_ms, commit_ms = config.get("session_ms", 6000), config.get("commit_ms", 0)
    settings = {
        "bootstrap.servers": config["bootstrap"],
        "group.id": config["group"],
        "client.id": tell.name,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": commit_ms > 0,
        "auto.commit.interval.ms": max(commit_ms, 100),
        "session.timeout.ms": session_ms,
        "heartbeat.interval.ms": config.get("beat_ms", session_ms // 5),
        "metadata.max.age.ms": config.get("metadata_ms", 1000),
        "fetch.wait.max.ms": 100,
        **config.get("consumer", {}),
    }
    strategy = config.get("strategies", ["cooperative-sticky"])[0]
    return ours("confluent").GroupConsumer(settings, config["topics"], strategy, **options(config, tell))


def tell_revoked(consumer: Any, tell: Teller) -> None:
    """Tell what is taken away, after it was handed over."""
    coordinator, hand_over = consumer._member._coordinator, consumer.given_up

    def given_up(parts: list[Any], *, expelled: bool) -> None:
        hand_over(parts, expelled=expelled)
        generation = coordinator._generation.generation_id
        tell("lost" if expelled else "revoked", generation=generation, partitions=by_topic(parts))

    consumer.given_up = given_up


def assignments(consumer: Any, tell: Teller) -> Callable[[], None]:
    """A function that tells what the member has, where that or its generation is new."""
    coordinator, last = consumer._member._coordinator, None

    def tell_assigned() -> None:
        nonlocal last
        generation = coordinator._generation
        state = (generation.generation_id, consumer.assignment())
        if state != last and coordinator.stable():
            last = state
            tell("assigned", generation=state[0], member_id=generation.member_id, partitions=state[1])

    return tell_assigned


def batches(messages: list[Any]) -> dict[tuple[str, int], list[int]]:
    """Offsets by partition, in order."""
    offsets_of: dict[tuple[str, int], list[int]] = {}
    for message in messages:
        offsets_of.setdefault((message.topic(), message.partition()), []).append(message.offset())
    return offsets_of
