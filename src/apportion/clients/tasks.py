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

| state of a task here | comes with | goes to | what happens in it |
|---|---|---|---|
| elsewhere | no orders for it, partitions that were revoked | standby, restoring | nothing; a file may stay |
| standby | orders to keep a copy or to warm one up | restoring, elsewhere | its changelog is read |
| restoring | orders to run it | running, standby, elsewhere | its changelog is read to where it ended |
| held | its changelog refused it (exactly once) | restoring, elsewhere | nothing, for 1 s to 30 s |
| running | its store is whole, and the group heard | unanswered, restoring, elsewhere | ``poll`` gives its records |
| unanswered | a commit that its changelog has not answered | running, restoring, elsewhere | its records wait |

A running task is restored again where somebody else wrote to its changelog, and exactly once where a commit failed.
``runtime/membership.py`` moves tasks as the group orders, ``runtime/ledger.py`` as their commits go.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Literal, Self, get_args

try:
    from kafka import KafkaAdminClient, KafkaConsumer
    from kafka.errors import FencedInstanceIdError
except ImportError:  # pragma: no cover - tried in an environment without the client
    from apportion.errors import MissingExtra

    raise MissingExtra("apportion.clients.tasks", "kafka-python") from None

from apportion.clients.kafka_python import KafkaPythonAssignor
from apportion.clients.runtime.delivery import AtLeastOnce, ExactlyOnce
from apportion.clients.runtime.input_watch import InputWatch
from apportion.clients.runtime.ledger import Delivery, Ledger
from apportion.clients.runtime.membership import Membership
from apportion.clients.runtime.restore import Restorer
from apportion.clients.runtime.sending import Headers, Output
from apportion.clients.runtime.state_dir import StateFolder
from apportion.clients.runtime.stores import Open, SqliteStore, State, Store
from apportion.clients.runtime.task_bridge import TaskBridge
from apportion.errors import BadInput, Unavailable
from apportion.sighting.key_owner import KeyOwner, owner_of
from apportion.sighting.sighting import Sighting
from apportion.sources import live
from apportion.sources.cluster import Cluster
from apportion.tasks.settings import TaskSettings
from apportion.tasks.topology import Task, Topology

__all__ = ["SqliteStore", "State", "Store", "TaskRunner"]

log = logging.getLogger("apportion.clients")

