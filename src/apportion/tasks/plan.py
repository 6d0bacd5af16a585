"""A task plan with names: process to consumer to tasks, later moves, and when to look again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from apportion.arrays import NOBODY, Bools, Ints
from apportion.model.group import Group
from apportion.tasks.application_state import Application, ApplicationState, Process
from apportion.tasks.assignor import TaskAnswer, assign_tasks
from apportion.tasks.settings import TaskSettings
from apportion.tasks.threads import share_active, share_copies
from apportion.tasks.topology import Task

TasksByConsumer = dict[str, dict[str, list[Task]]]
"""Process id to consumer to its tasks."""


@dataclass(frozen=True, eq=False)
class TaskPlan:
    """Which process and which of its consumers gets which task in which role."""

    application: ApplicationState
    answer: TaskAnswer
    settings: TaskSettings

    def with_active(self, active: Ints) -> TaskPlan:
        """The plan if another placing of active tasks, as good as this one's, is the one that counts.

        active
            (N,) the process that runs each task.
        """
        proof = {goal: how for goal, how in self.answer.proof.items() if goal != "standbys"}
        return replace(self, answer=assign_tasks(self.application, self.settings, (active, proof)))

    @cached_property
    def active(self) -> TasksByConsumer:
        """Every task once."""
        return self._by_process(self._share)

    @cached_property
    def standby(self) -> TasksByConsumer:
        """Copies that are kept warm."""
        return self._copies(self.answer.standby)

    @cached_property
    def warmup(self) -> TasksByConsumer:
        """Copies that are restored so that the task can move there later."""
        return self._copies(self.answer.warmup)

    @property
    def restored(self) -> int:
        """Warm-ups that are restored and wait, since their tasks can only move together with others."""
        waiting = np.flatnonzero(self.answer.active != self.answer.target)
        lag = self.application.lag[waiting, self.answer.target[waiting]]
        warm = self.answer.warmup[waiting, self.answer.target[waiting]]
        return int(np.count_nonzero(warm & (lag >= 0) & (lag <= self.settings.acceptable_recovery_lag)))

    @property
    def next_probing_rebalance_ms(self) -> int | None:
        """Milliseconds from now until the group should look again; None when nothing waits."""
        return None if self.answer.settled else self.settings.probing_rebalance_interval_ms

    @cached_property
    def measures(self) -> dict[str, int]:
        """Tasks, processes, threads, the least and most active tasks a thread, moves, restores, waiting moves."""
        loads = [len(tasks) for hands in self.active.values() for tasks in hands.values()]
        a, c = self.answer, self.application
        active = np.flatnonzero(a.active != NOBODY)
        lag = c.lag[active, a.active[active]]
        return {
            "tasks": len(c.tasks),
            "processes": len({process.process_id for process in c.processes}),
            "threads": int(c.threads.sum()),
            "load_min": min(loads),
            "load_max": max(loads),
            "moves": int(((c.ran[active] != NOBODY) & (c.ran[active] != c.process_of[a.active[active]])).sum()),
            "restored": int(np.maximum(lag, 0)[c.stateful[active]].sum()),
            "from_zero": int((lag[c.stateful[active]] < 0).sum()),
            "standbys": int(a.standby.sum()),
            "warmups": int(a.warmup.sum()),
            "waiting": int((a.active != a.target).sum()),
        }

    def to_dict(self) -> dict[str, Any]:
        """The facts in plan.json about tasks, by name."""
        return {
            "active": _names(self.active),
            "standby": _names(self.standby),
            "warmup": _names(self.warmup),
            "next_probing_rebalance_ms": self.next_probing_rebalance_ms,
        }

    def _share(self, q: int, process: Process) -> dict[str, list[Task]]:
        mine = np.flatnonzero(self.answer.active == q)
        stateful = self._tasks(mine[self.application.stateful[mine]])
        stateless = self._tasks(mine[~self.application.stateful[mine]])
        return share_active(process.consumers, stateful, stateless, process.active)

    def _copies(self, held: Bools) -> TasksByConsumer:
        return self._by_process(
            lambda q, process: share_copies(
                process.consumers, self._tasks(np.flatnonzero(held[:, q])), self.active[process.process_id]
            )
        )

    def _by_process(self, share: Callable[[int, Process], dict[str, list[Task]]]) -> TasksByConsumer:
        """Each process's consumers with their tasks; the parts of a process are together again."""
        shares: TasksByConsumer = {}
        for q, process in enumerate(self.application.processes):
            shares.setdefault(process.process_id, {}).update(share(q, process))
        return shares

    def _tasks(self, numbers: Ints) -> list[Task]:
        return [self.application.tasks[n] for n in numbers.tolist()]


def plan_tasks(application: Application, group: Group, settings: TaskSettings) -> TaskPlan:
    """Plan the tasks of a group, which may have another past than the application's."""
    state = application.state(group, settings)
    return TaskPlan(state, assign_tasks(state, settings), settings)


def _names(hands: TasksByConsumer) -> dict[str, dict[str, list[str]]]:
    return {process: {c: [str(task) for task in tasks] for c, tasks in held.items()} for process, held in hands.items()}
