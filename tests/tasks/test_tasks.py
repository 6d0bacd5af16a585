"""Tasks go where Kafka Streams' published behaviour says, and random topologies meet the stated goals."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.tasks.applications import Process, plan_tasks

import apportion
from apportion.errors import BadInput
from apportion.tasks.application_state import ApplicationState
from apportion.tasks.assignor import TaskAnswer, caught_up
from apportion.tasks.plan import TaskPlan
from apportion.tasks.settings import TaskSettings
from apportion.tasks.topology import Subtopology, Task, Topology

STORE = Topology.of(Subtopology(("words",), "counts-changelog"))
ONE_STANDBY = TaskSettings(num_standby_replicas=1)


def processes(names: str, threads: int = 1) -> list[Process]:
    return [Process(name, tuple(f"{name}-{i}" for i in range(threads))) for name in names]


def again(
    plan: TaskPlan,
    stay: Callable[[str], bool] = lambda _: True,
    new: tuple[Process, ...] = (),
    restored: Mapping[Task, int] | int = 0,
) -> list[Process]:
    """The processes as they stand after the plan, its copies restored up to ``restored`` messages."""
    result = []
    for process in plan.application.processes:
        name = process.process_id
        active = {task: who for who, tasks in plan.active[name].items() for task in tasks}
        copies = [task for role in (plan.standby, plan.warmup) for tasks in role[name].values() for task in tasks]
        lag = {task: restored if isinstance(restored, int) else restored.get(task, 0) for task in copies}
        if stay(name):
            result.append(Process(name, process.consumers, active, lag))
    return result + list(new)


def runs(plan: TaskPlan) -> dict[str, str]:
    return {str(t): p for p, hands in plan.active.items() for tasks in hands.values() for t in tasks}


def test_a_dead_process_is_replaced_by_its_standby_and_nothing_is_restored_from_zero() -> None:
    # KIP-441, "Proposed changes": a caught-up standby becomes active at once.
    first = plan_tasks(STORE, {"words": 6}, processes("abc"), ONE_STANDBY)
    after = plan_tasks(STORE, {"words": 6}, again(first, lambda name: name != "a"), ONE_STANDBY)
    warm = {(str(t), p) for p, hands in first.standby.items() for tasks in hands.values() for t in tasks}
    assert set(runs(after).items()) <= warm | set(runs(first).items()), "every task runs where its state was"
    assert after.measures["from_zero"] == 0
    assert after.measures["restored"] == 0


def test_without_a_standby_a_dead_process_costs_a_restore_from_zero() -> None:
    first = plan_tasks(STORE, {"words": 6}, processes("abc"))
    after = plan_tasks(STORE, {"words": 6}, again(first, lambda name: name != "a"))
    assert after.measures["from_zero"] == 2


def test_a_joining_process_warms_up_first_and_takes_over_when_caught_up() -> None:
    # KIP-441: at most max.warmup.replicas restore at one time; a probing rebalance looks again.
    plan = plan_tasks(STORE, {"words": 8}, processes("a"))
    plan = plan_tasks(STORE, {"words": 8}, again(plan, new=(Process("b", ("b-0",)),)))
    assert set(runs(plan).values()) == {"a"}
    assert plan.measures["warmups"] == 2
    assert plan.measures["waiting"] == 4
    assert plan.next_probing_rebalance_ms == 600_000
    moved = []
    while plan.next_probing_rebalance_ms is not None:
        plan = plan_tasks(STORE, {"words": 8}, again(plan))
        moved.append(plan.measures["moves"])
        assert plan.measures["from_zero"] == 0
    assert moved == [2, 2]
    assert sorted(runs(plan).values()) == ["a"] * 4 + ["b"] * 4


def test_a_warmup_that_is_still_behind_does_not_get_its_task() -> None:
    plan = plan_tasks(STORE, {"words": 4}, processes("a"))
    plan = plan_tasks(STORE, {"words": 4}, again(plan, new=(Process("b", ("b-0",)),)))
    plan = plan_tasks(STORE, {"words": 4}, again(plan, restored=10_001))
    assert set(runs(plan).values()) == {"a"}
    assert plan.measures["warmups"] == 2, "the same two go on restoring"
    plan = plan_tasks(STORE, {"words": 4}, again(plan, restored=10_000))
    assert sorted(runs(plan).values()) == ["a", "a", "b", "b"]


def test_where_nobody_is_caught_up_the_one_that_misses_least_runs_the_task() -> None:
    lagging = [
        Process("a", ("a-0",), lag={Task(0, 0): 50_000}),
        Process("b", ("b-0",), lag={Task(0, 0): 20_000}),
        Process("c", ("c-0",)),
    ]
    assert runs(plan_tasks(STORE, {"words": 1}, lagging)) == {"0_0": "b"}


def test_stateless_tasks_go_to_a_new_process_at_once() -> None:
    topology = Topology.of(["words"])
    plan = plan_tasks(topology, {"words": 4}, processes("a"))
    plan = plan_tasks(topology, {"words": 4}, again(plan, new=(Process("b", ("b-0",)),)))
    assert sorted(runs(plan).values()) == ["a", "a", "b", "b"]
    assert plan.measures["moves"] == 2
    assert plan.next_probing_rebalance_ms is None


def test_a_process_with_more_threads_gets_more_tasks() -> None:
    mixed = [Process("a", ("a-0",)), Process("b", ("b-0", "b-1", "b-2"))]
    plan = plan_tasks(STORE, {"words": 8}, mixed)
    assert sorted(len(tasks) for hands in plan.active.values() for tasks in hands.values()) == [2, 2, 2, 2]


def test_standbys_stand_in_other_zones_where_there_are_any() -> None:
    # KIP-708: copies of a task go to clients with different values of the tags.
    zoned = [Process(f"{zone}{i}", (f"{zone}{i}-0",), tags={"zone": zone}) for zone in "ab" for i in range(2)]
    settings = TaskSettings(num_standby_replicas=1, rack_aware_assignment_tags=("zone",))
    plan = plan_tasks(STORE, {"words": 8}, zoned, settings)
    for process, hands in plan.standby.items():
        for task in itertools.chain.from_iterable(hands.values()):
            assert runs(plan)[str(task)][0] != process[0]


def test_a_lone_process_has_no_place_for_a_standby() -> None:
    assert plan_tasks(STORE, {"words": 3}, processes("a"), ONE_STANDBY).measures["standbys"] == 0


def test_min_traffic_reads_from_the_own_rack_where_balance_allows() -> None:
    # KIP-925: traffic counts among placings that are as balanced.
    racks = {(topic, p): frozenset("ab"[p % 2]) for topic in ("words", "counts-changelog") for p in range(6)}
    there = [Process("a", ("a-0",), rack="a"), Process("b", ("b-0",), rack="b")]
    settings = TaskSettings(rack_aware_assignment_strategy="min_traffic")
    plan = plan_tasks(STORE, {"words": 6}, there, settings, racks)
    assert all(process == "ab"[int(task[-1]) % 2] for task, process in runs(plan).items())


def test_balance_subtopology_spreads_each_subtopology() -> None:
    topology = Topology.of(Subtopology(("x",), "cx"), Subtopology(("y",), "cy"))
    racks = {
        (topic, p): frozenset("a" if topic in ("x", "cx") else "b")
        for topic in ("x", "cx", "y", "cy")
        for p in range(4)
    }
    there = [Process("a", ("a-0",), rack="a"), Process("b", ("b-0",), rack="b")]
    spread = TaskSettings(rack_aware_assignment_strategy="balance_subtopology")
    plan = plan_tasks(topology, {"x": 4, "y": 4}, there, spread, racks)
    assert sorted((task[0], process) for task, process in runs(plan).items()) == [(s, p) for s in "01" for p in "aabb"]
    cheap = TaskSettings(rack_aware_assignment_strategy="min_traffic")
    plan = plan_tasks(topology, {"x": 4, "y": 4}, there, cheap, racks)
    assert {(task[0], process) for task, process in runs(plan).items()} == {("0", "a"), ("1", "b")}


def test_a_consumer_keeps_its_tasks_inside_the_process() -> None:
    plan = plan_tasks(STORE, {"words": 6}, processes("a", threads=3))
    assert plan_tasks(STORE, {"words": 6}, again(plan)).active == plan.active


def test_tasks_come_from_the_widest_topic_of_a_subtopology() -> None:
    topology = Topology.of(["clicks", "views"])
    assert list(map(str, topology.tasks({"clicks": 2, "views": 3}))) == ["0_0", "0_1", "0_2"]
    assert topology.partitions_of(Task(0, 2), {"clicks": 2, "views": 3}) == [("views", 2)]


@pytest.mark.parametrize("text", ["", "0", "0_", "_1", "a_1", "0_1_2", "-1_0", "٣_1"])
def test_a_text_that_names_no_task_is_refused(text: str) -> None:
    with pytest.raises(BadInput):
        Task.read(text)


def test_ids_that_do_not_exist_are_no_tasks() -> None:
    """A group.json may leave out ids, or name a huge one: there is a task for each id that some topic has."""
    topics = {"t": [{"partition": 0}, {"partition": 2**31 - 1}], "u": [{"partition": 5}, {"partition": 0}]}
    group = {"topics": topics, "members": {"a": {"topics": ["t", "u"]}, "b": {"topics": ["t", "u"]}}}
    planned = apportion.plan(group, "streams", {"subtopologies": "t+u"})
    tasks = [
        task for hands in planned.to_dict()["tasks"]["active"].values() for held in hands.values() for task in held
    ]
    assert sorted(tasks) == ["0_0", "0_2147483647", "0_5"]
    assert set(planned.proof.values()) == {"optimal"}
    assert sorted(planned.assignment["a"].items()) == [("t", [0]), ("u", [0, 5])] or planned.measures["load_max"] == 3
    alone = apportion.plan({**group, "topics": {"t": topics["t"], "u": 0}}, "streams")
    assert alone.measures["load_max"] == alone.measures["load_min"] == 1


def test_more_tasks_than_can_be_planned_are_refused_before_one_is_made() -> None:
    """A leader's metadata may describe any number of them."""
    group = {"topics": {"t": 200_000}, "members": {f"m{m}": {"topics": ["t"]} for m in range(100)}}
    with pytest.raises(BadInput, match="found 200000 tasks on 100 processes"):
        apportion.plan(group, "streams", {"stateless": "t"})


