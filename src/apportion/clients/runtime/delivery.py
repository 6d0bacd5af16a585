"""How the work of tasks becomes lasting: what a commit sends, and when it counts.

One commit protocol with two ends. Both send all changes to the changelogs, and what goes to other topics, and wait for
the answers. ``AtLeastOnce`` then writes the stores and commits the offsets, each by itself. ``ExactlyOnce`` puts all of
it into one transaction of the client's producer, offsets too (KIP-447), and writes the stores once it is committed.
"""

from __future__ import annotations

import logging
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, ClassVar, Final, NamedTuple

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import (
    BrokerResponseError,
    CommitFailedError,
    FencedInstanceIdError,
    IllegalGenerationError,
    InvalidProducerEpochError,
    InvalidTxnStateError,
    KafkaError,
    KafkaTimeoutError,
    ProducerFencedError,
    RebalanceInProgressError,
    RetriableError,
    TransactionalIdAuthorizationFailedError,
    UnknownMemberIdError,
)

from apportion.clients.group.error_sentences import sentence
from apportion.clients.runtime.stores import State, Store
from apportion.errors import Unavailable
from apportion.tasks.topology import Task

log = logging.getLogger("apportion.clients")

DEADLINE_S: Final = 5.0
"""How long a commit waits for the brokers' answers to all that it sent."""
OFFSETS_S: Final = 10.0
CLOSE_S: Final = 5.0
BLOCK_MS: Final = 5000
"""How long the producer may look for a topic, or for the coordinator of its transactions."""
REPLACED: Final = (CommitFailedError, IllegalGenerationError, RebalanceInProgressError, UnknownMemberIdError)
"""Answers to a commit that came too late: somebody else has the task, and reads on from the last commit."""
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


class Unanswered:
    """Records that were handed to the producer, and what came of them.

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

    def _hand_over(self, delivery: Delivery, records: Iterable[Output]) -> None:
        self.error, self.failed_at = None, math.inf
        try:
            for record in records:
                answer = delivery.send(record)
                answer.add_errback(self._note_failure)
                self.answers.append(answer)
        except KafkaError as error:
            self.error = error
            self._note_failure(error)

    def _note_failure(self, error: BaseException) -> None:
        self.failed_at = min(self.failed_at, time.monotonic())

    def _take(self) -> tuple[list[int], bool]:
        """Offsets of what was written, and whether it is not known of some record whether it was."""
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

    def send(self, delivery: Delivery) -> bool:
        """All of them, where nothing is on its way yet; whether there were any."""
        if self.waits or not self.records:
            return False
        self._sent, self.records, self.size = self.records, [], 0
        self._hand_over(delivery, self._sent)
        return True

    def take_answers(self) -> None:
        """Where some were not written, all are sent again."""
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

    def send(self, delivery: Delivery, headers: Headers) -> None:
        """All changes to the changelog; what it refuses at once stands in ``error``."""
        assert self.log is not None  # noqa: S101 - the caller looked
        self.sent, self.changes, self.size = self.changes, {}, 0
        topic, partition = self.log
        self._hand_over(delivery, (Output(topic, key, value, partition, headers) for key, value in self.sent.items()))

    def take_answers(self) -> list[int] | None:
        """Offsets of all that was sent; None where some of it failed: it is to be sent again, and ``error`` tells why.

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


class Delivery(ABC):
    """One end of the commit protocol, on a producer of its own.

    exact
        Whether a commit is all or nothing: where a part of it fails, everything since the last is done again.
    behind
        Offsets that a commit takes up behind its records in each of their partitions.
    """

    exact: ClassVar[bool]
    behind: ClassVar[int]
    _producer: Any

    @abstractmethod
    def begin(self) -> None:
        """Before the first record of a commit."""

    @abstractmethod
    def finish(self, consumer: KafkaConsumer, member: Any, offsets: Mapping[Any, Any]) -> bool:
        """Make a commit lasting: all that was sent stands in the logs. False where it came too late, and is undone."""

    @abstractmethod
    def abort(self, why: object) -> None:
        """Undo what was sent since ``begin``, as far as that can be; ``why``: what made it fail."""

    def close(self) -> None:
        """Let go of the producer; what was not answered by then is given up, and read again by the next owner."""
        if self._producer is not None:
            close_producer(self._producer)

    def send(self, record: Output) -> Any:
        """Hand a record to the client; its answer comes later."""
        topic, key, value, partition, headers = record
        return self._producer.send(topic, key=key, value=value, partition=partition, headers=headers)

    def learn(self, pairs: Iterable[Any], until: float) -> set[Any]:
        """Those that exist, looking again for others: by itself the client would refuse a grown log's for minutes."""
        exist, missing = set[Any](), set(pairs)
        while missing:
            cluster = self._producer._metadata
            known = {pair for pair in missing if pair.partition in (cluster.partitions_for_topic(pair.topic) or ())}
            exist, missing = exist | known, missing - known
            if missing and time.monotonic() > until:
                break
            for pair in missing:
                self._producer._sender.add_topic(pair.topic)
                cluster.request_update()
                time.sleep(0.05)
        return exist


