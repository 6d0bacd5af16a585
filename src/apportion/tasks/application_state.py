"""The input of the task assignor on arrays: tasks, processes, who has which state, tags and racks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from apportion.arrays import CELLS, NOBODY, UNKNOWN, Bools, Ints, Longs, ints
from apportion.errors import BadInput
from apportion.tasks.topology import Partitions, Task, Topology


@dataclass(frozen=True)
class Process:
    """One process of the application: several consumers that share its local state.

    consumers
        Member ids; one thread each.
    active, standby
        Tasks that it ran, and kept copies of, after the last rebalance; ``active`` may say which consumer ran each.
    lag
        Messages that it would have to restore before it could run a task; a task that it is running needs no entry.
    wants
        Consumer to the numbers of the sub-topologies of which it subscribes to every topic; None: all to all.
    """

    process_id: str
    consumers: tuple[str, ...]
    active: Mapping[Task, str | None] = field(default_factory=dict)
    standby: frozenset[Task] = frozenset()
    lag: Mapping[Task, int] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    rack: str | None = None
    wants: Mapping[str, frozenset[int]] | None = None


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


def application_state(
    topology: Topology,
    partitions: Partitions,
    processes: Sequence[Process],
    *,
    tags: Sequence[str] = (),
    racks: Mapping[tuple[str, int], frozenset[str]] | None = None,
) -> ApplicationState:
    """Put names into arrays; processes are ordered by id, so that any order of input gives the same plan.

    partitions
        Partition count of each source topic, or its ids.
    racks
        Racks that hold a replica of a (topic, partition): of source topics and, by its name, of changelogs.
    """
    ordered = sorted(processes, key=lambda process: process.process_id)
    _refuse(ordered, sum(topology.counts(partitions)))
    parts = [part for process in ordered for part in _parts(process)]
    process_of = ints([q for q, process in enumerate(ordered) for _ in _parts(process)])
    tasks = topology.tasks(partitions)
    index = {task: n for n, task in enumerate(tasks)}
    ran = _ran(index, ordered)
    return ApplicationState(
        tasks=tuple(tasks),
        processes=tuple(parts),
        stateful=np.array([topology.subtopologies[task.subtopology].stateful for task in tasks], dtype=np.bool_),
        subtopology_of=ints([task.subtopology for task in tasks]),
        threads=ints([len(part.consumers) for part in parts]),
        lag=_lags(index, parts),
        ran=ran,
        tags=_tags(parts, tags),
        misses=_misses(topology, partitions, tasks, parts, racks or {}),
        process_of=process_of,
        wants=_wants(tasks, parts),
        ran_at=None if len(parts) == len(ordered) else _ran_at(index, parts, process_of, ran),
    )


def _parts(process: Process) -> list[Process]:
    """The process, or its consumers gathered by their topics, in the order of their ids."""
    if process.wants is None:
        return [process]
    by_topics: dict[frozenset[int], list[str]] = {}
    for consumer in sorted(process.consumers):
        by_topics.setdefault(process.wants.get(consumer, frozenset()), []).append(consumer)
    return [replace(process, consumers=tuple(consumers)) for consumers in by_topics.values()]


def _wants(tasks: Sequence[Task], parts: Sequence[Process]) -> Bools | None:
    if all(part.wants is None for part in parts):
        return None
    count = 1 + max((task.subtopology for task in tasks), default=-1)
    wanted = np.ones((count, len(parts)), dtype=np.bool_)
    for q, part in enumerate(parts):
        if part.wants is not None:
            mine = part.wants.get(part.consumers[0], frozenset())
            wanted[:, q] = [s in mine for s in range(count)]
    table: Bools = wanted[ints([task.subtopology for task in tasks])]
    return table


def _refuse(processes: Sequence[Process], tasks: int) -> None:
    if not processes:
        raise BadInput("processes", "none", "at least one")
    for process in processes:
        if not process.consumers:
            raise BadInput(f"processes.{process.process_id}", "no consumer", "at least one")
    names = [process.process_id for process in processes]
    if len(set(names)) < len(names):
        raise BadInput("processes", "two of one id", "each id once")
    columns = sum(len(_parts(process)) for process in processes)
    if tasks * columns > CELLS:
        raise BadInput("tasks", f"{tasks} tasks on {columns} processes", f"at most {CELLS:,} pairs")


def _lags(index: Mapping[Task, int], processes: Sequence[Process]) -> Longs:
    lag = np.full((len(index), len(processes)), UNKNOWN, dtype=np.int64)
    for q, process in enumerate(processes):
        for task, messages in process.lag.items():
            if task in index and messages >= 0:
                lag[index[task], q] = messages
        for task in process.active:
            if task in index and lag[index[task], q] == UNKNOWN:
                lag[index[task], q] = 0
    return lag


def _ran(index: Mapping[Task, int], processes: Sequence[Process]) -> Ints:
    ran = np.full(len(index), NOBODY, dtype=np.int64)
    twice = set()
    for q, process in enumerate(processes):
        for task in process.active:
            if task in index:
                if ran[index[task]] != NOBODY:
                    twice.add(index[task])
                ran[index[task]] = q
    ran[list(twice)] = NOBODY
    return ran


def _ran_at(index: Mapping[Task, int], parts: Sequence[Process], process_of: Ints, ran: Ints) -> Ints:
    at = np.full(len(index), NOBODY, dtype=np.int64)
    for q, part in enumerate(parts):
        for task, consumer in part.active.items():
            if task in index and consumer in part.consumers and ran[index[task]] == process_of[q]:
                at[index[task]] = q
    return at


def _tags(processes: Sequence[Process], keys: Sequence[str]) -> Ints:
    tags = np.full((len(processes), len(keys)), UNKNOWN, dtype=np.int64)
    for g, key in enumerate(keys):
        values = sorted({process.tags[key] for process in processes if key in process.tags})
        for q, process in enumerate(processes):
            if key in process.tags:
                tags[q, g] = values.index(process.tags[key])
    return tags


def _misses(
    topology: Topology,
    partitions: Partitions,
    tasks: Sequence[Task],
    processes: Sequence[Process],
    racks: Mapping[tuple[str, int], frozenset[str]],
) -> Ints:
    misses = np.zeros((len(tasks), len(processes)), dtype=np.int64)
    of_process = [process.rack for process in processes]
    if not racks or not any(of_process):
        return misses
    for n, task in enumerate(tasks):
        changelog = topology.subtopologies[task.subtopology].changelog
        read = topology.partitions_of(task, partitions) + ([(changelog, task.partition)] if changelog else [])
        for held in (racks[pair] for pair in read if racks.get(pair)):
            misses[n] += [rack is not None and rack not in held for rack in of_process]
    return misses
