"""Applications as processes with what they ran and have of the tasks, planned as the group that they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from apportion.model.group_json import read_group
from apportion.tasks.application_state import Application
from apportion.tasks.plan import TaskPlan
from apportion.tasks.plan import plan_tasks as plan_application
from apportion.tasks.settings import TaskSettings
from apportion.tasks.topology import Partitions, Task, Topology


@dataclass(frozen=True)
class Process:
    """One process of the application: its consumers, and what it says of the tasks."""

    process_id: str
    consumers: tuple[str, ...]
    active: Mapping[Task, str | None] = field(default_factory=dict)
    lag: Mapping[Task, int] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    rack: str | None = None
    wants: Mapping[str, frozenset[int]] | None = None


def plan_tasks(
    topology: Topology,
    partitions: Mapping[str, int],
    processes: Sequence[Process],
    settings: TaskSettings | None = None,
    racks: Mapping[tuple[str, int], frozenset[str]] | None = None,
) -> TaskPlan:
    """The plan of a group of these consumers; who runs a task and tells no lag has all of its state."""
    raw = group_of(topology, partitions, processes, racks or {})
    application = Application.of(read_group(raw), topology, by_host=True)
    return plan_application(application, application.group, settings or TaskSettings())


def group_of(
    topology: Topology,
    partitions: Mapping[str, int],
    processes: Sequence[Process],
    racks: Mapping[tuple[str, int], frozenset[str]],
) -> dict[str, Any]:
    """group.json."""
    described: dict[str, Any] = {}
    for topic, size in partitions.items():
        entries = [{"partition": p, "racks": sorted(racks.get((topic, p), ()))} for p in range(size)]
        described[topic] = [{k: v for k, v in entry.items() if v != []} for entry in entries]
    members: dict[str, Any] = {}
    for process in processes:
        for consumer in process.consumers:
            subs = range(len(topology.subtopologies)) if process.wants is None else process.wants.get(consumer, ())
            topics = [t for s in sorted(subs) for t in topology.subtopologies[s].topics if t in partitions]
            members[consumer] = {"topics": topics, "host": process.process_id, "generation": 1, "owned": {}}
            members[consumer] |= {"recovery_lag": {}, "tags": dict(process.tags)}
            members[consumer] |= {"rack": process.rack} if process.rack else {}
        _say(members, process, topology, partitions)
    return {"topics": described, "members": members}


def _say(members: dict[str, Any], process: Process, topology: Topology, partitions: Partitions) -> None:
    for task, consumer in process.active.items():
        runs = members[consumer or process.consumers[0]]
        for topic, p in topology.partitions_of(task, partitions):
            if topic in runs["topics"]:
                runs["owned"].setdefault(topic, []).append(p)
    # What two processes claim is nobody's, but both have its state.
    for task, lag in {**dict.fromkeys(process.active, 0), **process.lag}.items():
        told = next((members[c] for c in process.consumers if members[c]["topics"]), None)
        for topic, p in topology.partitions_of(task, partitions) if told else ():
            told["recovery_lag"].setdefault(topic, []).append({"partition": p, "lag": lag})
