"""Records that running tasks read, changed and sent since the last commit, until a delivery makes it lasting."""

from __future__ import annotations

import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from typing import Any, ClassVar, Final

from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaTimeoutError
from kafka.structs import OffsetAndMetadata

from apportion.clients.runtime.back_off import BackOff
from apportion.clients.runtime.input_watch import InputWatch
from apportion.clients.runtime.restore import EPOCH, Restorer
from apportion.clients.runtime.sending import Outbox, Output, RunningTask, Unanswered
from apportion.clients.runtime.stores import NoStore
from apportion.errors import BadInput
from apportion.tasks.topology import Task, Topology

log = logging.getLogger("apportion.clients")

DEADLINE_S: Final = 5.0
"""How long a commit waits for the brokers' answers to all that it sent."""
CLOSE_S: Final = 5.0
HOLD_S: Final = (1.0, 30.0)
"""How long a task whose changelog refused something waits: doubled each time, from first to second."""
Written = list[tuple[RunningTask, list[int] | None]]
"""Tasks with the offsets at which all their changes stand in their changelogs; None where some were not written."""
Tell = Callable[[str, Task], None]


class Delivery(ABC):
    """One end of the commit protocol, on a producer of its own.

    isolation_level
        Which records of its inputs a task may be given.
    behind
        Offsets that a commit takes up behind its records in each of their partitions.
    meanwhile
        What becomes of the others while one task's changelog does not answer, for the log.
    """

    isolation_level: ClassVar[str]
    behind: ClassVar[int]
    meanwhile: ClassVar[str]
    _producer: Any

    @abstractmethod
    def commit(self, ledger: Ledger, member: Any) -> None:
        """Make the work of a ledger lasting, as this member (``ConsumerGroupMetadata``) of the group."""

    @abstractmethod
    def lose(self, ledger: Ledger, lost: Collection[Task]) -> None:
        """Before tasks stop that are another's now, which sends their outputs again."""

    def close(self) -> None:
        """Let go of the producer; records without an answer by then are given up, and read again by the next owner."""
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


