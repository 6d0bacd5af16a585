"""The members' programs: a loop around a consumer, one around a ``TaskRunner`` of exactly once, a hostile stranger."""

from __future__ import annotations

import inspect
import shutil
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from kafka import KafkaConsumer
from kafka.consumer.subscription_state import AsyncConsumerRebalanceListener
from kafka.coordinator.assignors.abstract import AbstractPartitionAssignor, RebalanceProtocol
from kafka.errors import FencedInstanceIdError, KafkaError
from kafka.protocol.consumer.metadata import ConsumerProtocolSubscription
from kafka.structs import OffsetAndMetadata

from apportion.acting.rule import Acting
from apportion.clients.group.leaving import leave
from apportion.clients.group.warm_up import WarmUp
from apportion.clients.kafka_python import assignor
from apportion.clients.lag_feed import LagFeed, kafka_offsets
from apportion.clients.runtime.stores import SqliteStore, Store
from apportion.clients.tasks import TaskRunner
from apportion.tasks.settings import TaskSettings
from apportion.tasks.topology import Subtopology, Topology
from apportion.testing.simulation import stand_ins
from apportion.testing.simulation.checks import Checks
from apportion.testing.simulation.stage import Action, Process, Program

TIMES: Final = {"session_timeout_ms": 6000, "heartbeat_interval_ms": 1500, "max_poll_interval_ms": 20000}
REQUESTS: Final = {"request_timeout_ms": 8000, "metrics_enabled": False}
QUICK: Final = {**TIMES, **REQUESTS, "metadata_max_age_ms": 5000, "max_poll_records": 20}
"""Settings of every consumer here, besides its strategy: time-outs short enough that each fault is over soon."""
POLL_MS: Final = 300
REST_S: Final = 6.0
"""Acting's rest here."""
SEEKS: Final = 0.03
"""How often a member that seeks does so, of its turns."""
WARM_UP_S: Final = (0.5, 6.0)
"""How long a warm-up takes, and how long a member waits for it."""
NEAR: Final = 5
"""Messages that a copy may miss to count as warm, where there are warm-ups."""
COMMIT_S: Final = 2.0
"""Seconds between the commits of a member that does not commit at each turn."""


class Recording(AsyncConsumerRebalanceListener):  # type: ignore[misc]
    """Has the checks know a member's partitions, around a listener of somebody else's, synchronous or not."""

    def __init__(self, process: Process, checks: Checks, inner: Any) -> None:
        self.process, self.checks, self.inner = process, checks, inner
        self.held: set[tuple[str, int]] = set()

    async def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
        """They are this member's before its own callback runs."""
        fresh = set(map(tuple, assigned)) - self.held
        self.held |= fresh
        self.checks.assigned(self.process, fresh)
        await self._call("on_partitions_assigned", assigned)

    async def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
        """They are this member's until its own callback has ended."""
        await self._end("on_partitions_revoked", revoked, "revoked")

    async def on_partitions_lost(self, lost: Iterable[Any]) -> None:
        """They have been another's for some time."""
        await self._end("on_partitions_lost", lost, "lost")

    async def _end(self, method: str, partitions: Iterable[Any], how: str) -> None:
        try:
            await self._call(method, partitions)
        finally:
            self.give_up(set(map(tuple, partitions)), how)

    def give_up(self, partitions: set[tuple[str, int]] | None, how: str) -> None:
        """Some, or all that are held."""
        gone = self.held & (self.held if partitions is None else partitions)
        self.held -= gone
        if gone:
            self.checks.given_up(self.process, gone, how)

    async def _call(self, method: str, partitions: Iterable[Any]) -> None:
        self.process.pause()
        if self.inner is None:
            return
        try:
            outcome = getattr(self.inner, method)(partitions)
            if inspect.isawaitable(outcome):
                await outcome
        except Exception as error:  # the client logs it at most, and goes on
            text = f"{type(error).__name__}: {error}"
            self.process.stage.world.note("listener raised", member=self.process.name, method=method, error=text)
            raise


class Committing(AsyncConsumerRebalanceListener):  # type: ignore[misc]
    """An application that commits every few seconds, and in its listener what is left of partitions that go."""

    def __init__(self, consumer: Any) -> None:
        self.consumer, self.read, self.committed_at = consumer, dict[Any, OffsetAndMetadata](), 0.0

    def process(self, records: Mapping[Any, list[Any]]) -> None:
        """Work on what ``poll`` gave."""
        for partition, batch in records.items():
            self.read[partition] = OffsetAndMetadata(batch[-1].offset + 1, "", -1)
        now = stand_ins.world().now
        if self.read and now > self.committed_at + COMMIT_S:
            self.consumer.commit(self.read)
            self.read, self.committed_at = {}, now

    async def on_partitions_assigned(self, _: Iterable[Any]) -> None:
        """Nothing."""

    async def on_partitions_revoked(self, partitions: Iterable[Any]) -> None:
        """The last commit before they are another's."""
        gone = {pair: self.read.pop(pair) for pair in partitions if pair in self.read}
        if gone:
            await self.consumer.commit_async(gone)

    async def on_partitions_lost(self, partitions: Iterable[Any]) -> None:
        """They are another's already."""
        for pair in partitions:
            self.read.pop(pair, None)


