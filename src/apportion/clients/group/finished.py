"""``done``: commit only finished records, whatever worker finishes them, and give a partition up once it has none open.

The group's member notes each record that it gives out. A commit goes no further than the first of a partition that is
open still; a partition that goes to another member waits for its open records, up to a deadline, and is committed then.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final
from weakref import WeakKeyDictionary

from apportion.errors import BadInput

MOST_S: Final = 3_600
"""Seconds that a partition may wait for its open records, at most."""
Place = tuple[str, int]


class Unfinished:
    """The records of one member that were given out and are not done; callable from any thread.

    drain_s
        Seconds that a partition waits for them before it goes.
    """

    def __init__(self, drain_s: float) -> None:
        self.drain_s = drain_s
        self._open: dict[Place, dict[int, Any]] = {}
        self._lock = threading.Lock()

    def give(self, records: Iterable[Any]) -> None:
        """They are open from now on; in ascending order within a partition."""
        with self._lock:
            for record in records:
                topic, partition, offset = _place(record)
                self._open.setdefault((topic, partition), {})[offset] = record

    def done(self, records: Iterable[Any]) -> list[Any]:
        """Close them; those that count no more, since their partition went, or came back, in the meantime."""
        late = []
        with self._lock:
            for record in records:
                topic, partition, offset = _place(record)
                still_open = self._open.get((topic, partition), {})
                # The object itself: the same offset may have been given once more since.
                if still_open.get(offset) is record:
                    del still_open[offset]
                else:
                    late.append(record)
        return late

    def capped(self, offsets: Mapping[Any, Any]) -> dict[Any, Any]:
        """The offsets to commit, as far as everything before them is done."""
        with self._lock:
            first = {place: min(still_open) for place, still_open in self._open.items() if still_open}
        return {
            part: offset._replace(offset=min(offset.offset, first.get((part.topic, part.partition), offset.offset)))
            for part, offset in offsets.items()
        }

    def open_in(self, parts: Iterable[Any]) -> int:
        """How many records of these partitions are open."""
        with self._lock:
            return sum(len(self._open.get((part.topic, part.partition), ())) for part in parts)

    def keep(self, parts: Collection[Any]) -> None:
        """Forget the open records of all other partitions: they are another member's."""
        places = {(part.topic, part.partition) for part in parts}
        with self._lock:
            self._open = {place: still_open for place, still_open in self._open.items() if place in places}


OF_SUBSCRIPTION: Final[WeakKeyDictionary[Any, Unfinished]] = WeakKeyDictionary()
"""A client's state of its subscription, which its parts share, to what it gave out."""


def done(consumer: Any, records: Iterable[Any]) -> list[Any]:
    """Say that these records are finished; callable from any thread, in any order.

        consumer = KafkaConsumer(..., partition_assignment_strategy=[assignor("cooperative-sticky", drain_s=20)])
        for partition, records in consumer.poll().items():
            workers.submit(lambda records=records: (work(records), done(consumer, records)))

    consumer
        A KafkaConsumer or GroupConsumer whose strategy was given ``drain_s``.
    records
        The objects that ``poll`` gave.
    Returns
        Those that count no more: their partition is another member's, which reads them again.
    Raises
        BadInput for another consumer.
    """
    member = getattr(consumer, "_member", None) or consumer
    subscription = getattr(member, "_subscription", None)
    unfinished = None if subscription is None else OF_SUBSCRIPTION.get(subscription)
    if unfinished is None:
        needed = "a KafkaConsumer or GroupConsumer with a strategy of apportion's that was given drain_s"
        raise BadInput("consumer", type(consumer).__name__, needed)
    return unfinished.done(records)


def _place(record: Any) -> tuple[str, int, int]:
    """Topic, partition and offset; confluent-kafka's messages have methods for them."""
    if callable(record.offset):
        return record.topic(), record.partition(), record.offset()
    return record.topic, record.partition, record.offset
