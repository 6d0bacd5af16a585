"""Standbys and warm-ups: who is warmed up first, and what is promised of several standbys."""

from __future__ import annotations

import pytest

from apportion.tasks.application_state import Process
from apportion.tasks.plan import plan_tasks
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
