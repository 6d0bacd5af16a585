"""A group as an application: its partitions gathered to tasks, its members to processes, on arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from apportion.arrays import CELLS, NOBODY, UNKNOWN, Bools, Ints, Longs, ints
from apportion.errors import BadInput
from apportion.model.group import Group
from apportion.tasks.settings import TaskSettings
from apportion.tasks.topology import Partitions, Task, Topology


@dataclass(frozen=True)
class Process:
    """One process of the application, or those of its consumers that want the same sub-topologies.

    consumers
        Member ids; one thread each.
    active
        Tasks that the process ran after the last rebalance, each with the consumer that ran it.
    """

    process_id: str
    consumers: tuple[str, ...]
    active: Mapping[Task, str] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class ApplicationState:
    """Tasks N and processes Q; a process whose consumers want different sub-topologies occurs once for each wish.

    process_of
        (Q,) a number for each process: its parts have the same, share its state and keep no copies for each other.
    wants
        (N, Q) whether a task may go there at all; None where everybody wants all.
    stateful, subtopology_of
        (N,) of each task.
    threads
        (Q,) consumers of each process, at least one.
    lag
        (N, Q) messages to restore; 0 where the task runs, -1 where there is no state.
    ran
        (N,) the number of the process that ran the task; -1 nobody, or two that both say so.
    ran_at
        (N,) the part of that process whose consumer ran it; -1 where none is known to have. None where no process
        has parts.
    tags
        (Q, G) value of each tag as a number; -1 where the process has none.
    misses
        (N, Q) partitions of the task without a replica in the process's rack; 0 where racks are unknown.
    """

    tasks: tuple[Task, ...]
    processes: tuple[Process, ...]
    stateful: Bools
    subtopology_of: Ints
    threads: Ints
    lag: Longs
    ran: Ints
    tags: Ints
    misses: Ints
    process_of: Ints
    wants: Bools | None = None
    ran_at: Ints | None = None


@dataclass(frozen=True, eq=False)
class Application:
    """Tasks N and columns Q of a group; any group of the same members and partitions has the same.

    group, partitions
        Of the past of ``group`` nothing counts here. Topic that somebody wants to its partitions.
    task_of
        (P,) a number for each partition's task, in the order of ``Topology.tasks``; -1 if nobody wants its topic.
    process_ids, process_of
        Ids by number, ascending; (Q,) the number of each column's process.
    column_of
        (M,) the column of each member; -1 if it wants nothing.
    wants
        (S, Q) whether a column wants all topics of a sub-topology: it runs no task of the others. None where all do.
    """

    group: Group
    topology: Topology
    partitions: Partitions
    task_of: Ints
    process_ids: Sequence[str]
    process_of: Ints
    column_of: Ints
    wants: Bools | None

    @classmethod
    def of(cls, group: Group, topology: Topology, *, by_host: bool) -> Application:
        """The application; a process is a member, or all members of a host.

        by_host
            Whether members of one host share their state.
        """
        partitions = _partitions(group)
        members = [m for m in range(group.M) if len(group.subscriptions[group.subscription_of[m]])]
        process = _process_ids(group, members, by_host=by_host)
        wishes = _wishes(group, topology, partitions, members)
        process_ids = sorted(set(process.values()))
        number = {process_id: n for n, process_id in enumerate(process_ids)}
        columns: dict[tuple[int, bytes], int] = {}
        column_of, shown = np.full(group.M, NOBODY), list[int]()
        for m in sorted(members, key=lambda m: (process[m], group.members[m])):
            wish = b"" if wishes is None else wishes[group.subscription_of[m]].tobytes()
            column_of[m] = columns.setdefault((number[process[m]], wish), len(columns))
            if column_of[m] == len(shown):
                shown.append(m)
        return cls(
            group, topology, partitions,
            task_of=_task_numbers(group, topology, topology.counts(partitions)),
            process_ids=process_ids,
            process_of=ints([n for n, _ in columns]),
            column_of=column_of,
            wants=None if wishes is None else wishes[group.subscription_of[shown]].T,
        )  # fmt: skip

    @cached_property
    def counts(self) -> list[int]:
        """Tasks of each sub-topology."""
        return self.topology.counts(self.partitions)

    @cached_property
    def threads(self) -> Ints:
        """(Q,) members of each column."""
        return np.bincount(self.column_of[self.column_of != NOBODY], minlength=len(self.process_of))

    @cached_property
    def cells(self) -> int:
        """Pairs of a task and a column."""
        return sum(self.counts) * len(self.process_of)

    @cached_property
    def together(self) -> Ints:
        """(P,) a number for each task, and one for each partition that is of none."""
        return np.where(self.task_of != NOBODY, self.task_of, sum(self.counts) + np.arange(self.group.P))

    def ran(self, group: Group) -> tuple[Ints, Ints]:
        """(C,) tasks, and members that had some partition of each, in member order."""
        held = np.flatnonzero((group.owner != NOBODY) & (self.task_of != NOBODY))
        held = held[np.argsort(group.owner[held], kind="stable")]
        return self.task_of[held], group.owner[held]

    def copies(self, group: Group) -> tuple[Ints, Ints, Ints]:
        """(C,) tasks, members and messages lacking of the copies that members report, each once."""
        if group.state is None:
            return ints([]), ints([]), ints([])
        topic, state = {name: t for t, name in enumerate(group.topics)}, group.state
        members = np.flatnonzero(self.column_of != NOBODY).tolist()
        # Topic, member, ids and what is lacking: many ids at a time, which a rollout reads thousands of times.
        stated = [(name, m, ids, 0) for m in members for name, ids in state.standby[m].items() if name in topic]
        for m in members:
            lags = state.recovery_lag[m].items()
            stated += [(name, m, (number,), missing) for (name, number), missing in lags if name in topic]
        sizes = [len(ids) for _, _, ids, _ in stated]
        columns = ints([(topic[name], m, missing) for name, m, _, missing in stated]).reshape(-1, 3)
        t, at, lack = columns.repeat(sizes, axis=0).T
        number = ints([number for _, _, ids, _ in stated for number in ids])
        highest = max(int(number.max(initial=0)), int(group.number.max(initial=0))) + 1
        described, wanted = group.topic_of * highest + group.number, t * highest + number
        p = np.searchsorted(described, wanted)
        there = p < group.P
        there[there] = (described[p[there]] == wanted[there]) & (self.task_of[p[there]] != NOBODY)
        pairs, which = np.unique(self.task_of[p[there]] * group.M + at[there], return_inverse=True)
        most = np.zeros(len(pairs), dtype=np.int64)
        np.maximum.at(most, which, lack[there])
        return pairs // group.M, pairs % group.M, most

    def state(self, group: Group, settings: TaskSettings) -> ApplicationState:
        """What the assignor asks about this group, which may have another past.

        Raises
            BadInput for more tasks on more processes than can be planned.
        """
        tasks, columns = sum(self.counts), len(self.process_of)
        if self.cells > CELLS:
            raise BadInput("tasks", f"{tasks} tasks on {columns} processes", f"at most {CELLS:,} pairs")
        subtopology_of = np.arange(len(self.counts)).repeat(self.counts)
        task, member = self.ran(group)
        column = self.column_of[member]
        process = self.process_of[column]
        ran, ran_at = np.full((2, tasks), NOBODY)
        ran[task] = process
        ran[task[ran[task] != process]] = NOBODY
        alone = ran[task] == process
        ran_at[task[alone]] = column[alone]
        names = tuple(self.topology.tasks(self.partitions))
        return ApplicationState(
            tasks=names,
            processes=self._processes(names, task, member),
            stateful=np.array([sub.stateful for sub in self.topology.subtopologies], dtype=np.bool_)[subtopology_of],
            subtopology_of=subtopology_of,
            threads=self.threads,
            lag=self._lag(group, task, member),
            ran=ran,
            tags=self._tags(group, settings.rack_aware_assignment_tags),
            misses=self._misses(group, settings),
            process_of=self.process_of,
            wants=None if self.wants is None else self.wants[subtopology_of],
            ran_at=None if columns == len(self.process_ids) else ran_at,
        )

    def _lag(self, group: Group, task: Ints, member: Ints) -> Longs:
        """(N, Q) the least that any member of a process lacks: who ran a task and does not say lacks nothing."""
        copied, keeper, lack = self.copies(group)
        silent = ~np.isin(task * group.M + member, copied * group.M + keeper)
        copied, keeper = np.append(copied, task[silent]), np.append(keeper, member[silent])
        lack = np.append(lack, np.zeros(int(silent.sum()), dtype=np.int64))
        most_first = np.argsort(-lack, kind="stable")
        lag = np.full((sum(self.counts), len(self.process_ids)), UNKNOWN)
        process = self.process_of[self.column_of[keeper]]
        lag[copied[most_first], process[most_first]] = lack[most_first]  # the last one written counts
        return lag if len(self.process_ids) == len(self.process_of) else lag[:, self.process_of]

    def _processes(self, names: Sequence[Task], task: Ints, member: Ints) -> tuple[Process, ...]:
        consumers: list[list[str]] = [[] for _ in self.process_of]
        for name, column in zip(self.group.members, self.column_of.tolist(), strict=True):
            if column != NOBODY:
                consumers[column].append(name)
        active: list[dict[Task, str]] = [{} for _ in self.process_ids]
        for n, m in zip(task.tolist(), member.tolist(), strict=True):
            active[self.process_of[self.column_of[m]]][names[n]] = self.group.members[m]
        parts = zip(self.process_of.tolist(), consumers, strict=True)
        return tuple(Process(self.process_ids[n], tuple(sorted(mine)), active[n]) for n, mine in parts)

    def _tags(self, group: Group, keys: Sequence[str]) -> Ints:
        """(Q, G) values by their order; of members of one process the first one's counts."""
        tags = np.full((len(self.process_of), len(keys)), UNKNOWN)
        for g, key in enumerate(keys if group.state is not None else ()):
            value_of: dict[int, str] = {}
            for m, column in enumerate(self.column_of.tolist()):
                if column != NOBODY and group.state is not None and key in group.state.tags[m]:
                    value_of.setdefault(int(self.process_of[column]), group.state.tags[m][key])
            rank = {value: n for n, value in enumerate(sorted(set(value_of.values())))}
            tags[:, g] = [rank[value_of[n]] if n in value_of else UNKNOWN for n in self.process_of.tolist()]
        return tags

    def _misses(self, group: Group, settings: TaskSettings) -> Ints:
        """(N, Q) of the rack of a process's first member; all 0 where no goal asks for it."""
        misses = np.zeros((sum(self.counts), len(self.process_of)), dtype=np.int64)
        if settings.rack_aware_assignment_strategy == "none" or group.racks is None:
            return misses
        rack = np.full(len(self.process_ids), UNKNOWN)
        for m in np.flatnonzero(self.column_of != NOBODY)[::-1].tolist():
            rack[self.process_of[self.column_of[m]]] = group.racks.of_member[m]
        rack = rack[self.process_of]
        p = np.flatnonzero((self.task_of != NOBODY) & (group.racks.set_of != UNKNOWN))
        far = ~group.racks.near[rack][:, group.racks.set_of[p]] & (rack != UNKNOWN)[:, None]
        np.add.at(misses, self.task_of[p], far.T)
        return misses


