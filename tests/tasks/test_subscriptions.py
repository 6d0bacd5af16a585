"""Members that want different topics: no task goes to one that does not want its topics, and no placing is better."""

from __future__ import annotations

import itertools
import os
import random
from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pytest
from tests.tasks.applications import Process, plan_tasks
from tests.tasks.test_tasks import random_world

import apportion
from apportion import whatif
from apportion.tasks.assignor import caught_up
from apportion.tasks.plan import TaskPlan
from apportion.tasks.topology import Subtopology, Task, Topology

TOPOLOGIES = 3000 if os.environ.get("APPORTION_THOROUGH") else 300


def with_wishes(rng: random.Random, topology: Topology, made: list[Process]) -> list[Process]:
    """The same processes, each consumer of which wants some of the sub-topologies; the very first one wants any."""
    kinds, first = range(len(topology.subtopologies)), made[0].consumers[0]
    return [
        replace(
            process,
            wants={c: frozenset(s for s in kinds if rng.random() < 0.6 or c == first) for c in process.consumers},
        )
        for process in made
    ]


def wanted(process: Process, consumer: str, task: Task) -> bool:
    return process.wants is None or task.subtopology in process.wants[consumer]


def homes(plan: TaskPlan, role: str) -> Iterable[tuple[str, str, Task]]:
    for process, hands in getattr(plan, role).items():
        for consumer, tasks in hands.items():
            for task in tasks:
                yield process, consumer, task


@pytest.mark.slow
def test_random_topologies_give_nobody_a_task_of_topics_that_it_does_not_want() -> None:
    rng = random.Random(31)
    parted = 0
    for _ in range(TOPOLOGIES):
        topology, partitions, made, settings = random_world(rng, 12, 4)
        made = with_wishes(rng, topology, made)
        plan = plan_tasks(topology, partitions, made, settings)
        by_id = {process.process_id: process for process in made}
        for role in ("active", "standby", "warmup"):
            for process, consumer, task in homes(plan, role):
                assert wanted(by_id[process], consumer, task), (role, consumer, task)
        running = {task: process for process, _, task in homes(plan, "active")}
        can = {
            task
            for task in topology.tasks(partitions)
            if any(wanted(process, consumer, task) for process in made for consumer in process.consumers)
        }
        assert set(running) == can, "every task that somebody may run is run, and no other"
        for role in ("standby", "warmup"):
            held = [(process, task) for process, _, task in homes(plan, role)]
            assert len(set(held)) == len(held)
            assert all(running[task] != process for process, task in held), "a copy beside its task keeps nothing safe"
        parted += len(plan.application.processes) > len(made)
        rng.shuffle(made)
        assert plan_tasks(topology, partitions, made, settings).to_dict() == plan.to_dict()
    assert parted > TOPOLOGIES // 3, "too few processes had consumers of different wishes"


def test_on_tiny_topologies_no_placing_on_consumers_that_want_it_is_better() -> None:
    """Against every placing on single consumers: least squares of threads and processes, then fewest moves."""
    rng = random.Random(32)
    compared = 0
    for _ in range(250):
        topology, partitions, made, settings = random_world(rng, 5, 2)
        made = with_wishes(rng, topology, made)
        plan = plan_tasks(topology, partitions, made, replace(settings, num_standby_replicas=0))
        assert set(plan.answer.proof.values()) == {"optimal"}
        consumers = [(process.process_id, consumer) for process in made for consumer in process.consumers]
        given = {task: (process, consumer) for process, consumer, task in homes(plan, "active")}
        state = plan.application
        may = caught_up(state, settings.acceptable_recovery_lag)
        ran = {task: state.processes[int(np.flatnonzero(state.process_of == q)[0])].process_id
               for task, q in zip(state.tasks, state.ran.tolist(), strict=True) if q >= 0}  # fmt: skip
        part = [n for n, task in enumerate(state.tasks) if task in given]
        choices = [
            [
                (unit.process_id, consumer)
                for q, unit in enumerate(state.processes)
                if may[n, q]
                for consumer in unit.consumers
            ]
            for n in part
        ]
        tasks = [state.tasks[n] for n in part]
        stateful = {state.tasks[n] for n in part if state.stateful[n]}
        every = itertools.product(*choices)
        best = min(score(consumers, ran, dict(zip(tasks, owner, strict=True)), stateful) for owner in every)
        assert score(consumers, ran, given, stateful) == best
        compared += len(part) > 1
    assert compared > 100


