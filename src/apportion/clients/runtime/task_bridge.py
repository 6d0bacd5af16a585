"""Whole tasks instead of partitions: the words of a task group's members, and their leader's plan.

The group's protocol name is ``apportion-streams``: Kafka Streams' own is ``stream``, and a Java application must not
mistake a group of ours for one of its own.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from apportion.assignors.streams import Streams
from apportion.clients.group.bridge import Bridge
from apportion.clients.group.joined_group import JoinedGroup
from apportion.clients.group.options import Options
from apportion.clients.group.topic_metadata import ClientMetadata
from apportion.clients.rebalance import line_of
from apportion.strategy.codec import Holding
from apportion.tasks.application_state import Process
from apportion.tasks.plan import TaskPlan, plan_tasks
from apportion.tasks.settings import TaskSettings
from apportion.tasks.topology import Task, Topology
from apportion.wire.assignment import Assignment, write_assignment
from apportion.wire.partitions import Held, held
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

Holders = dict[tuple[str, int], dict[str, int]]
"""(topic, partition) to the members that say that they hold it, each with the generation in which it got it."""


@dataclass(frozen=True)
class _Member:
    """One member as its leader sees it.

    process
        Its process id, or a name of its own if another process keeps that id.
    """

    member_id: str
    process: str
    rack: str | None
    memory: TaskMemory
    runs: frozenset[Task]

    @property
    def not_its_own(self) -> str:
        """Its process id, if another process keeps that one."""
        return "" if self.process in (self.memory.process, self.member_id) else self.memory.process


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
        super().__init__(Streams(), Options(rack))
        self.kept_whole = ""
        self.reads_on = False  # a task's state and its offsets stand still together until it is known whose it is
        self.topology, self.plan_settings = topology, plan_settings
        self.memory_now = TaskMemory()
        self.orders = TaskAssignment()
        self.rounds = 0
        self.last_plan: TaskPlan | None = None

    @property
    def name(self) -> str:
        """The group's protocol."""
        return PROTOCOL

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

    def lead(
        self,
        joined: JoinedGroup,
        cluster: ClientMetadata,
        group: str = "",
        generation: int | None = None,
        began: float | None = None,
    ) -> dict[str, bytes]:
        """As leader: whole tasks to every member; a task of which another still holds a part waits a round."""
        sent = {member: joined.subscriptions.one(m) for m, member in enumerate(joined.ids)}
        sizes, racks = self._sources(cluster, any(subscription.rack for subscription in sent.values()))
        known = _members(sent, self.topology, sizes)
        excluded = self._excluded(sent, known, sizes, group)
        known = [member for member in known if member.member_id not in excluded]
        shares = {member_id: Assignment((), write_orders(TaskAssignment())) for member_id in sorted(excluded)}
        if known:
            plan = plan_tasks(self.topology, sizes, _processes(known), self.plan_settings, racks)
            self.last_plan = plan
            log.info("%s", line_of("planned", {"group": group, "generation": generation, **plan.measures}))
            shares |= _shares(plan, known, self.topology, sizes, _holders(sent))
        return {member: write_assignment(share) for member, share in shares.items()}

    def _excluded(
        self, sent: Mapping[str, Subscription], known: Sequence[_Member], sizes: Mapping[str, int], group: str
    ) -> set[str]:
        """Members that are in the wrong group, each named in the log; they get nothing, and may not break the rest.

        One that does not read the sources can run no task. To one with another topology a task's number means other
        work, even where it reads the same topics.
        """
        excluded: set[str] = set()
        for stated in known:
            member = stated.member_id
            if not set(sizes) <= set(sent[member].topics):
                excluded.add(member)
                log.warning("member %r of group %r does not read %s; it gets nothing", member, group, list(sizes))
            elif stated.memory.topology not in ("", self.topology.digest):
                excluded.add(member)
                log.warning(
                    "member %r (process %r) of group %r runs another topology, %s, than its leader, %s: it gets "
                    "nothing; give applications names of their own, or run one version",
                    *(member, stated.process, group, stated.memory.topology, self.topology.digest),
                )
        return excluded

    def _sources(
        self, cluster: ClientMetadata, racks: bool
    ) -> tuple[dict[str, int], dict[tuple[str, int], frozenset[str]] | None]:
        """Partition counts of the source topics, and racks of their replicas if any member names its own."""
        topics = [topic for subtopology in self.topology.subtopologies for topic in subtopology.topics]
        ids = {topic: list(cluster.partitions(topic) or ()) for topic in topics}
        sizes = {topic: max(numbers, default=-1) + 1 for topic, numbers in ids.items()}
        if not racks:
            return sizes, None
        return sizes, {(t, p): frozenset(names) for t in topics for p, names in cluster.racks(t).items()}