def _process_ids(group: Group, members: Sequence[int], *, by_host: bool) -> dict[int, str]:
    """Member to its process: its host, or itself alone if it has none or if hosts play no part."""
    hosts = {m: str(group.hosts[m]) for m in members if by_host and group.hosts and group.hosts[m]}
    taken, process = set(hosts.values()), dict[int, str]()
    for m in members:
        process[m] = hosts.get(m, group.members[m])
        while m not in hosts and process[m] in taken:
            process[m] += " (no host)"  # a member may be called as another's host
    return process


def _wishes(group: Group, topology: Topology, partitions: Partitions, members: Sequence[int]) -> Bools | None:
    """(K, S) whether a subscription has all topics of a sub-topology; None if members do not differ in that.

    A task reads a partition of each of its topics, so a member that wants some of them alone can run none of its tasks.
    """
    number = {topic: t for t, topic in enumerate(group.topics)}
    read = [{number[topic] for topic in sub.topics if partitions.get(topic)} for sub in topology.subtopologies]
    wanted = [set(topics.tolist()) for topics in group.subscriptions]
    wishes = np.array([[topics <= mine for topics in read] for mine in wanted], dtype=np.bool_)
    return None if wishes[group.subscription_of[list(members)]].all() else wishes


def _partitions(group: Group) -> dict[str, int | list[int]]:
    """Topic that some member wants to the number of its partitions; to their ids if some are missing."""
    partitions: dict[str, int | list[int]] = {}
    for t in np.flatnonzero(group.wanted_topic).tolist():
        numbers = group.number[group.partitions(t)]
        dense = not len(numbers) or int(numbers[-1]) + 1 == len(numbers)
        partitions[group.topics[t]] = len(numbers) if dense else numbers.tolist()
    return partitions


def _task_numbers(group: Group, topology: Topology, counts: Sequence[int]) -> Ints:
    """(P,) a number for each partition's task, in the order of ``Topology.tasks``; -1 if no member wants the topic."""
    first = np.cumsum([0, *counts])
    topic_number = {topic: t for t, topic in enumerate(group.topics) if group.wanted_topic[t]}
    task_of = np.full(group.P, NOBODY, dtype=np.int64)
    for s, subtopology in enumerate(topology.subtopologies):
        spans = [group.partitions(topic_number[topic]) for topic in subtopology.topics if topic in topic_number]
        at = np.concatenate([np.arange(span.start, span.stop) for span in spans]) if spans else ints([])
        alone = len(spans) == 1
        task_of[at] = first[s] + (np.arange(len(at)) if alone else np.unique(group.number[at], return_inverse=True)[1])
    return task_of