def score(
    consumers: list[tuple[str, str]], ran: dict[Task, str], owner: dict[Task, tuple[str, str]], stateful: set[Task]
) -> tuple[int, ...]:
    """Squares of threads, with state and in all, and of processes; moves in all, and of tasks with state."""
    with_state, load = dict.fromkeys(consumers, 0), dict.fromkeys(consumers, 0)
    processes = dict.fromkeys((process for process, _ in consumers), 0)
    for task, place in owner.items():
        with_state[place] += task in stateful
        load[place] += 1
        processes[place[0]] += 1
    moved = {task for task, place in owner.items() if ran.get(task) != place[0]}
    squares = [sum(number**2 for number in loads.values()) for loads in (with_state, load, processes)]
    return *squares, len(moved), len(moved & stateful)


def test_streams_gives_a_member_whole_tasks_of_topics_that_it_wants() -> None:
    members = {"a": {"topics": ["clicks", "views"]}, "b": {"topics": ["clicks"]}}
    planned = apportion.plan({"topics": {"clicks": 6, "views": 2}, "members": members}, "streams")
    assert planned.unassigned == {}
    assert set(planned.proof.values()) == {"optimal"}
    assert planned.assignment == {"a": {"clicks": [0, 2], "views": [0, 1]}, "b": {"clicks": [1, 3, 4, 5]}}


def test_a_task_of_which_nobody_wants_all_topics_is_left_and_nobody_gets_half_of_it() -> None:
    members = {"a": {"topics": ["clicks", "other"]}, "b": {"topics": ["views"]}}
    group = {"topics": {"clicks": 2, "views": 2, "other": 3}, "members": members}
    planned = apportion.plan(group, "streams", {"subtopologies": "clicks+views"})
    assert planned.unassigned == {"clicks": [0, 1], "views": [0, 1]}
    assert planned.assignment == {"a": {"other": [0, 1, 2]}, "b": {}}


def test_three_hundred_random_groups_are_even_among_those_who_want_the_topics() -> None:
    """Each topic a sub-topology of its own without state: then ``sticky`` proves the same least sum of squares."""
    rng = random.Random(33)
    for _ in range(300):
        topics = {f"t{n}": rng.randint(1, 6) for n in range(rng.randint(1, 4))}
        members = {
            f"m{m}": {"topics": sorted(t for t in topics if rng.random() < 0.6)} for m in range(rng.randint(1, 5))
        }
        group = {"topics": topics, "members": members}
        planned = apportion.plan(group, "streams", {"stateless": ",".join(topics)})
        sticky = apportion.plan(group, "sticky")
        for member, held in planned.assignment.items():
            assert set(held) <= set(members[member]["topics"])
        assert planned.unassigned == sticky.unassigned
        assert sticky.proof["balance"] == "optimal"
        assert planned.measures["load_squares"] == sticky.measures["load_squares"]


def test_a_part_of_a_process_takes_over_from_another_without_a_copy() -> None:
    """Two consumers of one process share its state: what one ran the other may run at once, and nothing warms up."""
    topology = Topology.of(Subtopology(("a",), "a-log"), Subtopology(("b",), "b-log"))
    everything = frozenset({0, 1})
    tasks = topology.tasks({"a": 4, "b": 2})
    first = Process("p", ("p-0", "p-1"), active=dict.fromkeys(tasks, "p-0"),
                    wants={"p-0": everything, "p-1": frozenset({0})})  # fmt: skip
    plan = plan_tasks(topology, {"a": 4, "b": 2}, [first])
    assert sorted(map(len, plan.active["p"].values())) == [3, 3]
    assert plan.measures["moves"] == plan.measures["warmups"] == plan.measures["waiting"] == 0


@pytest.mark.parametrize("strategy", ["none", "min_traffic", "balance_subtopology"])
def test_a_task_stays_with_its_consumer_where_another_of_the_process_may_have_it_as_well(strategy: str) -> None:
    """Else two consumers on one host would give each other tasks for nothing, a rebalance after the other, for ever."""
    members = {
        "m0": {"topics": ["t", "u"], "host": "h", "rack": "x", "owned": {"t": [2], "u": [0]}, "generation": 2},
        "m1": {"topics": ["t"], "host": "h", "rack": "x", "owned": {"t": [1]}, "generation": 2},
    }
    topics = {topic: [{"partition": p, "racks": ["x"]} for p in range(size)] for topic, size in (("t", 3), ("u", 1))}
    group: apportion.Group = apportion.read_group({"topics": topics, "members": members})
    settings = {"process": "host", "stateless": "t", "rack.aware.assignment.strategy": strategy}
    first = apportion.plan(group, "streams", settings)
    assert first.measures["kept"] == 3
    assert not first.withheld.any()
    again = apportion.plan(whatif.settled(first), "streams", settings)
    assert again.target == first.target
