"""The members' programs: a loop around a consumer, one around a ``TaskRunner`` of exactly once, a hostile stranger."""

from __future__ import annotations

import inspect
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

from apportion.acting.rule import Acting
from apportion.clients.group.leaving import leave
from apportion.clients.kafka_python import assignor
from apportion.clients.lag_feed import LagFeed, kafka_offsets
from apportion.clients.runtime.stores import SqliteStore, Store
from apportion.clients.tasks import TaskRunner
from apportion.tasks.topology import Subtopology, Topology
from apportion.testing.simulation.checks import Checks
from apportion.testing.simulation.stage import Action, Process, Program

TIMES: Final = {"session_timeout_ms": 6000, "heartbeat_interval_ms": 1500, "max_poll_interval_ms": 20000}
REQUESTS: Final = {"request_timeout_ms": 8000, "metrics_enabled": False}
QUICK: Final = {**TIMES, **REQUESTS, "metadata_max_age_ms": 5000, "max_poll_records": 20}
"""Settings of every consumer here, besides its strategy: time-outs short enough that each fault is over soon."""
POLL_MS: Final = 300
REST_S: Final = 6.0
"""Acting's rest here."""


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


def reading(
    make_consumer: Callable[..., Any], make_listener: Any, topics: list[str], checks: Checks, **habits: Any
) -> Program:
    """A member that polls, works and commits.

    make_consumer
        Called with ``bootstrap_servers`` and ``client_id``.
    make_listener
        A listener, or what makes one of a consumer. With a method ``process(records)`` it works on what ``poll`` gave
        and commits by itself; else the loop commits after each poll.
    habits
        ``record_s``, how long each record takes; ``pauses``, whether it pauses half of its partitions at each poll.
    """
    record_s, pauses = habits.get("record_s", 0.0), habits.get("pauses", False)

    def program(process: Process) -> None:
        connection = {"bootstrap_servers": process.stage.cluster.bootstrap.split(","), "client_id": process.member}
        consumer = make_consumer(**connection)
        inner = make_listener(consumer) if callable(make_listener) else make_listener
        listener = Recording(process, checks, inner)
        process.member_id = lambda: consumer.group_metadata().member_id  # type: ignore[attr-defined]
        work = getattr(inner, "process", None)
        consumer.subscribe(topics, listener=listener)
        try:
            while not process.leaving and not (process.hands_over and leave(consumer)):
                with _noting(process):
                    if pauses:
                        consumer.resume(*consumer.paused())
                        assigned, chance = sorted(consumer.assignment()), process.stage.world.random
                        consumer.pause(*(pair for pair in assigned if chance.random() < 0.5))
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


def counting(folder: Path, source: str, counted: str, changelog: str, checks: Checks) -> Program:
    """A process with a ``TaskRunner``: each record's value goes to ``counted``, and how many there were is kept."""
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
            _runner(process, topology, folder, checks.exact, open_store=open_store, **heard) as runner,
        ):
            while not process.leaving:
                with _noting(process):
                    _turn(process, runner, source, counted, checks)

    return program


def _runner(process: Process, topology: Topology, folder: Path, exact: bool, **options: Any) -> TaskRunner:
    runner = TaskRunner(
        topology,
        application="tasks",
        bootstrap_servers=process.stage.cluster.bootstrap,
        state_dir=folder / process.member,
        guarantee="exactly_once" if exact else "at_least_once",
        transaction_timeout_s=4.0,
        **options,
        consumer={**TIMES, "metadata_max_age_ms": 5000, "client_id": process.member, "max_poll_records": 20},
        connection=REQUESTS,
    )
    process.member_id = lambda: runner._consumer.group_metadata().member_id  # type: ignore[attr-defined]
    process.on_death.append(runner.folder.close)  # the lock of a dead process is nobody's
    return runner


def _turn(process: Process, runner: TaskRunner, source: str, counted: str, checks: Checks) -> None:
    for task, records in runner.poll(POLL_MS).items():
        state = runner.state(task)
        for record in records:
            state.put(b"n", b"%d" % (int(state.get(b"n") or 0) + 1))
            runner.send(counted, None, record.value, partition=task.partition)
        checks.given(process, (source, task.partition), [record.offset for record in records])
    process.pause()
    runner.commit()


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