def reading(
    make_consumer: Callable[..., Any],
    make_listener: Any,
    topics: list[str],
    checks: Checks,
    habits: frozenset[str] = frozenset(),
    record_s: float = 0.0,
) -> Program:
    """A member that polls, works and commits.

    make_consumer
        Called with ``bootstrap_servers`` and ``client_id``.
    make_listener
        A listener, or what makes one of a consumer. With a method ``process(records)`` it works on what ``poll`` gave
        and commits by itself; else the loop commits after each poll.
    habits
        ``pauses``: it pauses half of its partitions at each poll. ``pattern``: it subscribes to a pattern. ``seeks``:
        it reads a partition again from its last commit. ``warms``: it warms up before it takes partitions.
    record_s
        How long each record takes.
    """
    subscription = {"pattern": f"^({'|'.join(topics)})$"} if "pattern" in habits else {"topics": topics}

    def program(process: Process) -> None:
        connection = {"bootstrap_servers": process.stage.cluster.bootstrap.split(","), "client_id": process.member}
        consumer = make_consumer(**connection)
        inner = make_listener(consumer) if callable(make_listener) else make_listener
        listener = Recording(process, checks, inner)
        process.member_id = lambda: consumer.group_metadata().member_id  # type: ignore[attr-defined]
        work = getattr(inner, "process", None)
        consumer.subscribe(**subscription, listener=listener)
        chores = [chore(process, consumer, checks) for name, chore in CHORES.items() if name in habits]
        try:
            while not process.leaving and not (process.hands_over and leave(consumer)):
                with _noting(process):
                    for chore in chores:
                        chore()
                    records = consumer.poll(timeout_ms=POLL_MS)
                    for pair, batch in sorted(records.items()):
                        checks.given(process, tuple(pair), [record.offset for record in batch])
                    process.pause(record_s * sum(map(len, records.values())))
                    if work is not None:
                        work(records)
                    elif records and not consumer.config["enable_auto_commit"]:
                        consumer.commit()
        except FencedInstanceIdError:
            process.stage.world.note("fenced", member=process.name)
        finally:
            process.leaving = True
            if not process.stage.world.closing:
                with suppress(KafkaError):
                    consumer.close()
                listener.give_up(None, "closed")

    return program


def _pausing(process: Process, consumer: Any, _: Checks) -> Callable[[], None]:
    def chore() -> None:
        consumer.resume(*consumer.paused())
        assigned, chance = sorted(consumer.assignment()), process.stage.world.random
        consumer.pause(*(pair for pair in assigned if chance.random() < 0.5))

    return chore


def _seeking(process: Process, consumer: Any, checks: Checks) -> Callable[[], None]:
    def chore() -> None:
        assigned, chance = sorted(consumer.assignment()), process.stage.world.random
        if assigned and chance.random() < SEEKS and not consumer.config["enable_auto_commit"]:
            pair = chance.choice(assigned)
            committed = consumer.committed(pair)
            if committed is not None and pair in consumer.assignment():
                checks.sought(tuple(pair), committed)
                consumer.seek(pair, committed)

    return chore


def _warming(process: Process, consumer: Any, _: Checks) -> Callable[[], None]:
    [strategy] = consumer.config["partition_assignment_strategy"]
    work_s, patience_s = WARM_UP_S
    warm_up = WarmUp(lambda _: process.stage.world.park(work_s), patience_s)
    if strategy.bridge.can_warm_up:
        strategy.bridge.warm_up = warm_up

    def chore() -> None:
        joins, _ = warm_up.look()
        if joins:
            strategy.ask_rejoin()

    return chore


CHORES: Final[Mapping[str, Callable[[Process, Any, Checks], Callable[[], None]]]] = {
    "pauses": _pausing,
    "seeks": _seeking,
    "warms": _warming,
}
"""A member's habits between two polls."""


@contextmanager
def _noting(process: Process) -> Iterator[None]:
    """The client's own errors are logged by an application, which goes on; that it is fenced ends it."""
    try:
        yield
    except FencedInstanceIdError:
        raise
    except KafkaError as error:
        process.stage.world.note("refused", member=process.name, error=type(error).__name__)
        process.stage.world.park(0.1)


def acting_on_lag(bootstrap_servers: list[str], checks: Checks) -> dict[str, Any]:
    """The parts by which a strategy knows its group's lag by requests, and acts on it after short rests."""
    feed = LagFeed("group", kafka_offsets(bootstrap_servers=bootstrap_servers), every_s=1, deadline_s=3).start()
    rule = Acting(hold_s=1.0, rest_s=REST_S, horizon_s=1.0)
    return {"lag": feed, "acting": rule, "on_plan": lambda plan: checks.planned(plan.cause == "lag", REST_S)}


