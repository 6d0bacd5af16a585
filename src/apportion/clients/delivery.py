"""How the work of tasks becomes lasting: what a commit sends, and when it counts."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, Final

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import (
    CommitFailedError,
    IllegalGenerationError,
    KafkaError,
    KafkaTimeoutError,
    RebalanceInProgressError,
    UnknownMemberIdError,
)

from apportion.clients.stores import State, Store
from apportion.tasks.topology import Task

log = logging.getLogger("apportion.clients")

DEADLINE_S: Final = 5.0
"""How long a commit waits for the brokers' answers to all that it sent."""
OFFSETS_MS: Final = 10_000
CLOSE_S: Final = 5.0
REPLACED: Final = (CommitFailedError, IllegalGenerationError, RebalanceInProgressError, UnknownMemberIdError)
"""Answers to a commit that came too late: somebody else has the task, and reads on from the last commit."""


class RunningTask(State):
    """The state of a task that runs, and how far its commits are.

    given
        (topic, partition) to the offset behind the last record that ``poll`` gave, where no commit has taken it yet.
    expected
        Where the next record that this task sends to its changelog must come to stand; None where that is unknown,
        after an answer that did not come.
    """

    def __init__(self, task: Task, store: Store, changelog: str | None) -> None:
        super().__init__(store)
        self.task = task
        self.log = None if changelog is None else TopicPartition(changelog, task.partition)
        self.given: dict[Any, int] = {}
        self.expected: int | None = store.position
        self.answers: list[Any] = []
        self.error: BaseException | None = None

    @property
    def waits(self) -> bool:
        """Whether the brokers owe this task an answer: until it comes, no records are given of it."""
        return bool(self.answers)

    def send(self, delivery: AtLeastOnce, headers: list[tuple[str, bytes]]) -> None:
        """All changes to the changelog; what it refuses at once stands in ``error``."""
        self.sent, self.changes, self.error = self.changes, {}, None
        try:
            for key, value in self.sent.items():
                self.answers.append(delivery.send(self.log, key, value, headers))
        except KafkaError as error:
            self.error = error

    def answered(self, until: float) -> bool:
        """Whether all answers are there, waiting for them until then (``time.monotonic``)."""
        for answer in self.answers:
            answer._produce_future.wait(max(0.0, until - time.monotonic()))
        return all(answer.is_done for answer in self.answers)

    def take_answers(self) -> list[int] | None:
        """Offsets of all that was sent; None where some of it failed: it is to be sent again, and ``error`` tells why.

        What did come to stand before a failure is this task's own, and known to be when it sends again.
        """
        answers, self.answers = self.answers, []
        offsets = [answer.value.offset for answer in answers if answer.succeeded()]
        failed = next((answer.exception for answer in answers if answer.failed()), None)
        self.error = self.error or failed
        if self.error is None:
            return offsets
        self.changes, self.sent = {**self.sent, **self.changes}, {}
        if failed is not None:
            self.expected = None  # whether it was written all the same is not known
        elif offsets and offsets == list(range(offsets[0], offsets[0] + len(offsets))) and offsets[0] == self.expected:
            self.expected = offsets[-1] + 1
        return None


class AtLeastOnce:
    """State first, then offsets: a crash in between reads the same records again."""

    behind = 0
    """Offsets that a commit takes up behind its records, in each of their partitions."""

    def __init__(self, connection: Mapping[str, Any]) -> None:
        self._producer = KafkaProducer(**connection, acks="all", linger_ms=5)

    def close(self) -> None:
        """Let go of the producer; what was not answered by then is given up, and read again by the next owner."""
        close_producer(self._producer)

    def send(self, pair: Any, key: bytes | None, value: bytes | None, headers: Any) -> Any:
        """Hand a record to the client; its answer comes later."""
        return self._producer.send(pair.topic, key=key, value=value, partition=pair.partition, headers=headers)

    def learn(self, pairs: Iterable[Any], until: float) -> set[Any]:
        """Those that exist, looking again for others: by itself the client would refuse a grown log's for minutes."""
        cluster, missing = self._producer._metadata, set(pairs)
        exist = set[Any]()
        while True:
            known = {pair for pair in missing if pair.partition in (cluster.partitions_for_topic(pair.topic) or ())}
            exist, missing = exist | known, missing - known
            if not missing or time.monotonic() > until:
                return exist
            for pair in missing:
                self._producer._sender.add_topic(pair.topic)
            cluster.request_update()
            time.sleep(0.05)

    def finish(self, consumer: KafkaConsumer, offsets: Mapping[Any, Any]) -> bool:
        """Commit the offsets; False where they came too late."""
        if not offsets:
            return True
        try:
            consumer.commit(offsets, timeout_ms=OFFSETS_MS)
        except REPLACED as late:
            log.warning(
                "offsets of %d partitions were not taken: %s; they are sent again, or read again by the next owner",
                *(len(offsets), late),
            )
            return False
        return True


def close_producer(producer: Any) -> None:
    """Close within a short time, whatever is still on its way."""
    with suppress(KafkaTimeoutError):
        producer.flush(CLOSE_S)
    producer._sender.force_close()
    producer._sender.join(1)
    with suppress(KafkaTimeoutError):
        producer.close(timeout=1)
