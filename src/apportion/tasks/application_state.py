"""The input of the task assignor on arrays: tasks, processes, who has which state, tags and racks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from apportion.arrays import CELLS, NOBODY, UNKNOWN, Bools, Ints, Longs, ints
from apportion.errors import BadInput
from apportion.tasks.topology import Task, Topology


@dataclass(frozen=True)
class Process:
    """One process of the application: several consumers that share its local state.

    consumers
        Member ids; one thread each.
    active, standby
        Tasks that it ran, and kept copies of, after the last rebalance; ``active`` may say which consumer ran each.
    lag
        Messages that it would have to restore before it could run a task; a task that it is running needs no entry.
    """

    process_id: str
    consumers: tuple[str, ...]
    active: Mapping[Task, str | None] = field(default_factory=dict)
    standby: frozenset[Task] = frozenset()
    lag: Mapping[Task, int] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    rack: str | None = None


@dataclass(frozen=True, eq=False)
class ApplicationState:
    """Tasks N and processes Q.

    stateful, subtopology_of
        (N,) of each task.
    threads
        (Q,) consumers of each process, at least one.
    lag
        (N, Q) messages to restore; 0 where the task runs, -1 where there is no state.
    ran
        (N,) the process that ran the task; -1 nobody, or two that both say so.
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


def application_state(
    topology: Topology,
    partitions: Mapping[str, int],
    processes: Sequence[Process],
    *,
    tags: Sequence[str] = (),
    racks: Mapping[tuple[str, int], frozenset[str]] | None = None,
) -> ApplicationState:
    """Put names into arrays; processes are ordered by id, so that any order of input gives the same plan.

    partitions
        Partition count of each source topic.
    racks
        Racks that hold a replica of a (topic, partition): of source topics and, by its name, of changelogs.
    """
    ordered = sorted(processes, key=lambda process: process.process_id)
    _refuse(ordered, sum(topology.counts(partitions)))
    tasks = topology.tasks(partitions)
    place = {task: n for n, task in enumerate(tasks)}
    return ApplicationState(
        tasks=tuple(tasks),
        processes=tuple(ordered),
        stateful=np.array([topology.subtopologies[task.subtopology].stateful for task in tasks], dtype=np.bool_),
        subtopology_of=ints([task.subtopology for task in tasks]),
        threads=ints([len(process.consumers) for process in ordered]),
        lag=_lags(place, ordered),
        ran=_ran(place, ordered),
        tags=_tags(ordered, tags),
        misses=_misses(topology, partitions, tasks, ordered, racks or {}),
    )


def _refuse(processes: Sequence[Process], tasks: int) -> None:
    if not processes:
        raise BadInput("processes", "none", "at least one")
    for process in processes:
        if not process.consumers:
            raise BadInput(f"processes.{process.process_id}", "no consumer", "at least one")
    names = [process.process_id for process in processes]
    if len(set(names)) < len(names):
        raise BadInput("processes", "two of one id", "each id once")
    if tasks * len(processes) > CELLS:
        raise BadInput("tasks", f"{tasks} tasks on {len(processes)} processes", f"at most {CELLS:,} pairs")


def _lags(place: Mapping[Task, int], processes: Sequence[Process]) -> Longs:
    lag = np.full((len(place), len(processes)), UNKNOWN, dtype=np.int64)
    for q, process in enumerate(processes):
        for task, messages in process.lag.items():
            if task in place and messages >= 0:
                lag[place[task], q] = messages
        for task in process.active:
            if task in place and lag[place[task], q] == UNKNOWN:
                lag[place[task], q] = 0
    return lag


def _ran(place: Mapping[Task, int], processes: Sequence[Process]) -> Ints:
    ran = np.full(len(place), NOBODY, dtype=np.int64)
    twice = set()
    for q, process in enumerate(processes):
        for task in process.active:
            if task in place:
                if ran[place[task]] != NOBODY:
                    twice.add(place[task])
                ran[place[task]] = q
    ran[list(twice)] = NOBODY
    return ran


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
    partitions: Mapping[str, int],
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