LEAVE_MS: Final = 5000
"""How long a good-bye may take: a member that waits for others to join would wait for its answer."""
COMMIT_BYTES: Final = 16 << 20
"""With ``commit_every_s``, changes and outputs of so many bytes are committed before the time."""
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
        Where this process is, for standbys in different places, and for reading near by. The tag ``address``, as in
        ``10.0.0.7:8080``, is where it answers queries: ``owner_of`` gives it to the others.
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
        _check_settings(consumer or {}, guarantee)
        self.topology, self.settings, self.tags = topology, settings or TaskSettings(), dict(tags or {})
        self.application = application
        self._listeners = {"active": on_active, "standby": on_standby, "close": on_close}
        self.bridge = TaskBridge(topology, self.settings, rack)
        self._commit_every_s, self._committed_at = commit_every_s, time.monotonic()
        self.parked = 0
        """Records that ``park`` took."""
        self._parked, self._parked_per_minute = dict[tuple[str, int, int], float](), parked_per_minute
        self._pid = os.getpid()
        self._seen: tuple[int, Sighting] | None = None
        self.folder = StateFolder.of(state_dir)
        with ExitStack() as opened:
            opened.callback(self.folder.close)
            self._brokers = brokers = {"bootstrap_servers": bootstrap_servers.split(","), **(connection or {})}
            self._delivery = self._new_delivery(opened, brokers, guarantee, transaction_timeout_s)
            opened.callback(self._delivery.close)
            self._restorer = Restorer(topology, brokers, self.folder, open_store)
            opened.callback(self._restorer.close)
            self._assignor = KafkaPythonAssignor(self.bridge)
            self._consumer = self._new_consumer(brokers, consumer or {})
            opened.callback(self._consumer.close, autocommit=False, timeout_ms=LEAVE_MS)
            self._watch = InputWatch(self._consumer)
            shared = (self._restorer, self._watch, self._tell)
            self._ledger = Ledger(topology, self._delivery, self._consumer, *shared)
            self._membership = Membership(self.bridge, self._ledger, *shared, self.tags, probe_early=probe_early)
            _check_topics(topology, self._consumer)
            self.folder.used_for(application, topology)
            self._membership.remember()
            sources = [topic for subtopology in topology.subtopologies for topic in subtopology.topics]
            self._consumer.subscribe(topics=sources, listener=self._watch)
            self._open = opened.pop_all()  # from now on ``close`` closes

    def _new_consumer(self, connection: Mapping[str, Any], settings: Mapping[str, Any]) -> KafkaConsumer:
        return KafkaConsumer(
            **connection,
            group_id=self.application,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            partition_assignment_strategy=[self._assignor],
            **{"isolation_level": self._delivery.isolation_level, **settings},
        )

    def _new_delivery(
        self, opened: ExitStack, connection: Mapping[str, Any], guarantee: Guarantee, transaction_timeout_s: float
    ) -> Delivery:
        if guarantee == "at_least_once":
            return AtLeastOnce(connection)
        number = self.folder.take_number()
        opened.callback(self.folder.give_number, number)
        return ExactlyOnce(
            connection, lambda: f"{self.application}-{self.folder.process_id}-{number}", transaction_timeout_s
        )

    @cached_property
    def _cluster(self) -> Cluster:
        """A connection of its own for questions about the group, from the first one on."""
        admin = KafkaAdminClient(**self._brokers)
        self._open.callback(admin.close)
        return Cluster(",".join(self._brokers["bootstrap_servers"]), admin)

    @property
    def process(self) -> str:
        """The id of this process, as its group knows it; the same after a restart on the same ``state_dir``."""
        return self.folder.process_id

    @property
    def waited_s(self) -> dict[Task, float]:
        """Task to the seconds that it waited for its state when it last began to run here."""
        return self._membership.waited_s

    @property
    def active(self) -> list[Task]:
        """Tasks that run here now: those whose records ``poll`` may give."""
        return sorted(self._ledger.running)

    @property
    def restoring(self) -> list[Task]:
        """Tasks that are to run here and whose state is not whole yet."""
        return sorted(self._membership.restoring)

    @property
    def standby(self) -> list[Task]:
        """Tasks that are kept warm here, warm-ups included."""
        return sorted(self._restorer.open.keys() - self._membership.restoring)

    @property
    def lag(self) -> dict[Task, int]:
        """Messages that each task with local state, not running here, would have to restore; as last looked up."""
        return self._membership.lag

    @property
    def restored(self) -> int:
        """Changelog messages that were read while a task waited for them."""
        return self._restorer.restored

    @property
    def warmed(self) -> int:
        """Changelog messages that were read to keep or make a copy warm."""
        return self._restorer.warmed

    def owner_of(self, topic: str, key: bytes, partitioner: str = "murmur2") -> KeyOwner:
        """The member that reads a key of a source topic, and the ``address`` among its ``tags``: where to ask for it.

        The brokers are asked once a generation. During a rebalance no member may be known.
        partitioner
            Of who writes the topic: ``murmur2`` as in Java, or one of librdkafka's (``consistent_random`` by default).
        Raises
            UnknownName, BadInput as ``owner_of`` of ``apportion.sighting.key_owner``; Unavailable, KafkaError.
        """
        rounds = self.bridge.rounds
        if self._seen is None or self._seen[0] != rounds:
            self._check_may_run()
            [seen] = live.read(self._cluster, [self.application])
            self._seen = (rounds if seen.state == "Stable" else -1), seen
        return owner_of(self._seen[1], topic, key, partitioner)

    def state(self, task: Task) -> State:
        """The state of a task that runs here."""
        return self._ledger.running[task]

    def poll(self, timeout_ms: int = 100, max_records: int | None = None) -> dict[Task, list[Any]]:
        """Records of running tasks, partition by partition in order; the group's orders are followed meanwhile.

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
        self._watch.let_flow(self._membership.flowing())
        undone = self._ledger.undone
        awaited = self._membership.awaited
        records = self._consumer.poll(timeout_ms=0 if awaited else timeout_ms, max_records=max_records)
        try:
            self._watch.tell_gaps(records)
            self._membership.follow()
            flowing = self._membership.flowing()
            self._watch.tell_waits(flowing - records.keys(), self._restorer.offsets)
            if not self._consumer._coordinator.rejoining and self._membership.asks():  # a join under way forgets it
                self._consumer._coordinator.request_rejoin()
        except BaseException:
            if undone == self._ledger.undone:
                for pair in records.keys() & self._consumer.assignment():  # nobody was given these
                    self._consumer.seek(pair, records[pair][0].offset)
            raise
        # What was fetched behind work that is undone comes again after it.
        return self._ledger.give(records, self._membership.flowing()) if undone == self._ledger.undone else {}

    def send(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        *,
        partition: int | None = None,
        headers: Headers | None = None,
    ) -> None:
        """Send a record to another topic with the next commit; exactly once, if that is the guarantee.

        It belongs to all that ``poll`` gave since the last commit: where a part of that is lost to another member, it
        is not sent, and all is done again.
        """
        self._ledger.outbox.put(Output(topic, key, value, partition, headers or []))

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
            "undone_commits_total": self._ledger.undone,
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
        self._membership.drop_revoked()
        if member.generation_id != self.bridge.last.generation or not self._membership.in_generation:
            return
        self._committed_at = time.monotonic()
        try:
            self._delivery.commit(self._ledger, member)
        except FencedInstanceIdError:  # the producer's coordinator may have heard of it before the consumer's
            self._assignor.raise_if_fenced(heard=True)
            raise

    def _due(self) -> bool:
        """Whether it is time for ``poll`` to commit."""
        if self._commit_every_s is None:
            return False
        return time.monotonic() - self._committed_at >= self._commit_every_s or self._ledger.size >= COMMIT_BYTES

    def close(self) -> None:
        """Leave the group in good order, without a commit; a second time does nothing, nor does it in a fork.

        Raises
            What ``on_close`` raised, once all is closed.
        """
        if self._pid != os.getpid():
            return  # the clients are the first process's: a good-bye from here would be its own
        with self._open as closing:
            for task in self._ledger.running:
                closing.callback(self._ledger.stop, task)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, wrong: BaseException | None, at: TracebackType | None) -> None:
        self.close()

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

    def _tell(self, role: str, task: Task) -> None:
        hook = self._listeners[role]
        if hook is not None:
            hook(task)


def _check_settings(consumer: Mapping[str, Any], guarantee: Guarantee) -> None:
    """Refuse settings that the runner sets itself, and require those that all three of its clients need.

    Raises
        BadInput
    """
    if guarantee not in get_args(Guarantee):
        raise BadInput("guarantee", repr(guarantee), " or ".join(get_args(Guarantee)))
    for name in consumer:
        if name.startswith(("security_", "sasl_", "ssl_")):
            raise BadInput(f"consumer[{name!r}]", "a setting of the group's consumer alone", "it in connection={...}")
        # Other readers than those of committed records get offsets that a transaction may yet change.
        if name in OWN_SETTINGS or (name == "isolation_level" and guarantee == "exactly_once"):
            raise BadInput(f"consumer[{name!r}]", "a setting that the runner makes itself", "none there")


def _check_topics(topology: Topology, consumer: KafkaConsumer) -> None:
    """Sources and changelogs must be there before anything is promised.

    Raises
        Unavailable with the topic's name.
    """
    for subtopology in topology.subtopologies:
        width = 0
        for topic in subtopology.topics:
            width = max(width, len(consumer.partitions_for_topic(topic) or ()))
            if not width:
                raise Unavailable(f"the source topic {topic!r} does not exist; create it first")
        changelog = subtopology.changelog
        if changelog and len(consumer.partitions_for_topic(changelog) or ()) < width:
            needed = f"needs {width} partitions; create it, cleanup.policy=compact"
            raise Unavailable(f"the changelog {changelog!r} {needed}")
