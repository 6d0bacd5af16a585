"""The group's orders for this member: tasks to run, copies to keep warm, when to ask for a rebalance."""

from __future__ import annotations

import time
from typing import Any

from apportion.clients.runtime.input_watch import InputWatch
from apportion.clients.runtime.ledger import Ledger, Tell
from apportion.clients.runtime.restore import Restorer
from apportion.clients.runtime.task_bridge import TaskBridge
from apportion.tasks.topology import Task
from apportion.wire.task_data import TaskMemory


class Membership:
    """Follows the orders of ``bridge``, with a ledger of running tasks and a restorer of the others.

    probe_early
        Whether it asks for a rebalance as soon as all that is to run here next has caught up.
    waited_s
        Task to the seconds that it waited for its state when it last began to run here.
    """

    def __init__(
        self,
        bridge: TaskBridge,
        ledger: Ledger,
        restorer: Restorer,
        watch: InputWatch,
        tell: Tell,
        tags: dict[str, str],
        *,
        probe_early: bool,
    ) -> None:
        self._bridge, self._ledger, self._restorer, self._watch, self._tell = bridge, ledger, restorer, watch, tell
        self._tags, self._probe_early = tags, probe_early
        self._since: dict[Task, float] = {}
        self.waited_s: dict[Task, float] = {}
        self._followed = (0, 0)
        """Of which orders, and behind how many tasks that stopped against them, all is done."""
        self._asks = 0
        self._asked_for: tuple[tuple[int, int], ...] = ()
        self._probe_at: float | None = None

    @property
    def restoring(self) -> set[Task]:
        """Tasks that are to run here and whose state is not whole yet."""
        return {task for task in _tasks(self._bridge.orders.active) if task not in self._ledger.running}

    @property
    def awaited(self) -> set[Task]:
        """Those of them that are not held back."""
        return {task for task in self.restoring if not self._ledger.held.waits(task)}

    @property
    def lag(self) -> dict[Task, int]:
        """Messages that each task with local state, not running here, would have to restore; as last looked up."""
        return {task: lag for task, lag in self._restorer.lags().items() if task not in self._ledger.running}

    @property
    def in_generation(self) -> bool:
        """Whether the broker has heard of this member within a session time-out, in the generation of its orders."""
        return self._watch.hears_the_group(self._bridge.last.generation)

    def flowing(self) -> set[Any]:
        """Partitions whose records may be given."""
        return self._ledger.flowing() if self.in_generation else set()

    def follow(self) -> None:
        """Stop tasks that are another's, restore those to run here, run whole ones, and say so at the next join."""
        self.drop_revoked()
        self._follow_orders()
        awaited = self.awaited
        whole = self._restorer.step(awaited, 50 if awaited else 0)
        for task in whole if self.in_generation else ():
            self._start(task)
        self.remember()

    def drop_revoked(self) -> None:
        """Stop tasks whose partitions were revoked or lost since the last look."""
        while self._watch.gone:
            pair = self._watch.gone.pop()
            self._ledger.lose({task for task in self._ledger.running if pair in self._ledger.pairs(task)})

    def _follow_orders(self) -> None:
        """After new orders: stop tasks that others run now, open those to be kept warm or restored here."""
        rounds, orders = self._bridge.rounds, self._bridge.orders
        self._restorer.folder.renew(orders.not_its_own)
        if self._followed == (rounds, self._ledger.stopped):
            return
        running = self._ledger.running
        mine, copies = _tasks(orders.active), _tasks(orders.standby + orders.warmup)
        self._ledger.lose(running.keys() - mine)
        stopped = self._ledger.stopped  # what a commit in a callback stops from here on is to be begun again
        before, now = set(self._restorer.open), time.monotonic()
        waiting = mine - running.keys()
        self._since = {task: self._since.get(task, now) for task in waiting}
        restored = {task for task in waiting if self._ledger.stateful(task)}
        for task in sorted(before - restored - copies):
            self._tell("close", task)
        self._restorer.keep(restored | copies)
        for task in sorted(copies - before):
            self._tell("standby", task)
        for task in sorted(waiting - restored):
            self._start(task)
        self._probe_at = None if orders.probe_ms is None else time.monotonic() + orders.probe_ms / 1000
        self._followed = rounds, stopped  # last, so that all is tried again where a broker did not answer

    def _start(self, task: Task) -> None:
        self._ledger.start(task, self._bridge.last.generation or 0)
        self.waited_s[task] = time.monotonic() - self._since.pop(task, time.monotonic())
        self._watch.let_flow(self.flowing())
        self._tell("active", task)

    def asks(self) -> bool:
        """A probing rebalance: when its time has come, or when all that is to run here next has caught up.

        The second is asked once for the same tasks: the leader may see it otherwise, and then its time counts.
        """
        orders = self._bridge.orders
        if orders.probe_ms is None or self._probe_at is None:
            return False
        lags, near = self._restorer.lags(), self._bridge.plan_settings.acceptable_recovery_lag
        warm = all(lags.get(Task(*pair), near + 1) <= near for pair in orders.coming)
        early = self._probe_early and bool(orders.coming) and warm and orders.coming != self._asked_for
        if not early and not (orders.asker and time.monotonic() >= self._probe_at):
            return False
        self._asked_for = orders.coming if early else self._asked_for
        self._probe_at = None
        self._asks += 1
        self.remember()
        return True

    def remember(self) -> None:
        """Keep the bridge's next words up to date; it is asked on the client's own thread."""
        self._bridge.memory_now = TaskMemory(
            self._restorer.folder.process_id,
            self._asks,
            tuple((task.subtopology, task.partition) for task in self._ledger.running),
            self._bridge.orders.standby,
            {(task.subtopology, task.partition): lag for task, lag in self.lag.items()},
            self._tags,
            run=self._restorer.folder.run,
        )


def _tasks(pairs: tuple[tuple[int, int], ...]) -> set[Task]:
    return {Task(*pair) for pair in pairs}
