"""How the work of tasks becomes lasting: the content of a commit, and when it counts.

One commit protocol with two ends. Both send all changes to the changelogs, and what goes to other topics, and wait for
the answers. ``AtLeastOnce`` then writes the stores and commits the offsets, each by itself. ``ExactlyOnce`` puts all of
it into one transaction of the client's producer, offsets too (KIP-447), and writes the stores once it is committed.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from typing import Any, Final

from kafka import KafkaConsumer, KafkaProducer
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
from apportion.clients.runtime.ledger import DEADLINE_S, Delivery, Ledger, Written, close_producer
from apportion.clients.runtime.sending import RunningTask
from apportion.errors import Unavailable
from apportion.tasks.topology import Task

log = logging.getLogger("apportion.clients")

OFFSETS_S: Final = 10.0
BLOCK_MS: Final = 5000
"""How long the producer may look for a topic, or for the coordinator of its transactions."""
REPLACED: Final = (CommitFailedError, IllegalGenerationError, RebalanceInProgressError, UnknownMemberIdError)
"""Answers to a commit that came too late: somebody else has the task, and reads on from the last commit."""


class AtLeastOnce(Delivery):
    """State first, then offsets: a crash in between reads the same records again."""

    isolation_level = "read_uncommitted"
    behind = 0
    meanwhile = ", the others go on"

    def __init__(self, connection: Mapping[str, Any]) -> None:
        self._producer = KafkaProducer(**connection, acks="all", linger_ms=5, max_block_ms=BLOCK_MS)

    def commit(self, ledger: Ledger, member: Any) -> None:
        """Each task by itself: one whose changelog does not answer waits, and the others go on."""
        until = time.monotonic() + DEADLINE_S
        fresh = ledger.send(until)
        written = ledger.answers(fresh, until)
        for state, offsets in written:
            if offsets is None:
                log.warning("what task %s changed is not written: %s; it is tried again", state.task, state.error)
        ledger.keep(written)
        states, offsets_of = ledger.lasting()
        if self.finish(ledger.consumer, member, offsets_of):
            ledger.settle(states)
        for sent in fresh:
            if sent.error is not None:
                raise sent.error

    def lose(self, ledger: Ledger, lost: Collection[Task]) -> None:
        """Nothing: their outputs are sent all the same, twice in all."""

    def finish(self, consumer: KafkaConsumer, member: Any, offsets: Mapping[Any, Any]) -> bool:
        """Commit the offsets; False if it came too late, and is undone.

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

    own_id
        Gives the transactional id, the same for the same ``state_dir``: a restart ends at once what a killed process
        left open. It changes if another process turns out to have it, too.
    timeout_s
        After how long the brokers abort what nobody ended.
    Raises
        Unavailable where the user has no right to the transactional id; KafkaError where the brokers do not answer.
    """

    isolation_level = "read_committed"
    behind = 1  # the record that ends a transaction
    meanwhile = ""

    def __init__(self, connection: Mapping[str, Any], own_id: Callable[[], str], timeout_s: float) -> None:
        self._own_id, self._producer, self._begun = own_id, None, False
        self._settings = {
            **connection,
            "acks": "all",
            "linger_ms": 5,
            "max_block_ms": BLOCK_MS,
            "transaction_timeout_ms": int(timeout_s * 1000),
        }
        try:
            self._open()
        except TransactionalIdAuthorizationFailedError as error:
            raise Unavailable(sentence(error, own_id())) from None

    def commit(self, ledger: Ledger, member: Any) -> None:
        """All tasks in one transaction, or none."""
        if not ledger.outbox.records and not any(state.changes or state.given for state in ledger.running.values()):
            return
        try:
            written = self._transaction(ledger, member, time.monotonic() + DEADLINE_S)
        except BaseException as error:
            self._undo(ledger, error)
            if isinstance(error, KafkaError) and may_pass(error):
                return
            raise
        for state, _ in written:
            ledger.held.well(state.task)
        ledger.keep(written)

    def lose(self, ledger: Ledger, lost: Collection[Task]) -> None:
        """Outputs may be of these tasks, so all that is not committed is undone."""
        if ledger.outbox.records and any(ledger.running[task].given for task in lost):
            self._undo(ledger, f"tasks {', '.join(map(str, sorted(lost)))} are another member's now")

    def _transaction(self, ledger: Ledger, member: Any, until: float) -> Written:
        """Begun, filled and committed; raises if any part of it fails."""
        self.begin()
        fresh = ledger.send(until)
        written = ledger.answers(fresh, until)
        refused = min((sent for sent in fresh if sent.error), key=lambda sent: sent.failed_at, default=None)
        if refused is not None and refused.error is not None:
            if isinstance(refused, RunningTask) and not is_fenced(refused.error):
                ledger.hold(refused)
            raise refused.error
        if any(sent.waits for sent in fresh):
            raise KafkaTimeoutError(f"no answer within {DEADLINE_S:g} s to all that was to be written")
        states, offsets = ledger.lasting()
        self.finish(ledger.consumer, member, offsets or ledger.anchor())
        ledger.settle(states)
        return written

    def _undo(self, ledger: Ledger, why: object) -> None:
        """Whether a transaction without an answer was committed decides nothing here: the records read say so."""
        log.warning("the work since the last commit is undone, and done again: %s", why)
        self.abort(why)
        ledger.start_over()

    def begin(self) -> None:
        """Begin a transaction, with a new producer if the last one came to an end."""
        if self._producer is None:
            self._open()
        # kafka-python keeps offsets of a transaction that was refused, and would send them with the next one: under the
        # generation of now, for partitions that are others' by now.
        self._producer._transaction_manager._pending_txn_offset_commits.clear()
        self._begun = True
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
        """Undo a transaction, or end a producer whose state is unknown.

        A new producer of the same transactional id ends what its predecessor left, one way or the other.
        """
        if not self._begun:
            return
        self._begun = False
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
        producer = KafkaProducer(**self._settings, transactional_id=self._own_id())
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