class AtLeastOnce(Delivery):
    """State first, then offsets: a crash in between reads the same records again."""

    exact = False
    behind = 0

    def __init__(self, connection: Mapping[str, Any]) -> None:
        self._producer = KafkaProducer(**connection, acks="all", linger_ms=5, max_block_ms=BLOCK_MS)

    def begin(self) -> None:
        """Nothing: records count as soon as they stand in a log."""

    def abort(self, why: object) -> None:
        """Nothing: what stands in a log stays."""

    def finish(self, consumer: KafkaConsumer, member: Any, offsets: Mapping[Any, Any]) -> bool:
        """Commit the offsets.

        Raises
            KafkaError where the brokers do not take them in time.
        """
        if not offsets:
            return True
        try:
            consumer.commit(offsets, timeout_ms=OFFSETS_S * 1000)
        except REPLACED as late:
            log.warning(
                "offsets of %d partitions were not taken: %s; they are sent again, or read again by the next owner",
                *(len(offsets), late),
            )
            return False
        return True


class ExactlyOnce(Delivery):
    """One transaction a commit, begun and ended within it: no work of the application waits in an open one.

    transactional_id
        The same for the same ``state_dir``: a restart ends at once what a killed process left open.
    timeout_s
        After how long the brokers abort what nobody ended.
    another_id
        Gives the id to go on with once another process turns out to have this one, too.
    Raises
        Unavailable where the user has no right to the transactional id; KafkaError where the brokers do not answer.
    """

    exact = True
    behind = 1  # the record that ends a transaction

    def __init__(
        self, connection: Mapping[str, Any], transactional_id: str, timeout_s: float, another_id: Callable[[], str]
    ) -> None:
        self._timeout_s, self._another_id = timeout_s, another_id
        self._begun_at = 0.0
        self._settings = {
            **connection,
            "acks": "all",
            "linger_ms": 5,
            "max_block_ms": BLOCK_MS,
            "transactional_id": transactional_id,
            "transaction_timeout_ms": int(timeout_s * 1000),
        }
        self._producer = None
        self._begun = False
        try:
            self._open()
        except TransactionalIdAuthorizationFailedError as error:
            raise Unavailable(sentence(error, transactional_id)) from None

    def begin(self) -> None:
        """Begin a transaction, with a new producer where the last one came to an end."""
        if self._producer is None:
            self._open()
        # kafka-python keeps offsets of a transaction that was refused, and would send them with the next one: under the
        # generation of now, for partitions that are others' by now.
        self._producer._transaction_manager._pending_txn_offset_commits.clear()
        self._begun, self._begun_at = True, time.time()
        self._producer.begin_transaction()

    def finish(self, consumer: KafkaConsumer, member: Any, offsets: Mapping[Any, Any]) -> bool:
        """Offsets into the transaction, with the member's generation as it was when they were taken; then its end.

        Raises
            KafkaError; whether the transaction is committed is then unknown, unless it was refused (``REPLACED``).
        """
        manager = self._producer._transaction_manager
        if offsets:
            self._wait(manager.send_offsets_to_transaction(offsets, member))
        self._wait(manager.begin_commit())
        self._begun = False
        return True

    def abort(self, why: object) -> None:
        """Undo a transaction, or end a producer of which it is not known where it stands.

        A new producer of the same transactional id ends what its predecessor left, one way or the other. Brokers fence
        a producer by themselves only after the time-out: before, another one of the same id did it.
        """
        if not self._begun:
            return
        self._begun = False
        if is_fenced(why) and time.time() - self._begun_at < self._timeout_s:
            self._settings["transactional_id"] = self._another_id()
        if self._producer is not None:
            manager = self._producer._transaction_manager
            try:
                if not manager.is_completing():
                    self._wait(manager.begin_abort())
                    return
            except KafkaError as error:
                log.info("the transaction could not be aborted (%s): a new producer ends it", error)
            self._discard()
        with suppress(KafkaError):  # the next transaction tries it again
            self._open()

    def _open(self) -> None:
        producer = KafkaProducer(**self._settings)
        try:
            producer.init_transactions()
        except BaseException:
            producer._sender.force_close()
            raise
        self._producer = producer

    def _discard(self) -> None:
        producer, self._producer = self._producer, None
        producer._sender.force_close()
        close_producer(producer, 0.0)

    def _wait(self, result: Any) -> None:
        self._producer._sender.wakeup()
        if not result.wait(timeout_ms=OFFSETS_S * 1000):
            raise KafkaTimeoutError(f"the coordinator of the transaction did not answer within {OFFSETS_S:g} s")


def is_fenced(why: object) -> bool:
    """Whether it is the brokers' answer to a producer that was replaced, or has that answer inside."""
    reasons = (why, *getattr(why, "args", ()))
    return any(isinstance(reason, (ProducerFencedError, InvalidProducerEpochError)) for reason in reasons)


def may_pass(error: BaseException) -> bool:
    """Whether a transaction that failed with it may succeed when everything is done once more."""
    if isinstance(error, FencedInstanceIdError):
        return False
    transient = (*REPLACED, ProducerFencedError, InvalidTxnStateError, InvalidProducerEpochError, RetriableError)
    return isinstance(error, transient) or not isinstance(error, BrokerResponseError)


def close_producer(producer: Any, patience_s: float = CLOSE_S) -> None:
    """Close within a short time, whatever is still on its way."""
    with suppress(KafkaTimeoutError):
        producer.flush(patience_s)
    producer._sender.force_close()
    producer._sender.join(1)
    with suppress(KafkaTimeoutError):
        producer.close(timeout=1)
