"""What the examples share: worker processes that tell in JSON lines, topics filled, offsets asked."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

from apportion.testing import processes


class Worker:
    """A process of an example: its JSON lines so far, and ways to end it."""

    def __init__(self, module: str, *args: str) -> None:
        command = [sys.executable, "-m", module, *args]
        self.process = processes.start(command, log=None, stdout=subprocess.PIPE)
        self.lines: list[dict[str, Any]] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(json.loads(line))

    def of(self, event: str) -> list[dict[str, Any]]:
        """All lines of one kind so far."""
        return [line for line in list(self.lines) if line["event"] == event]

    def newest(self, event: str) -> dict[str, Any]:
        """The last line of one kind; {} before."""
        found = self.of(event)
        return found[-1] if found else {}

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        return self.process.poll() is None

    def kill(self) -> None:
        """Kill -9: it says nothing to anybody."""
        self.process.kill()
        self.process.wait()
        self.close()

    def leave(self, patience_s: float = 15) -> None:
        """End its standard input, which it takes as the word to leave in good order."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            self.process.wait(patience_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
        self.close()

    def close(self) -> None:
        """End it if it still runs, and read its last lines."""
        if self.alive:
            self.process.kill()
            self.process.wait()
        self._reader.join(5)


def tell(event: str, **fields: Any) -> None:
    """One line to whoever started this process."""
    sys.stdout.write(json.dumps({"at": time.time(), "event": event, **fields}) + "\n")
    sys.stdout.flush()


def told_to_leave() -> threading.Event:
    """Set when standard input ends."""
    over = threading.Event()

    def wait() -> None:
        sys.stdin.read()
        over.set()

    threading.Thread(target=wait, daemon=True).start()
    return over


def until(what: str, true: Callable[[], bool], patience_s: float = 120) -> None:
    """Wait for something; the example fails where it does not come."""
    end = time.monotonic() + patience_s
    while not true():
        if time.monotonic() > end:
            raise SystemExit(f"gave up after {patience_s:.0f} s: {what}")
        time.sleep(0.05)


def fill(bootstrap: str, topic: str, records: Iterable[tuple[int, bytes | None, bytes, int | None]]) -> None:
    """Write (partition, key, value, timestamp in ms) to a topic, in this order."""
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=bootstrap, linger_ms=20, batch_size=1 << 17)
    for partition, key, value, at_ms in records:
        producer.send(topic, value, key=key, partition=partition, timestamp_ms=at_ms)
    producer.flush()
    producer.close()


def read_all(bootstrap: str, topic: str) -> list[Any]:
    """Every record of a topic, partition by partition."""
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(bootstrap_servers=bootstrap, group_id=None, auto_offset_reset="earliest")
    pairs = [TopicPartition(topic, p) for p in sorted(consumer.partitions_for_topic(topic) or ())]
    consumer.assign(pairs)
    ends = consumer.end_offsets(pairs)
    consumer.seek_to_beginning(*pairs)
    found: dict[Any, list[Any]] = {pair: [] for pair in pairs}
    while any(consumer.position(pair) < ends[pair] for pair in pairs):
        for pair, records in consumer.poll(timeout_ms=200, max_records=5000).items():
            found[pair].extend(records)
    consumer.close()
    return [record for pair in pairs for record in found[pair]]


class Progress:
    """How far a group is: messages that it has not committed yet."""

    def __init__(self, bootstrap: str, group: str, topics: list[str]) -> None:
        from apportion.clients.lag_feed import kafka_offsets

        self._fetch = kafka_offsets(bootstrap_servers=bootstrap)
        self._group, self._topics = group, topics

    def left(self) -> int:
        """Messages without a commit behind them."""
        table = self._fetch(self._group, self._topics, 10)
        return sum(row["end"] - row.get("committed", row["begin"]) for rows in table.values() for row in rows.values())
