"""Seconds to plan stateful tasks with one standby each, at ten sizes: at first, and when a process has died.

    python -m bench.tasks

Processor time of the planning process (two threads never run at once), the better of two runs; from a group to names.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from tests.tasks.applications import Process, group_of

from apportion.model.group_json import read_group
from apportion.tasks.application_state import Application
from apportion.tasks.plan import TaskPlan, plan_tasks
from apportion.tasks.settings import TaskSettings
from apportion.tasks.topology import Subtopology, Topology

SIZES = (
    (50, 2),
    (100, 4),
    (250, 10),
    (500, 20),
    (1000, 40),
    (2000, 80),
    (3000, 120),
    (4000, 160),
    (5000, 200),
    (10000, 400),
)
SETTINGS = TaskSettings(num_standby_replicas=1)


def application(tasks: int) -> tuple[Topology, dict[str, int]]:
    """Ten stateful sub-topologies with a tenth of the tasks each."""
    topology = Topology.of(*[Subtopology((f"source-{s}",), f"changelog-{s}") for s in range(10)])
    return topology, {f"source-{s}": tasks // 10 for s in range(10)}


def as_after(plan: TaskPlan) -> list[Process]:
    """The processes once the plan is carried out and every copy is restored."""
    there = []
    for process in plan.application.processes:
        name = process.process_id
        active = {task: consumer for consumer, tasks in plan.active[name].items() for task in tasks}
        copies = [task for role in (plan.standby, plan.warmup) for tasks in role[name].values() for task in tasks]
        there.append(Process(name, process.consumers, active, dict.fromkeys(copies, 0)))
    return there


def seconds(topology: Topology, partitions: dict[str, int], processes: Sequence[Process]) -> tuple[float, TaskPlan]:
    """The better of two runs."""
    best = float("inf")
    group = read_group(group_of(topology, partitions, processes, {}))
    for _ in range(2):
        began = time.process_time()
        plan = plan_tasks(Application.of(group, topology, by_host=True), group, SETTINGS)
        plan.to_dict()
        best = min(best, time.process_time() - began)
    return best, plan


def main() -> None:
    """Print the table."""
    print("| tasks | processes | first plan, s | a process dies, s | a process joins, s |\n|---:|---:|---:|---:|---:|")
    for tasks, count in SIZES:
        topology, partitions = application(tasks)
        fresh = [Process(f"p{q:03}", (f"p{q:03}-0",)) for q in range(count)]
        first, plan = seconds(topology, partitions, fresh)
        settled = as_after(plan)
        death, _ = seconds(topology, partitions, settled[1:])
        join, _ = seconds(topology, partitions, [*settled, Process("q", ("q-0",))])
        print(f"| {tasks:,} | {count} | {first:.3f} | {death:.3f} | {join:.3f} |", flush=True)


if __name__ == "__main__":
    main()
