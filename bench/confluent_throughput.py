"""Messages a second of GroupConsumer beside a plain confluent-kafka consumer, in turns on one broker.

    python bench/confluent_throughput.py [messages] [turns]

Both read the same topic from its beginning, in a group of their own each time, one member, the same settings; ``poll``
takes one message a call, ``consume`` 500. The time runs from the first message to the last; ``cpu`` counts the
processor time of the whole process in it, which tells more where other programs share the machine.
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


def by_poll(consumer: Any, messages: int) -> tuple[float, float]:
    """Seconds and processor seconds from the first message to the last."""
    poll, seen, began, cpu = consumer.poll, 0, 0.0, 0.0
    while seen < messages:
        message = poll(1.0)
        if message is not None and message.error() is None:
            seen += 1
            if not began:
                began, cpu = time.perf_counter(), time.process_time()
    return time.perf_counter() - began, time.process_time() - cpu


def by_consume(consumer: Any, messages: int) -> tuple[float, float]:
    """The same, 500 a call."""
    seen, began, cpu = 0, 0.0, 0.0
    while seen < messages:
        got = consumer.consume(500, 1.0)
        seen += len(got)
        if got and not began:
            began, cpu = time.perf_counter(), time.process_time()
    return time.perf_counter() - began, time.process_time() - cpu


def main() -> None:
    """In turns, so that what else the machine does hits both."""
    messages = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    turns = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    with Broker() as broker:
        broker.create_topic("t", PARTITIONS)
        fill(broker.bootstrap, messages)
        for how in (by_poll, by_consume):
            runs: dict[str, list[tuple[float, float]]] = {"plain": [], "GroupConsumer": []}
            for turn in range(turns):
                for name, make in (("plain", plain), ("GroupConsumer", ours)):
                    runs[name].append(measure(make, how, broker.bootstrap, f"{how.__name__}-{name}-{turn}", messages))
            report(how.__name__, messages, runs)


def report(how: str, messages: int, runs: dict[str, list[tuple[float, float]]]) -> None:
    """One line of JSON: rates, their medians, and ours as a share of plain."""
    wall = {name: [messages / seconds for seconds, _ in of] for name, of in runs.items()}
    cpu = {name: [messages / seconds for _, seconds in of] for name, of in runs.items()}
    said: dict[str, Any] = {"how": how, "messages": messages}
    for unit, rates in (("per_s", wall), ("per_cpu_s", cpu)):
        median = {name: statistics.median(values) for name, values in rates.items()}
        said[unit] = {name: [round(value) for value in values] for name, values in rates.items()}
        said[f"{unit}_ratio"] = round(median["GroupConsumer"] / median["plain"], 3)
    print(json.dumps(said))


def measure(
    make: Callable[[str, str], Any],
    how: Callable[[Any, int], tuple[float, float]],
    bootstrap: str,
    group: str,
    messages: int,
) -> tuple[float, float]:
    """Seconds and processor seconds of one run."""
    consumer = make(bootstrap, group)
    try:
        return how(consumer, messages)
    finally:
        consumer.close()


if __name__ == "__main__":
    main()
