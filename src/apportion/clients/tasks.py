"""Tasks with state for a plain loop: which run here, which are kept warm here, and their state restored and committed.

    with TaskRunner(topology, application="word-counts", bootstrap_servers="...", state_dir="state") as runner:
        while True:
            for task, records in runner.poll().items():
                state = runner.state(task)
                for record in records:
                    ...
            runner.commit()

``guarantee="at_least_once"``: a commit sends the state's changes to the changelog, then writes the store, then commits
the offsets. A crash in between reads the same records again, over state that may hold them already. Code that must not
count twice keeps the offset beside the value (``examples/word_counts``), or asks for ``"exactly_once"``: then changes,
offsets and what ``send`` sent are one transaction. It is no stream-processing framework: no operators, windows,
repartitioning or internal topics. The changelog topics must be there, compacted, as wide as the sources.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Literal, Self, get_args

try:
    from kafka import KafkaConsumer, TopicPartition
    from kafka.errors import FencedInstanceIdError, KafkaError, KafkaTimeoutError
    from kafka.structs import OffsetAndMetadata
except ImportError:  # pragma: no cover - tried in an environment without the client
    from apportion.errors import MissingExtra

    raise MissingExtra("apportion.clients.tasks", "kafka-python") from None

from apportion.clients.kafka_python import KafkaPythonAssignor
from apportion.clients.runtime.delivery import (
    DEADLINE_S,
    AtLeastOnce,
    Delivery,
    ExactlyOnce,
    Headers,
    Outbox,
    Output,
    RunningTask,
    Unanswered,
    is_fenced,
    may_pass,
)
from apportion.clients.runtime.input_watch import InputWatch
from apportion.clients.runtime.restore import EPOCH, Restorer
from apportion.clients.runtime.state_dir import StateFolder
from apportion.clients.runtime.stores import Open, SqliteStore, State, StoreOrigin
from apportion.clients.runtime.task_bridge import TaskBridge
from apportion.errors import BadInput, Unavailable
from apportion.tasks.settings import TaskSettings
from apportion.tasks.topology import Task, Topology
from apportion.wire.task_data import TaskAssignment, TaskMemory

log = logging.getLogger("apportion.clients")

LEAVE_MS: Final = 5000
"""How long a good-bye may take: a member that waits for others to join would wait for its answer."""
COMMIT_BYTES: Final = 16 << 20
"""With ``commit_every_s``, changes and outputs of so many bytes are committed before the time."""
HOLD_S: Final = (1.0, 30.0)
"""Exactly once, how long a task whose changelog refused something waits: doubled each time, from first to second."""
PARKED_WITHIN_S: Final = 60.0
OWN_SETTINGS: Final = ("group_id", "enable_auto_commit", "auto_offset_reset", "partition_assignment_strategy")
Guarantee = Literal["at_least_once", "exactly_once"]
Heard = Callable[[Task], None]


class TaskRunner:
    """One consumer (thread) of an application with state; consumers of one process share ``state_dir``.

    topology
        The same in every member.
    application
        The group id.
    state_dir
        Where stores live, one file a task, and the process's id, so that a restart finds its state again. It is
        locked: two processes cannot share it.
    settings
        Kafka Streams' knobs; the leader's count.
    tags, rack
        Where this process stands, for standbys that stand apart, and for reading near by.
    on_active, on_standby, on_close
        Called from ``poll``: a task may run (its state is whole), is kept warm from now on, is no longer here.
    guarantee
        ``exactly_once``: what a task read, changed and sent counts together or not at all, through crashes too. Costs a
        transaction a commit; who reads the outputs needs ``isolation_level="read_committed"``.
    commit_every_s
        Have ``poll`` commit what it gave before, once so many seconds have passed or 16 MiB are to be written. None:
        you call ``commit``.
    transaction_timeout_s
        After how long the brokers abort a transaction that nobody ends: others wait so long for the tasks of a process
        that was killed in a commit.
    probe_early
        Ask for the next rebalance as soon as the tasks and standbys that are to move here have caught up, not only
        when it is due.
    parked_per_minute
        How many records ``park`` takes within a minute.
    connection
        What each of the three clients (the group's consumer, the one that restores, the producer) takes to connect, in
        kafka-python's words: ``security_protocol``, ``sasl_mechanism``, ``ssl_cafile`` ...
    consumer
        More settings of the group's consumer: ``session_timeout_ms``, ``max_poll_records`` ...
    Raises
        BadInput for a login or TLS of the group's consumer alone, or for a setting that the runner makes itself,
        Unavailable without the topics, KafkaError.
    """

    def __init__(
        self,
        topology: Topology,
        *,
        application: str,
        bootstrap_servers: str,
        state_dir: str | Path,
        settings: TaskSettings | None = None,
        tags: Mapping[str, str] | None = None,
        rack: str | None = None,
        on_active: Heard | None = None,
        on_standby: Heard | None = None,
        on_close: Heard | None = None,
        open_store: Open = SqliteStore,
        guarantee: Guarantee = "at_least_once",
        commit_every_s: float | None = None,
        transaction_timeout_s: float = 10.0,
        probe_early: bool = True,
        parked_per_minute: int = 60,
        connection: Mapping[str, Any] | None = None,
        consumer: Mapping[str, Any] | None = None,
    ) -> None:
        for name in consumer or {}:
            if name.startswith(("security_", "sasl_", "ssl_")):
                raise BadInput(
                    f"consumer[{name!r}]", "a setting of the group's consumer alone", "it in connection={...}"
                )
            # Other readers than those of committed records get offsets that a transaction may yet change.
            if name in OWN_SETTINGS or (name == "isolation_level" and guarantee == "exactly_once"):
                raise BadInput(f"consumer[{name!r}]", "a setting that the runner makes itself", "none there")
        if guarantee not in get_args(Guarantee):
            raise BadInput("guarantee", repr(guarantee), " or ".join(get_args(Guarantee)))
        self.topology, self.settings, self.tags = topology, settings or TaskSettings(), dict(tags or {})
        self.application = application
        self._listeners = {"active": on_active, "standby": on_standby, "close": on_close}
        self._probe_early = probe_early
        self.bridge = TaskBridge(topology, self.settings, rack)
        self._running: dict[Task, RunningTask] = {}
        self._outbox = Outbox()
        self._undone = 0
        self._held: dict[Task, tuple[float, float]] = {}
        self._commit_every_s, self._committed_at = commit_every_s, time.monotonic()
        self._transaction_timeout_s = transaction_timeout_s if guarantee == "exactly_once" else None
        self._since: dict[Task, float] = {}
        self.waited_s: dict[Task, float] = {}
        """Task to the seconds that it waited for its state when it last began to run here."""
        self.parked = 0
        """Records that ``park`` took."""
        self._parked, self._parked_per_minute = dict[tuple[str, int, int], float](), parked_per_minute
        self._pid = os.getpid()
        self._round = 0
        self._asks = 0
        self._asked_for: tuple[tuple[int, int], ...] = ()
        self._probe_at: float | None = None
        self.folder = StateFolder.of(state_dir)
        with ExitStack() as opened:
            opened.callback(self.folder.close)
            self.process = self.folder.process_id
            brokers = {"bootstrap_servers": bootstrap_servers.split(","), **(connection or {})}
            self._connect(opened, brokers, open_store, consumer or {})
            self._check_topics()
            self.folder.used_for(application, topology)
            self._remember()
            sources = [topic for subtopology in topology.subtopologies for topic in subtopology.topics]
            self._consumer.subscribe(topics=sources, listener=self._watch)
            self._open = opened.pop_all()  # from now on ``close`` closes

    def _connect(
        self, opened: ExitStack, connection: Mapping[str, Any], open_store: Open, consumer: Mapping[str, Any]
    ) -> None:
        """The three clients; ``opened`` closes those that were made, where a later step fails."""
        self._delivery = self._new_delivery(opened, connection)
        opened.callback(self._delivery.close)
        self._restorer = Restorer(self.topology, connection, self.folder, open_store)
        opened.callback(self._restorer.close)
        self._assignor = KafkaPythonAssignor(self.bridge)
        self._consumer = KafkaConsumer(
            **connection,
            group_id=self.application,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            partition_assignment_strategy=[self._assignor],
            **{"isolation_level": "read_committed" if self._delivery.exact else "read_uncommitted", **consumer},
        )
        opened.callback(self._consumer.close, autocommit=False, timeout_ms=LEAVE_MS)
        self._watch = InputWatch(self._consumer)

    def _new_delivery(self, opened: ExitStack, connection: Mapping[str, Any]) -> Delivery:
        if self._transaction_timeout_s is None:
            return AtLeastOnce(connection)
        number = self.folder.take_number()
        opened.callback(self.folder.give_number, number)

        def own_id() -> str:
            return f"{self.application}-{self.process}-{number}"

        def another_id() -> str:
            self.folder.renew(self.process)
            self.process = self.folder.process_id
            return own_id()

        return ExactlyOnce(connection, own_id(), self._transaction_timeout_s, another_id)

    @property
    def active(self) -> list[Task]:
        """Tasks that run here now: what ``poll`` may give records of."""
        return sorted(self._running)

    @property
    def restoring(self) -> list[Task]:
        """Tasks that are to run here and whose state is not whole yet."""
        return sorted(task for task in map(_task, self.bridge.orders.active) if task not in self._running)

    @property
    def standby(self) -> list[Task]:
        """Tasks that are kept warm here, warm-ups included."""
        return sorted(task for task in self._restorer.open if task not in self.restoring)

    @property
    def lag(self) -> dict[Task, int]:
        """Messages that each task with local state, not running here, would have to restore; as last looked up."""
        return {task: lag for task, lag in self._restorer.lags().items() if task not in self._running}

    @property
    def restored(self) -> int:
        """Changelog messages that were read while a task waited for them."""
        return self._restorer.restored

    @property
    def warmed(self) -> int:
        """Changelog messages that were read to keep or make a copy warm."""
        return self._restorer.warmed

    def state(self, task: Task) -> State:
        """The state of a task that runs here."""
        return self._running[task]

    def poll(self, timeout_ms: int = 100, max_records: int | None = None) -> dict[Task, list[Any]]:
        """Records of running tasks, partition by partition in order; what the group wants is done meanwhile.

        None are given of a task whose last commit the brokers have not answered yet, nor of any while this member does
        not hear from its group: what cannot be committed is not piled up.
        Raises
            FencedInstanceIdError once another member has this one's instance id; what a callback of yours raised,
            KafkaError, or what a store did. No record is lost: where it goes on, a later call gives those that were
            fetched.
        """
        self._check_may_run()
        if self._due():
            self.commit()
        self._watch.let_flow(self._flowing())
        undone = self._undone
        records = self._consumer.poll(timeout_ms=0 if self._awaited() else timeout_ms, max_records=max_records)
        try:
            self._watch.tell_gaps(records)
            self._drop_revoked()
            self._apply_assignment()
            awaited = self._awaited()
            whole = self._restorer.step(awaited, 50 if awaited else 0)
            for task in whole if self._in_generation() else ():
                self._start(task)
            self._watch.tell_waits(self._flowing() - records.keys(), self._restorer.offsets)
            self._remember()
            self._ask_if_due()
        except BaseException:
            if undone == self._undone:
                for pair in records.keys() & self._consumer.assignment():  # nobody was given these
                    self._consumer.seek(pair, records[pair][0].offset)
            raise
        # What was fetched behind work that is undone comes again after it.
        return self._of_tasks(records) if undone == self._undone else {}

    def send(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        *,
        partition: int | None = None,
        headers: Headers | None = None,
    ) -> None:
        """Send a record to another topic with the next commit; exactly once, where that is the guarantee.

        It belongs to all that ``poll`` gave since the last commit: where a part of that is lost to another member, it
        is not sent, and all is done again.
        """
        self._outbox.put(Output(topic, key, value, partition, headers or []))

    def park(self, record: Any, *, topic: str, why: str) -> None:
        """Send a record that cannot be processed to another topic with the next commit, and go on behind it.

        It keeps its key, value and headers; further headers, which begin with ``apportion-parked-``, say where it was
        and ``why``. Exactly once, where that is the guarantee. A record that is given again counts once.
        Raises
            Unavailable for more than ``parked_per_minute`` records within a minute: then the fault is not theirs.
        """
        now = time.monotonic()
        self._parked = {at: since for at, since in self._parked.items() if now - since < PARKED_WITHIN_S}
        at = (record.topic, record.partition, record.offset)
        if at not in self._parked and len(self._parked) >= self._parked_per_minute:
            raise Unavailable(
                f"{len(self._parked)} records were parked within a minute, and this one, offset {record.offset} of "
                f"{record.topic}, partition {record.partition}, is one too many ({why}): if each of them is bad on its "
                f"own, make the TaskRunner with parked_per_minute above {self._parked_per_minute}; else look for what "
                "fails in all of them"
            )
        self.parked += at not in self._parked
        self._parked[at] = now
        origin = {"application": self.application, "why": why, "timestamp": record.timestamp}
        origin |= dict(zip(("topic", "partition", "offset"), at, strict=True))
        headers = [(f"apportion-parked-{name}", str(value).encode()) for name, value in origin.items()]
        log.warning("%s, partition %d, offset %d, goes to %s: %s", *at, topic, why)
        self.send(topic, record.key, record.value, headers=[*record.headers, *headers])

    @property
    def metrics(self) -> dict[str, float]:
        """Name to value, for any exporter; names that end in ``_total`` only grow."""
        return {
            "tasks_active": len(self.active),
            "tasks_restoring": len(self.restoring),
            "tasks_standby": len(self.standby),
            "restore_lag_messages": sum(self.lag.values()),
            "restored_messages_total": self.restored,
            "warmed_messages_total": self.warmed,
            "parked_records_total": self.parked,
            "undone_commits_total": self._undone,
        }

    def commit(self) -> None:
        """Make all that ``poll`` gave so far lasting: state, outputs, offsets; see the head of this file.

        Nothing is written, and all waits for the next call, while the group may count on somebody else: after a pause
        of a session time-out or longer, until the broker has answered again. At least once, a task whose changelog does
        not answer in time waits by itself, as the log tells: the others are committed, and go on. Exactly once, where a
        part fails all is undone, and given again by later polls: that of a task whose changelog refused something after
        a second or more, up to 30, so that the others come through in between.
        Raises
            FencedInstanceIdError once another member has this one's instance id; KafkaError where a changelog or an
            output refused something, or the offsets could not be written. What was not written, is tried again by the
            next call, or done again.
        """
        self._check_may_run()
        # Before the look at what was revoked: what comes later is of a later generation, and the broker refuses it.
        member = self._consumer.group_metadata()
        self._drop_revoked()
        if member.generation_id != self.bridge.last.generation or not self._in_generation():
            return
        self._committed_at = time.monotonic()
        if self._delivery.exact:
            self._commit_together(member)
        else:
            self._commit_apart(member)

    def _commit_apart(self, member: Any) -> None:
        """At least once: each task by itself."""
        until = time.monotonic() + DEADLINE_S
        fresh = self._send(until)
        written = self._written(fresh, until)
        self._keep(written)
        self._finish(member)
        for sent in fresh:
            if sent.error is not None:
                raise sent.error

    def _commit_together(self, member: Any) -> None:
        """Exactly once: all tasks in one transaction, or none."""
        if not self._outbox.records and not any(state.changes or state.given for state in self._running.values()):
            return
        try:
            written = self._transaction(member, time.monotonic() + DEADLINE_S)
        except BaseException as error:
            self._start_over(error)
            if isinstance(error, FencedInstanceIdError):  # the producer's coordinator heard of it before the consumer's
                self._assignor.raise_if_fenced(heard=True)
            if isinstance(error, KafkaError) and may_pass(error):
                return
            raise
        for state, _ in written:
            self._held.pop(state.task, None)
        self._keep(written)

    def _transaction(self, member: Any, until: float) -> list[tuple[RunningTask, list[int]]]:
        """Begun, filled and committed; raises where any part of it fails."""
        self._delivery.begin()
        fresh = self._send(until)
        written = self._written(fresh, until)
        refused = min(fresh, key=lambda sent: sent.failed_at, default=None)
        if refused is not None and refused.error is not None:
            if isinstance(refused, RunningTask) and not is_fenced(refused.error):
                self._hold(refused)
            raise refused.error
        if any(sent.waits for sent in fresh):
            raise KafkaTimeoutError(f"no answer within {DEADLINE_S:g} s to all that was to be written")
        self._finish(member)
        return written

    def _hold(self, state: RunningTask) -> None:
        """Begin a task again only after a while, ever longer: what is refused of it undoes others' work each time."""
        first, longest = HOLD_S
        wait = min(longest, 2 * self._held.get(state.task, (0.0, first / 2))[1])
        self._held[state.task] = (time.monotonic() + wait, wait)
        log.warning(
            "what task %s changed was refused (%s): it waits for %g s and is done again then, the others go on",
            *(state.task, state.error, wait),
        )

    def _awaited(self) -> set[Task]:
        """Tasks whose state is to be made whole now: all that are to run here and are not held back."""
        now = time.monotonic()
        return {task for task in self.restoring if self._held.get(task, (0.0, 0.0))[0] <= now}

    def _start_over(self, why: object) -> None:
        """Undo what was done since the last commit: tasks begin again from their changelogs and committed offsets.

        Whether a transaction without an answer was committed decides nothing here: what is read says so.
        """
        log.warning("what was done since the last commit is undone, and done again: %s", why)
        self._delivery.abort(why)
        self._outbox.clear()
        for task in list(self._running):
            self._stop(task)
        self._watch.forget_positions()
        self._round = -1
        self._undone += 1

    def _send(self, until: float) -> list[Unanswered]:
        """Each task's changes to its changelog, with the writer's epoch, and all outputs; who sent something."""
        fresh = [state for state in self._running.values() if state.changes and not state.waits]
        logs = self._delivery.learn([state.log for state in fresh if state.log], until)
        for state in fresh:
            if state.log is None:
                raise BadInput("state", f"a change in task {state.task}", "a sub-topology with a changelog")
            if state.log in logs:
                state.send(self._delivery, [(EPOCH, str(state.epoch).encode())])
            else:
                lost = f"the changelog {state.log.topic!r} has no partition {state.log.partition} any more"
                state.error = KafkaTimeoutError(lost)
        return [*fresh, self._outbox] if self._outbox.send(self._delivery) else list(fresh)

    def _written(self, fresh: list[Unanswered], until: float) -> list[tuple[RunningTask, list[int]]]:
        """Tasks with the offsets at which all their changes stand in their changelogs now."""
        written: list[tuple[RunningTask, list[int]]] = []
        for state in self._running.values():
            if not state.answered(until if state in fresh else 0.0):
                self._tell_wait(state, state in fresh)
            elif state.answers or state.error:
                offsets = state.take_answers()
                if offsets is None and self._delivery.exact:
                    continue  # all is undone, and the log says so
                if offsets is None:
                    log.warning("what task %s changed is not written: %s; it is tried again", state.task, state.error)
                else:
                    written.append((state, offsets))
        if self._outbox.answered(until if self._outbox in fresh else 0.0):
            self._outbox.take_answers()
        return written

    def _tell_wait(self, state: RunningTask, first: bool) -> None:
        if first and state.log is not None:
            log.warning(
                "the changelog %s, partition %d, has not answered within %g s: task %s waits for it%s",
                *(state.log.topic, state.log.partition, DEADLINE_S, state.task),
                "" if self._delivery.exact else ", the others go on",
            )

    def _keep(self, written: Iterable[tuple[RunningTask, list[int]]]) -> None:
        """Write into the stores what stands in the changelogs now; if others wrote in between, restore from there."""
        for state, offsets in written:
            first, behind = offsets[0], offsets[-1] + 1
            if state.expected in (None, first) and behind - first == len(offsets):
                origin = self._restorer.origin(state.task, time.time() * 1000)
                state.store.apply(state.sent, behind, state.epoch, origin)
                state.sent, state.expected = {}, behind + self._delivery.behind
                continue
            log.warning("somebody else wrote to the changelog of task %s; its state is restored again", state.task)
            self._stop(state.task)
            self._round = -1

    def _in_generation(self) -> bool:
        """Whether the broker has heard of this member within a session time-out, in the generation of its orders."""
        return self._watch.hears_the_group(self.bridge.last.generation)

    def _finish(self, member: Any) -> None:
        """What is not taken waits for the next call; of a task that is lost by then, ``_stop`` forgets it."""
        held = self._outbox.waits or self._outbox.error is not None
        states = [state for state in self._running.values() if not (held or state.waits or state.error)]
        given = {pair: offset for state in states for pair, offset in state.given.items()}
        if self._delivery.exact and not given:
            given = self._anchor()
        offsets = {pair: OffsetAndMetadata(offset, "", -1) for pair, offset in given.items()}
        if self._delivery.finish(self._consumer, member, offsets):
            for state in states:
                state.given.clear()

    def _anchor(self) -> dict[Any, int]:
        """An offset as it is committed already: by it the broker sees of which generation a transaction is.

        Raises
            KafkaTimeoutError where none is known yet.
        """
        for task in self._running:
            for pair in self._pairs(task):
                if pair in self._consumer.assignment():
                    position = self._consumer.position(pair, timeout_ms=0)
                    if position is not None:
                        return {pair: position}
        raise KafkaTimeoutError("no position in any partition is known yet")

    def _due(self) -> bool:
        """Whether it is time for ``poll`` to commit."""
        if self._commit_every_s is None:
            return False
        size = self._outbox.size + sum(state.size for state in self._running.values())
        return time.monotonic() - self._committed_at >= self._commit_every_s or size >= COMMIT_BYTES

    def close(self) -> None:
        """Leave the group in good order, without a commit; a second time does nothing, nor does it in a fork.

        Raises
            What ``on_close`` raised, once all is closed.
        """
        if self._pid != os.getpid():
            return  # the clients are the first process's: a good-bye from here would be its own
        with self._open as closing:
            for task in self._running:
                closing.callback(self._stop, task)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, wrong: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    # -- what the group wants ------------------------------------------------------------------------------------

    def _apply_assignment(self) -> None:
        """After new orders: stop what others run now, open what is to be kept warm or restored here."""
        rounds, orders = self.bridge.rounds, self.bridge.orders
        if self._round == rounds:
            return
        mine, copies = set(map(_task, orders.active)), set(map(_task, orders.standby + orders.warmup))
        self._stop_lost(set(self._running) - mine)
        before = set(self._restorer.open)
        now = time.monotonic()
        self._since = {task: self._since.get(task, now) for task in mine if task not in self._running}
        opened = {task for task in mine if task not in self._running and self._stateful(task)}
        for task in sorted(before - opened - copies):
            self._tell("close", task)
        self._restorer.keep(opened | copies)
        for task in sorted(copies - before):
            self._tell("standby", task)
        for task in sorted(mine - opened - set(self._running)):
            self._start(task)
        self._probe_at = None if orders.probe_ms is None else time.monotonic() + orders.probe_ms / 1000
        self._round = rounds  # last, so that all is tried again where the broker did not answer

    def _start(self, task: Task) -> None:
        """A task whose state is whole runs from now on, as a writer of a new epoch."""
        store = self._restorer.take(task) if self._stateful(task) else _Nothing()
        changelog = self.topology.subtopologies[task.subtopology].changelog
        epoch = store.epoch + max(1, self.bridge.last.generation or 0)
        state = self._running[task] = RunningTask(task, store, changelog, epoch)
        for key in sorted(self._restorer.stale_keys(task)):
            state.put(key, store.get(key))  # written once more, and so the newest again, by the next commit
        self.waited_s[task] = time.monotonic() - self._since.pop(task, time.monotonic())
        self._watch.let_flow(self._flowing())
        self._tell("active", task)

    def _stop(self, task: Task) -> None:
        """What was not committed is thrown away: the next owner reads it again."""
        state = self._running.pop(task)
        if self._stateful(task):
            self._restorer.give_back(task, state.store)
        self._tell("close", task)

    def _drop_revoked(self) -> None:
        """Stop tasks whose partitions were revoked or lost since the last look."""
        while self._watch.gone:
            pair = self._watch.gone.pop()
            self._stop_lost({task for task in self._running if pair in self._pairs(task)})

    def _stop_lost(self, lost: set[Task]) -> None:
        """Tasks that are another's from now on; outputs may be of theirs, so then all that is not committed is undone.

        At least once such outputs are sent all the same: their new owner sends them again.
        """
        if self._delivery.exact and self._outbox.records and any(self._running[task].given for task in lost):
            self._start_over(f"tasks {', '.join(map(str, sorted(lost)))} are another member's now")
        stay = {pair for task in lost for pair in self._pairs(task)} & self._consumer.assignment()
        for task in lost & self._running.keys():
            self._stop(task)
        if stay:  # orders that cannot be read stop a task and leave it its partitions: what it was given comes again
            self._watch.forget_positions(stay)

    def _flowing(self) -> set[Any]:
        """Partitions whose records may be given."""
        if self._outbox.waits or not self._in_generation():
            return set()
        return {pair for task, state in self._running.items() if not state.waits for pair in self._pairs(task)}

    def _of_tasks(self, records: Mapping[Any, list[Any]]) -> dict[Task, list[Any]]:
        """Records of running tasks; those of others are put back."""
        flowing, assigned = self._flowing(), self._consumer.assignment()
        running = {pair: task for task in self._running for pair in self._pairs(task)}
        given: dict[Task, list[Any]] = {}
        for pair, batch in sorted(records.items()):
            if pair in flowing:
                task = running[pair]
                given.setdefault(task, []).extend(batch)
                self._running[task].given[pair] = batch[-1].offset + 1
            elif pair in assigned:
                self._consumer.seek(pair, batch[0].offset)
        return given

    def _ask_if_due(self) -> None:
        """A probing rebalance: when its time has come, or when all that is to run here next has caught up.

        The second is asked once for the same tasks: the leader may see it otherwise, and then its time counts.
        """
        orders = self.bridge.orders
        if orders.probe_ms is None or self._probe_at is None:
            return
        lags = self._restorer.lags()
        near = self.settings.acceptable_recovery_lag
        warm = all(lags.get(_task(pair), near + 1) <= near for pair in orders.coming)
        early = self._probe_early and bool(orders.coming) and warm and orders.coming != self._asked_for
        if early or (orders.asker and time.monotonic() >= self._probe_at):
            self._asked_for = orders.coming if early else self._asked_for
            self._probe_at = None
            self._asks += 1
            self._remember()
            self._consumer._coordinator.request_rejoin()

    def _remember(self) -> None:
        """Keep what the bridge would say up to date; it is asked on the client's own thread."""
        orders: TaskAssignment = self.bridge.orders
        self.bridge.memory_now = TaskMemory(
            self.process,
            self._asks,
            tuple((task.subtopology, task.partition) for task in self._running),
            orders.standby,
            {(task.subtopology, task.partition): lag for task, lag in self.lag.items()},
            self.tags,
        )

    # -- small things --------------------------------------------------------------------------------------------

    def _check_may_run(self) -> None:
        """Whether this runner is this process's, and a member of its group still.

        Raises
            Unavailable in a fork, FencedInstanceIdError where another member has its instance id.
        """
        if self._pid != os.getpid():
            raise Unavailable(
                f"this TaskRunner is process {self._pid}'s, and this is a fork of it: its connections and files cannot "
                "be shared; make a runner of its own here, on a state_dir of its own"
            )
        self._assignor.raise_if_fenced()

    def _check_topics(self) -> None:
        """Sources and changelogs must be there before anything is promised.

        Raises
            Unavailable with the topic's name.
        """
        for subtopology in self.topology.subtopologies:
            width = 0
            for topic in subtopology.topics:
                width = max(width, len(self._consumer.partitions_for_topic(topic) or ()))
                if not width:
                    raise Unavailable(f"the source topic {topic!r} does not exist; create it first")
            changelog = subtopology.changelog
            if changelog and len(self._consumer.partitions_for_topic(changelog) or ()) < width:
                needed = f"needs {width} partitions; create it, cleanup.policy=compact"
                raise Unavailable(f"the changelog {changelog!r} {needed}")

    def _stateful(self, task: Task) -> bool:
        return self.topology.subtopologies[task.subtopology].stateful

    def _pairs(self, task: Task) -> list[Any]:
        """The task's partitions."""
        topics = self.topology.subtopologies[task.subtopology].topics
        return [TopicPartition(topic, task.partition) for topic in topics]

    def _tell(self, role: str, task: Task) -> None:
        hook = self._listeners[role]
        if hook is not None:
            hook(task)


class _Nothing:
    """The store of a task without state."""

    position = epoch = 0
    origin = StoreOrigin()

    def get(self, key: bytes) -> bytes | None:
        return None

    def apply(
        self, changes: Mapping[bytes, bytes | None], position: int, epoch: int, origin: StoreOrigin | None = None
    ) -> None:
        return None

    def close(self) -> None:
        return None


def _task(pair: tuple[int, int]) -> Task:
    return Task(*pair)