class Ledger:
    """The tasks that run here, with all of theirs that is not committed, and the outputs of them all.

    held
        Tasks that may begin again only after a while: their changelogs refused something.
    undone
        How often all that was not committed was thrown away.
    stopped
        How often a task was stopped that its orders would have run on.
    """

    def __init__(
        self,
        topology: Topology,
        delivery: Delivery,
        consumer: KafkaConsumer,
        restorer: Restorer,
        watch: InputWatch,
        tell: Tell,
    ) -> None:
        self.consumer, self.outbox = consumer, Outbox()
        self.running: dict[Task, RunningTask] = {}
        self.held = BackOff[Task](*HOLD_S)
        self.undone = self.stopped = 0
        self._topology, self._delivery, self._watch = topology, delivery, watch
        self._restorer, self._tell = restorer, tell

    @property
    def size(self) -> int:
        """Bytes of keys and values that the next commit writes."""
        return self.outbox.size + sum(state.size for state in self.running.values())

    # -- tasks -------------------------------------------------------------------------------------------------------

    def start(self, task: Task, generation: int) -> None:
        """A task whose state is whole runs from now on, as a writer of a new epoch."""
        store = self._restorer.take(task) if self.stateful(task) else NoStore()
        changelog = self._topology.subtopologies[task.subtopology].changelog
        state = self.running[task] = RunningTask(task, store, changelog, store.epoch + max(1, generation))
        for key in sorted(self._restorer.stale_keys(task)):
            state.put(key, store.get(key))  # written once more, and so the newest again, by the next commit

    def stop(self, task: Task) -> None:
        """Uncommitted work is thrown away: the next owner reads it again."""
        state = self.running.pop(task)
        if self.stateful(task):
            self._restorer.give_back(task, state.store)
        self._tell("close", task)

    def lose(self, lost: set[Task]) -> None:
        """Stop tasks that are another's from now on."""
        self._delivery.lose(self, lost)
        stay = {pair for task in lost for pair in self.pairs(task)} & self.consumer.assignment()
        for task in lost & self.running.keys():
            self.stop(task)
        if stay:  # orders that cannot be read stop a task and leave it its partitions: what it was given comes again
            self._watch.forget_positions(stay)

    def start_over(self) -> None:
        """Throw all away that is not committed: tasks begin again from their changelogs and committed offsets."""
        self.outbox.clear()
        for task in list(self.running):
            self.stop(task)
        self._watch.forget_positions()
        self.stopped += 1
        self.undone += 1

    def hold(self, state: RunningTask) -> None:
        """Begin a task again only after a while, ever longer: a refusal undoes others' work each time."""
        log.warning(
            "what task %s changed was refused (%s): it waits for %g s and is done again then, the others go on",
            *(state.task, state.error, self.held.failed(state.task)),
        )

    def stateful(self, task: Task) -> bool:
        """Whether the task has a store and a changelog."""
        return self._topology.subtopologies[task.subtopology].stateful

    def pairs(self, task: Task) -> list[Any]:
        """The task's partitions."""
        topics = self._topology.subtopologies[task.subtopology].topics
        return [TopicPartition(topic, task.partition) for topic in topics]

    # -- records in --------------------------------------------------------------------------------------------------

    def flowing(self) -> set[Any]:
        """Partitions whose records may be given: none while outputs, or changes of their task, are unanswered."""
        if self.outbox.waits:
            return set()
        return {pair for task, state in self.running.items() if not state.waits for pair in self.pairs(task)}

    def give(self, records: Mapping[Any, list[Any]], flowing: Collection[Any]) -> dict[Task, list[Any]]:
        """Records of running tasks; those of others are put back."""
        assigned = self.consumer.assignment()
        running = {pair: task for task in self.running for pair in self.pairs(task)}
        given: dict[Task, list[Any]] = {}
        for pair, batch in sorted(records.items()):
            if pair in flowing:
                task = running[pair]
                given.setdefault(task, []).extend(batch)
                self.running[task].given[pair] = batch[-1].offset + 1
            elif pair in assigned:
                self.consumer.seek(pair, batch[0].offset)
        return given

    # -- a commit, step by step --------------------------------------------------------------------------------------

    def send(self, until: float) -> list[Unanswered]:
        """Each task's changes to its changelog, with the writer's epoch, and all outputs; who sent something."""
        fresh = [state for state in self.running.values() if state.changes and not state.waits]
        chosen = {
            TopicPartition(each.topic, each.partition) for each in self.outbox.records if each.partition is not None
        }
        exist = self._delivery.learn([*(state.log for state in fresh if state.log), *chosen], until)
        for state in fresh:
            if state.log is None:
                raise BadInput("state", f"a change in task {state.task}", "a sub-topology with a changelog")
            if state.log in exist:
                state.send(self._delivery, [(EPOCH, str(state.epoch).encode())])
            else:
                lost = f"the changelog {state.log.topic!r} has no partition {state.log.partition} any more"
                state.error = KafkaTimeoutError(lost)
        for topic, partition in sorted(chosen - exist)[:1]:
            self.outbox.refuse(KafkaTimeoutError(f"the topic {topic!r} has no partition {partition} to send to"))
            return [*fresh, self.outbox]
        return [*fresh, self.outbox] if self.outbox.send(self._delivery) else list(fresh)

    def answers(self, fresh: list[Unanswered], until: float) -> Written:
        """The results of all that was sent, waiting for the present records until then (``time.monotonic``)."""
        written: Written = []
        for state in self.running.values():
            if state.answered(until if state in fresh else 0.0):
                if state.answers or state.error:
                    written.append((state, state.take_answers()))
            elif state in fresh and state.log is not None:
                log.warning(
                    "the changelog %s, partition %d, has not answered within %g s: task %s waits for it%s",
                    *(state.log.topic, state.log.partition, DEADLINE_S, state.task, self._delivery.meanwhile),
                )
        if self.outbox.answered(until if self.outbox in fresh else 0.0):
            self.outbox.take_answers()
        return written

    def keep(self, written: Written) -> None:
        """Write the changelogs' present content into the stores; if others wrote in between, restore from there."""
        for state, offsets in written:
            if offsets is None:
                continue
            first, behind = offsets[0], offsets[-1] + 1
            if state.expected in (None, first) and behind - first == len(offsets):
                origin = self._restorer.origin(state.task, time.time() * 1000)
                state.store.apply(state.sent, behind, state.epoch, origin)
                state.sent, state.expected = {}, behind + self._delivery.behind
                continue
            log.warning("another process wrote to the changelog of task %s; its state is restored again", state.task)
            self.stop(state.task)
            self.stopped += 1

    def lasting(self) -> tuple[list[RunningTask], dict[Any, OffsetAndMetadata]]:
        """Tasks of which all is written, and the offsets to commit for them; the others wait for the next commit."""
        held = self.outbox.waits or self.outbox.error is not None
        states = [state for state in self.running.values() if not (held or state.waits or state.error)]
        given = {pair: offset for state in states for pair, offset in state.given.items()}
        return states, {pair: OffsetAndMetadata(offset, "", -1) for pair, offset in given.items()}

    def settle(self, states: Iterable[RunningTask]) -> None:
        """The offsets of these are committed."""
        for state in states:
            state.given.clear()

    def anchor(self) -> dict[Any, OffsetAndMetadata]:
        """An offset as it is committed already: by it the broker sees of which generation a transaction is.

        Raises
            KafkaTimeoutError where none is known yet.
        """
        for pair in {pair for task in self.running for pair in self.pairs(task)} & self.consumer.assignment():
            position = self.consumer.position(pair, timeout_ms=0)
            if position is not None:
                return {pair: OffsetAndMetadata(position, "", -1)}
        raise KafkaTimeoutError("no position in any partition is known yet")


def close_producer(producer: Any, patience_s: float = CLOSE_S) -> None:
    """Close within a short time, even if requests are still on their way."""
    with suppress(KafkaTimeoutError):
        producer.flush(patience_s)
    producer._sender.force_close()
    producer._sender.join(1)
    with suppress(KafkaTimeoutError):
        producer.close(timeout=1)