def _members(sent: Mapping[str, Subscription], topology: Topology, sizes: Mapping[str, int]) -> list[_Member]:
    """Each member's words, with the claims of those who missed a rebalance taken away."""
    reads = {
        pair: task for task in topology.tasks(sizes) for pair in topology.partitions_of(task, sizes)
    }  # (topic, partition) to the task that reads it
    newest = max((one.generation for one in sent.values() if one.generation is not None), default=-1)
    leaders_view = []
    for member, subscription in sent.items():
        memory = read_memory(subscription.user_data)
        if memory.lost:
            log.warning("member %r remembers no tasks: %s", member, memory.lost)
        holds = frozenset((topic, p) for topic, ids in subscription.owned for p in ids)
        fresh = subscription.generation == newest
        runs = frozenset(reads[pair] for pair in holds if pair in reads) if fresh else frozenset()
        leaders_view.append(_Member(member, memory.process or member, subscription.rack, memory, runs))
    return _told_apart(leaders_view)


def _told_apart(members: Sequence[_Member]) -> list[_Member]:
    """Processes on copies of one folder have one id and a run each: one that runs tasks keeps the id."""
    first = sorted(members, key=lambda member: (not member.runs, member.member_id))
    keeps = {member.process: member.memory.run for member in reversed(first) if member.memory.run}
    kept = {"", *keeps.values()}
    return [
        member if member.memory.run in kept else replace(member, process=f"{member.process} {member.memory.run}")
        for member in members
    ]


def _holders(sent: Mapping[str, Subscription]) -> Holders:
    """Who still holds which tasks: excluded too, for their topics, since they let go only when they hear the answer."""
    holders: Holders = {}
    for member, subscription in sent.items():
        generation = -1 if subscription.generation is None else subscription.generation
        for topic, ids in subscription.owned:
            for p in ids if topic in subscription.topics else ():
                holders.setdefault((topic, p), {})[member] = generation
    return holders


def _processes(members: Sequence[_Member]) -> list[Process]:
    """Members of one process id together; the least lag that any of them reports counts, and none if one runs it."""
    together: dict[str, list[_Member]] = {}
    for member in sorted(members, key=lambda member: member.member_id):
        together.setdefault(member.process, []).append(member)
    grouped = []
    for process, ours in together.items():
        lag: dict[Task, int] = {}
        for member in ours:
            stated = {Task(*pair): messages for pair, messages in member.memory.lag.items()}
            for task, messages in {**dict.fromkeys(member.runs, 0), **stated}.items():
                lag[task] = min(messages, lag.get(task, messages))
        active: dict[Task, str | None] = {task: member.member_id for member in ours for task in member.runs}
        standby = frozenset(Task(*pair) for member in ours for pair in member.memory.standby)
        names = tuple(member.member_id for member in ours)
        grouped.append(Process(process, names, active, standby, lag, ours[0].memory.tags, ours[0].rack))
    return grouped


def _shares(
    plan: TaskPlan, members: Sequence[_Member], topology: Topology, sizes: Mapping[str, int], holders: Holders
) -> dict[str, Assignment]:
    """Every member's partitions and orders; a task that must wait is a standby of its new owner meanwhile."""
    asker = min(member.member_id for member in members)
    moving = np.flatnonzero(plan.answer.active != plan.answer.target).tolist()
    coming = {plan.application.tasks[n]: plan.application.processes[plan.answer.target[n]].process_id for n in moving}

    def holds_state(task: Task, member: _Member) -> bool:
        """Whether another consumer of the same process still has it: they share the file."""
        return any(task in other.runs and other.process == member.process for other in members)

    shares = {}
    for member in members:
        mine = plan.active[member.process][member.member_id]
        now = [task for task in mine if _free(topology.partitions_of(task, sizes), holders, member.member_id)]
        away = set(mine) - set(now)
        waits = [
            task for task in away if topology.subtopologies[task.subtopology].stateful and not holds_state(task, member)
        ]
        owned: dict[str, list[int]] = {}
        for task in now:
            for topic, partition in topology.partitions_of(task, sizes):
                owned.setdefault(topic, []).append(partition)
        standby = plan.standby[member.process][member.member_id]
        warmup = plan.warmup[member.process][member.member_id]
        orders = TaskAssignment(
            _pairs(now),
            _pairs([*standby, *waits]),
            _pairs(warmup),
            _pairs([*(task for task in standby if coming.get(task) == member.process), *warmup]),
            plan.next_probing_rebalance_ms,
            member.member_id == asker,
            not_its_own=member.not_its_own,
        )
        shares[member.member_id] = Assignment(held(owned), write_orders(orders))
    return shares


def _free(pairs: Iterable[tuple[str, int]], holders: Holders, member_id: str) -> bool:
    """Whether no other member holds any of the partitions, or only by an older claim than the member's own."""
    for pair in pairs:
        claims = holders.get(pair, {})
        newest = max((generation for other, generation in claims.items() if other != member_id), default=None)
        if newest is not None and claims.get(member_id, -1) <= newest:
            return False
    return True


def _pairs(tasks: Iterable[Task]) -> tuple[Pair, ...]:
    return tuple(sorted((task.subtopology, task.partition) for task in tasks))
