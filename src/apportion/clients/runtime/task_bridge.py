"""Whole tasks instead of partitions: the words of a task group's members, and their leader's orders.

The group's protocol name is ``apportion-streams``: Kafka Streams' own is ``stream``, and a Java application must not
mistake a group of ours for one of its own.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import ClassVar, Self

import numpy as np

from apportion.arrays import NOBODY, Bools, Ints
from apportion.assignors.streams import Streams
from apportion.clients.group.bridge import Bridge
from apportion.clients.group.joined_group import JoinedGroup, Memories
from apportion.clients.group.options import Options
from apportion.clients.rebalance import line_of
from apportion.model.build import MemberColumns
from apportion.model.group import Group, MemberState
from apportion.model.plan import Plan
from apportion.strategy.codec import Holding, Stateless, UserDataCodec
from apportion.tasks.explain import TaskReasons
from apportion.tasks.plan import TaskPlan
from apportion.tasks.settings import TaskSettings
from apportion.tasks.topology import Task, Topology
from apportion.wire.assignment import Assignment
from apportion.wire.partitions import Held
from apportion.wire.primitives import utf16
from apportion.wire.subscription import Subscription
from apportion.wire.task_data import (
    PROTOCOL,
    Pair,
    TaskAssignment,
    TaskMemory,
    read_memory,
    read_orders,
    write_memory,
    write_orders,
)

log = logging.getLogger("apportion.clients")


@dataclass(frozen=True)
class _Application(Streams):
    """``streams`` with the topology of one application, whose members own what their subscriptions say."""

    application: Topology = field(kw_only=True)

    name: ClassVar[str] = PROTOCOL
    memory: ClassVar[UserDataCodec] = Stateless()

    def topology(self, group: Group) -> Topology:
        """Its own: task numbers mean the same to all members."""
        return self.application

    def _check(self, group: Group) -> None:
        """Nothing: a tag that no member has yet, or a rack, may come with the next one."""


class TaskBridge(Bridge):
    """One member's side of a task group: it sends its tasks' facts, and plans them whole.

    topology, plan_settings
        The application's; the leader's count for the group.
    memory_now
        What this member would say if it had to join now; whoever runs the tasks keeps it true.
    orders
        What it was told last, and ``rounds`` how often it was told something.
    """

    def __init__(self, topology: Topology, plan_settings: TaskSettings, rack: str | None = None) -> None:
        strategy = _Application(**asdict(plan_settings), process="host", application=topology)
        super().__init__(strategy, Options(rack))
        self.reads_on = False  # a task's state and its offsets stand still together until it is known whose it is
        self.topology, self.plan_settings = topology, plan_settings
        self.memory_now = TaskMemory()
        self.orders = TaskAssignment()
        self.rounds = 0

    def copy(self) -> Self:
        """The same for another consumer, without the memory of this one."""
        return type(self)(self.topology, self.plan_settings, self.options.rack)

    def subscription(self, topics: Iterable[str], *, keeps: bool, holds: Held | None = None) -> Subscription:
        """Topics, the present partitions, their generation, and the task memory."""
        wanted = tuple(sorted(topics, key=utf16))
        owned = (self.last.owned if holds is None else holds) if keeps else ()
        user_data = write_memory(replace(self.memory_now, topology=self.topology.digest))
        return Subscription(wanted, user_data, owned, self.last.generation, self.options.rack)

    def on_assignment(self, given: Assignment, generation: int | None, group: str | None = None) -> bool:
        """Remember the orders; the runner of the tasks looks at ``rounds``."""
        orders = self._known(read_orders(given.user_data))
        if orders.lost:
            log.warning("group %r: orders of the leader are unreadable, nothing is run: %s", group, orders.lost)
        self.last = Holding(given.partitions, generation, keeps=True)
        self.orders = orders
        self.rounds += 1
        counts = {"active": len(orders.active), "standby": len(orders.standby), "warmup": len(orders.warmup)}
        values = {"group": group, "generation": generation, "assignor": self.name}
        log.info("%s", line_of("assigned", {**values, **counts}))
        return False

    def _known(self, orders: TaskAssignment) -> TaskAssignment:
        """Orders whose sub-topologies there are; those of a leader with another topology are as good as unreadable."""
        count = len(self.topology.subtopologies)
        named = (*orders.active, *orders.standby, *orders.warmup, *orders.coming)
        unknown = next((pair for pair in named if pair[0] >= count), None)
        if unknown is None:
            return orders
        return TaskAssignment(lost=f"they name task {Task(*unknown)}, and there are {count} sub-topologies")

    def _columns(self, joined: JoinedGroup, memories: Memories, group: str) -> MemberColumns:
        """Members with their processes, tags and lags; those in the wrong group want nothing, and may break nothing."""
        words = [read_memory(joined.subscriptions.one(m).user_data) for m in range(len(joined.ids))]
        for member, memory in zip(joined.ids, words, strict=True):
            if memory.lost:
                log.warning("member %r remembers no tasks: %s", member, memory.lost)
        columns = super()._columns(joined, memories, group)
        excluded = self._excluded(joined, words, group)
        return replace(
            columns,
            lists=[*columns.lists, ()],
            list_of=np.where(excluded, len(columns.lists), columns.list_of),
            hosts=_told_apart(joined.ids, words, memories),
            state=MemberState(
                tuple(memory.tags for memory in words),
                ({},) * len(words),
                tuple(self._lags(memory) for memory in words),
            ),
        )

    def _lags(self, memory: TaskMemory) -> dict[tuple[str, int], int]:
        """The lag of each task as that of all its partitions."""
        topics = [subtopology.topics for subtopology in self.topology.subtopologies]
        return {
            (topic, partition): messages
            for (s, partition), messages in memory.lag.items()
            for topic in (topics[s] if s < len(topics) else ())
        }

    def _excluded(self, joined: JoinedGroup, words: Sequence[TaskMemory], group: str) -> Bools:
        """(M,) members that are in the wrong group, each named in the log.

        One that does not read the sources can run no task. To one with another topology a task's number means other
        work, even where it reads the same topics.
        """
        excluded = np.zeros(len(words), dtype=np.bool_)
        sources = [topic for subtopology in self.topology.subtopologies for topic in subtopology.topics]
        for m, (member, memory) in enumerate(zip(joined.ids, words, strict=True)):
            topics = joined.subscriptions.one(m).topics
            if self._leaves(topics, memory):
                continue
            if not set(sources) <= set(topics):
                excluded[m] = True
                log.warning("member %r of group %r does not read %s; it gets nothing", member, group, sources)
            elif memory.topology not in ("", self.topology.digest):
                excluded[m] = True
                log.warning(
                    "member %r (process %r) of group %r runs another topology, %s, than its leader, %s: it gets "
                    "nothing; give applications names of their own, or run one version",
                    *(member, memory.process or member, group, memory.topology, self.topology.digest),
                )
        return excluded

    def _leaves(self, topics: Sequence[str], memory: TaskMemory) -> bool:
        """Whether a member hands its tasks over: it wants nothing, and runs them until others have their state."""
        return not topics and memory.topology == self.topology.digest

    def _in_this_round(
        self, plan: Plan, held_back: Bools, joined: JoinedGroup, order: Ints
    ) -> tuple[Ints, bytes | None, dict[int, bytes]]:
        """Whole tasks and orders; a task of which another still holds a part waits a round."""
        orders, owner = dict[str, TaskAssignment](), np.where(held_back, NOBODY, plan.owner)
        if isinstance(plan.answer.certificate, TaskReasons) and plan.answer.together is not None:
            tasks = plan.answer.certificate.plan
            log.info("%s", line_of("planned", {"group": plan.group.name, **tasks.measures}))
            words = [read_memory(joined.subscriptions.one(m).user_data) for m in order.tolist()]
            processes = {member: memory.process for member, memory in zip(plan.group.members, words, strict=True)}
            topics = [joined.subscriptions.one(m).topics for m in order.tolist()]
            leaves = np.array([self._leaves(*told) for told in zip(topics, words, strict=True)], dtype=np.bool_)
            together = plan.answer.together
            keeper = _keepers(tasks, plan.group, together, held_back, leaves, processes)
            kept = keeper != NOBODY
            waits, stays = (set(together[which].tolist()) for which in (held_back, kept))
            orders = _orders(tasks, waits, stays, processes)
            for m in np.unique(keeper[kept]).tolist():
                numbers = np.unique(together[keeper == m])
                orders[plan.group.members[m]] = TaskAssignment(_pairs(tasks.application.tasks[n] for n in numbers))
            owner = np.where(kept, keeper, owner)
        written = [write_orders(orders.get(member, TaskAssignment())) for member in plan.group.members]
        return owner, None, dict(enumerate(written))


def _told_apart(ids: Sequence[str], words: Sequence[TaskMemory], memories: Memories) -> list[str | None]:
    """Process ids of members; processes on copies of one folder have one id and a run each: who runs tasks keeps it."""
    runs = memories.held & (memories.generation == memories.generation.max(initial=-1))
    first = sorted(range(len(ids)), key=lambda m: (not runs[m], ids[m]))
    keeps = {words[m].process: words[m].run for m in reversed(first) if words[m].run}
    kept = {"", *keeps.values()}
    return [said.process or None if said.run in kept else f"{said.process} {said.run}" for said in words]


def _keepers(
    tasks: TaskPlan, group: Group, together: Ints, held_back: Bools, leaves: Bools, processes: Mapping[str, str]
) -> Ints:
    """(P,) the member that leaves and runs the partition's task on, since the new owner lacks its state; -1 none.

    leaves
        (M,) whether a member leaves.
    """
    state, active = tasks.application, tasks.answer.active
    claims, keeper = group.claims, np.full(group.P, NOBODY, dtype=np.int64)
    mine = leaves[claims.member]
    keeper[claims.partition[mine]] = claims.member[mine]
    lag = state.lag[np.arange(len(active)), active]
    cold = state.stateful & (active != NOBODY) & ((lag < 0) | (lag > tasks.settings.acceptable_recovery_lag))
    waits = held_back & (keeper != NOBODY) & (np.bincount(claims.partition, minlength=group.P) == 1)
    for p in np.flatnonzero(waits).tolist():
        n, process = together[p], processes[group.members[keeper[p]]]
        waits[p] = cold[n] and state.processes[active[n]].process_id != process  # who shares its file has its state
    return np.where(waits, keeper, NOBODY)


def _orders(
    plan: TaskPlan, held_back: set[int], kept: set[int], processes: Mapping[str, str]
) -> dict[str, TaskAssignment]:
    """Every member's orders; a task that must wait is a standby of its new owner meanwhile.

    held_back, kept
        Numbers of the tasks of which another still holds a part, and of those that it runs until their state is here.
    processes
        Member to the process id that it says; another one's, if the plan has it elsewhere.
    """
    state, answer = plan.application, plan.answer
    number = {task: n for n, task in enumerate(state.tasks)}
    moving = np.flatnonzero(answer.active != answer.target).tolist()
    coming = {state.tasks[n]: state.processes[answer.target[n]].process_id for n in moving}
    asker = min(consumer for process in state.processes for consumer in process.consumers)
    # Another consumer of the same process may still have it: they share the file.
    away = state.stateful & (answer.active != NOBODY) & (state.ran != state.process_of[answer.active])
    orders = {}
    for process, hands in plan.active.items():
        for member, mine in hands.items():
            now = [task for task in mine if number[task] not in held_back]
            waits = [task for task in mine if number[task] in held_back and away[number[task]]]
            standby, warmup = plan.standby[process][member], plan.warmup[process][member]
            near = [task for task in standby if coming.get(task) == process]
            near += [task for task in waits if number[task] in kept]
            orders[member] = TaskAssignment(
                _pairs(now),
                _pairs([*standby, *waits]),
                _pairs(warmup),
                _pairs([*near, *warmup]),
                plan.settings.probing_rebalance_interval_ms if kept else plan.next_probing_rebalance_ms,
                member == asker,
                not_its_own="" if process in (processes[member], member) else processes[member],
            )
    return orders


def _pairs(tasks: Iterable[Task]) -> tuple[Pair, ...]:
    return tuple(sorted((task.subtopology, task.partition) for task in tasks))
