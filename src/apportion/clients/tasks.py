"""Tasks with state for a plain loop: which run here, which are kept warm here, and their state restored and committed.

    with TaskRunner(topology, application="word-counts", bootstrap_servers="...", state_dir="state") as runner:
        while True:
            for task, records in runner.poll().items():
                state = runner.state(task)
                for record in records:
                    ...
            runner.commit()

At least once: a commit sends the state's changes to the changelog, then writes the store, then commits the offsets. A
crash in between reads the same records again, over state that may hold them already. Code that must not count twice
keeps the offset beside the value (``examples/word_counts``). It is no stream-processing framework: no operators,
windows, repartitioning or internal topics. The changelog topics must be there, compacted, as wide as the sources.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

try:
    from kafka import KafkaConsumer, TopicPartition
    from kafka.errors import KafkaTimeoutError
    from kafka.structs import OffsetAndMetadata
except ImportError:  # pragma: no cover - tried in an environment without the client
    from apportion.errors import MissingExtra

    raise MissingExtra("apportion.clients.tasks", "kafka-python") from None

from apportion.clients.delivery import DEADLINE_S, AtLeastOnce, RunningTask
from apportion.clients.input_watch import InputWatch
from apportion.clients.kafka_python import KafkaPythonAssignor
from apportion.clients.restore import EPOCH, Restorer
from apportion.clients.state_dir import StateFolder
from apportion.clients.stores import Open, SqliteStore, State, StoreOrigin
from apportion.clients.task_bridge import TaskBridge
from apportion.errors import BadInput, Unavailable
from apportion.tasks.settings import TaskSettings
from apportion.tasks.topology import Task, Topology
from apportion.wire.taskdata import TaskAssignment, TaskMemory

log = logging.getLogger("apportion.clients")

LEAVE_MS: Final = 5000
"""How long a good-bye may take: a member that waits for others to join would wait for its answer."""
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
    probe_early
        Ask for the next rebalance as soon as the tasks that are to move here have caught up, not only when it is due.
    connection
        What each of the three clients (the group's consumer, the one that restores, the producer) takes to connect, in
        kafka-python's words: ``security_protocol``, ``sasl_mechanism``, ``ssl_cafile`` ...
    consumer
        More settings of the group's consumer: ``session_timeout_ms``, ``max_poll_records`` ...
    Raises
        BadInput for a login or TLS of the group's consumer alone, Unavailable without the topics, KafkaError.
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
        probe_early: bool = True,
        connection: Mapping[str, Any] | None = None,
        consumer: Mapping[str, Any] | None = None,
    ) -> None:
        for name in consumer or {}:
            if name.startswith(("security_", "sasl_", "ssl_")):
                raise BadInput(
                    f"consumer[{name!r}]", "a setting of the group's consumer alone", "it in connection={...}"
                )
        self.topology, self.settings, self.tags = topology, settings or TaskSettings(), dict(tags or {})
        self.application = application
        self._listeners = {"active": on_active, "standby": on_standby, "close": on_close}
        self._probe_early = probe_early
        self.bridge = TaskBridge(topology, self.settings, rack)
        self._running: dict[Task, RunningTask] = {}
        self._since: dict[Task, float] = {}
        self.waited_s: dict[Task, float] = {}
        """Task to the seconds that it waited for its state when it last began to run here."""
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
        self._delivery = AtLeastOnce(connection)
        opened.callback(self._delivery.close)
        self._restorer = Restorer(self.topology, connection, self.folder, open_store)
        opened.callback(self._restorer.close)
        self._consumer = KafkaConsumer(
            **connection,
            group_id=self.application,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            partition_assignment_strategy=[KafkaPythonAssignor(self.bridge)],
            **consumer,
        )
        opened.callback(self._consumer.close, autocommit=False, timeout_ms=LEAVE_MS)
        self._watch = InputWatch(self._consumer)

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
        self._watch.let_flow(self._flowing())
        records = self._consumer.poll(timeout_ms=0 if self.restoring else timeout_ms, max_records=max_records)
        try:
            self._watch.tell_gaps(records)
            self._drop_revoked()
            self._apply_assignment()
            whole = self._restorer.step(set(self.restoring), 50 if self.restoring else 0)
            for task in whole if self._in_generation() else ():
                self._start(task)
            self._remember()
            self._ask_if_due()
        except BaseException:
            for pair in records.keys() & self._consumer.assignment():  # nobody was given these
                self._consumer.seek(pair, records[pair][0].offset)
            raise
        return self._of_tasks(records)

    def commit(self) -> None:
        """State first, then offsets, of all that ``poll`` gave so far; see the head of this file.

        Nothing is written, and all waits for the next call, while the group may count on somebody else: after a pause
        of a session time-out or longer, until the broker has answered again. A task whose changelog does not answer in
        time waits by itself, as the log tells: the others are committed, and go on.
        Raises
            FencedInstanceIdError once another member has this one's instance id; KafkaError where a changelog refused
            something, or the offsets could not be written. What was not written, is tried again by the next call.
        """
        self._check_may_run()
        self._drop_revoked()
        if not self._in_generation():
            return
        until = time.monotonic() + DEADLINE_S
        fresh = [state for state in self._running.values() if state.changes and not state.waits]
        self._send(fresh, until)
        for state in list(self._running.values()):
            if not state.answered(until if state in fresh else 0.0):
                self._tell_wait(state, state in fresh)
            elif state.answers or state.error:
                self._take_answers(state)
        self._commit_offsets()
        for state in fresh:
            if state.error is not None:
                raise state.error

    def _send(self, states: list[RunningTask], until: float) -> None:
        """Each task's changes to its changelog, with the writer's epoch."""
        logs = self._delivery.learn([state.log for state in states if state.log], until)
        for state in states:
            if state.log is None:
                raise BadInput("state", f"a change in task {state.task}", "a sub-topology with a changelog")
            if state.log in logs:
                state.send(self._delivery, [(EPOCH, str(state.store.epoch).encode())])
            else:
                lost = f"the changelog {state.log.topic!r} has no partition {state.log.partition} any more"
                state.error = KafkaTimeoutError(lost)

    def _tell_wait(self, state: RunningTask, first: bool) -> None:
        if first:
            log.warning(
                "the changelog %s, partition %d, has not answered within %g s: task %s waits for it, the others go on",
                *(state.log.topic, state.log.partition, DEADLINE_S, state.task),  # type: ignore[union-attr]
            )

    def _take_answers(self, state: RunningTask) -> None:
        """Write into the store what stands in the changelog now; if others wrote in between, restore it from there."""
        offsets = state.take_answers()
        if offsets is None:
            log.warning(
                "what task %s changed is not written: %s; the next commit tries it again", *(state.task, state.error)
            )
            return
        first, behind = offsets[0], offsets[-1] + 1
        if state.expected in (None, first) and behind - first == len(offsets):
            origin = self._restorer.origin(state.task, time.time() * 1000)
            state.store.apply(state.sent, behind, state.store.epoch, origin)
            state.sent, state.expected = {}, behind + self._delivery.behind
            return
        log.warning("somebody else wrote to the changelog of task %s; its state is restored again", state.task)
        self._stop(state.task)
        self._round = -1

    def _in_generation(self) -> bool:
        """Whether the broker has heard of this member within a session time-out, in the generation of its orders."""
        return self._watch.hears_the_group(self.bridge.last.generation)

    def _commit_offsets(self) -> None:
        """What is not taken waits for the next call; of a task that is lost by then, ``_stop`` forgets it."""
        states = [state for state in self._running.values() if not state.waits and state.error is None]
        given = {pair: offset for state in states for pair, offset in state.given.items()}
        if self._delivery.finish(
            self._consumer, {pair: OffsetAndMetadata(offset, "", -1) for pair, offset in given.items()}
        ):
            for state in states:
                state.given.clear()

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
        for task in set(self._running) - mine:
            self._stop(task)
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
        state = self._running[task] = RunningTask(task, store, changelog)
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
            for task in [task for task in self._running if pair in self._pairs(task)]:
                self._stop(task)

    def _flowing(self) -> set[Any]:
        """Partitions whose records may be given."""
        if not self._in_generation():
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
        self._watch.raise_if_fenced()

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
