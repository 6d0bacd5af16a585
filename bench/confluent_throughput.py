"""Messages a second of GroupConsumer beside a plain confluent-kafka consumer, in turns on one broker.

    python bench/confluent_throughput.py [messages] [turns]

Both read the same topic from its beginning, in a group of their own each time, one member, the same settings; ``poll``
takes one message a call, ``consume`` 500. The time runs from the first message to the last.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import Consumer, Producer

from apportion.clients.confluent import GroupConsumer
from apportion.testing.broker import Broker

PARTITIONS, SIZE = 6, 100


def fill(bootstrap: str, messages: int) -> None:
    """Write the topic."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 50, "queue.buffering.max.messages": 500_000})
    for n in range(messages):
        producer.produce("t", b"x" * SIZE, partition=n % PARTITIONS)
        if n % 10_000 == 0:
            producer.poll(0)
    producer.flush()


def settings(bootstrap: str, group: str) -> dict[str, Any]:
    """The same for both."""
    return {"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest"}


def plain(bootstrap: str, group: str) -> Any:
    """confluent-kafka alone."""
    consumer = Consumer(settings(bootstrap, group))
    consumer.subscribe(["t"])
    return consumer


def ours(bootstrap: str, group: str) -> Any:
    """confluent-kafka behind a thin member."""
    return GroupConsumer(settings(bootstrap, group), ["t"], "cooperative-sticky")


def by_poll(consumer: Any, messages: int) -> float:
    """Seconds from the first message to the last."""
    poll, seen, began = consumer.poll, 0, 0.0
    while seen < messages:
        message = poll(1.0)
        if message is not None and message.error() is None:
            seen += 1
            began = began or time.perf_counter()
    return time.perf_counter() - began


def by_consume(consumer: Any, messages: int) -> float:
    """The same, 500 a call."""
    seen, began = 0, 0.0
    while seen < messages:
        got = consumer.consume(500, 1.0)
        seen += len(got)
        if got and not began:
            began = time.perf_counter()
    return time.perf_counter() - began


def main() -> None:
    """In turns, so that what else the machine does hits both."""
    messages = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    turns = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    with Broker() as broker:
        broker.create_topic("t", PARTITIONS)
        fill(broker.bootstrap, messages)
        for how in (by_poll, by_consume):
            rates: dict[str, list[float]] = {"plain": [], "GroupConsumer": []}
            for turn in range(turns):
                for name, make in (("plain", plain), ("GroupConsumer", ours)):
                    rates[name].append(measure(make, how, broker.bootstrap, f"{how.__name__}-{name}-{turn}", messages))
            median = {name: statistics.median(values) for name, values in rates.items()}
            print(
                json.dumps(
                    {
                        "how": how.__name__,
                        "messages": messages,
                        "per_s": {name: [round(v) for v in values] for name, values in rates.items()},
                        "median_per_s": {name: round(value) for name, value in median.items()},
                        "ratio": round(median["GroupConsumer"] / median["plain"], 3),
                    }
                )
            )


def measure(
    make: Callable[[str, str], Any], how: Callable[[Any, int], float], bootstrap: str, group: str, messages: int
) -> float:
    """Messages a second of one run."""
    consumer = make(bootstrap, group)
    try:
        return messages / how(consumer, messages)
    finally:
        consumer.close()


if __name__ == "__main__":
    main()
