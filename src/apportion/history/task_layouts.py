"""Who runs which tasks of a streams group, and keeps copies of which, before and after one epoch's assignment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from apportion.history.broker_tasks import BrokerSticky, given_by
from apportion.history.records import Generation, GenerationMember
from apportion.server_side.sticky_tasks import MemberTasks
from apportion.tasks.application_state import Process
from apportion.tasks.plan import TaskPlan, plan_tasks
from apportion.tasks.settings import TaskSettings
from apportion.tasks.topology import Subtopology, Task, Topology

MOST_ROUNDS: Final = 100
"""Rounds after one epoch; two copies a round are restored by default."""
TaskStrategy = TaskSettings | BrokerSticky
VARIANTS: Final[Mapping[str, TaskStrategy]] = {
    f"{name}{f' num_standby_replicas={n}' if n else ''}": of(num_standby_replicas=n)
    for name, of in (("streams", TaskSettings), (BrokerSticky.name, BrokerSticky))
    for n in range(3)
}
"""How tables call our assignor and the broker's -> with how many standbys each."""

Held = Mapping[str, frozenset[Task]]
"""Process to tasks."""


@dataclass(frozen=True)
class Layout:
    """Who runs what, and who keeps copies: process to tasks; loads are active tasks of each thread.

    by_member
        The same by member (its identity), where the broker's assignor gave it: it goes on from there.
    """

    active: Held
    copies: Held
    loads: tuple[int, ...]
    by_member: Mapping[str, MemberTasks] = field(default_factory=dict)


@dataclass(frozen=True)
class Epoch:
    """An epoch as our assignor sees it: sub-topologies by number, members gathered by process."""

    generation: Generation
    topology: Topology
    partitions: Mapping[str, int]
    number: Mapping[str, int]
    members: Mapping[str, tuple[GenerationMember, ...]]

    @property
    def tasks(self) -> int:
        """Active tasks of all sub-topologies."""
        return sum(self.partitions.values())


def epoch_of(generation: Generation, counts: Mapping[str, int]) -> Epoch:
    """An epoch's members and sub-topologies.

    counts
        Sub-topology to its tasks.
    """
    stateless = set(generation.facts.get("stateless") or ())
    names = sorted(counts)
    subtopologies = [Subtopology((name,), None if name in stateless else f"{name}-changelog") for name in names]
    members: dict[str, list[GenerationMember]] = {}
    for member in generation.members:
        members.setdefault(member.process_id or member.identity, []).append(member)
    return Epoch(
        generation,
        Topology(tuple(subtopologies)),
        counts,
        {name: n for n, name in enumerate(names)},
        {process: tuple(mine) for process, mine in sorted(members.items())},
    )


def given_layout(epoch: Epoch) -> Layout:
    """What the broker's targets gave."""
    active, copies = (
        {process: frozenset(_tasks(epoch, mine, roles)) for process, mine in epoch.members.items()}
        for roles in (("active",), ("standby", "warmup"))
    )
    loads = [sum(map(len, member.roles.get("active", {}).values())) for member in epoch.generation.members]
    return Layout(active, copies, tuple(loads), given_by(epoch.generation.members))


def _tasks(epoch: Epoch, members: Iterable[GenerationMember], roles: Sequence[str]) -> Iterable[Task]:
    for member in members:
        for role in roles:
            for name, ids in member.roles.get(role, {}).items():
                if name in epoch.number:
                    yield from (Task(epoch.number[name], p) for p in ids if 0 <= p < epoch.partitions[name])


def settle(epoch: Epoch, past: Layout | None, settings: TaskStrategy) -> tuple[Layout, int, dict[str, int]]:
    """Plan until every task runs where it should: the last layout, the rounds, and moves and restores on the way."""
    if isinstance(settings, BrokerSticky):
        layout = _by_the_broker(epoch, past, settings)
        return layout, 1, _on_the_way(epoch, past, layout)
    layout, settled = _plan(epoch, past, settings)
    walked = _on_the_way(epoch, past, layout)
    rounds = 1
    while not settled and rounds < MOST_ROUNDS:
        after, settled = _plan(epoch, layout, settings)
        step = _on_the_way(epoch, layout, after)
        walked = {name: walked[name] + step[name] for name in walked}
        layout, rounds = after, rounds + 1
    return layout, rounds, walked


def _by_the_broker(epoch: Epoch, past: Layout | None, settings: BrokerSticky) -> Layout:
    """What the broker's assignor gives the epoch's members, from what it gave them before."""
    given = settings.give(epoch.generation, epoch.partitions, past.by_member if past else {})

    def gathered(role: str) -> Held:
        return {
            process: frozenset(
                Task(epoch.number[name], p) for member in mine for name, p in getattr(given[member.identity], role)
            )
            for process, mine in epoch.members.items()
        }

    loads = tuple(len(given[member.identity].active) for member in epoch.generation.members)
    return Layout(gathered("active"), gathered("standby"), loads, given)


def _plan(epoch: Epoch, past: Layout | None, settings: TaskSettings) -> tuple[Layout, bool]:
    plan = plan_tasks(epoch.topology, epoch.partitions, _processes(epoch, past), settings)
    return _layout(plan), plan.answer.settled


def _on_the_way(epoch: Epoch, before: Layout | None, after: Layout) -> dict[str, int]:
    measures = measures_between(epoch, before, after)
    return {name: measures[name] for name in ("moves", "cold", "restored")}


def _processes(epoch: Epoch, past: Layout | None) -> list[Process]:
    """The members of an epoch by process, with what each process ran and kept before; what it kept is caught up."""
    processes = []
    for process, members in epoch.members.items():
        ran = past.active.get(process, frozenset()) if past else frozenset()
        copies = past.copies.get(process, frozenset()) if past else frozenset()
        processes.append(
            Process(
                process,
                tuple(member.identity for member in members),
                active=dict.fromkeys(ran),
                standby=copies,
                lag=dict.fromkeys(copies, 0),
                rack=members[0].rack,
            )
        )
    return processes


def _layout(plan: TaskPlan) -> Layout:
    def gathered(*roles: Mapping[str, Mapping[str, list[Task]]]) -> Held:
        return {
            process: frozenset(task for held in roles for tasks in held[process].values() for task in tasks)
            for process in plan.active
        }

    loads = tuple(len(tasks) for held in plan.active.values() for tasks in held.values())
    return Layout(gathered(plan.active), gathered(plan.standby, plan.warmup), loads)


def measures_between(epoch: Epoch, before: Layout | None, after: Layout) -> dict[str, int]:
    """How one layout follows from another."""
    owner = {task: process for process, tasks in (before.active if before else {}).items() for task in tasks}
    had = {process: _state(before, process) for process in after.active}
    moves = cold = restored = 0
    for process, tasks in after.active.items():
        for task in tasks:
            stateful = epoch.topology.subtopologies[task.subtopology].stateful
            moves += owner.get(task, process) != process and owner[task] in after.active
            cold += stateful and task in owner and task not in had[process]
            restored += stateful and task not in had[process]
        restored += len(after.copies.get(process, frozenset()) - had[process])
    return {
        "moves": moves,
        "cold": cold,
        "restored": restored,
        "load_min": min(after.loads),
        "load_max": max(after.loads),
        "standbys": sum(map(len, after.copies.values())),
    }


def _state(layout: Layout | None, process: str) -> frozenset[Task]:
    """Tasks whose state a process has: those that it ran and those that it kept."""
    if layout is None:
        return frozenset()
    return layout.active.get(process, frozenset()) | layout.copies.get(process, frozenset())
