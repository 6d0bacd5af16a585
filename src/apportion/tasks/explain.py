"""Why tasks run where they run, and which moves are under way, in sentences."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from apportion.arrays import NOBODY, UNKNOWN, Ints
from apportion.model.group import Group
from apportion.tasks.assignor import caught_up
from apportion.tasks.plan import TaskPlan
from apportion.tasks.topology import Topology
from apportion.wording import count, shorten

MOST_NAMED: Final = 20
"""Tasks that a sentence names."""
_LONGEST: Final = 300


@dataclass(frozen=True, eq=False)
class TaskReasons:
    """The certificate of a task plan: the constraints on tasks, the value of each goal, and the next moves.

    make
        Makes the plan when somebody asks: a rollout plans a large group thousands of times.
    """

    topology: Topology
    make: Callable[[], TaskPlan]

    @cached_property
    def plan(self) -> TaskPlan:
        """The plan with names."""
        return self.make()

    def explain(self, group: Group) -> list[str]:
        """A sentence or two for each goal, in their order."""
        lines = [self._application(), self._bound(), *self._loads(), *self._moves()]
        lines += self._standbys() if self.plan.settings.num_standby_replicas else []
        return [line for line in lines if line]

    def _application(self) -> str:
        state = self.plan.application
        which = np.unique(state.subtopology_of).tolist()
        parts = [
            f"{s}: {'+'.join(sub.topics)}{'' if sub.stateful else ' without state'}"
            for s, sub in enumerate(self.topology.subtopologies)
            if s in which
        ]
        processes = count(len(np.unique(state.process_of)), "process", "processes")
        where = f"{processes} with {count(int(state.threads.sum()), 'thread')}"
        number = count(len(parts), "sub-topology", "sub-topologies")
        return shorten(f"{count(len(state.tasks), 'task')} of {number} on {where} ({'; '.join(parts)}).", _LONGEST)

    def _bound(self) -> str:
        """How many tasks their state binds to one process."""
        state, lag = self.plan.application, self.plan.settings.acceptable_recovery_lag
        may = caught_up(state, lag)
        warm = state.stateful & ((state.lag != UNKNOWN) & (state.lag <= lag)).any(axis=1)
        processes = np.zeros((len(may), int(state.process_of.max()) + 1), dtype=np.bool_)
        for q, process in enumerate(state.process_of.tolist()):
            processes[:, process] |= may[:, q]
        bound = int((warm & (processes.sum(axis=1) == 1)).sum())
        cold = int((state.stateful & ~warm).sum())
        sentence = f"caught-up: {count(bound, 'task')} with state can run at once on one process alone"
        if cold:
            verb = "is" if cold == 1 else "are"
            sentence += f"; {count(cold, 'task')} {verb} caught up nowhere and may run in the process that lacks least"
        return f"{sentence}." if state.stateful.any() else ""

    def _loads(self) -> list[str]:
        state, active = self.plan.application, self.plan.answer.active
        threads = [len(tasks) for hands in self.plan.active.values() for tasks in hands.values()]
        load = np.bincount(state.process_of[active[active != NOBODY]], minlength=int(state.process_of.max()) + 1)
        shown = {
            "balance": f"threads run {_span(min(threads), max(threads))} each, {self._least('balance')} of squares",
            "processes": f"processes run {_span(int(load.min()), int(load.max()))} each, {self._least('processes')}",
        }
        return [f"{goal}: {text} that these places allow." for goal, text in shown.items()]

    def _least(self, goal: str) -> str:
        proved = self.plan.answer.proof.get(goal) == "optimal"
        return "the least sum" if proved else "not shown to be the least sum"

    def _moves(self) -> list[str]:
        """The moves of now, and those that wait for their state."""
        state, answer = self.plan.application, self.plan.answer
        home = state.ran
        to = np.where(answer.active != NOBODY, state.process_of[answer.active], NOBODY)
        moved = np.flatnonzero((home != NOBODY) & (to != NOBODY) & (home != to)).tolist()
        reason = (
            "no plan with these loads moves fewer"
            if answer.proof.get("moves") == "optimal"
            else "fewer are not ruled out"
        )
        verb = "changes its process" if len(moved) == 1 else "change their process"
        lines = [f"moves: {count(len(moved), 'task')} {verb}{self._listed(moved, home, to)}; {reason}."]
        waiting = np.flatnonzero(answer.active != answer.target).tolist()
        if waiting:
            at = np.where(answer.target != NOBODY, state.process_of[answer.target], NOBODY)
            stay = "stays" if len(waiting) == 1 else "stay"
            lines.append(
                f"waiting: {count(len(waiting), 'task')} would be better placed{self._listed(waiting, to, at)}, and "
                f"{stay} until the state is restored there; {self._again()}."
            )
        return lines

    def _again(self) -> str:
        minutes = self.plan.settings.probing_rebalance_interval_ms / 60_000
        warming = count(int(self.plan.answer.warmup.sum()), "warm-up")
        return f"{warming} now, and the group looks again in {minutes:g} minutes"

    def _listed(self, tasks: Sequence[int], origin: Ints, destination: Ints) -> str:
        names = {int(number): process.process_id for number, process in
                 zip(self.plan.application.process_of, self.plan.application.processes, strict=True)}  # fmt: skip
        each = [f"{self.plan.application.tasks[n]} from {names[int(origin[n])]} to {names[int(destination[n])]}"
                for n in tasks[:MOST_NAMED]]  # fmt: skip
        more = f" and {len(tasks) - MOST_NAMED:,} more" if len(tasks) > MOST_NAMED else ""
        return f" ({', '.join(each)}{more})" if each else ""

    def _standbys(self) -> Iterable[str]:
        state, answer, settings = self.plan.application, self.plan.answer, self.plan.settings
        required = int((state.stateful & (answer.active != NOBODY)).sum()) * settings.num_standby_replicas
        held = int(answer.standby.sum())
        cold = int((answer.standby & (state.lag == UNKNOWN)).sum())
        setting = f"num.standby.replicas={settings.num_standby_replicas}"
        text = f"standbys: {held:,} of the {required:,} that {setting} asks for"
        text += "" if held == required else "; there are no more processes without a copy"
        yield f"{text}; {cold:,} of them begin{'s' if cold == 1 else ''} without state."
        if not answer.even:
            yield (
                f"standbys wait: they would be more even elsewhere, and stay until the state is restored there; "
                f"{self._again()}."
            )
        if settings.rack_aware_assignment_tags:
            yield self._tags(settings.rack_aware_assignment_tags)

    def _tags(self, tags: Sequence[str]) -> str:
        """How many tasks have copies that share the value of a tag."""
        state, answer = self.plan.application, self.plan.answer
        copies = answer.standby.copy()
        runs = np.flatnonzero(answer.active != NOBODY)
        copies[runs, answer.active[runs]] = True
        shares = np.zeros(len(copies), dtype=np.bool_)
        for column in state.tags.T:
            for value in np.unique(column[column != UNKNOWN]):
                shares |= copies[:, column == value].sum(axis=1) > 1
        return f"tags: {count(int(shares.sum()), 'task')} with two copies on one value of {', '.join(tags)}."


def _span(low: int, high: int) -> str:
    return count(low, "task") if low == high else f"{low:,} to {high:,} tasks"
