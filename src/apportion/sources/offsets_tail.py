"""The tail of ``__consumer_offsets``: its records as they are written, for a reader that never stops.

A consumer without a group, so nothing is committed and nobody is disturbed. It starts at the end, or behind what is
known already; a broker that goes away and comes back costs a pause, not the place.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from apportion.errors import ApportionError
from apportion.sources.cluster import OFFSETS, opened, sentences
from apportion.sources.properties import Properties

RETRY_S: Final = 5.0
CLOCKS_APART_S: Final = 60.0
"""By how much a broker's clock, which stamps the records, may be behind ours."""
AT_ONCE: Final = 5_000
"""Records of one poll."""


@dataclass(frozen=True, slots=True)
class TailRecord:
    """One record of ``__consumer_offsets``: where it is, when it was written (ms), its bytes."""

    partition: int
    offset: int
    at: int
    key: bytes | None
    value: bytes | None


class OffsetsTail:
    """Reads the topic's tail in a thread of its own and hands records on in batches.

    take
        Gets each batch, in the order of each partition; what it raises ends the thread's batch, not the thread.
    start
        Partition to the first offset to read; partitions that are not there begin at their end, or, of a topic that
        was waited for, with what was written since it was looked for in vain.
    trouble, since
        Why nothing is read just now, "" while all is well; and since when (seconds since 1970) it has been so.
    """

    def __init__(
        self,
        bootstrap: str,
        properties: Properties,
        take: Callable[[Sequence[TailRecord]], None],
        start: Mapping[int, int] | None = None,
    ) -> None:
        self.trouble, self.since = "it was not read yet", time.time()
        self.records = 0
        self._bootstrap, self._properties, self._take = bootstrap, properties, take
        self._next: dict[int, int] = dict(start or {})
        self._missed_at: float | None = None
        self._over = threading.Event()
        self.ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tail of __consumer_offsets", daemon=True)

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def close(self, patience_s: float = 10) -> None:
        """Stop, and wait for the thread."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join(patience_s)

    def _run(self) -> None:
        while not self._over.is_set():
            try:
                with sentences(self._bootstrap):
                    self._follow()
            except ApportionError as wrong:
                self._note(str(wrong).rstrip("."))
            except Exception as wrong:  # the tail is a gift: whatever breaks it must not end the rounds
                self._note(f"{type(wrong).__name__}: {wrong}")
            self.ready.set()
            self._over.wait(RETRY_S)

    def _note(self, trouble: str) -> None:
        if not self.trouble or self.trouble == "it was not read yet":
            self.since = time.time()
        self.trouble = trouble

    def _follow(self) -> None:
        """Read until the end is asked for, or a client's error."""
        from kafka import KafkaConsumer

        consumer = opened(
            KafkaConsumer,
            self._bootstrap,
            self._properties,
            group_id=None,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            # A transaction that is left open would hold up all that is written behind it, and only commits are of one.
            isolation_level="read_uncommitted",
            exclude_internal_topics=False,
            allow_auto_create_topics=False,
            metadata_max_age_ms=30_000,
        )
        try:
            if not self._assign(consumer):
                self._note(
                    "the cluster shows no __consumer_offsets: no consumer has joined a group or committed yet, or this "
                    "user may not see it (ACL Describe)"
                )
                return
            self.trouble = ""
            self.ready.set()
            while not self._over.is_set():
                self._hand_on(consumer.poll(timeout_ms=500, max_records=AT_ONCE))
        finally:
            consumer.close()

    def _assign(self, consumer: Any) -> bool:
        """Take every partition, each at the next offset that is not known yet."""
        from kafka import TopicPartition

        numbers = consumer.partitions_for_topic(OFFSETS)
        if not numbers:
            self._missed_at = time.time()
            return False
        places = [TopicPartition(OFFSETS, number) for number in sorted(numbers)]
        consumer.assign(places)
        begins, ends = consumer.beginning_offsets(places), consumer.end_offsets(places)
        first = dict(ends)
        if self._missed_at is not None:
            since = round((self._missed_at - CLOCKS_APART_S) * 1000)
            written = consumer.offsets_for_times(dict.fromkeys(places, since))
            first |= {partition: record.offset for partition, record in written.items() if record is not None}
        for topic_partition in places:
            known = self._next.get(topic_partition.partition, first[topic_partition])
            # Of a topic that was made anew the old offsets mean nothing.
            at = max(known, begins[topic_partition]) if known <= ends[topic_partition] else begins[topic_partition]
            self._next[topic_partition.partition] = at
            consumer.seek(topic_partition, at)
        return True

    def _hand_on(self, polled: Mapping[Any, Sequence[Any]]) -> None:
        batch = [
            TailRecord(topic_partition.partition, record.offset, record.timestamp, record.key, record.value)
            for topic_partition, records in polled.items()
            for record in records
        ]
        if not batch:
            return
        for topic_partition, records in polled.items():
            self._next[topic_partition.partition] = records[-1].offset + 1
        self.records += len(batch)
        self._take(batch)