def test_impossible_input_is_refused_in_words() -> None:
    for make in (Topology.of, Subtopology):
        with pytest.raises(BadInput, match=r"found the topics 'words'; needed a tuple of names, \('words',\)"):
            make("words")  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="two sub-topologies"):
        Topology.of(["x"], ["x", "y"])
    with pytest.raises(ValueError, match=r"acceptable\.recovery\.lag"):
        TaskSettings(acceptable_recovery_lag=-1)


def random_world(
    rng: random.Random, tasks: int, most: int
) -> tuple[Topology, dict[str, int], list[Process], TaskSettings]:
    """A random topology with processes that have run some of it, some twice, some not at all."""
    kinds = rng.randint(1, 3)
    topology = Topology.of(*[Subtopology((f"t{k}",), f"c{k}" if rng.random() < 0.7 else None) for k in range(kinds)])
    partitions = {f"t{k}": rng.randint(0, max(1, tasks // kinds)) for k in range(kinds)}
    all_tasks = topology.tasks(partitions)
    made = []
    for q in range(rng.randint(1, most)):
        ran = {task: None for task in all_tasks if rng.random() < 0.4}
        lag = {task: rng.choice([0, 5, 10_000, 10_001, 99_999]) for task in all_tasks if rng.random() < 0.4}
        threads = tuple(f"p{q}-{i}" for i in range(rng.randint(1, 3)))
        made.append(Process(f"p{q}", threads, ran, lag, {"zone": rng.choice("ab")}))
    settings = TaskSettings(
        num_standby_replicas=rng.randint(0, 2),
        rack_aware_assignment_tags=("zone",) if rng.random() < 0.5 else (),
    )
    return topology, partitions, made, settings


def thread_squares(tasks_of: np.ndarray, threads: np.ndarray) -> int:
    """Sum of squared loads when each process shares its tasks evenly among its threads."""
    low, odd = np.divmod(tasks_of, threads)
    return int((odd * (low + 1) ** 2 + (threads - odd) * low**2).sum())


def check_goals(state: ApplicationState, plan: TaskPlan) -> None:
    a = plan.answer
    assert (a.active >= 0).all(), "every task runs"
    assert sorted(runs(plan)) == sorted(map(str, state.tasks)), "once"
    may = caught_up(state, plan.settings.acceptable_recovery_lag)
    assert may[np.arange(len(state.tasks)), a.active].all(), "on a caught-up process"
    here = np.zeros_like(a.standby)
    here[np.arange(len(state.tasks)), a.active] = True
    assert not (here & a.standby).any(), "no standby beside its active task"
    assert not (here & a.warmup).any()
    assert not (a.standby & a.warmup).any()
    assert not a.standby[~state.stateful].any()
    copies = min(plan.settings.num_standby_replicas, len(state.processes) - 1)
    assert (a.standby[state.stateful].sum(axis=1) == copies).all()
    cold = (state.lag < 0) | (state.lag > plan.settings.acceptable_recovery_lag)
    assert (a.warmup & cold).sum() <= plan.settings.max_warmup_replicas
    for process in state.processes:
        held = [len(tasks) for tasks in plan.active[process.process_id].values()]
        assert max(held) - min(held) <= 1, "even inside a process"


def with_racks(
    rng: random.Random, partitions: dict[str, int], made: list[Process], settings: TaskSettings
) -> tuple[dict[tuple[str, int], frozenset[str]], list[Process], TaskSettings]:
    """The same world with racks: some unknown, some partitions in two of them, and one of Kafka's two strategies."""
    racks = {
        (topic, p): frozenset(rng.choices("xyz", k=rng.randint(1, 2)))
        for t, size in partitions.items()
        for p in range(size)
        for topic in (t, t.replace("t", "c"))
        if rng.random() < 0.8
    }
    placed = [replace(process, rack=rng.choice(["x", "y", "z", None])) for process in made]
    strategy: Any = rng.choice(["min_traffic", "balance_subtopology"])
    return racks, placed, replace(settings, rack_aware_assignment_strategy=strategy)


@pytest.mark.slow
def test_two_thousand_random_topologies_meet_the_goals_and_any_order_of_input_gives_the_same() -> None:
    """Every third has racks, about half have tags."""
    rng = random.Random(7)
    for turn in range(2000):
        topology, partitions, made, settings = random_world(rng, 12, 5)
        racks = None
        if turn % 3 == 0:
            racks, made, settings = with_racks(rng, partitions, made, settings)
        plan = plan_tasks(topology, partitions, made, settings, racks)
        check_goals(plan.application, plan)
        rng.shuffle(made)
        assert plan_tasks(topology, partitions, made, settings, racks).to_dict() == plan.to_dict()


def test_five_thousand_tasks_on_two_hundred_processes_are_dealt_evenly() -> None:
    topology = Topology.of(*[Subtopology((f"t{k}",), f"c{k}") for k in range(10)])
    made = [Process(f"p{q}", (f"p{q}-0",)) for q in range(200)]
    plan = plan_tasks(topology, {f"t{k}": 500 for k in range(10)}, made, ONE_STANDBY)
    assert (plan.measures["load_min"], plan.measures["load_max"], plan.measures["standbys"]) == (25, 25, 5000)


def test_on_tiny_topologies_nothing_that_exhaustive_search_finds_is_better() -> None:
    """Against every placing of all tasks, with state and without: the goals in order."""
    rng = random.Random(11)
    for _ in range(200):
        crew_, answer, settings = tiny(rng)
        may = caught_up(crew_, settings.acceptable_recovery_lag)
        every = itertools.product(*map(np.flatnonzero, may))
        best = min(score(crew_, np.array(owner, dtype=np.int64)) for owner in every)
        assert score(crew_, answer.active) == best
        assert set(answer.proof.values()) <= {"optimal", "heuristic"}
        assert answer.proof["processes"] == answer.proof["balance"] == answer.proof["moves"] == "optimal"


def test_on_tiny_topologies_no_placing_of_single_standbys_is_better() -> None:
    """Against every placing: fewest shared tags, then caught up, then balance with the active tasks, then warmth."""
    rng = random.Random(13)
    for _ in range(150):
        topology, partitions, made, settings = random_world(rng, 4, 4)
        if len(made) < 2:
            continue
        plan = plan_tasks(topology, partitions, made, replace(settings, num_standby_replicas=1))
        c, a = plan.application, plan.answer
        tasks = np.flatnonzero(c.stateful)
        apart = [warmest(c, int(n), best_apart(c, int(a.active[n]))) for n in tasks]
        load = held(c, a.active, np.ones(len(c.tasks), dtype=bool))
        found = [int(np.flatnonzero(a.standby[n])[0]) for n in tasks]
        assert all(q in choice for q, choice in zip(found, apart, strict=True)), "on other tags"
        every = itertools.product(*apart)
        assert standby_score(plan, tasks, load, found) == min(standby_score(plan, tasks, load, q) for q in every)


def best_apart(state: ApplicationState, active: int) -> list[int]:
    """Processes that share fewest tag values with the active one, which is none of them."""
    shared = [int(((tags == state.tags[active]) & (tags >= 0)).sum()) for tags in state.tags]
    others = [q for q in range(len(shared)) if q != active]
    return [q for q in others if shared[q] == min(shared[other] for other in others)]


def warmest(state: ApplicationState, task: int, among: list[int]) -> list[int]:
    """Processes that are caught up, else those where least is missing."""
    missing = {q: int(state.lag[task, q]) if state.lag[task, q] >= 0 else 10**9 for q in among}
    least = max(min(missing.values()), TaskSettings().acceptable_recovery_lag)
    return [q for q in among if missing[q] <= least]


def standby_score(plan: TaskPlan, tasks: np.ndarray, load: np.ndarray, chosen: object) -> tuple[int, int, int]:
    """Balance of copies per thread and process, then those without state; the coming active place a little dearer."""
    owner = np.array(chosen, dtype=np.int64)
    c = plan.application
    cold = 2 * (c.lag[tasks, owner] < 0).sum() + (plan.answer.target[tasks] == owner).sum()
    total = load + np.bincount(owner, minlength=len(load))
    return thread_squares(total, c.threads), int((total**2).sum()), int(cold)


def tiny(rng: random.Random) -> tuple[ApplicationState, TaskAnswer, TaskSettings]:
    topology, partitions, made, settings = random_world(rng, 5, 3)
    plan = plan_tasks(topology, partitions, made, settings)
    return plan.application, plan.answer, settings


def held(state: ApplicationState, owner: np.ndarray, part: np.ndarray) -> np.ndarray:
    return np.bincount(owner[part], minlength=len(state.threads))


def score(state: ApplicationState, owner: np.ndarray) -> tuple[int, ...]:
    """Balance per thread of tasks with state and of all, per process, moves in all and of tasks with state."""
    with_state, load = held(state, owner, state.stateful), np.bincount(owner, minlength=len(state.threads))
    threads = thread_squares(with_state, state.threads), thread_squares(load, state.threads)
    moved = owner != state.ran
    return *threads, int((load**2).sum()), int(moved.sum()), int(moved[state.stateful].sum())


def test_without_a_solver_every_task_still_has_a_place_and_nothing_is_called_proved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(__import__("sys").modules["apportion.tasks.place"], "solver", lambda: None)
    plan = plan_tasks(STORE, {"words": 9}, processes("abc"), ONE_STANDBY)
    check_goals(plan.application, plan)
    assert plan.answer.proof["balance"] == "heuristic"
    assert plan.measures["load_max"] - plan.measures["load_min"] <= 1
