"""Broker sticky: the plan of Kafka's group coordinator for the members of a streams group (KIP-1071)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np

from apportion.arrays import NOBODY, Ints
from apportion.errors import BadInput
from apportion.model.group import Group, MemberState
from apportion.model.plan import Answer
from apportion.server_side.java_hash import string_hash, timeline_rank
from apportion.server_side.sticky_tasks import CoordinatorSubtopology, MemberTasks, TaskId, TaskMember, sticky_tasks

MOST_STANDBYS: Final = 100
"""No group may ask for more."""


@dataclass(frozen=True)
class BrokerSticky:
    """What the broker's assignor of tasks gives: a partition is a task, a topic a sub-topology, a host a process.

    A task stays where it ran within an equal share, or goes where a copy was, else to the least loaded process: at
    once, whether its state is there or not. A member that does not want all topics that anybody wants gets none. The
    broker alone can run it; here it is predicted as Kafka 4.3 has it. That of 4.4 is not followed: warm-ups count like
    standbys there, reported offsets rank standbys (KAFKA-21001), and a member that starts with state on its disk counts
    as one that kept those tasks (KAFKA-20719).
    Goals: none that is promised; it is even per member where nothing is kept. Source: Apache Kafka 4.3.0, group
    coordinator, ``StickyTaskAssignor``.

    num_standby_replicas
        Copies of each task with state, none beside another; None: none, or what a recorded group asked for.
    stateless
        Topics that keep no state.
    """

    num_standby_replicas: int | None = None
    stateless: tuple[str, ...] = ()

    name: ClassVar[str] = "broker-sticky"
    goals: ClassVar[tuple[str, ...]] = ()
    server_side: ClassVar[bool] = True
    stateful: ClassVar[bool] = True
    unlisted: ClassVar[bool] = True
    leaves: ClassVar[bool] = True  # what some members alone want

    def __post_init__(self) -> None:
        """Refuse a group that no broker takes."""
        wanted = self.num_standby_replicas
        if wanted is not None and not 0 <= wanted <= MOST_STANDBYS:
            raise BadInput("num_standby_replicas", str(wanted), f"a number from 0 to {MOST_STANDBYS}")

    def assign(self, group: Group) -> Answer:
        """Return (P,) the member that runs each task, and the copies that members keep."""
        wanted = set(np.flatnonzero(group.wanted_topic).tolist())
        runs = [m for m in range(group.M) if wanted and wanted <= set(group.subscriptions[group.subscription_of[m]])]
        had = _previous(group)
        # As a coordinator that has just read its log hands them on.
        members = [
            TaskMember(group.members[m], _process(group, m), had[m].active, had[m].standby)
            for m in sorted(runs, key=lambda m: timeline_rank(string_hash(group.members[m])))
        ]
        topics = sorted(wanted, key=lambda t: group.topics[t])
        sizes = np.diff(group.start)
        subtopologies = [
            CoordinatorSubtopology(group.topics[t], int(sizes[t]), group.topics[t] not in self.stateless)
            for t in topics
        ]
        given = sticky_tasks(members, subtopologies, self.num_standby_replicas or 0)
        return _answer(group, given)


def _previous(group: Group) -> list[MemberTasks]:
    """(M,) each member's past tasks; of a topic's partitions the n-th is its task n."""
    had = [MemberTasks() for _ in group.members]
    first = group.start[group.topic_of]
    for p in np.flatnonzero(group.owner != NOBODY).tolist():
        had[int(group.owner[p])].active.add((group.topics[int(group.topic_of[p])], p - int(first[p])))
    place = {name: t for t, name in enumerate(group.topics)}
    for m, copies in enumerate(group.state.standby if group.state is not None else ()):
        for name, ids in copies.items():
            numbers = group.number[group.partitions(place[name])].tolist() if name in place else []
            had[m].standby.update((name, n) for n, number in enumerate(numbers) if number in set(ids))
    return had


def _process(group: Group, m: int) -> str:
    return (group.hosts[m] if group.hosts else None) or group.members[m]


def _answer(group: Group, given: Mapping[str, MemberTasks]) -> Answer:
    start = {name: int(group.start[t]) for t, name in enumerate(group.topics)}
    owner: Ints = np.full(group.P, NOBODY, dtype=np.int64)
    standby: list[dict[str, list[int]]] = [{} for _ in group.members]
    for m, member in enumerate(group.members):
        tasks = given.get(member, MemberTasks())
        owner[[start[name] + n for name, n in tasks.active]] = m
        for name, n in sorted(tasks.standby):
            standby[m].setdefault(name, []).append(int(group.number[start[name] + n]))
    standbys = sum(len(ids) for held in standby for ids in held.values())
    nothing: tuple[Mapping[TaskId, int], ...] = ({},) * group.M
    return Answer(
        owner,
        measures={"standbys": standbys, "warmups": 0},
        extra={"tasks": {"standby": _named(group, standby)}} if standbys else {},
        state=MemberState(({},) * group.M, tuple(standby), nothing) if standbys or group.state is not None else None,
    )


def _named(group: Group, standby: Sequence[Mapping[str, Sequence[int]]]) -> dict[str, dict[str, list[str]]]:
    """Process to member to the tasks that it keeps, as plan.json names them."""
    names: dict[str, dict[str, list[str]]] = {}
    for m, copies in enumerate(standby):
        kept = [f"{name}_{p}" for name, ids in copies.items() for p in ids]
        names.setdefault(_process(group, m), {})[group.members[m]] = kept
    return names