def consumer_of(strategy: str, options: Mapping[str, Any] | None = None, **settings: Any) -> Callable[..., Any]:
    """The factory of a consumer with a strategy of ours and its options."""

    def make(**connection: Any) -> Any:
        return KafkaConsumer(
            **connection,
            **{"enable_auto_commit": False, **QUICK, **settings},
            group_id="group",
            auto_offset_reset="earliest",
            partition_assignment_strategy=[assignor(strategy, **(options or {}))],
        )

    return make


def counting(
    folder: Path, source: str, counted: str, changelog: str, checks: Checks, habits: frozenset[str]
) -> Program:
    """A process with a ``TaskRunner``: each record's value goes to ``counted``, and how many there were is kept.

    habits
        ``repeats``: at least once. ``standbys``: each state has a second copy. ``warms``: a process takes a task only
        once its copy is close to the changelog's end. ``timed``: ``poll`` commits, after a while.
    """
    topology = Topology.of(Subtopology((source,), changelog))

    def program(process: Process) -> None:
        opened: list[Store] = []

        def open_store(path: Path) -> Store:
            opened.append(SqliteStore(path))
            return opened[-1]

        process.on_death.append(lambda: deque(map(Store.close, opened)))
        heard = {
            "on_active": lambda task: checks.assigned(process, {(source, task.partition)}),
            "on_close": lambda task: checks.given_up(process, {(source, task.partition)}, "closed"),
        }
        with (
            suppress(KafkaError),
            _runner(process, topology, folder, habits, open_store=open_store, **heard) as runner,
        ):
            while not process.leaving and not (process.hands_over and leave(runner)):
                with _noting(process):
                    _turn(process, runner, source, counted, checks)
                    if "timed" not in habits:
                        runner.commit()

    return program


def _runner(process: Process, topology: Topology, folder: Path, habits: frozenset[str], **options: Any) -> TaskRunner:
    standbys, near = int("standbys" in habits), NEAR if "warms" in habits else TaskSettings.acceptable_recovery_lag
    runner = TaskRunner(
        topology,
        application="tasks",
        bootstrap_servers=process.stage.cluster.bootstrap,
        state_dir=_state_dir(process, folder),
        settings=TaskSettings(num_standby_replicas=standbys, acceptable_recovery_lag=near),
        guarantee="at_least_once" if "repeats" in habits else "exactly_once",
        commit_every_s=COMMIT_S if "timed" in habits else None,
        transaction_timeout_s=4.0,
        **options,
        consumer={**TIMES, "metadata_max_age_ms": 5000, "client_id": process.member, "max_poll_records": 20},
        connection=REQUESTS,
    )
    process.member_id = lambda: runner._consumer.group_metadata().member_id  # type: ignore[attr-defined]
    process.on_death.append(runner.folder.close)  # the lock of a dead process is nobody's
    return runner


def _state_dir(process: Process, folder: Path) -> Path:
    """A member's folder; a twin's is a copy, of which it may know (another inode) or not (a cloned volume)."""
    own = folder / process.member
    if not process.name.endswith("+"):
        return own
    world = process.stage.world
    copy = folder / f"{process.name}{world.number()}"
    if own.exists():
        shutil.copytree(own, copy)
        if world.random.random() < 0.5:
            (copy / "lock").write_text(str((copy / "lock").stat().st_ino), encoding="ascii")
    return copy


def _turn(process: Process, runner: TaskRunner, source: str, counted: str, checks: Checks) -> None:
    for task, records in runner.poll(POLL_MS).items():
        state = runner.state(task)
        for record in records:
            state.put(b"n", b"%d" % (int(state.get(b"n") or 0) + 1))
            runner.send(counted, None, record.value, partition=task.partition)
        checks.given(process, (source, task.partition), [record.offset for record in records])
    process.pause()


class _Unreadable(AbstractPartitionAssignor):  # type: ignore[misc]
    """Unreadable user data, under a name that the group knows."""

    def __init__(self, name: str, octets: bytes) -> None:
        self._name, self._octets = name, octets

    name = property(lambda self: self._name)

    def supported_protocols(self) -> list[RebalanceProtocol]:
        return [RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER]

    def metadata(self, topics: Iterable[str]) -> Any:
        return ConsumerProtocolSubscription(
            version=1, topics=sorted(topics), user_data=self._octets, owned_partitions=[]
        )

    def assign(self, cluster: Any, members: Any) -> Any:
        raise KafkaError("a stranger does not lead")

    def on_assignment(self, assignment: Any, generation: int) -> None:
        """Any exception."""


def hostile(action: Action, process: Process) -> None:
    """Join a group with unreadable user data, and leave on request."""
    octets = process.stage.world.random.randbytes(23)
    consumer = KafkaConsumer(
        bootstrap_servers=process.stage.cluster.bootstrap.split(","),
        client_id=process.name,
        group_id=action["group"],
        enable_auto_commit=False,
        partition_assignment_strategy=[_Unreadable(action["strategy"], octets)],
        **TIMES,
    )
    consumer.subscribe(action["topics"])
    while not process.leaving:
        with _noting(process):
            consumer.poll(timeout_ms=POLL_MS)
    with suppress(KafkaError):
        consumer.close()
