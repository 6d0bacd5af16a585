"""Where tasks should run at last: a placing that is balanced already is the answer, and the flow says the same."""

from __future__ import annotations

from random import Random

import pytest

from apportion.tasks import assignor
from apportion.tasks.application_state import Process
from apportion.tasks.plan import plan_tasks
from apportion.tasks.topology import Subtopology, Task, Topology

pytest.importorskip("ortools", reason="the flow to compare with needs OR-tools")


def processes(rng: Random, tasks: list[Task]) -> list[Process]:
    """A few with one to three threads, that ran some tasks and know the lag of others."""
    count = rng.randint(1, 4)
    ran = {task: rng.randrange(count) for task in tasks if rng.random() < 0.8}
    made = []
    for q in range(count):
        consumers = tuple(f"p{q}-{i}" for i in range(rng.randint(1, 3)))
        lag = {task: rng.choice([0, 5, 20_000]) for task in tasks if rng.random() < 0.3}
        active = {task: None for task, home in ran.items() if home == q}
        made.append(Process(f"p{q}", consumers, active=active, lag=lag))
    return made


@pytest.mark.slow
def test_a_balanced_placing_is_its_own_target(monkeypatch: pytest.MonkeyPatch) -> None:
    """On 300 random applications, some with stateless parts; both ways were taken often."""
    rng, taken = Random(1), [0, 0]
    quick = assignor._cannot_be_more_even
    for _ in range(300):
        topology = Topology((Subtopology(("a",), "a-log"), Subtopology(("b",), rng.choice([None, "b-log"]))))
        partitions = {"a": rng.randint(1, 8), "b": rng.randint(0, 4)}
        them = processes(rng, topology.tasks(partitions))
        monkeypatch.setattr(assignor, "_cannot_be_more_even", quick)
        short = plan_tasks(topology, partitions, them)
        taken[quick(short.application, short.answer.active)] += 1
        monkeypatch.setattr(assignor, "_cannot_be_more_even", lambda state, active: False)
        flow = plan_tasks(topology, partitions, them)
        assert short.answer.target.tolist() == flow.answer.target.tolist()
        assert short.to_dict() == flow.to_dict()
    assert min(taken) > 30
