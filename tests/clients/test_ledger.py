"""Exactly once all that tasks did counts, or nothing; and a task that stops against its orders begins again."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from kafka import TopicPartition

from apportion.clients.runtime.delivery import ExactlyOnce
from apportion.clients.runtime.ledger import Ledger
from apportion.clients.runtime.membership import Membership
from apportion.clients.runtime.sending import Output
from apportion.clients.runtime.stores import NoStore
from apportion.tasks.topology import Subtopology, Task, Topology
from apportion.wire.task_data import TaskAssignment

TOPOLOGY = Topology.of(Subtopology(("clicks",), "changelog"))
FIRST, SECOND = Task(0, 0), Task(0, 1)


class Whole:
    """Stores that hold all that their changelogs do, as soon as they are open."""

    def __init__(self) -> None:
        self.open: dict[Task, NoStore] = {}
        self.folder = SimpleNamespace(process_id="p", run="r", renew=lambda _: None)

    def keep(self, tasks: set[Task]) -> None:
        self.open = {task: NoStore() for task in tasks}

    def step(self, waiting: set[Task], _: int) -> list[Task]:
        return [task for task in waiting if task in self.open]

    def take(self, task: Task) -> NoStore:
        return self.open.pop(task, NoStore())

    def give_back(self, task: Task, store: NoStore) -> None: ...

    def stale_keys(self, _: Task) -> set[bytes]:
        return set()

    def lags(self) -> dict[Task, int]:
        return {}


class Written:
    """A producer's answer to a record that was written."""

    is_done = True
    value = SimpleNamespace(offset=0)
    _produce_future = SimpleNamespace(wait=lambda _: None)

    def add_errback(self, _: Any) -> None: ...

    def failed(self) -> bool:
        return False

    def succeeded(self) -> bool:
        return True


class Shrunk(ExactlyOnce):
    """Transactions over a changelog of which the first partition alone is there."""

    def __init__(self) -> None:
        self.committed: list[Any] = []

    def begin(self) -> None: ...

    def abort(self, why: object) -> None: ...

    def learn(self, pairs: Any, until: float) -> set[Any]:
        return {pair for pair in pairs if pair.partition == 0}

    def send(self, record: Output) -> Any:
        return Written()

    def finish(self, consumer: Any, member: Any, offsets: Any) -> bool:
        self.committed.append(offsets)
        return True


WATCH: Any = SimpleNamespace(
    gone=[], hears_the_group=lambda _: True, let_flow=lambda _: None, forget_positions=lambda *_: None
)
CONSUMER: Any = SimpleNamespace(assignment=set)


def test_nothing_is_committed_exactly_once_while_the_changelog_of_one_task_is_gone() -> None:
    """What the others sent would count, and be sent again when this one's work is done again."""
    delivery, stores = Shrunk(), Whole()
    ledger = Ledger(TOPOLOGY, delivery, CONSUMER, stores, WATCH, lambda *_: None)  # type: ignore[arg-type]
    for task in (FIRST, SECOND):
        ledger.start(task, 1)
        ledger.running[task].put(b"key", b"value")
        ledger.running[task].given[TopicPartition("clicks", task.partition)] = 5
    ledger.outbox.put(Output("totals", b"key", b"1", None, []))
    delivery.commit(ledger, None)
    assert (delivery.committed, ledger.undone, ledger.outbox.records) == ([], 1, [])


def test_a_task_that_a_commit_in_a_callback_stops_begins_again() -> None:
    """Its orders are followed just then: it would have been silent until the next rebalance."""
    stores = Whole()

    def hear(role: str, _: Task) -> None:
        if role == "standby":  # as a commit does that finds another writer in the changelog
            ledger.stop(FIRST)
            ledger.stopped += 1

    shared: tuple[Any, Any, Any] = (stores, WATCH, hear)
    ledger = Ledger(TOPOLOGY, Shrunk(), CONSUMER, *shared)
    bridge: Any = SimpleNamespace(rounds=0, orders=TaskAssignment(), last=SimpleNamespace(generation=1))
    membership = Membership(bridge, ledger, *shared, {}, probe_early=False)
    for standby in ((), ((0, 1),)):
        bridge.rounds, bridge.orders = bridge.rounds + 1, TaskAssignment(active=((0, 0),), standby=standby)
        membership.follow()
        membership.follow()
        assert set(ledger.running) == {FIRST}
