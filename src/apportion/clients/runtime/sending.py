"""Records that were handed to a producer, and their results: of running tasks, and to other topics."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from typing import Any, NamedTuple, Protocol

from kafka import TopicPartition
from kafka.errors import KafkaError

from apportion.clients.runtime.stores import State, Store
from apportion.tasks.topology import Task

Headers = list[tuple[str, bytes]]


class Output(NamedTuple):
    """A record for another topic; partition None: the producer's partitioner chooses."""

    topic: str
    key: bytes | None
    value: bytes | None
    partition: int | None
    headers: Headers

    @property
    def size(self) -> int:
        """Bytes of key and value."""
        return len(self.key or b"") + len(self.value or b"")


class Sender(Protocol):
    """Hands a record to a client's producer."""

    def send(self, record: Output) -> Any:
        """Its answer, which comes later."""
        ...


class Unanswered:
    """Records that were handed to the producer, and their results.

    error
        Why the last of them were not written; None where nothing failed.
    failed_at
        When the first of them failed (``time.monotonic``): one refusal ends a transaction, and so fails others later.
    """

    def __init__(self) -> None:
        self.answers: list[Any] = []
        self.error: BaseException | None = None
        self.failed_at = math.inf

    @property
    def waits(self) -> bool:
        """Whether the brokers owe an answer."""
        return bool(self.answers)

    def answered(self, until: float) -> bool:
        """Whether all answers are there, waiting for them until then (``time.monotonic``)."""
        for answer in self.answers:
            answer._produce_future.wait(max(0.0, until - time.monotonic()))
        return all(answer.is_done for answer in self.answers)

    def _hand_over(self, sender: Sender, records: Iterable[Output]) -> None:
        self.error, self.failed_at = None, math.inf
        try:
            for record in records:
                answer = sender.send(record)
                answer.add_errback(self._note_failure)
                self.answers.append(answer)
        except KafkaError as error:
            self.error = error
            self._note_failure(error)

    def _note_failure(self, error: BaseException) -> None:
        self.failed_at = min(self.failed_at, time.monotonic())

    def _take(self) -> tuple[list[int], bool]:
        """Offsets of the written records, and whether for some record it is unknown if it was written."""
        answers, self.answers = self.answers, []
        failed = next((answer.exception for answer in answers if answer.failed()), None)
        self.error = self.error or failed
        return [answer.value.offset for answer in answers if answer.succeeded()], failed is not None


class Outbox(Unanswered):
    """Records for other topics, of whichever task."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[Output] = []
        self.size = 0
        self._sent: list[Output] = []

    def put(self, record: Output) -> None:
        """Keep a record for the next commit."""
        self.records.append(record)
        self.size += record.size

    def send(self, sender: Sender) -> bool:
        """All of them, if nothing is on its way yet; whether there were any."""
        if self.waits or not self.records:
            return False
        self._sent, self.records, self.size = self.records, [], 0
        self._hand_over(sender, self._sent)
        return True

    def refuse(self, error: KafkaError) -> None:
        """Send nothing this time."""
        self.error, self.failed_at = error, time.monotonic()

    def take_answers(self) -> None:
        """If some were not written, all are sent again."""
        self._take()
        if self.error is not None:
            self.records = self._sent + self.records
        self._sent = []

    def clear(self) -> None:
        """Forget everything: it belongs to work that will be done again."""
        self.__init__()  # type: ignore[misc]


class RunningTask(State, Unanswered):
    """The state of a task that runs, and how far its commits are.

    given
        (topic, partition) to the offset behind the last record that ``poll`` gave, where no commit has taken it yet.
    expected
        Where the next record that this task sends to its changelog must come to stand; None where that is unknown,
        after an answer that did not come.
    epoch
        What it writes with: the highest in its changelog plus the group's generation in which it began to run. A later
        owner's is higher, whether or not an earlier one wrote anything, and also after the group was deleted.
    """

    def __init__(self, task: Task, store: Store, changelog: str | None, epoch: int) -> None:
        State.__init__(self, store)
        Unanswered.__init__(self)
        self.task, self.epoch = task, epoch
        self.log = None if changelog is None else TopicPartition(changelog, task.partition)
        self.given: dict[Any, int] = {}
        self.expected: int | None = store.position

    def send(self, sender: Sender, headers: Headers) -> None:
        """All changes to the changelog; a record that it refuses at once is in ``error``."""
        assert self.log is not None  # noqa: S101 - the caller looked
        self.sent, self.changes, self.size = self.changes, {}, 0
        topic, partition = self.log
        self._hand_over(sender, (Output(topic, key, value, partition, headers) for key, value in self.sent.items()))

    def take_answers(self) -> list[int] | None:
        """Offsets of all that was sent; None if some of it failed: it is to be sent again, and ``error`` says why.

        What did come to stand before a failure is this task's own, and known to be when it sends again.
        """
        offsets, unknown = self._take()
        if self.error is None:
            return offsets
        self.changes, self.sent = {**self.sent, **self.changes}, {}
        if unknown:
            self.expected = None
        elif offsets and offsets == list(range(offsets[0], offsets[0] + len(offsets))) and offsets[0] == self.expected:
            self.expected = offsets[-1] + 1
        return None
