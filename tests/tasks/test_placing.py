"""Placing by the flow, by counting and by dealing, against every placing there is, in groups of a few tasks."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace
from itertools import chain
from random import Random
from typing import Any

import numpy as np
import pytest
from tests.tasks.applications import Process, plan_tasks

from apportion.arrays import Ints
from apportion.errors import BadInput
from apportion.tasks import place as rooms
from apportion.tasks.place import Placing, place
from apportion.tasks.settings import TaskSettings
from apportion.tasks.topology import Subtopology, Task, Topology

STORE = Topology.of(Subtopology(("words",), "counts-changelog"))


def goals(placing: Placing, owner: list[int]) -> tuple[int, int, int, int]:
    """What is made least in order: balance of threads, of processes, spread of kinds, cost."""
    balance = sum(
        2 * (k // int(threads)) + 1
        for q, threads in enumerate(placing.threads)
        for k in range(int(placing.load[q]), int(placing.load[q]) + owner.count(q))
    )
    kinds = [] if placing.kind is None else placing.kind.tolist()
    spread = sum(count * count for count in Counter(zip(kinds, owner, strict=True)).values()) if kinds else 0
    process_of = range(len(placing.load)) if placing.process_of is None else placing.process_of.tolist()
    loads: Counter[int] = Counter()
    for q, process in enumerate(process_of):
        loads[process] += int(placing.load[q]) + owner.count(q)
    processes = sum(load * load for load in loads.values())
    return balance, processes, spread, sum(int(placing.cost[n, q]) for n, q in enumerate(owner))


def drawn(r: Random, *, kinds: bool) -> Placing:
    tasks, processes = r.randint(1, 6), r.randint(1, 3)
    eligible = np.array([[r.random() < 0.8 for _ in range(processes)] for _ in range(tasks)])
    eligible[np.flatnonzero(~eligible.any(axis=1)), r.randrange(processes)] = True
    cost = np.array([[r.choice((0, 1, 1, 5)) for _ in range(processes)] for _ in range(tasks)])
    threads = np.array([r.randint(1, 3) for _ in range(processes)])
    load = np.array([r.choice((0, 0, 1, 4)) for _ in range(processes)])
    kind = np.array([r.randrange(2) for _ in range(tasks)]) if kinds else None
    parts = np.array([r.randrange(2) for _ in range(processes)]) if r.random() < 0.3 else None
    parts = None if parts is None else np.unique(parts, return_inverse=True)[1]
    return Placing(eligible, cost, threads, load, kind, parts)


@pytest.mark.parametrize("kinds", [False, True])
def test_no_placing_is_better_than_the_flows(kinds: bool) -> None:
    pytest.importorskip("ortools")
    r = Random(11)
    for _ in range(200):
        placing = drawn(r, kinds=kinds)
        owner, proved = place(placing)
        assert proved
        choices = [np.flatnonzero(row).tolist() for row in placing.eligible]
        best = min(goals(placing, list(each)) for each in itertools.product(*choices))
        assert goals(placing, owner.tolist()) == best
        assert all(q in row for q, row in zip(owner.tolist(), choices, strict=True))


def test_tasks_that_may_run_nowhere_take_nothing_from_the_spread_of_the_others() -> None:
    pytest.importorskip("ortools")
    r = Random(13)
    for _ in range(40):
        placing = drawn(r, kinds=True)
        assert placing.kind is not None
        processes = placing.eligible.shape[1]
        nowhere = np.zeros((1, processes), dtype=np.bool_)
        wider = Placing(
            np.vstack([nowhere, placing.eligible]), np.vstack([np.zeros((1, processes), dtype=np.int64), placing.cost]),
            placing.threads, placing.load, np.concatenate([[0], placing.kind]), placing.process_of,
        )  # fmt: skip
        owner, proved = place(wider)
        assert proved
        assert owner[0] == -1
        assert goals(placing, owner[1:].tolist()) == goals(placing, place(placing)[0].tolist())


def test_counting_who_stays_at_home_is_as_good_as_the_flow(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ortools")
    r = Random(12)
    counted = 0
    for _ in range(60):
        tasks, processes = r.randint(1, 9), r.randint(2, 4)
        cost = np.full((tasks, processes), 3)
        for n in range(tasks):
            if r.random() < 0.8:
                cost[n, r.choice((0, r.randrange(processes)))] = 1
        threads = np.full(processes, r.randint(1, 2))
        placing = Placing(np.ones(cost.shape, dtype=np.bool_), cost, threads, np.zeros(processes, dtype=np.int64))
        by_flow, _ = place(placing)
        monkeypatch.setattr(rooms, "LARGE", 0)
        counted += rooms._most_stay(replace(placing, threads=np.ones_like(threads))) is not None
        by_count, _ = place(placing)
        monkeypatch.undo()
        assert goals(placing, by_count.tolist()) == goals(placing, by_flow.tolist())
    assert counted == 60


def test_without_a_solver_single_moves_even_out_and_nothing_is_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rooms, "solver", lambda: None)
    r = Random(13)
    for _ in range(60):
        placing = drawn(r, kinds=False)
        owner, proved = place(placing)
        assert proved == (placing.eligible.sum(axis=1).max() == 1)
        load = placing.load + np.bincount(owner, minlength=len(placing.load))
        for n, q in enumerate(owner.tolist()):
            assert placing.eligible[n, q]
            others = np.flatnonzero(placing.eligible[n])
            assert (load[q] - 1) // placing.threads[q] <= (load[others] // placing.threads[others]).min()


def test_loads_are_called_even_just_where_none_are_better() -> None:
    """Against all loads of as many tasks on up to four columns, parts of processes or processes of their own."""
    r = Random(14)
    called = [0, 0]
    for _ in range(300):
        columns = r.randint(1, 4)
        threads = np.array([r.randint(1, 3) for _ in range(columns)])
        process_of = np.unique([r.randrange(columns) for _ in range(columns)], return_inverse=True)[1]
        tasks = r.randint(0, 9)
        every = [loads for loads in itertools.product(range(tasks + 1), repeat=columns) if sum(loads) == tasks]

        worth = {loads: _squares(loads, threads, process_of) for loads in every}
        best = min(worth.values())
        for loads in [*r.sample(every, min(6, len(every))), min(every, key=worth.__getitem__)]:
            assert rooms.even(np.array(loads), threads, process_of) == (worth[loads] == best)
            called[worth[loads] == best] += 1
    assert min(called) > 200


def test_a_place_whose_state_is_unknown_is_warmed_up_last() -> None:
    running = Process("a", ("a-0",), active=dict.fromkeys(STORE.tasks({"words": 4}), "a-0"))
    coming = Process("b", ("b-0",), lag={Task(0, 2): 90_000})
    for most, warmed in ((1, ["0_2"]), (2, ["0_2", "0_3"])):
        plan = plan_tasks(STORE, {"words": 4}, [running, coming], TaskSettings(max_warmup_replicas=most))
        assert plan.to_dict()["warmup"]["b"] == {"b-0": warmed}


def test_a_task_is_read_as_it_is_written() -> None:
    assert Task.read("12_3") == Task(12, 3)
    assert str(Task(12, 3)) == "12_3"
    for text in ("", "1", "1_", "_1", "1-3", "1_x", "x_1", "\u0661_1", "1_\u0661", "-1_3"):
        with pytest.raises(BadInput) as refused:
            Task.read(text)
        assert (refused.value.where, refused.value.found) == ("task", repr(text))


@pytest.mark.parametrize(
    ("name", "least"),
    [
        ("num_standby_replicas", 0),
        ("max_warmup_replicas", 1),
        ("acceptable_recovery_lag", 0),
        ("probing_rebalance_interval_ms", 60_000),
        ("rack_aware_assignment_traffic_cost", 0),
        ("rack_aware_assignment_non_overlap_cost", 0),
    ],
)
def test_settings_have_kafkas_bounds(name: str, least: int) -> None:
    bound: dict[str, Any] = {name: least}
    assert getattr(TaskSettings(**bound), name) == least
    with pytest.raises(ValueError, match=f"{name.replace('_', '.')} is {least - 1}; at least {least} is needed"):
        TaskSettings(**{**bound, name: least - 1})


def test_traffic_is_a_reason_to_move_although_all_is_balanced() -> None:
    racks = {(topic, p): frozenset("ba"[p // 2]) for topic in ("words", "counts-changelog") for p in range(4)}
    tasks = STORE.tasks({"words": 4})
    processes = [
        Process(name, (f"{name}-0",), active=dict.fromkeys(tasks[2 * q : 2 * q + 2], f"{name}-0"), rack=name)
        for q, name in enumerate("ab")
    ]
    for strategy, warmed in (("none", {}), ("min_traffic", {"a": ["0_2", "0_3"], "b": ["0_0", "0_1"]})):
        settings = TaskSettings(rack_aware_assignment_strategy=strategy, max_warmup_replicas=9)  # type: ignore[arg-type]
        plan = plan_tasks(STORE, {"words": 4}, processes, settings, racks).to_dict()
        assert {
            q: sorted(chain.from_iterable(held.values())) for q, held in plan["warmup"].items() if any(held.values())
        } == warmed


def test_what_moving_costs_is_held_against_the_traffic() -> None:
    """Task 0 has its partitions in the other rack: it moves for dear traffic, not for cheap."""
    racks = {(topic, p): frozenset("ba"[p // 2]) for topic in ("words", "counts-changelog") for p in range(4)}
    tasks = STORE.tasks({"words": 4})
    processes = [
        Process(name, (f"{name}-0",), active=dict.fromkeys(tasks[2 * q : 2 * q + 2], f"{name}-0"), rack=name)
        for q, name in enumerate("ab")
    ]
    for move_cost, warmups in ((1, 4), (1000, 0)):
        settings = TaskSettings(
            rack_aware_assignment_strategy="min_traffic", max_warmup_replicas=9,
            rack_aware_assignment_non_overlap_cost=move_cost,
        )  # fmt: skip
        plan = plan_tasks(STORE, {"words": 4}, processes, settings, racks).to_dict()
        assert sum(len(held) for one in plan["warmup"].values() for held in one.values()) == warmups


def test_what_is_even_already_is_proved_to_stay() -> None:
    tasks = STORE.tasks({"words": 4})
    processes = [
        Process(name, (f"{name}-0",), active=dict.fromkeys(tasks[2 * q : 2 * q + 2], f"{name}-0"))
        for q, name in enumerate("ab")
    ]
    plan = plan_tasks(STORE, {"words": 4}, processes, TaskSettings())
    assert set(plan.answer.proof.values()) == {"optimal"}
    assert plan.measures["moves"] == 0


def test_inside_a_process_each_consumer_keeps_its_very_tasks() -> None:
    tasks = STORE.tasks({"words": 4})
    before = dict(zip(tasks, ("a-1", "a-1", "a-0", "a-0"), strict=True))
    plan = plan_tasks(STORE, {"words": 4}, [Process("a", ("a-0", "a-1"), active=before)], TaskSettings()).to_dict()
    assert plan["active"]["a"] == {"a-0": ["0_2", "0_3"], "a-1": ["0_0", "0_1"]}


def test_a_task_reads_the_topics_that_there_are() -> None:
    both = Topology.of(("clicks", "views"))
    assert both.partitions_of(Task(0, 1), {"clicks": 2}) == [("clicks", 1)]
    assert both.counts({}) == Topology.of(()).counts({}) == [0]


def test_a_consumer_that_names_no_topics_gets_no_task() -> None:
    process = Process("a", ("a-0", "a-1"), wants={"a-0": frozenset({0})})
    plan = plan_tasks(STORE, {"words": 3}, [process, Process("b", ("b-0",), wants={})], TaskSettings()).to_dict()
    assert plan["active"]["a"].get("a-0") == ["0_0", "0_1", "0_2"]
    assert not plan["active"]["a"].get("a-1")
    assert not any(plan["active"].get("b", {}).values())


def _squares(loads: tuple[int, ...], threads: Ints, process_of: Ints) -> tuple[int, int]:
    """Sums of squared loads of threads and of processes."""
    low, odd = np.divmod(np.array(loads), threads)
    whole = np.bincount(process_of, loads)
    return int((odd * (low + 1) ** 2 + (threads - odd) * low**2).sum()), int((whole**2).sum())
