"""Standbys and warm-ups: who is warmed up first, and what is promised of several standbys."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from tests.tasks.applications import Process, plan_tasks
from tests.tasks.test_tasks import random_world

from apportion.arrays import UNKNOWN
from apportion.model.group_json import read_group
from apportion.tasks.explain import TaskReasons
from apportion.tasks.plan import TaskPlan
from apportion.tasks.settings import TaskSettings
from apportion.tasks.topology import Subtopology, Task, Topology

STORE = Topology.of(Subtopology(("words",), "counts-changelog"))


def test_the_warm_up_that_is_nearest_to_done_goes_first() -> None:
    """b has some state of tasks 2 and 3, so those are to move there; one misses less, and one may restore at a time."""
    running = Process("a", ("a-0",), active=dict.fromkeys(STORE.tasks({"words": 4}), "a-0"))
    for first, second, nearest in ((90_000, 20_000, "0_3"), (20_000, 90_000, "0_2")):
        coming = Process("b", ("b-0",), lag={Task(0, 2): first, Task(0, 3): second})
        plan = plan_tasks(STORE, {"words": 4}, [running, coming], TaskSettings(max_warmup_replicas=1))
        assert plan.to_dict()["warmup"]["b"] == {"b-0": [nearest]}


@pytest.mark.parametrize(("standbys", "promise"), [(1, "optimal"), (2, "heuristic"), (3, "heuristic")])
def test_one_standby_is_proved_and_several_are_not(standbys: int, promise: str) -> None:
    """One copy a round is placed best in its own round; of two rounds together nothing is shown."""
    processes = [Process(name, (f"{name}-0",)) for name in "abcd"]
    plan = plan_tasks(STORE, {"words": 6}, processes, TaskSettings(num_standby_replicas=standbys))
    assert plan.answer.proof["standbys"] == promise


def test_a_process_that_keeps_a_standby_restores_no_second_copy_of_it_for_another_of_its_consumers() -> None:
    """Consumers of one process share its state, also where they want different topics."""
    topology = Topology.of(Subtopology(("t",), "t-log"), Subtopology(("u",), "u-log"))
    partitions = {"t": 1, "u": 1}
    processes = [
        Process("a", ("a-0",), active=dict.fromkeys(topology.tasks(partitions))),
        Process("b", ("b-0", "b-1"), wants={"b-0": frozenset({0}), "b-1": frozenset({0, 1})}),
    ]
    plan = plan_tasks(topology, partitions, processes, TaskSettings(num_standby_replicas=1))
    kept = [task for tasks in plan.standby["b"].values() for task in tasks]
    restored = [task for tasks in plan.warmup["b"].values() for task in tasks]
    assert sorted(kept) == [Task(0, 0), Task(1, 0)]
    assert restored == []
    assert not plan.answer.settled, "one of them is to move there once its standby has caught up"


def test_more_standbys_than_there_are_processes_end_where_each_has_a_copy() -> None:
    """Each round places one copy of each task; there may be two thousand million rounds."""
    processes = [Process(name, (f"{name}-0",)) for name in "abc"]
    plans = [
        plan_tasks(STORE, {"words": 2}, processes, TaskSettings(num_standby_replicas=standbys))
        for standbys in (2, 2**31 - 1)
    ]
    assert plans[0].to_dict() == plans[1].to_dict()
    assert plans[0].measures["standbys"] == 4


@pytest.mark.parametrize(
    ("setting", "most"),
    [
        ("num_standby_replicas", 2**31 - 1),
        ("rack_aware_assignment_traffic_cost", 2**31 - 1),
        ("rack_aware_assignment_non_overlap_cost", 2**31 - 1),
        ("acceptable_recovery_lag", 2**63 - 1),
    ],
)
def test_numbers_that_kafka_has_no_room_for_are_refused(setting: str, most: int) -> None:
    racks = {("words", p): frozenset("x") for p in range(3)}
    processes = [Process(name, (f"{name}-0",), rack=name) for name in "xy"]
    asked = {"rack_aware_assignment_strategy": "min_traffic", setting: most}
    plan = plan_tasks(STORE, {"words": 3}, processes, TaskSettings(**asked), racks)  # type: ignore[arg-type]
    assert plan.measures["tasks"] == 3
    with pytest.raises(ValueError, match=f"{setting.replace('_', '.')} is {most + 1}; at most {most} is needed"):
        TaskSettings(**{setting: most + 1})  # type: ignore[arg-type]


def restored(plan: TaskPlan, processes: Sequence[Process]) -> list[Process]:
    """The processes once all that they copy is whole."""
    after = []
    for process in processes:
        name = process.process_id
        copies = {task: 0 for role in (plan.standby, plan.warmup) for held in role[name].values() for task in held}
        active = {task: consumer for consumer, tasks in plan.active[name].items() for task in tasks}
        after.append(replace(process, active=active, lag=copies))
    return after


def test_a_standby_stays_where_it_is_warm_until_a_more_even_place_has_restored_it() -> None:
    """c joins a and b, which have everything: every task has a warm copy in every round, and in the end all is even."""
    tasks = STORE.tasks({"words": 12})
    processes = [
        Process("a", ("a-0",), dict.fromkeys(tasks[:6]), lag=dict.fromkeys(tasks[6:], 0)),
        Process("b", ("b-0",), dict.fromkeys(tasks[6:]), lag=dict.fromkeys(tasks[:6], 0)),
        Process("c", ("c-0",)),
    ]
    rounds, settings = 0, TaskSettings(num_standby_replicas=1)
    while not (plan := plan_tasks(STORE, {"words": 12}, processes, settings)).answer.settled:
        answer, cold = plan.answer, plan.application.lag == UNKNOWN
        assert not (answer.standby & cold).any()
        assert (answer.warmup & cold).sum() <= 2, "no more at one time"
        sources = answer.active[answer.active != answer.target].tolist()
        gives = answer.active[answer.warmup.any(axis=1)].tolist()
        assert set(gives) >= set(sources), "of equals each process gives one away before another gives two"
        assert plan.next_probing_rebalance_ms == 600_000
        processes = restored(plan, processes)
        rounds += 1
    load = np.bincount(plan.answer.active, minlength=3) + plan.answer.standby.sum(axis=0)
    assert load.tolist() == [8, 8, 8]
    assert rounds == 4, "eight copies, two a round, and a look that finds nothing"


@pytest.mark.slow
@pytest.mark.parametrize("standbys", [1, 2])
def test_random_applications_settle(standbys: int) -> None:
    """A warm-up that waits for another one takes no place from it, so no two wait for each other."""
    rng = random.Random(standbys)
    for _ in range(400):
        topology, partitions, processes, settings = random_world(rng, 12, 5)
        settings = replace(settings, num_standby_replicas=standbys, max_warmup_replicas=rng.choice([1, 2, 4]))
        for _ in range(20):
            plan = plan_tasks(topology, partitions, processes, settings)
            if plan.answer.settled:
                break
            processes = restored(plan, processes)
        assert plan.answer.settled


WORLDS = 12_000 if os.environ.get("APPORTION_THOROUGH") else 100
WENT_ROUND = (84, 1257, 2941, 3279, 6336, 6827, 7212, 7772, 8653, 9065, 10_021)
"""Worlds in which two copies took turns at being warmed up and dropped."""


@pytest.mark.slow
def test_no_application_with_several_standbys_waits_for_ever() -> None:
    """In each round what is waited for comes nearer, or nothing is waited for."""
    for seed in {*range(WORLDS), *WENT_ROUND}:
        rng = random.Random(seed)
        topology, partitions, processes, settings = random_world(rng, rng.choice([12, 20, 30]), rng.choice([5, 8]))
        standbys = rng.choice([0, 1, 2, 2, 3, 3])
        settings = replace(settings, num_standby_replicas=standbys, max_warmup_replicas=rng.choice([1, 2, 4]))
        rounds = 0
        while not (plan := plan_tasks(topology, partitions, processes, settings)).answer.settled:
            processes = restored(plan, processes)
            rounds += 1
            assert rounds < 40, seed


def test_explain_says_that_standbys_wait() -> None:
    tasks = STORE.tasks({"words": 4})
    processes = [
        Process("a", ("a-0",), dict.fromkeys(tasks[:2]), lag=dict.fromkeys(tasks[2:], 0)),
        Process("b", ("b-0",), dict.fromkeys(tasks[2:]), lag=dict.fromkeys(tasks[:2], 0)),
        Process("c", ("c-0",)),
    ]
    settings = TaskSettings(num_standby_replicas=1, probing_rebalance_interval_ms=60_000)
    plan = plan_tasks(STORE, {"words": 4}, processes, settings)
    lines = TaskReasons(STORE, lambda: plan).explain(
        read_group({"topics": {"words": 4}, "members": {"a": {"topics": ["words"]}}})
    )
    assert lines[-1] == (
        "standbys wait: they would be more even elsewhere, and stay until the state is restored there; 2 warm-ups now, "
        "and the group looks again in 1 minutes."
    )
