"""A streams group's last epoch as a group whose partitions are tasks, of which a rollout is planned as of any other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from apportion.arrays import NOBODY
from apportion.assignors import Assignor, find
from apportion.errors import BadInput
from apportion.history.broker_tasks import BrokerSticky, broker_sticky, standbys_of
from apportion.history.records import STREAMS, Generation, GenerationMember, counts_after
from apportion.history.task_layouts import epoch_of
from apportion.model.build import build
from apportion.model.group import Group, MemberState
from apportion.model.plan import Answer
from apportion.server_side.sticky_tasks import MemberTasks
from apportion.wording import count


@dataclass(frozen=True)
class TaskGroup:
    """The group with what its records say of its tasks.

    group
        Sub-topologies stand for topics, task numbers for partitions, processes for hosts; members tell of the copies
        that they keep, warm-ups among them.
    generation
        The epoch.
    """

    group: Group
    generation: Generation

    def strategy(self, name: str | None, settings: Mapping[str, str]) -> Assignor:
        """The assignor of that name with the standbys that the group asks for; None: the broker's own.

        Raises
            BadInput: it gives partitions, no tasks.
        """
        stateless = tuple(sorted(self.generation.facts.get("stateless") or ()))
        standbys = {"num_standby_replicas": str(standbys_of(self.generation))}
        if name in (None, BrokerSticky.name):
            broker = broker_sticky({**standbys, **settings})
            return BrokersTasks(broker.num_standby_replicas or 0, stateless)
        if name != "streams":
            needed = f"streams or broker-sticky: {self.group.name!r} is a streams group, whose tasks move whole"
            raise BadInput("assignor", repr(name), needed)
        known = {"process": "host", **({"stateless": ",".join(stateless)} if stateless else {}), **standbys}
        return find(name, {**known, **settings})

    def sentences(self) -> list[str]:
        """What the words of a rollout mean here, and what the records do not tell."""
        standbys = count(standbys_of(self.generation), "standby")
        means = "Partitions are tasks here, by sub-topology and number, and members are threads; those of one process"
        unknown = "No record tells how far a copy is restored, or whether a process finds its state again"
        return [
            f"{means} restart together. The group asks for {standbys} of each task with state.",
            f"{unknown}: copies count as whole, and a process that comes back begins without state.",
        ]


def task_group(name: str, generations: Sequence[Generation]) -> TaskGroup:
    """The group of the last epoch.

    Raises
        BadInput: no living streams group.
    """
    last = generations[-1] if generations else None
    epoch = epoch_of(last, counts_after(generations)[-1]) if last is not None and last.kind == STREAMS else None
    if last is None or epoch is None or not epoch.members or not epoch.tasks:
        raise BadInput("group", "a streams group without members or tasks", "one that runs")
    names = sorted(epoch.partitions)
    members = {member.member_id: _fields(member, names, last.number) for member in last.members}
    return TaskGroup(build({"group": name, "topics": dict(epoch.partitions), "members": members}), last)


def _fields(member: GenerationMember, names: Sequence[str], generation: int) -> dict[str, object]:
    copies: dict[str, list[int]] = {}
    for role in ("standby", "warmup"):
        for subtopology, ids in member.roles.get(role, {}).items():
            copies[subtopology] = sorted({*copies.get(subtopology, ()), *ids})
    fields: dict[str, object] = {
        "topics": list(names),
        "owned": {subtopology: list(ids) for subtopology, ids in member.assigned.items()},
        "generation": generation,
        "host": member.process_id or member.identity,
        "standby": copies,
        "instance_id": member.instance_id,
        "client_id": member.client_id,
        "rack": member.rack,
    }
    return {field: value for field, value in fields.items() if value not in (None, {})}


@dataclass(frozen=True)
class BrokersTasks:
    """The broker's assignor of tasks on such a group."""

    num_standby_replicas: int = 0
    stateless: tuple[str, ...] = ()

    name: ClassVar[str] = BrokerSticky.name
    goals: ClassVar[tuple[str, ...]] = ()
    server_side: ClassVar[bool] = True
    stateful: ClassVar[bool] = True

    def assign(self, group: Group) -> Answer:
        """The target of the next epoch, with the standbys that members keep then."""
        had = [MemberTasks() for _ in group.members]
        for p in np.flatnonzero(group.owner != NOBODY).tolist():
            had[int(group.owner[p])].active.add(group.name_of(p))
        for m, copies in enumerate(group.state.standby if group.state is not None else ()):
            had[m].standby.update((name, p) for name, ids in copies.items() for p in ids)
        members = tuple(
            GenerationMember(member, process_id=group.hosts[m] if group.hosts else None)
            for m, member in enumerate(group.members)
        )
        epoch = Generation(0, 0, STREAMS, 0, members, facts={"stateless": self.stateless})
        counts = {name: int(group.start[t + 1] - group.start[t]) for t, name in enumerate(group.topics)}
        before = dict(zip(group.members, had, strict=True))
        given = BrokerSticky(self.num_standby_replicas).give(epoch, counts, before)
        partition_of = {group.name_of(p): p for p in range(group.P)}
        owner = np.full(group.P, NOBODY, dtype=np.int64)
        standby: list[dict[str, list[int]]] = [{} for _ in group.members]
        for m, member in enumerate(group.members):
            owner[[partition_of[task] for task in given[member].active]] = m
            for name, p in sorted(given[member].standby):
                standby[m].setdefault(name, []).append(p)
        hosts = [seat.process_id or seat.member_id for seat in members]
        standbys = sum(len(ids) for held in standby for ids in held.values())
        return Answer(
            owner,
            measures={"standbys": standbys, "warmups": 0},
            extra={"tasks": {"standby": _named(hosts, group.members, standby)}} if standbys else {},
            state=MemberState(({},) * group.M, tuple(standby), ({},) * group.M),
        )


def _named(
    hosts: Sequence[str], members: Sequence[str], held: Sequence[Mapping[str, Sequence[int]]]
) -> dict[str, dict[str, list[str]]]:
    """Process to member to the tasks that it keeps, as plan.json names them."""
    names: dict[str, dict[str, list[str]]] = {}
    for host, member, copies in zip(hosts, members, held, strict=True):
        names.setdefault(host, {})[member] = [f"{name}_{p}" for name, ids in copies.items() for p in ids]
    return names
